// What a safety policy found in a prompt, by its places in the text as it was sent.

/** @typedef {import("./frames.js").SentFlag} PromptFlag */

/**
 * The text as model and history got it.
 * @param {string} text as it was sent
 * @param {PromptFlag[]} flags of its answer (`answer.promptFlags`)
 * @param {number | "system"} [message] which of several messages it is, or the `system` beside it
 * @returns {string}
 */
export function redacted(text, flags, message) {
  const points = [...text]; // places count code points
  let [shown, at] = ["", 0];
  for (const { p, n, x, m } of flags) {
    if (x === undefined || m !== message) continue;
    shown += points.slice(at, p).join("") + x;
    at = p + n;
  }
  return shown + points.slice(at).join("");
}
