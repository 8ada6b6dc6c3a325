// @ts-check
/** A game of Overcooked in real time: keys and buttons to the server, its steps to the picture. */
import { at, draw, dress } from "./kitchen_board.js";
import { keep, load } from "./settings.js";

const data = document.body.dataset;
const horizon = Number(data.horizon), perSecond = Number(data.stepsPerS), points = Number(data.points);
const looks = JSON.parse(data.looks ?? "[]");
const ACTIONS = new Map([["ArrowUp", 0], ["ArrowDown", 1], ["ArrowRight", 2], ["ArrowLeft", 3], [" ", 5]]);
/** Times in ms since Start, for tests and curious users. @type {{start: number, first: number}} */
const times = { start: 0, first: 0 };
Object.assign(window, { times });

let playing = false, ready = false, ended = false;
const HOLD_MS = 200; // a key that is down for longer repeats
/** Keys that are down, with the timers of their repeats. @type {Map<number, number>} */
const held = new Map();
const next = data.next; // page after the game, in a study
const address = new URL(next ? `${location.pathname}/ws` : "/ws", location.href);
address.protocol = location.protocol === "https:" ? "wss" : "ws";
const socket = new WebSocket(address);

/** @param {object} message */
function send(message) {
  if (socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify(message));
}

/** @param {number} action */
function press(action) {
  if (!playing) return;
  send({ press: action });
  held.set(action, setTimeout(() => send({ hold: action }), HOLD_MS));
}

/** @param {number} action */
function release(action) {
  clearTimeout(held.get(action));
  if (held.delete(action)) send({ release: action });
}

function start() {
  if (!ready || playing) return;
  [playing, ready, ended] = [true, false, false];
  times.start = performance.now();
  times.first = 0;
  send({ start: true });
  show();
  at("kitchen").scrollIntoView({ block: "nearest" });
}

function stop() {
  if (playing && !next) send({ stop: true });
}

/** Shows the buttons of the state. */
function show() {
  document.body.toggleAttribute("data-playing", playing);
  at("start").hidden = playing || Boolean(next && ended);
  at("start").disabled = !ready;
  at("start").textContent = ended ? "Play again" : "Start";
  at("stop").hidden = !playing || Boolean(next);
  if (playing) {
    at("replay").hidden = true;
    at("saved").textContent = at("problem").textContent = "";
    at("state").textContent = "Playing";
  }
}

/** @param {{late: number, dropped: number}} counts */
function counted({ late, dropped }) {
  const steps = (/** @type {number} */ n) => n === 1 ? "1 step" : `${n} steps`;
  return [
    late ? `Your partner was too slow in ${steps(late)} and stayed.` : "",
    dropped ? `${dropped} of your keys came faster than the steps and did not count.` : "",
  ].filter(Boolean).join(" ");
}

/** @param {any} message */
function receive(message) {
  if (message.type === "ready") {
    ready = true;
    draw(message.scene);
    const you = `You are ${looks[message.seat]}.`;
    if (!ended) at("state").textContent = `${you} Press Start.`;
    else at("state").textContent += ` Next, you are ${looks[message.seat]}.`;
    figures(0, ended ? null : 0);
    show();
    if (document.activeElement === document.body) at("start").focus({ preventScroll: true });
  } else if (message.type === "step") {
    times.first ||= performance.now();
    draw(message.scene, 1000 / perSecond);
    if (message.score > Number(at("score").textContent)) {
      at("state").textContent = `Soup served: ${message.score} points`;
    }
    figures(message.step, message.score);
    at("problem").textContent = counted(message);
  } else if (message.type === "over") {
    [playing, ended] = [false, true];
    at("state").textContent = `${message.finished ? "Time is up" : "You stopped"}: ${message.score} points.`;
    at("problem").textContent ||= counted(message);
    at("saved").textContent = message.saved ? `Saved: ${message.saved}` : "";
    at("replay").hidden = !message.replay;
    if (message.replay) at("replay").href = message.replay;
    show();
    if (next) {
      at("next").hidden = false;
      at("next").focus();
    }
  } else if (message.type === "gone") {
    location.replace(next ?? "");
  } else if (message.type === "error") {
    at("problem").textContent = message.text;
  }
}

/** @param {number} step @param {number | null} score null: keeps the last game's */
function figures(step, score) {
  if (score === null) return;
  at("score").textContent = String(score);
  at("served").textContent = String(score / points);
  at("left").textContent = String(Math.ceil((horizon - step) / perSecond));
}

socket.onmessage = (event) => receive(JSON.parse(event.data));
socket.onclose = (event) => {
  playing = ready = false;
  show();
  at("state").textContent = `The connection has ended${event.reason ? `: ${event.reason}` : ""}. Reload the page.`;
};

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || event.target instanceof HTMLSelectElement) return;
  const action = ACTIONS.get(event.key);
  if (playing && action !== undefined) {
    event.preventDefault(); // neither scrolls nor clicks
    if (!event.repeat) press(action); // the server repeats a held key
  } else if (event.key === "Enter" && !playing && event.target === document.body) start();
  else if (event.key === "Escape") stop();
});
addEventListener("keyup", (event) => {
  const action = ACTIONS.get(event.key);
  if (action === undefined) return;
  if (playing) event.preventDefault();
  release(action);
});
addEventListener("blur", () => [...held.keys()].forEach(release));

for (const button of /** @type {NodeListOf<HTMLButtonElement>} */ (document.querySelectorAll(".pad button"))) {
  const action = Number(button.dataset.action);
  const up = () => {
    button.classList.remove("pressed");
    release(action);
  };
  button.addEventListener("pointerdown", (event) => {
    event.preventDefault();
    button.setPointerCapture(event.pointerId);
    button.classList.add("pressed");
    press(action);
  });
  button.addEventListener("pointerup", up);
  button.addEventListener("pointercancel", up);
  button.addEventListener("contextmenu", (event) => event.preventDefault());
  button.addEventListener("click", (event) => { // of a screen reader or a keyboard
    if (event.detail > 0) return;
    press(action);
    release(action);
  });
}
at("start").addEventListener("click", start);
at("stop").addEventListener("click", stop);
at("theme").value = load().theme;
at("theme").addEventListener("change", () => {
  keep({ ...load(), theme: at("theme").value });
  dress();
});
dress();
