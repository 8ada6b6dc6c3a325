// @ts-check
/** Animation of moves: cards from their old places, and hint arrows; off with reduced motion. */

const MS = 350;

/** Positions of the cards, by order, and of the deck. @returns {Map<string, DOMRect>} */
export function places() {
  const found = new Map();
  for (const element of document.querySelectorAll("[data-order]")) {
    found.set(element.getAttribute("data-order"), element.getBoundingClientRect());
  }
  const deck = document.querySelector(".deck");
  if (deck) found.set("deck", deck.getBoundingClientRect());
  return found;
}

/** Animates the elements that moved. @param {Map<string, DOMRect>} before */
export function move(before) {
  if (!matchMedia("(prefers-reduced-motion: no-preference)").matches) return;
  for (const element of document.querySelectorAll("[data-order]")) {
    const order = element.getAttribute("data-order") ?? "";
    const from = before.get(order) ?? (element.matches(".cards > *") ? before.get("deck") : null);
    const to = element.getBoundingClientRect();
    if (!from || to.width === 0) continue;
    const x = from.left - to.left, y = from.top - to.top;
    if (Math.hypot(x, y) < 2) continue;
    element.animate([
      { transform: `translate(${x}px, ${y}px)`, zIndex: 2 }, { transform: "none", zIndex: 2 },
    ], { duration: MS, easing: "ease-out" });
  }
  for (const arrow of document.querySelectorAll(".mark")) {
    arrow.animate([{ transform: "translateY(-1.5rem)", opacity: 0 }, { transform: "none", opacity: 1 }],
      { duration: MS, easing: "ease-out" });
  }
}
