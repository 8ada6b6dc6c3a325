// @ts-check
/** Keyboard: key of an event on any layout, and its action. */

/**
 * Key of an event: a lower-case letter or digit, `?`, or a named key (`Enter`, `ArrowLeft`, a
 * space). Null for the browser's keys and repeats, except of arrows, so that a held key makes no
 * second move.
 *
 * The typed character counts if it is one of these; otherwise the key's place: digits behind Shift
 * (AZERTY, Czech), letters of another script (Cyrillic, Greek, Hebrew, Arabic, ...).
 * @param {KeyboardEvent} event
 */
export function meant(event) {
  const { code, key, shiftKey: shift } = event;
  if (event.defaultPrevented || event.isComposing || event.ctrlKey || event.altKey || event.metaKey
    || event.getModifierState("AltGraph")) return null;
  if (event.repeat && !key.startsWith("Arrow")) return null;
  if (/^[?؟？]$/.test(key)) return "?";
  if (/^[a-z0-9]$/i.test(key)) return key.toLowerCase();
  const untyped = key === "Dead" || key === "Unidentified";
  if (!untyped && /^( |[A-Z]\w+)$/.test(key)) return shift ? null : key; // with Shift: selection
  const digit = /^(?:Digit|Numpad)(\d)$/.exec(code);
  if (digit && !shift) return digit[1];
  const letter = /^Key([A-Z])$/.exec(code);
  const foreign = !untyped && !/[\p{ASCII}\p{Script=Latin}]/u.test(key);
  if (letter && foreign) return letter[1].toLowerCase();
  if (code === "KeyW" && key === "'") return "w"; // Hebrew has no letter here
  return null;
}

/**
 * True if the focused element handles the key.
 * @param {Element} element @param {string} key
 */
export function takes(element, key) {
  if (key === "Enter" || key === " ") return !element.matches("html, body");
  if (element.matches("input[type=checkbox]")) return false;
  if (element.matches("input[type=range]")) return /^(Arrow|Home|End)/.test(key);
  if (element.matches("[role=log]")) return key === "Home" || key === "End"; // it scrolls
  return element.matches("input, select, textarea, [contenteditable]");
}

/** Handles a key of a replay or a watched game; true if it was one. */
function replayKey(ui, key) {
  const last = ui.history.length - 1;
  if (key === "ArrowRight" || (key === " " && ui.watched)) ui.forward();
  else if (key === "ArrowLeft") ui.jump(ui.shown - 1);
  else if (key === "Home") ui.jump(0);
  else if (key === "End") ui.jump(last);
  else if (key === "a") ui.toggleAuto();
  else if (key === "v") ui.whatIf();
  else if (key === "n" && (ui.watched || ui.frame.over)) {
    /** @type {HTMLFormElement | null} */ (document.getElementById("new"))?.requestSubmit();
  } else return false;
  return true;
}

/** Handles a key of a move; true if it was one. */
function moveKey(ui, key) {
  const { choice } = ui, frame = ui.position();
  const number = /^[1-9]$/.test(key) ? Number(key) : null;
  const hint = ["hint", "color", "rank"].includes(choice.kind ?? "");
  const color = frame.letters.findIndex((letter) => letter.toLowerCase() === key);
  if (key === "Escape" && ui.line && choice.kind === null && choice.slot === null) ui.leaveLine();
  else if (key === "Escape") ui.cancel();
  else if (key === "Backspace" && ui.line) ui.undo();
  else if (frame.actions.length === 0) return false;
  else if (key === "Enter") {
    if (!ui.chosen()) return false;
    ui.confirm();
  } else if (hint && choice.target === null && frame.others.length > 1) {
    if (number === null || number > frame.others.length) return false;
    ui.choose({ target: frame.others[number - 1] });
  } else if (hint && number !== null && number <= frame.ranks) {
    ui.choose({ kind: "rank", value: number }, true);
  } else if (hint && color >= 0) ui.choose({ kind: "color", value: color }, true);
  else if (key === "p" || key === "d") {
    ui.choose({ kind: key === "p" ? "play" : "discard", target: null, value: null });
  } else if (key === "h" || key === "c") {
    const target = frame.others.length === 1 ? frame.others[0] : null;
    ui.choose({ kind: "hint", slot: null, target, value: null });
  } else if (key === "n" && choice.slot !== null && !ui.line) {
    /** @type {HTMLElement | null} */ (document.querySelector("[data-key=note]"))?.focus();
  } else if (number !== null && number <= frame.hand_size) ui.choose({ slot: number });
  else if (key === "ArrowLeft" || key === "ArrowRight") {
    const held = frame.hands[frame.me].length;
    const way = (key === "ArrowRight") === !ui.settings.newestLeft ? 1 : -1;
    const slot = choice.slot === null ? (way > 0 ? 1 : held) : choice.slot + way;
    ui.choose({ slot: Math.max(1, Math.min(slot, held)) });
  } else return false;
  return true;
}

/** Handles all keys of the page. @param {any} ui */
export function listen(ui) {
  document.addEventListener("keydown", (event) => {
    const key = meant(event), focused = document.activeElement ?? document.body;
    // A held Enter would press the button repeatedly and start several games.
    if (event.repeat && event.key === "Enter" && focused.matches("button")) event.preventDefault();
    if (!ui.frame || key === null || takes(focused, key)) return;
    if (document.querySelector("dialog[open]")) return;
    if (!ui.settings.keys && key.length === 1) return;
    const more = /** @type {HTMLDetailsElement} */ (document.querySelector("details.more"));
    if (key === "?") {
      more.open = !more.open;
      if (more.open) more.scrollIntoView();
    } else if (ui.history.length > 0 && !ui.line) {
      if (!replayKey(ui, key)) return;
    } else {
      if (!moveKey(ui, key)) return;
      // Enter presses the focused button: focus Confirm after a choice by keys.
      if (ui.chosen()) {
        /** @type {HTMLElement | null} */ (document.querySelector("[data-key=go]"))?.focus();
      }
    }
    event.preventDefault();
  });
}
