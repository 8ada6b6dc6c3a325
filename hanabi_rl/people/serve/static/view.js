// @ts-check
/** The table as DOM: pure functions of a frame and the choice. */
import { cardView, colorPip, h, pips, possible, shape } from "./cards.js";

/** Hint buttons for one hand. */
function hintButtons(frame, seat, ui) {
  if (ui.history.length > 0 && !ui.line) return null;
  if (seat === frame.me && !ui.line) return null;
  const actions = frame.actions.filter((action) => action.target === seat);
  if (actions.length === 0) return h("div", { class: "hints" }); // keeps its space
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
  return h("div", { class: "hints", role: "group", "aria-label": `Hint ${frame.names[seat]}` },
    row("color"), row("rank"));
}

/** Buttons at the own cards. */
function uses(frame, ui) {
  if (ui.history.length > 0 && !ui.line) return null;
  const { kind, slot } = ui.choice;
  const use = (of, name) => {
    const action = frame.actions.find((each) => each.kind === of && each.slot === (slot ?? 1));
    if (!action) return null;
    return h("button", {
      type: "button", "data-key": of, class: kind === of ? "chosen" : null, title: action.why_not,
      "aria-pressed": kind === of ? "true" : "false",
      "aria-disabled": action.why_not ? "true" : "false",
      onclick: () => ui.choose({ kind: of, target: null, value: null }, slot !== null),
    }, name);
  };
  const group = { role: "group", "aria-label": "Play or discard" };
  return h("div", { class: "uses", ...(frame.actions.length > 0 ? group : {}) },
    use("play", "Play"), use("discard", "Discard"));
}

/** Possible identities and note of the chosen own card. */
function about(frame, ui) {
  const { slot } = ui.choice;
  const card = frame.me === null ? null : frame.hands[frame.me][(slot ?? 0) - 1];
  if (!card || frame.over || (card.card && !ui.line)) return null;
  return h("div", { class: "about" },
    possible(frame, card, `Slot ${slot} can be`),
    ui.line ? null : h("label", { class: "noted" }, `Note on slot ${slot}`,
      h("input", {
        type: "text", "data-key": "note", maxlength: 60, autocomplete: "off",
        value: ui.notes.of(card.order),
        oninput: (event) => ui.notes.keep(card.order, event.target.value),
        onkeydown: (event) => {
          if (event.isComposing || (event.key !== "Enter" && event.key !== "Escape")) return;
          event.preventDefault(); // does not press the card, which gets the focus
          event.stopPropagation();
          ui.noted(slot);
        },
      })));
}

function handView(frame, seat, ui) {
  const cards = frame.hands[seat].map((card, index) => cardView(frame, seat, card, index + 1, ui));
  if (ui.settings.newestLeft) cards.reverse();
  const name = frame.names[seat], agent = frame.agents[seat];
  const number = frame.others.indexOf(seat) + 1;
  const numbered = number > 0 && frame.others.length > 1 && (ui.line || !ui.watched);
  const moves = frame.to_move === seat && !frame.over;
  return h(
    "section",
    {
      class: `hand${moves ? " moves" : ""}${seat === frame.you ? " own" : ""}`,
      "aria-label": agent ? `${name} (${agent})` : name,
    },
    h("h2", {}, numbered ? `${number} · ${name}` : name,
      agent ? h("span", { class: "agent" }, ` ${agent}`) : null,
      moves ? h("span", { class: "now" }, " ← to move") : null),
    h("div", { class: "row-of-hand" },
      h("ol", { class: "cards" }, cards),
      seat === frame.me ? [uses(frame, ui), about(frame, ui)] : null,
      hintButtons(frame, seat, ui)),
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
    counter("Score", `${frame.over ? frame.score : frame.points} of ${frame.max_score}`),
    frame.turns_left === null || frame.over ? null : counter("Last moves", frame.turns_left));
}

