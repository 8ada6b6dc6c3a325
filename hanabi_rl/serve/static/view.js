// @ts-check
/** The table as DOM: pure functions of the last frame and of what the person has chosen. */

const SVG = "http://www.w3.org/2000/svg";

/**
 * An element. Attributes: `on*` listeners, `class`, the rest as they are; false and null leave out.
 * @param {string} tag @param {Record<string, any>} attributes @param {...any} children
 * @returns {HTMLElement}
 */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(3).filter((child) => child !== null && child !== undefined));
  return element;
}

/** The shape that goes with a colour. @param {number} color */
function shape(color) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", "shape");
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS(SVG, "use");
  use.setAttribute("href", `#shape-${color % 5}`);
  svg.append(use);
  return svg;
}

/** @param {any} frame @param {any} card what a card is told to be, in words */
function told(frame, card) {
  const known = [];
  if (card.color !== null) known.push(frame.colors[card.color]);
  if (card.rank !== null) known.push(String(card.rank));
  return known.join(" ");
}

/** @param {any} frame @param {any} card what a card is told not to be, in words */
function excluded(frame, card) {
  const not = [];
  if (card.color === null && card.colors.length < frame.colors.length) {
    not.push(...frame.letters.filter((_, color) => !card.colors.includes(color)));
  }
  if (card.rank === null && card.ranks.length < frame.ranks) {
    for (let rank = 1; rank <= frame.ranks; rank++) if (!card.ranks.includes(rank)) not.push(rank);
  }
  return not.join(" ");
}

/** A card's face, or what its owner was told of it. */
function face(frame, card) {
  const [color, rank] = card.card ?? [card.color, card.rank];
  return [
    h("span", { class: "face" }, `${color === null ? "" : frame.letters[color]}${rank ?? ""}` || "?"),
    color === null ? null : shape(color),
  ];
}

function cardView(frame, seat, card, slot, ui) {
  const mine = seat === frame.you && !frame.chances && !frame.over && card.card === null;
  const hint = told(frame, card);
  const not = excluded(frame, card);
  const color = card.card ? card.card[0] : card.color;
  const pointed = frame.last && frame.last.orders.includes(card.order);
  const name = card.card ? `${frame.colors[card.card[0]]} ${card.card[1]}` : "your card";
  const label =
    `${slot}: ${name}, ` +
    (hint ? `told ${hint}` : "told nothing") +
    (not ? `, not ${not}` : "") +
    (pointed ? ", just pointed at" : "");
  const classes = ["card", color === null ? "unknown" : `c${color % 5}`];
  if (hint) classes.push("hinted");
  if (pointed) classes.push("pointed");
  if (mine && ui.choice.slot === slot) classes.push("chosen");
  const content = [
    h("span", { class: classes.join(" "), "aria-hidden": "true" },
      h("span", { class: "slot" }, String(slot)), face(frame, card)),
    h("span", { class: "told", "aria-hidden": "true" }, hint ? `is ${hint}` : ""),
    h("span", { class: "not", "aria-hidden": "true" }, not ? `not ${not}` : ""),
  ];
  content.unshift(h("span", { class: "sr" }, label)); // no aria-label: it would have to repeat the rest
  if (!mine) return h("li", {}, content);
  return h(
    "li",
    {},
    h(
      "button",
      {
        type: "button",
        class: "mine",
        "data-key": `card-${slot}`,
        "aria-pressed": ui.choice.slot === slot ? "true" : "false",
        onclick: () => ui.choose({ slot }),
      },
      content,
    ),
  );
}

/** The hint buttons of one hand, beside the hand they point at. */
function hintButtons(frame, seat, ui) {
  const actions = frame.actions.filter((action) => action.target === seat);
  if (actions.length === 0) return null;
  const button = (action) => {
    const color = action.kind === "color";
    const chosen = ui.choice.kind === action.kind && ui.choice.target === seat
      && ui.choice.value === action.value;
    return h(
      "button",
      {
        type: "button",
        class: `hint ${color ? `c${action.value % 5}` : "rank"}${chosen ? " chosen" : ""}`,
        "data-key": `hint-${seat}-${action.kind}-${action.value}`,
        "aria-label": action.why_not ? `${action.text}: ${action.why_not}` : action.text,
        "aria-disabled": action.why_not ? "true" : "false",
        "aria-pressed": chosen ? "true" : "false",
        title: action.why_not ?? action.text,
        onclick: () =>
          ui.choose({ kind: action.kind, target: seat, value: action.value, slot: null }, true),
      },
      color ? [frame.letters[action.value], shape(action.value)] : String(action.value),
    );
  };
  const row = (kind) => h("div", { class: "row" },
    actions.filter((action) => action.kind === kind).map(button));
  return h("div", { class: "hints", role: "group", "aria-label": `Tell ${frame.names[seat]}` },
    row("color"), row("rank"));
}

