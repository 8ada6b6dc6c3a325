// @ts-check
/** How a person has set the page: kept by the browser, where it keeps anything. */

/** Where they are kept; each participant of a study has settings of their own. @param {string} owner */
const place = (owner) => owner ? `hanabi-${owner}` : "hanabi";
const START = { atOnce: false, newestLeft: false, patterns: false, keys: true, theme: "auto" };

/** The settings as kept; what is missing, or of another kind, is as at the start. */
export function load(owner = "") {
  /** @type {any} */
  let kept;
  try {
    kept = JSON.parse(localStorage.getItem(place(owner)) ?? "{}");
  } catch {
    // It is no JSON, or the browser keeps nothing: with cookies off even to ask is an error.
  }
  return Object.fromEntries(Object.entries(START).map(([name, value]) =>
    [name, typeof kept?.[name] === typeof value ? kept[name] : value]));
}

/** Whether the browser keeps them. @param {Record<string, any>} settings */
export function keep(settings, owner = "") {
  try {
    localStorage.setItem(place(owner), JSON.stringify(settings));
    return true;
  } catch {
    return false;
  }
}
