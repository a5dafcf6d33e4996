// What was sent while the page still loaded (send-early.js).

import { behind } from "./asked.js";

/**
 * What is to go out of what is written. "": nothing was sent, or it was changed since.
 * @param {string} text
 */
export function earlyOf(text) {
  const { asked = "" } = document.body.dataset;
  delete document.body.dataset.asked;
  return behind(text, asked) === null ? "" : asked;
}
