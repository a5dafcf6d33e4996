// The line above the oldest turn that the model still reads.

import { byId, el } from "./dom.js";

/** @typedef {{kept: number, dropped: number}} Context turns that are read, the newest too, and no longer read */

const SAID = "Older turns are no longer read";

/**
 * Put the line where it belongs; without dropped turns there is none.
 * @param {Context | null | undefined} context of the newest answer
 */
export function markContext(context) {
  const log = byId("log");
  const known = log.querySelector(".unread");
  if (!context) return;
  const questions = log.querySelectorAll(".question");
  const oldest = context.dropped > 0 ? questions[questions.length - context.kept] : undefined;
  if (known && known.nextElementSibling === oldest) return;
  known?.remove();
  oldest?.before(el("p", { class: "unread" }, el("span", {}, SAID)));
}
