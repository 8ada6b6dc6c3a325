// @ts-check
/** The page: one state and one socket; `view.js` renders the state. */
import { actionBar } from "./bar.js";
import { h } from "./cards.js";
import { listenForDrags } from "./drag.js";
import { listen } from "./keys.js";
import { move, places } from "./motion.js";
import { downloadWith, notesOf } from "./notes.js";
import { keep, load } from "./settings.js";
import { closeTip, listenForTips } from "./tip.js";
import { legend, seated, sideView, view } from "./view.js";

const at = (id) => /** @type {HTMLElement} */ (document.getElementById(id));
const owner = document.documentElement.dataset.owner ?? ""; // participant of a study
const NOTHING = { kind: null, slot: null, target: null, value: null };

const ui = {
  watched: document.documentElement.dataset.watched === "yes",
  next: document.querySelector("#new button")?.textContent ?? "", // label of the button after a game
  /** @type {any} */ frame: null, // current table
  /** @type {any[]} */ history: [], // all positions of a game that is over or watched
  /** @type {string[]} */ conventions: [], // convention of each move, if available
  shown: 0, // index into history
  /** @type {any} */ line: null, // hypothetical moves from a shown position
  auto: document.documentElement.dataset.watched === "yes"
    && matchMedia("(prefers-reduced-motion: no-preference)").matches,
  sent: -1, // turn of the move that was sent
  choice: { ...NOTHING },
  settings: load(owner),
  notes: notesOf(location.pathname.split("/").at(-1) ?? ""),

  /** Shown position: the end of a hypothetical line, a position of the replay, or the table. */
  position() {
    return ui.line ? ui.line.frames.at(-1) : ui.history.length > 0 ? ui.history[ui.shown] : ui.frame;
  },
  /** Adds a part of a choice; `complete`: the choice is complete. */
  choose(part, complete = false) {
    ui.choice = { ...ui.choice, ...part };
    if ("slot" in part && part.slot !== null && ["color", "rank", "hint"].includes(ui.choice.kind)) {
      ui.choice = { ...NOTHING, slot: part.slot };
    }
    if ((complete || ui.chosen()) && ui.settings.atOnce && ui.chosen()) ui.confirm();
    else draw();
  },
  cancel() {
    ui.choice = { ...NOTHING };
    draw();
  },
  /** The chosen action, or null. */
  chosen() {
    const { kind, slot, target, value } = ui.choice;
    if (!ui.frame || kind === null || kind === "hint") return null;
    return ui.position().actions.find((action) => action.kind === kind
      && (kind === "play" || kind === "discard" ? action.slot === slot
        : action.target === target && action.value === value)) ?? null;
  },
  confirm() {
    const action = ui.chosen();
    if (!action || action.why_not || ui.sent === ui.frame.turn) return draw();
    if (ui.line) send({ what_if: [...ui.line.moves, action.id], turn: ui.line.turn });
    else {
      ui.sent = ui.frame.turn;
      send({ action: action.id, turn: ui.frame.turn });
    }
    ui.choice = { ...NOTHING };
    draw();
  },
  /** True if other moves can be tried from here. */
  canBranch: () => ui.history.length > 0 && !ui.history[ui.shown].over,
  whatIf() {
    ui.stop();
    if (ui.canBranch()) send({ what_if: [], turn: ui.shown });
  },
  undo() {
    if (ui.line.moves.length > 0) send({ what_if: ui.line.moves.slice(0, -1), turn: ui.line.turn });
  },
  leaveLine() {
    ui.line = null;
    ui.cancel();
  },
  /** Returns the focus to the card after a note. */
  noted(slot) {
    draw();
    /** @type {HTMLElement | null} */ (document.querySelector(`[data-key=card-${slot}]`))?.focus();
  },
  askWhom(frame) {
    return ui.choice.target === null && frame.others.length > 1
      ? `Hint which player? ${frame.others.map((seat, index) => `${index + 1} ${frame.names[seat]}`).join(", ")}`
      : "Which colour or rank?";
  },
  waiting(frame) {
    return frame.over ? "The game is over" : `${frame.names[frame.to_move]} is thinking …`;
  },
  show(turn) {
    ui.shown = Math.max(0, Math.min(turn, ui.history.length - 1));
    draw();
  },
  /** Shows a position that the user asked for. */
  jump(turn) {
    ui.stop();
    ui.show(turn);
  },
  /** Next position, or the next move of watched agents. */
  forward() {
    ui.stop();
    advance();
  },
  /** Ends autoplay. */
  stop() {
    ui.auto = false;
    clearTimeout(playing);
  },
  toggleAuto() {
    if (ui.auto) ui.stop();
    else {
      ui.auto = true;
      if (ui.shown === ui.history.length - 1 && ui.frame.over) ui.show(0);
      playing = setTimeout(play, AUTO_MS);
    }
    draw();
  },
};

