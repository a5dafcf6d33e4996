// The box above the composer: why what was written was not sent, and what may be done about it. It goes with the first
// change of the text.

import { byId, copyText, icon } from "./dom.js";
import { flash } from "./answer_view.js";
import { notSentText } from "./refusal_words.js";

/** @typedef {import("./refusal_words.js").Refusal} Refusal */

export class NotSent {
  /**
   * @param {HTMLTextAreaElement} prompt
   * @param {(model: string) => void} onLarger send it to another model
   */
  constructor(prompt, onLarger) {
    this.#larger.addEventListener("click", () => onLarger(this.#model));
    this.#where.addEventListener("click", () => {
      prompt.focus();
      prompt.setSelectionRange(...this.#place);
    });
    this.#copy.addEventListener("click", () => {
      void copyText(this.#request).then(() => flash(this.#copy, "Copied"));
    });
  }

  #box = byId("not-sent");
  #where = byId("show-where");
  #copy = /** @type {HTMLButtonElement} */ (byId("copy-request"));
  #larger = byId("send-larger");
  #request = "";
  #model = "";
  /** @type {[number, number]} the place that a policy refused, in UTF-16 */
  #place = [0, 0];

  /**
   * Say why. The field has the text by now, at its start.
   * @param {string} content
   * @param {Refusal} error
   * @param {string} request its id
   * @param {{asked?: string, larger: string}} models
   */
  refused(content, error, request, models) {
    const { safety } = error;
    const { head, rest } = notSentText(error, content, models);
    this.#model = models.larger;
    this.#larger.textContent = `Send to ${this.#model}`;
    if (safety) this.#place = [unitsBefore(content, safety.p), unitsBefore(content, safety.p + safety.n)];
    this.#request = request;
    this.#say(head, rest);
    this.#where.hidden = !safety;
    this.#larger.hidden = this.#model === "";
    this.#copy.hidden = false;
  }

  /**
   * @param {string} head
   * @param {string} rest
   * @param {string} [sign] name of its icon
   */
  note(head, rest, sign = "removed") {
    this.#say(head, rest, sign);
    this.#where.hidden = this.#copy.hidden = this.#larger.hidden = true;
  }

  hide() {
    this.#box.hidden = true;
  }

  /** @param {string} head @param {string} rest @param {string} [sign] */
  #say(head, rest, sign = "removed") {
    this.#box.querySelector("svg")?.replaceWith(icon(sign));
    byId("not-sent-head").textContent = head;
    byId("not-sent-rest").textContent = rest;
    this.#box.hidden = false;
    byId("announcer").textContent = `${head} ${rest}`;
  }
}

/**
 * The UTF-16 units of so many code points.
 * @param {string} text
 * @param {number} points
 */
function unitsBefore(text, points) {
  return Array.from(text).slice(0, points).join("").length;
}
