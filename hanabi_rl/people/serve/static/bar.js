// @ts-check
/** Action bar below the table: the choice and its buttons. */
import { h } from "./cards.js";

const button = (key, name, onclick, more = {}) =>
  h("button", { type: "button", "data-key": key, onclick, ...more }, name);

/** @param {any} frame @param {any} ui */
export function actionBar(frame, ui) {
  if (ui.line) return lineBar(frame, ui);
  if (ui.history.length > 0) return replayBar(frame, ui);
  if (frame.actions.length === 0) return h("p", { class: "quiet" }, ui.waiting(frame));
  return h("div", { class: "choice" },
    h("p", { role: "status", id: "asked" }, asked(frame, ui, "Choose a card or a hint")),
    h("div", { class: "row" }, choice(ui)));
}

/** The choice as a question. */
function asked(frame, ui, otherwise) {
  const action = ui.chosen(), { kind, slot } = ui.choice;
  if (action) {
    return action.why_not ? `${action.text}? Not allowed: ${action.why_not}` : `${action.text}?`;
  }
  if (kind === "play" || kind === "discard") return "Which slot?";
  if (kind === "hint") return ui.askWhom(frame);
  return slot ? `Slot ${slot}: play or discard?` : otherwise;
}

function choice(ui) {
  const action = ui.chosen();
  return [
    button("go", "Confirm", () => ui.confirm(), {
      class: "go", "aria-describedby": "asked",
      "aria-disabled": action && !action.why_not ? "false" : "true",
    }),
    button("back", "Back", () => ui.cancel()),
  ];
}

/** Bar of a hypothetical line on the same deck. */
function lineBar(frame, ui) {
  const { turn, moves } = ui.line, many = moves.length;
  const otherwise = frame.over ? `It ends here with ${frame.score} ${frame.score === 1 ? "point" : "points"}`
    : `${frame.names[frame.to_move]} moves: choose a card or a hint`;
  return h("div", { class: "choice line" },
    h("p", { role: "status", id: "asked" },
      h("strong", {}, `What if: ${many} move${many === 1 ? "" : "s"} from move ${turn}. `),
      asked(frame, ui, otherwise)),
    h("div", { class: "row" }, frame.over ? null : choice(ui),
      button("undo", "Undo", () => ui.undo(), { "aria-disabled": many ? "false" : "true" }),
      button("leave-line", "To the game", () => ui.leaveLine())));
}

function replayBar(frame, ui) {
  const last = ui.history.length - 1;
  const slider = h("input", {
    type: "range", min: 0, max: last, value: ui.shown, "data-key": "slider",
    "aria-label": "Move", "aria-valuetext": `after ${ui.shown} of ${last} moves`,
    oninput: (event) => ui.jump(Number(event.target.value)),
  });
  const step = (name, text, where) => button(name, text, () => ui.jump(where), { "aria-label": name });
  const over = ui.history[last].over;
  return h("div", { class: "replay" },
    h("p", { role: "status" }, `Move ${ui.shown} of ${last}` + (over ? "" : " so far")),
    h("div", { class: "row" },
      step("first", "|◀", 0), step("one back", "◀", ui.shown - 1),
      button("on", "▶", () => ui.forward(), { "aria-label": "one forward" }),
      step("last", "▶|", last),
      button("auto", ui.auto ? "Stop" : "Autoplay", () => ui.toggleAuto()),
      slider,
      button("if", "What if?", () => ui.whatIf(), {
        title: "Try other moves from here", "aria-disabled": ui.canBranch() ? "false" : "true",
      }),
      over && ui.next ? h("button", { type: "submit", form: "new", class: "go", "data-key": "new" },
        ui.next) : null,
      ui.frame && ui.frame.link ? h("a", { "data-key": "link", href: ui.frame.link, rel: "noreferrer", target: "_blank" },
        "hanab.live") : null));
}
