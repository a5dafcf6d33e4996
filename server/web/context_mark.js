// The line above the oldest turn that the model still reads, or below the newest where that is soon the case.

import { button, byId, el } from "./dom.js";

/** @typedef {{kept: number, dropped: number}} Context turns that are read, the newest too, and no longer read */

const DROPPED = "Older turns are no longer read";
const SOON = "Soon the oldest turns are no longer read";

/**
 * Put the line where it belongs; without dropped turns there is none, or the one that says that it is soon.
 * @param {Context | null | undefined} context of the newest answer; null: not known, so nothing changes
 * @param {boolean} [soon] little room is left
 */
export function markContext(context, soon = false) {
  if (!context) return;
  const log = byId("log");
  const known = log.querySelector(".unread");
  const questions = log.querySelectorAll(".question");
  const oldest = soon ? questions[questions.length - 1] : questions[questions.length - context.kept];
  const wanted = context.dropped > 0 || soon ? oldest : undefined;
  const said = context.dropped > 0 ? DROPPED : SOON;
  if (known && wanted && known.nextElementSibling === wanted && known.textContent?.startsWith(said)) return;
  known?.remove();
  const anew = button({}, ["Start anew from here"], () => log.dispatchEvent(new Event("start-anew")));
  wanted?.before(el("p", { class: "unread" }, el("span", {}, said, " · ", anew)));
}
