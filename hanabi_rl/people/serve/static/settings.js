// @ts-check
/** Page settings, in the browser's local storage if it is available. */

/** Storage key; each participant of a study has their own settings. @param {string} owner */
const place = (owner) => owner ? `hanabi-${owner}` : "hanabi";
const START = { atOnce: false, newestLeft: false, patterns: false, keys: true, theme: "auto" };

/** The saved settings; defaults for missing values and other types. */
export function load(owner = "") {
  /** @type {any} */
  let kept;
  try {
    kept = JSON.parse(localStorage.getItem(place(owner)) ?? "{}");
  } catch {
    // Invalid JSON or no storage: with cookies off, reading raises.
  }
  return Object.fromEntries(Object.entries(START).map(([name, value]) =>
    [name, typeof kept?.[name] === typeof value ? kept[name] : value]));
}

/** Saves the settings; false without storage. @param {Record<string, any>} settings */
export function keep(settings, owner = "") {
  try {
    localStorage.setItem(place(owner), JSON.stringify(settings));
    return true;
  } catch {
    return false;
  }
}
