// What is said below a question that was refused for a while: how long, and what may be done meanwhile.

import { button, el, icon } from "./dom.js";
import { refusalWords, waitMsOf } from "./words.js";

/** @typedef {import("./words.js").Refused} Refused */

const TICK_MS = 1000;
const LATER = "Send when the wait is over";

export class WaitNote {
  /**
   * @param {HTMLElement} note
   * @param {Refused} error
   * @param {import("./answer_view.js").Actions | null} actions null: what was refused is no question
   */
  constructor(note, error, actions) {
    this.#note = note;
    this.#error = error;
    this.#actions = actions;
    this.#until = Date.now() + waitMsOf(error);
    this.#later = button({ class: "plain" }, [LATER], () => this.#toggle());
    const edit = button({ class: "plain" }, ["Edit"], () => this.#edit());
    const choices = el("div", { class: "choices" }, this.#later, edit);
    note.replaceChildren(icon("clock"), this.#said, ...(actions ? [choices] : []));
    note.classList.add("held", "blocked");
    note.hidden = false;
    this.#count();
  }

  #note;
  #error;
  #actions;
  #until;
  #later;
  #said = el("p");
  #sends = false;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;

  /** Something else is said now. */
  stop() {
    clearTimeout(this.#timer);
    this.#note.classList.remove("held", "blocked");
  }

  #count() {
    const left = this.#until - Date.now();
    if (left <= 0 && this.#sends) return this.#actions?.retry();
    const { head, rest } = refusalWords(this.#error, left);
    this.#said.replaceChildren(el("strong", {}, head), this.#sends ? " Sends when the wait is over." : ` ${rest}`);
    this.#later.hidden = left <= 0;
    if (left > 0) this.#timer = setTimeout(() => this.#note.isConnected && this.#count(), Math.min(TICK_MS, left));
  }

  #toggle() {
    this.#sends = !this.#sends;
    this.#later.textContent = this.#sends ? "Take back" : LATER;
    clearTimeout(this.#timer);
    this.#count();
  }

  #edit() {
    clearTimeout(this.#timer);
    this.#actions?.edit();
  }
}
