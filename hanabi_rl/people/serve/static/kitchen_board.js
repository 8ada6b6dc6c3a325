// @ts-check
/** The picture of a kitchen, shared by the game and its replay. */
import { load } from "./settings.js";

/** Element by id; every page has those that its script asks for. @param {string} id @returns {any} */
export const at = (id) => document.getElementById(id);

/** Place of a player in the picture. @param {Element | null} player */
function place(player) {
  const found = /translate\((\S+) (\S+)\)/.exec(player?.getAttribute("transform") ?? "");
  return found ? [Number(found[1]), Number(found[2])] : null;
}

const players = () => [0, 1].map((player) => at("scene").querySelector(`.player-${player}`));

/**
 * Shows the moment `scene`; players glide from their last cells in `ms`, unless less motion is
 * preferred.
 * @param {string} scene @param {number} ms
 */
export function draw(scene, ms = 0) {
  const before = players().map(place);
  at("scene").innerHTML = scene;
  if (ms <= 0 || !matchMedia("(prefers-reduced-motion: no-preference)").matches) return;
  for (const [player, drawn] of players().entries()) {
    const from = before[player], to = place(drawn);
    if (!from || !to || (from[0] === to[0] && from[1] === to[1])) continue;
    const move = (/** @type {number[]} */ [x, y]) => `translate(${x}px, ${y}px)`;
    drawn.animate([{ transform: move(from) }, { transform: move(to) }], { duration: ms });
  }
}

/** Applies the theme of the settings. */
export function dress() {
  document.documentElement.dataset.theme = load().theme;
}