function handView(frame, seat, ui) {
  const cards = frame.hands[seat].map((card, index) => cardView(frame, seat, card, index + 1, ui));
  if (ui.settings.newestLeft) cards.reverse();
  const who = frame.names[seat] + (frame.agents[seat] ? ` (${frame.agents[seat]})` : "");
  const number = frame.others.indexOf(seat) + 1;
  return h(
    "section",
    { class: `hand${frame.to_move === seat && !frame.over ? " moves" : ""}`, "aria-label": who },
    h("h2", {}, seat !== frame.you && frame.others.length > 1 && !ui.watched ? `${number} · ${who}` : who,
      frame.to_move === seat && !frame.over ? h("span", { class: "now" }, " ← to move") : null),
    h("div", { class: "row-of-hand" },
      h("ol", { class: "cards" }, cards), hintButtons(frame, seat, ui)),
  );
}

function counters(frame) {
  const dots = (left, most, full, empty) => full.repeat(left) + empty.repeat(most - left);
  const counter = (name, value, picture) =>
    h("li", {}, h("span", {}, `${name} `), h("strong", {}, String(value)),
      picture ? h("span", { class: "dots", "aria-hidden": "true" }, ` ${picture}`) : null);
  return h("ul", { class: "counters" },
    counter("Hints", frame.hints, dots(frame.hints, frame.max_hints, "●", "○")),
    counter("Lives", frame.lives, dots(frame.lives, frame.max_lives, "♥", "♡")),
    counter("Deck", frame.deck),
    counter("Score", `${frame.over ? frame.score : frame.points} of ${frame.max_score}`),
    frame.turns_left === null || frame.over ? null : counter("Last moves", frame.turns_left));
}

function fireworks(frame) {
  return h("section", { "aria-label": "Fireworks" },
    h("h2", {}, "Fireworks"),
    h("ul", { class: "piles" }, frame.fireworks.map((height, color) =>
      h("li", { class: `pile c${color % 5}${height ? "" : " none"}` },
        h("span", { class: "sr" }, `${frame.colors[color]} ${height}`),
        h("span", { "aria-hidden": "true" }, `${frame.letters[color]}${height}`), shape(color)))));
}

function discards(frame) {
  const sorted = [...frame.discards].sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  return h("section", { "aria-label": "Discards" },
    h("h2", {}, `Discards (${sorted.length})`),
    sorted.length === 0 ? h("p", { class: "quiet" }, "none") :
      h("ul", { class: "piles small" }, sorted.map(([color, rank]) =>
        h("li", { class: `pile c${color % 5}` },
          h("span", { class: "sr" }, `${frame.colors[color]} ${rank}`),
          h("span", { "aria-hidden": "true" }, `${frame.letters[color]}${rank}`), shape(color)))));
}

/** What a chosen card can still be, by what was told of it. */
function possible(frame, ui) {
  const card = frame.you === null ? null : frame.hands[frame.you][(ui.choice.slot ?? 0) - 1];
  if (!card || card.card || frame.over) return null;
  const ranks = Array.from({ length: frame.ranks }, (_, index) => index + 1);
  return h("table", { class: "possible" },
    h("caption", {}, `Card ${ui.choice.slot} can be`),
    h("tbody", {}, frame.colors.map((name, color) =>
      h("tr", {}, h("th", { scope: "row" }, frame.letters[color], shape(color)),
        ranks.map((rank) => {
          const can = card.colors.includes(color) && card.ranks.includes(rank);
          return h("td", { class: can ? "can" : "cannot" },
            can ? String(rank) : h("span", { class: "sr" }, `not ${rank}`));
        })))));
}

