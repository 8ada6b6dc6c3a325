// @ts-check
/** Looks again whether another player has come. */
setTimeout(() => location.replace("next"), 3000);
