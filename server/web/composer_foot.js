// What stands below the field: in each state of the composer the same height, with other buttons. Pure.

/**
 * @typedef {object} ComposerState
 * @property {boolean} running an answer runs in the open chat
 * @property {"open" | "lost" | "stopped"} link "stopped": nothing will connect by itself
 * @property {boolean} waits what is written waits until it can be sent
 */
/**
 * @typedef {object} Foot what is shown, and what is said of a text that waits
 * @property {string} text
 * @property {boolean} choosing an answer runs, and more is written: when to send it is a choice
 * @property {boolean} send
 * @property {boolean} stop
 */

/**
 * @param {ComposerState} state
 * @param {boolean} typed something is written
 * @returns {Foot}
 */
export function footOf({ running, link, waits }, typed) {
  const choosing = running && typed && !waits;
  return { text: waits ? waitText(running, link) : "", choosing, send: !running && !waits, stop: running };
}

/**
 * @param {boolean} running
 * @param {ComposerState["link"]} link
 */
function waitText(running, link) {
  if (link !== "open") return "Sends when you are online";
  return running ? "Sends when it has ended" : "Sends in a moment";
}