/** How likely an agent found each of its moves. */
function chances(frame) {
  if (!frame.chances) return null;
  const shown = frame.chances.slice(0, 10);
  const rest = frame.chances.slice(10).reduce((sum, bar) => sum + bar.chance, 0);
  if (frame.chances.length > 10) {
    shown.push({ text: `${frame.chances.length - 10} others`, chance: rest, taken: false });
  }
  const bar = (chance) => {
    const fill = h("span", { class: "fill" });
    fill.style.width = `${(100 * chance).toFixed(2)}%`;
    return h("span", { class: "bar", "aria-hidden": "true" }, fill);
  };
  return h("section", { class: "chances", "aria-label": "What the agent weighs" },
    h("h2", {}, `${frame.names[frame.to_move]} weighs`),
    h("ol", {}, shown.map(({ text, chance, taken }) =>
      h("li", { class: taken ? "taken" : null },
        h("span", { class: "what" }, text, taken ? h("span", { class: "sr" }, ", taken") : null),
        bar(chance), h("span", { class: "percent" }, `${(100 * chance).toFixed(1)}%`)))));
}

/** The whole table. @param {any} frame @param {any} ui */
export function view(frame, ui) {
  const players = frame.names.length;
  const first = frame.you ?? -1;
  frame.others = Array.from({ length: players }, (_, index) => (first + 1 + index) % players)
    .filter((seat) => seat !== frame.you);
  const seats = frame.you === null ? frame.others : [...frame.others, frame.you];
  return h("div", { class: "board" },
    counters(frame),
    fireworks(frame),
    seats.map((seat) => handView(frame, seat, ui)),
    possible(frame, ui),
    chances(frame),
    discards(frame));
}

/** The bar below: what is chosen, and the buttons that do it. */
export function actionBar(frame, ui) {
  if (ui.history.length > 0) return replayBar(frame, ui);
  if (frame.actions.length === 0) return h("p", { class: "quiet" }, ui.waiting(frame));
  const { slot } = ui.choice;
  const action = ui.chosen();
  const use = (kind, name) => h("button", {
    type: "button",
    "data-key": kind,
    "aria-pressed": ui.choice.kind === kind ? "true" : "false",
    class: ui.choice.kind === kind ? "chosen" : null,
    onclick: () => ui.choose({ kind, target: null, value: null }, slot !== null),
  }, name);
  const text = action
    ? (action.why_not ? `${action.text}? Not allowed: ${action.why_not}` : `${action.text}?`)
    : ui.choice.kind === "play" || ui.choice.kind === "discard" ? "Which card?"
      : ui.choice.kind === "hint" ? ui.askWhom(frame)
        : slot ? `Card ${slot}: play or discard?` : "Choose a card, or tell something";
  return h("div", { class: "choice" },
    h("p", { role: "status", id: "asked" }, text),
    h("div", { class: "row" }, use("play", "Play"), use("discard", "Discard"),
      h("button", { type: "button", class: "go", "data-key": "go",
        "aria-describedby": "asked", "aria-disabled": action && !action.why_not ? "false" : "true",
        onclick: () => ui.confirm() }, "Confirm"),
      h("button", { type: "button", "data-key": "back", onclick: () => ui.cancel() }, "Back")));
}

function replayBar(frame, ui) {
  const last = ui.history.length - 1;
  const slider = h("input", {
    type: "range", min: 0, max: last, value: ui.shown, "data-key": "slider",
    "aria-label": "Move", "aria-valuetext": `after ${ui.shown} of ${last} moves`,
    oninput: (event) => ui.show(Number(event.target.value)),
  });
  const step = (name, text, where) => h("button", { type: "button", "data-key": name,
    "aria-label": name, onclick: () => ui.show(where) }, text);
  const over = ui.history[last].over;
  return h("div", { class: "replay" },
    h("p", { role: "status" }, `Move ${ui.shown} of ${last}` + (over ? "" : " so far")),
    h("div", { class: "row" },
      step("first", "|◀", 0), step("one back", "◀", ui.shown - 1),
      h("button", { type: "button", "data-key": "on", "aria-label": "one on",
        onclick: () => ui.forward() }, "▶"),
      step("last", "▶|", last),
      ui.watched && !over ? h("button", { type: "button", "data-key": "auto",
        "aria-pressed": ui.auto ? "true" : "false", onclick: () => ui.toggleAuto() },
        ui.auto ? "Stop" : "By itself") : null,
      slider,
      over ? h("button", { type: "submit", form: "new", class: "go", "data-key": "new" },
        ui.next) : null,
      ui.frame && ui.frame.link ? h("a", { "data-key": "link", href: ui.frame.link, rel: "noreferrer", target: "_blank" },
        "hanab.live") : null));
}
