// @ts-check
/** One card as DOM: its face, its hints, and the mark of the last hint. */

const SVG = "http://www.w3.org/2000/svg";
/** Positions of the shapes by rank, as on a die: left and top in a square of 60. */
const PIPS = [
  [[20, 20]],
  [[20, 3], [20, 37]],
  [[2, 2], [20, 20], [38, 38]],
  [[4, 4], [36, 4], [4, 36], [36, 36]],
  [[2, 2], [38, 2], [20, 20], [2, 38], [38, 38]],
];

/**
 * An element. Attributes: `on*` listeners, `class`, others unchanged; false and null are omitted.
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

/** @param {string} tag @param {Record<string, any>} attributes @param {...any} children */
function svg(tag, attributes, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.append(...children);
  return element;
}

/** The shape that goes with a colour. @param {number} color */
export function shape(color) {
  return svg("svg", { class: "shape", "aria-hidden": "true" },
    svg("use", { href: `#shape-${color % 5}` }));
}

/** The shapes of a card, as many as its rank. @param {number} color @param {number} rank */
export function pips(color, rank) {
  const places = PIPS[rank - 1] ?? PIPS[0];
  const side = rank === 1 ? 32 : 20; // a single one is larger
  return svg("svg", { class: "pips", viewBox: "0 0 60 60", "aria-hidden": "true" },
    ...places.map(([x, y]) => svg("use", {
      href: `#shape-${color % 5}`, x: x + 10 - side / 2, y: y + 10 - side / 2, width: side, height: side,
    })));
}

/** Hinted colour and rank of a card, in words. @param {any} frame @param {any} card */
function hinted(frame, card) {
  const known = [];
  if (card.color !== null) known.push(frame.colors[card.color]);
  if (card.rank !== null) known.push(String(card.rank));
  return known.join(" ");
}

/** Colours and ranks excluded by hints, in words. @param {any} frame @param {any} card */
function excluded(frame, card) {
  const not = [];
  if (card.color === null && card.colors.length < frame.colors.length) {
    not.push(...frame.letters.filter((_, color) => !card.colors.includes(color)));
  }
  if (card.rank === null && card.ranks.length < frame.ranks) {
    not.push(...ranksOf(frame).filter((rank) => !card.ranks.includes(rank)));
  }
  return not.join(" ");
}

/** @param {any} frame @returns {number[]} */
export const ranksOf = (frame) => Array.from({ length: frame.ranks }, (_, index) => index + 1);

/** A possible colour. @param {number} color */
export const colorPip = (color) => h("span", { class: `pip c${color % 5}` }, shape(color));

/** Possible colours and ranks of a card as pips, with a dot for each excluded one. */
function knows(frame, card) {
  const row = (all, left, pip, is) => h("span", { class: is === null ? "left" : "left is" },
    all.map((each) => left.includes(each) ? pip(each) : h("span", { class: "out" }, "·")));
  return h("span", { class: "knows", "aria-hidden": "true" },
    row(frame.colors.map((_, color) => color), card.colors, colorPip, card.color),
    row(ranksOf(frame), card.ranks, (rank) => h("span", { class: "pip" }, String(rank)), card.rank));
}

/** A card's face, or its hints. */
function face(frame, card) {
  const [color, rank] = card.card ?? [card.color, card.rank];
  if (color === null) return [h("span", { class: "face lone" }, String(rank ?? "?"))];
  const name = `${frame.letters[color]}${rank ?? ""}`;
  if (rank === null) { // no shape: one would mean a 1
    return [h("span", { class: "face" }, name, shape(color)), h("span", { class: "face lone" }, "?")];
  }
  return [h("span", { class: "face" }, name), pips(color, rank)];
}

/** Arrow with the value of the last hint at a touched card. */
export function arrow(frame) {
  const { kind, value } = frame.last;
  return h("span", { class: "mark", "aria-hidden": "true" },
    h("span", { class: `arrow ${kind === "color" ? `c${value % 5}` : "rank"}` },
      kind === "color" ? [frame.letters[value], shape(value)] : String(value)));
}

/** A card in a hand. @param {any} frame @param {number} seat @param {any} card
 * @param {number} slot @param {any} ui */
export function cardView(frame, seat, card, slot, ui) {
  const mine = seat === frame.me && !frame.over && (frame.actions.length > 0 || card.card === null);
  const hint = hinted(frame, card);
  const not = excluded(frame, card);
  const color = card.card ? card.card[0] : card.color;
  const pointed = frame.last?.target === seat && frame.last.orders.includes(card.order);
  const chosen = mine && ui.choice.slot === slot;
  const note = ui.notes.of(card.order);
  const name = card.card ? `${frame.colors[card.card[0]]} ${card.card[1]}` : "your card";
  const label =
    `slot ${slot}: ${name}, ` +
    (hint ? `hinted ${hint}` : "no hints") +
    (not ? `, not ${not}` : "") +
    (pointed ? ", touched by the last hint" : "") +
    (note ? `, your note: ${note}` : "");
  const classes = ["card", color === null ? "unknown" : `c${color % 5}`];
  if (hint) classes.push("hinted");
  if (pointed) classes.push("pointed");
  if (chosen) classes.push("chosen");
  const content = [
    h("span", { class: "sr" }, label), // an aria-label would have to repeat the rest
    pointed ? arrow(frame) : null,
    h("span", { class: "slot", "aria-hidden": "true" }, String(slot)),
    h("span", { class: classes.join(" "), "aria-hidden": "true" }, face(frame, card)),
    knows(frame, card),
    note ? h("span", { class: "note", "aria-hidden": "true" }, `✎ ${note}`) : null,
  ];
  const place = { "data-order": card.order, "data-seat": seat, "data-slot": slot };
  if (!mine) return h("li", place, content);
  return h("li", place, h("button", {
    type: "button",
    class: "mine",
    "data-key": `card-${slot}`,
    "aria-pressed": chosen ? "true" : "false",
    onclick: () => ui.choose({ slot }),
  }, content));
}

/** Table of the possible identities of a card. @param {any} frame @param {any} card
 * @param {string} caption */
export function possible(frame, card, caption) {
  return h("table", { class: "possible" },
    h("caption", {}, caption),
    h("tbody", {}, frame.colors.map((name, color) =>
      h("tr", {}, h("th", { scope: "row", class: `c${color % 5}` }, frame.letters[color], shape(color)),
        ranksOf(frame).map((rank) => {
          const can = card.colors.includes(color) && card.ranks.includes(rank);
          return h("td", { class: can ? "can" : "cannot" },
            can ? String(rank) : h("span", { class: "sr" }, `not ${rank}`));
        })))));
}
