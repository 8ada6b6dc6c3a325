// @ts-check
/** Checks again for another player. */
setTimeout(() => location.replace("next"), 3000);