/** True if the last move put this card here. */
const isLast = (frame, where, [color, rank]) => frame.last?.card
  && (frame.last.kind === "play" && frame.last.success) === (where === "fireworks")
  && frame.last.card[0] === color && frame.last.card[1] === rank;

function pile(frame, where, color, rank, last, more = null) {
  const empty = rank === 0;
  return h("li", {
    class: `pile c${color % 5}${empty ? " none" : ""}${last ? " last" : ""}`,
    "data-order": last ? frame.last.orders[0] : null, "data-height": where === "fireworks" ? rank : null,
  },
  h("span", { class: "sr" }, `${frame.colors[color]} ${rank}${last ? ", the last move" : ""}`),
  h("span", { class: "face", "aria-hidden": "true" }, `${frame.letters[color]}${rank}`), more);
}

function fireworks(frame) {
  return h("section", { class: "fireworks", "aria-label": "Fireworks" },
    h("h2", { class: "sr" }, "Fireworks"),
    h("ul", { class: "piles stacks" }, frame.fireworks.map((height, color) =>
      pile(frame, "fireworks", color, height, isLast(frame, "fireworks", [color, height]),
        height ? pips(color, height) : pips(color, 1)))));
}

function deck(frame) {
  return h("p", { class: `deck${frame.deck ? "" : " none"}` }, h("span", {}, "Deck"),
    h("strong", {}, String(frame.deck)));
}

function discards(frame) {
  let marked = false; // one of several copies
  const chip = ([color, rank]) => {
    const last = !marked && isLast(frame, "discards", [color, rank]);
    marked ||= last;
    return pile(frame, "discards", color, rank, last, shape(color));
  };
  const rows = frame.colors.map((_, color) => frame.discards
    .filter((card) => card[0] === color).sort((a, b) => a[1] - b[1]));
  return h("section", { class: "discards", "aria-label": "Discards" },
    h("h2", {}, `Discards (${frame.discards.length})`),
    h("div", { class: "rows" }, rows.map((row, color) => row.length === 0
      ? h("p", { class: "gap", "aria-hidden": "true" }, frame.letters[color], shape(color)) : h("ul", { class: "piles small" }, row.map(chip)))));
}

/** Probabilities of an agent's moves. */
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
  return h("section", { class: "chances", "aria-label": "Action probabilities" },
    h("h2", {}, `${frame.names[frame.to_move]}: action probabilities`),
    h("ol", {}, shown.map(({ text, chance, taken }) =>
      h("li", { class: taken ? "taken" : null },
        h("span", { class: "what" }, text, taken ? h("span", { class: "sr" }, ", taken") : null),
        bar(chance), h("span", { class: "percent" }, `${(100 * chance).toFixed(1)}%`)))));
}

/** Adds to a frame the seat of the current choice (`me`) and the other seats in order. */
export function seated(frame, ui) {
  const players = frame.names.length;
  frame.me = ui.line && frame.to_move !== null ? frame.to_move : frame.you;
  const first = frame.me ?? -1;
  frame.others = Array.from({ length: players }, (_, index) => (first + 1 + index) % players)
    .filter((seat) => seat !== frame.me);
  return frame;
}

/** The table: hands around the fireworks, the person's own last. */
export function view(frame, ui) {
  const players = frame.names.length;
  const first = frame.you ?? 0;
  const seats = Array.from({ length: players }, (_, index) =>
    (first + index + (frame.you === null ? 0 : 1)) % players);
  const hands = seats.map((seat) => handView(frame, seat, ui));
  return h("div", { class: "board", "data-players": players },
    h("div", { class: "partners" }, hands.slice(0, -1)),
    h("div", { class: "middle" }, deck(frame), fireworks(frame), counters(frame)),
    hands.at(-1));
}

/** The side panel. */
export function sideView(frame) {
  return [chances(frame), discards(frame)].filter((part) => part !== null);
}

/** Names of the colours' pips. */
export const legend = (frame) => frame.colors.map((name, color) => h("li", {}, colorPip(color), ` ${name}`));