const AUTO_MS = 1000; // between moves of autoplay
/** @type {number | undefined} */
let playing; // the next move of autoplay
let drawn = -9; // turn on the page
/** @type {WebSocket | null} */
let socket = null;
let wait = 500; // ms before the next attempt
const REFUSED = 1008; // WebSocket close code
const MOST_MS = 10000; // silence after a move means a lost connection
/** @type {number | undefined} */
let next; // the next attempt

function connect() {
  clearTimeout(next);
  const scheme = location.protocol === "https:" ? "wss" : "ws";
  const made = socket = new WebSocket(`${scheme}://${location.host}${location.pathname}/ws?opened=${performance.timeOrigin}`);
  made.onopen = () => {
    wait = 500;
    at("network").textContent = at("role").textContent = ""; // an older tab gets its role again
  };
  made.onmessage = (event) => receive(JSON.parse(event.data));
  made.onclose = (event) => event.code === REFUSED ? end(made, event.reason) : lose(made);
}

/** Drops a connection, whose close event may be late, and reconnects. */
function lose(lost = socket) {
  if (!lost || lost !== socket) return;
  socket = null;
  lost.onopen = lost.onmessage = lost.onclose = null;
  lost.close();
  ui.sent = -1;
  at("network").textContent = "The connection is lost. Trying again …";
  next = setTimeout(connect, wait);
  wait = Math.min(2 * wait, MOST_MS);
}

/** The server refuses further connections to this table. */
function end(ended, reason) {
  if (ended !== socket) return;
  socket = null;
  clearTimeout(next);
  at("network").textContent = `The connection has ended: ${reason}. Reload the page.`;
}

function send(message) {
  if (!socket || socket.readyState !== WebSocket.OPEN) return;
  socket.send(JSON.stringify(message));
  const asked = socket;
  setTimeout(() => ui.sent === message.turn && lose(asked), MOST_MS);
}

addEventListener("offline", () => lose());
addEventListener("online", () => socket ?? connect());

function receive(message) {
  if (message.type === "error") {
    ui.sent = -1;
    at("network").textContent = message.text;
  } else if (message.type === "role") {
    if (!message.moves) ui.stop();
    at("role").textContent = message.moves ? "" : "A newer tab plays this game. Reload this one to play here.";
  } else if (message.type === "history") {
    const opened = ui.history.length === 0, atEnd = ui.shown >= ui.history.length - 1;
    ui.history = message.frames;
    ui.conventions = message.conventions;
    const last = ui.history.length - 1;
    if (atEnd) ui.shown = opened && ui.watched && ui.history[last].over ? 0 : last;
    if (opened && ui.auto) playing = setTimeout(play, AUTO_MS);
  } else if (message.type === "what_if") {
    ui.line = message;
    ui.choice = { ...NOTHING };
    draw();
  } else if (message.type === "frame") {
    if (!ui.frame || message.frame.turn !== ui.frame.turn) {
      ui.choice = { ...NOTHING, slot: null };
      at("network").textContent = "";
    }
    ui.frame = message.frame;
    if (message.frame.turn > ui.sent) ui.sent = -1;
    draw();
  }
}

/** Applies the appearance settings. */
function dress() {
  document.documentElement.dataset.theme = ui.settings.theme;
  document.documentElement.toggleAttribute("data-patterns", ui.settings.patterns);
}

/** Redraws everything and keeps the focus. */
function draw() {
  if (!ui.frame) return;
  const focused = document.activeElement, focus = focused?.getAttribute("data-key");
  const caret = focused instanceof HTMLInputElement && focused.type === "text"
    ? focused.selectionStart : null;
  const frame = seated(ui.position(), ui);
  const before = Math.abs(frame.turn - drawn) === 1 ? places() : null; // one move forward or back
  drawn = frame.turn;
  closeTip();
  at("table").replaceChildren(view(frame, ui));
  at("side").replaceChildren(...sideView(frame));
  if (!at("legend").hasChildNodes()) at("legend").append(...legend(frame));
  at("actions").replaceChildren(actionBar(frame, ui));
  const readings = ui.line ? ui.line.conventions : ui.conventions;
  drawLog(frame, readings);
  drawMark();
  at("last").textContent = frame.log.at(-1) ?? "";
  const reading = readings[frame.turn - 1];
  at("convention").replaceChildren(...(reading ? ["By convention: ", ...convention(reading)] : []));
  if (before) move(before);
  const heading = headline(frame);
  if (at("turn").textContent !== heading) at("turn").textContent = heading;
  document.title = `${frame.to_move === frame.you && frame.you !== null && !frame.over ? "● " : ""}${heading} – Hanabi`;
  if (focus) {
    const again = /** @type {HTMLElement | null} */ (document.querySelector(`[data-key="${focus}"]`));
    again?.focus({ preventScroll: true });
    if (caret !== null && again instanceof HTMLInputElement) again.setSelectionRange(caret, caret);
  }
}

