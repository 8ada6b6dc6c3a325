// @ts-check
/** Notes on own cards, in this browser's local storage and in downloaded games (hanab.live format). */

const NAME = "hanabi-notes";
const MOST = 50; // games

/** @returns {Record<string, Record<string, string>>} game -> order of a card -> note */
function load() {
  try {
    const kept = JSON.parse(localStorage.getItem(NAME) ?? "{}");
    if (kept && typeof kept === "object" && !Array.isArray(kept)) return kept;
  } catch {
    // Invalid JSON or no storage.
  }
  return {};
}

/** The notes of one game. @param {string} game */
export function notesOf(game) {
  let held = load();
  return {
    /** @param {number} order */
    of: (order) => String(held[game]?.[order] ?? ""),
    /** Saves a note; an empty one deletes it. @param {number} order @param {string} text */
    keep(order, text) {
      held = { ...held, ...load() }; // another tab may have saved notes
      const { [game]: mine = {}, ...others } = held;
      const { [order]: _, ...rest } = mine;
      held = Object.fromEntries([...Object.entries(others).slice(1 - MOST),
        [game, text.trim() === "" ? rest : { ...rest, [order]: text }]]);
      try {
        localStorage.setItem(NAME, JSON.stringify(held));
      } catch {
        // No storage: notes last until the page is left.
      }
    },
    /** Adds notes to hanab.live games, one or a list. @param {any} games */
    into(games) {
      const add = (record) => {
        const mine = held[record.id];
        if (!mine || !record.humanSeats) return record;
        const row = (seat) => record.deck.map((_, order) =>
          record.humanSeats[seat] ? String(mine[order] ?? "") : "");
        return { ...record, notes: record.players.map((_, seat) => row(seat)) };
      };
      return Array.isArray(games) ? games.map(add) : add(games);
    },
  };
}

/** Downloads the file of a link with notes. @param {HTMLAnchorElement} link @param {any} notes */
export async function downloadWith(link, notes) {
  const answer = await fetch(link.href);
  if (!answer.ok) return location.assign(link.href); // shows the server's error
  const name = /filename="([^"]+)"/.exec(answer.headers.get("Content-Disposition") ?? "")?.[1];
  const text = JSON.stringify(notes.into(await answer.json()));
  const made = document.createElement("a");
  made.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  made.download = name ?? "games.json";
  made.click();
  setTimeout(() => URL.revokeObjectURL(made.href), 10000);
}
