// @ts-check
/** Replay of a game of Overcooked: play, pause, single steps, speed. */
import { at, draw, dress } from "./kitchen_board.js";

/** @type {any} */
let game = null;
let step = 0;
/** @type {number | undefined} */
let timer;

const duration = () => 1000 / game.steps_per_s / Number(at("speed").value);

/** @param {number} to @param {boolean} glide */
function show(to, glide = false) {
  step = Math.max(0, Math.min(to, game.scenes.length - 1));
  draw(game.scenes[step], glide ? duration() : 0);
  at("at").value = String(step);
  at("score").textContent = String(game.scores[step]);
  at("step").textContent = `${step} of ${game.scenes.length - 1}`;
  at("actions").replaceChildren(...game.names.map((/** @type {string} */ name, /** @type {number} */ seat) => {
    const line = document.createElement("li");
    line.textContent = `${game.looks[seat]}, ${name}: ${step > 0 ? game.actions[step - 1][seat] : "–"}`;
    return line;
  }));
  if (step === game.scenes.length - 1) pause();
}

function pause() {
  clearTimeout(timer);
  timer = undefined;
  at("run").textContent = step === game.scenes.length - 1 ? "Play from the start" : "Play";
}

function run() {
  if (step === game.scenes.length - 1) show(0);
  at("run").textContent = "Pause";
  const next = () => {
    timer = setTimeout(next, duration());
    show(step + 1, true);
  };
  timer = setTimeout(next, duration());
}

const toggle = () => timer === undefined ? run() : pause();

/** @param {number} to */
function stepTo(to) {
  pause();
  show(to);
}

at("run").addEventListener("click", toggle);
at("back").addEventListener("click", () => stepTo(step - 1));
at("forward").addEventListener("click", () => stepTo(step + 1));
at("at").addEventListener("input", () => stepTo(Number(at("at").value)));
addEventListener("keydown", (event) => {
  if (!game || event.ctrlKey || event.altKey || event.metaKey || event.target instanceof HTMLSelectElement) return;
  const last = game.scenes.length - 1;
  const to = new Map([["ArrowLeft", step - 1], ["ArrowRight", step + 1], ["Home", 0], ["End", last]]).get(event.key);
  if (to !== undefined) stepTo(to);
  else if (event.key === " ") toggle();
  else return;
  event.preventDefault(); // the slider and the buttons do nothing more
});
addEventListener("keyup", (event) => event.key === " " && event.preventDefault());

dress();
const response = await fetch(`${location.pathname}/frames`);
if (response.ok) {
  game = await response.json();
  at("kitchen").setAttribute("viewBox", game.box);
  at("terrain").innerHTML = game.terrain;
  at("title").textContent = document.title = `Overcooked: ${game.kitchen}, replay`;
  at("at").max = String(game.scenes.length - 1);
  show(0);
  if (matchMedia("(prefers-reduced-motion: no-preference)").matches) run();
  else pause();
} else at("problem").textContent = `The game was not read: ${await response.text()}`;
