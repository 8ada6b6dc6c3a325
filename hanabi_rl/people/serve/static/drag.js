// @ts-check
/** Mouse drag of an own card: onto the fireworks to play it, onto the discards to discard it. Clicks
 * and keys do the same; touch scrolls. */

const FAR = 8; // pixels: less is a click

/** @param {any} ui */
export function listenForDrags(ui) {
  /** @type {{card: HTMLElement, slot: number, x: number, y: number} | null} */
  let from = null; // start of the drag
  /** @type {HTMLElement | null} */
  let ghost = null; // copy at the pointer

  function end() {
    ghost?.remove();
    from = ghost = null;
    document.documentElement.removeAttribute("data-dragging");
  }

  document.addEventListener("pointerdown", (event) => {
    end();
    const card = /** @type {Element} */ (event.target).closest?.("button.mine");
    if (!(card instanceof HTMLElement) || event.pointerType !== "mouse" || event.button !== 0) return;
    const slot = Number(card.closest("li")?.dataset.slot);
    from = { card, slot, x: event.clientX, y: event.clientY };
  });
  document.addEventListener("pointermove", (event) => {
    if (!from || event.pointerType !== "mouse") return;
    const x = event.clientX - from.x, y = event.clientY - from.y;
    if (!ghost) {
      if (Math.hypot(x, y) < FAR) return;
      const { left, top, width } = from.card.getBoundingClientRect();
      ghost = /** @type {HTMLElement} */ (from.card.cloneNode(true));
      ghost.classList.add("ghost");
      ghost.removeAttribute("data-key");
      ghost.inert = true;
      Object.assign(ghost.style, { left: `${left}px`, top: `${top}px`, width: `${width}px` });
      document.body.append(ghost);
      document.documentElement.setAttribute("data-dragging", "");
    }
    ghost.style.transform = `translate(${x}px, ${y}px)`;
  });
  document.addEventListener("pointerup", (event) => {
    const dropped = ghost && from, { slot } = from ?? {};
    end();
    if (!dropped) return;
    const place = document.elementFromPoint(event.clientX, event.clientY);
    const kind = place?.closest(".fireworks") ? "play" : place?.closest(".discards") ? "discard" : null;
    if (kind) ui.choose({ kind, slot, target: null, value: null }, true);
  });
  for (const name of ["pointercancel", "blur"]) addEventListener(name, end);
  document.addEventListener("dragstart", (event) => from && event.preventDefault());
}
