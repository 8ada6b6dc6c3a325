// @ts-check
/** Tooltip with the possible identities of a card, on mouse hover or a long touch. The card shows
 * them in small, its label in words. */
import { h, possible } from "./cards.js";

const HELD_MS = 450;
/** @type {HTMLElement | null} */
let tip = null;
/** @type {Element | null} */
let over = null; // its card

export function closeTip() {
  tip?.remove();
  tip = over = null;
}

/** @param {Element} place a card in a hand @param {any} ui */
function open(place, ui) {
  closeTip();
  const frame = ui.position(), seat = Number(place.getAttribute("data-seat"));
  const slot = Number(place.getAttribute("data-slot")), card = frame?.hands[seat]?.[slot - 1];
  if (!card) return;
  over = place;
  const note = ui.notes.of(card.order);
  const whose = seat === frame.you ? `Your slot ${slot}` : `${frame.names[seat]}: slot ${slot}`;
  tip = h("div", { class: "tip", "aria-hidden": "true" },
    possible(frame, card, `${whose} can be`), note ? h("p", {}, `✎ ${note}`) : null);
  document.body.append(tip);
  const { left, top, bottom, width } = place.getBoundingClientRect();
  const own = tip.getBoundingClientRect();
  const above = top - own.height - 4;
  tip.style.left = `${Math.max(4, Math.min(left + width / 2 - own.width / 2, innerWidth - own.width - 4))}px`;
  tip.style.top = `${above >= 4 ? above : Math.min(bottom + 4, innerHeight - own.height - 4)}px`;
}

/** Opens and closes tooltips. @param {any} ui */
export function listenForTips(ui) {
  /** @type {number | undefined} */
  let held;
  const at = (event) => /** @type {Element} */ (event.target).closest?.(".cards > [data-order]");
  let where = "";
  document.addEventListener("pointermove", (event) => {
    const here = `${event.clientX} ${event.clientY}`;
    // scrolled, not moved; or dragging
    if (event.pointerType !== "mouse" || here === where || event.buttons) return;
    where = here;
    const place = at(event);
    if (!place) closeTip();
    else if (place !== over) open(place, ui);
  });
  document.addEventListener("pointerdown", (event) => {
    closeTip();
    const place = at(event);
    if (place && event.pointerType !== "mouse") held = setTimeout(() => open(place, ui), HELD_MS);
  });
  for (const name of ["pointerup", "pointercancel", "pointermove"]) {
    document.addEventListener(name, (event) => {
      const { movementX: x, movementY: y } = /** @type {PointerEvent} */ (event);
      if (name !== "pointermove" || Math.hypot(x, y) > 3) clearTimeout(held);
    });
  }
  document.addEventListener("contextmenu", (event) => {
    if (at(event) && /** @type {PointerEvent} */ (event).pointerType === "touch") event.preventDefault();
  });
  document.addEventListener("keydown", closeTip);
  addEventListener("scroll", closeTip, true);
}