/** `play hint, but good touch`: the second part is the broken convention. @param {string} reading */
function convention(reading) {
  const [kind, broken] = reading.split(", but ");
  return [kind, broken ? h("span", { class: "broken" }, h("span", { class: "sr" }, ", breaks"),
    h("span", { "aria-hidden": "true" }, " ✗"), ` ${broken}`) : ""];
}

const points = (number) => `${number} ${number === 1 ? "point" : "points"}`;

function headline(frame) {
  if (ui.line) return `What if, turn ${frame.turn + 1}`
    + (frame.over ? `: over with ${points(frame.score)}` : `: ${frame.names[frame.to_move]} to move`);
  if (frame.left) return `The game was left at ${points(frame.points)}`;
  if (frame.over) return `Game over: ${frame.score} of ${frame.max_score} points`;
  const name = frame.names[frame.to_move];
  return `Turn ${frame.turn + 1}: ${name === "You" ? "your turn" : `${name}'s turn`}`;
}

/** Button that flags the partner's last move, in a study with it. */
function drawMark() {
  const button = /** @type {HTMLButtonElement | null} */ (document.getElementById("questionable"));
  if (!button) return;
  button.disabled = !ui.frame.questionable;
  button.setAttribute("aria-pressed", String(Boolean(ui.frame.questionable?.marked)));
}

/** Updates only changed lines, so that a screen reader reads only these. */
function drawLog(frame, readings) {
  const log = at("log");
  while (log.children.length > frame.log.length) log.lastElementChild?.remove();
  for (const [turn, text] of frame.log.entries()) {
    const reading = readings[turn] ?? "", is = `${text} ${reading}`;
    const line = /** @type {HTMLElement | undefined} */ (log.children[turn]);
    if (line?.dataset.is === is) continue;
    const made = h("li", { "data-is": is }, text,
      reading ? h("span", { class: "by" }, " · ", convention(reading)) : null);
    if (line) line.replaceWith(made);
    else log.append(made);
  }
}

/**
 * Confirms an irreversible action with the texts of `asked`.
 * @param {HTMLElement} asked @param {() => void} then
 */
function sure(asked, then) {
  const dialog = /** @type {HTMLDialogElement} */ (at("sure"));
  at("sure-text").textContent = asked.dataset.sure ?? "";
  at("sure-yes").textContent = asked.dataset.yes ?? "";
  dialog.returnValue = "no"; // result of Escape
  dialog.onclose = () => dialog.returnValue === "yes" && then();
  dialog.showModal();
}

function advance() {
  if (ui.shown < ui.history.length - 1) ui.show(ui.shown + 1);
  else if (ui.watched && !ui.frame.over) send({ step: ui.frame.turn });
}

/** Autoplay, which waits while the page is hidden. */
function play() {
  if (ui.frame && !document.hidden) advance();
  if (ui.frame?.over && ui.shown === ui.history.length - 1) {
    ui.stop();
    draw();
  } else playing = setTimeout(play, AUTO_MS);
}

for (const field of document.querySelectorAll("[data-setting]")) {
  const input = /** @type {HTMLInputElement} */ (field);
  const name = /** @type {string} */ (input.dataset.setting);
  if (input.type === "checkbox") input.checked = ui.settings[name];
  else input.value = ui.settings[name];
  input.addEventListener("change", () => {
    ui.settings[name] = input.type === "checkbox" ? input.checked : input.value;
    at("kept").textContent = keep(ui.settings, owner) ? ""
      : "This browser keeps no settings: they last until this page is left.";
    dress();
    draw();
  });
}
listen(ui);
listenForTips(ui);
listenForDrags(ui);
document.querySelector("a[href='../games.json']")?.addEventListener("click", (event) => {
  event.preventDefault();
  downloadWith(/** @type {HTMLAnchorElement} */ (event.currentTarget), ui.notes);
});
const leave = document.getElementById("leave");
leave?.addEventListener("click", () => sure(leave, () => send({ leave: true })));
for (const form of /** @type {NodeListOf<HTMLFormElement>} */ (document.querySelectorAll("form[data-sure]"))) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    sure(form, () => form.submit());
  });
}
document.getElementById("questionable")?.addEventListener("click", () => {
  const { turn, marked } = ui.frame.questionable;
  send({ questionable: turn, marked: !marked });
});
dress();
connect();
