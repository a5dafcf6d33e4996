// Where the user writes. While an answer runs, the button stops it.

import { direct } from "./direction.js";
import { byId, el } from "./dom.js";
import { takeEarly } from "./early.js";
import { explainKeys, sends } from "./keys.js";
import { NotSent } from "./not_sent.js";

/** @typedef {import("./api.js").Model} Model */

const GROWS_BY_ITSELF = CSS.supports("field-sizing", "content");

// Half of a pair is no character: the server refuses it.
const LONE_SURROGATE = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

export class Composer {
  /**
   * @param {(content: string) => void} onSend
   * @param {() => void} onStop
   */
  constructor(onSend, onStop) {
    this.#onSend = onSend;
    byId("composer").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#submit();
    });
    this.#prompt.addEventListener("keydown", (event) => {
      if (!sends(event)) return;
      event.preventDefault();
      this.#submit();
    });
    this.#prompt.addEventListener("input", () => {
      this.#notSent.hide();
      this.#changed();
    });
    explainKeys(byId("hint"));
    this.#stop.addEventListener("click", onStop);
    this.#model.addEventListener("change", () => localStorage.setItem("model", this.#model.value));
  }

  #onSend;
  #prompt = /** @type {HTMLTextAreaElement} */ (byId("prompt"));
  #model = /** @type {HTMLSelectElement} */ (byId("model"));
  #send = /** @type {HTMLButtonElement} */ (byId("send"));
  #stop = /** @type {HTMLButtonElement} */ (byId("stop"));
  #running = false;
  #notSent = new NotSent(this.#prompt);

  /** The model to ask; undefined: the server's default. */
  get model() {
    return this.#model.value || undefined;
  }

  /** @param {Model[]} models */
  setModels(models) {
    const wanted = localStorage.getItem("model") ?? models.find((model) => model.default)?.name;
    this.#model.replaceChildren(...models.map(({ name }) => el("option", { value: name }, name)));
    this.#model.hidden = models.length === 0;
    if (models.some(({ name }) => name === wanted)) this.#model.value = wanted ?? "";
  }

  /**
   * Whether an answer runs in the open chat: stop takes the place of send.
   * @param {boolean} running
   */
  setRunning(running) {
    const held = document.activeElement === this.#stop || document.activeElement === this.#send;
    this.#running = running;
    this.#send.hidden = running;
    this.#stop.hidden = !running;
    this.#stop.disabled = false;
    if (held) this.focus();
    this.#changed();
  }

  /** A stop was asked for. */
  stopping() {
    this.#stop.disabled = true;
    this.focus();
  }

  /**
   * Take a question to ask it in other words. What was typed meanwhile stays below it.
   * @param {string} content
   */
  edit(content) {
    const typed = this.#prompt.value;
    if (!typed.startsWith(content)) this.#prompt.value = typed.trim() === "" ? content : `${content}\n\n${typed}`;
    this.#changed();
    this.#prompt.focus();
    this.#prompt.setSelectionRange(content.length, content.length);
  }

  /**
   * Take a question back that will not be let in as it is, and say why.
   * @param {string} content
   * @param {import("./refusal_words.js").Refusal} error
   * @param {string} request its id
   */
  refused(content, error, request) {
    this.edit(content);
    this.#notSent.refused(content, error, request);
  }

  focus() {
    if (matchMedia("(hover: hover)").matches) this.#prompt.focus(); // a touch keyboard would cover the answer
  }

  /**
   * What was asked for while the page loaded is sent now.
   * @param {boolean} sameReader who wrote it is who is signed in; else it stays, for whom is now to send or not
   */
  early(sameReader) {
    if (!sameReader) delete document.body.dataset.asked;
    const asked = takeEarly(this.#prompt);
    const later = this.#prompt.value;
    if (asked === "") return;
    this.#prompt.value = asked;
    this.#submit();
    this.#prompt.value += later;
    this.#changed();
  }

  #submit() {
    const content = this.#prompt.value.trim().replace(LONE_SURROGATE, "\ufffd");
    if (content === "" || this.#running) return;
    this.#prompt.value = "";
    this.#notSent.hide();
    this.#changed();
    this.#onSend(content);
  }

  #changed() {
    this.#send.disabled = this.#running || this.#prompt.value.trim() === "";
    direct(this.#prompt, this.#prompt.value);
    if (GROWS_BY_ITSELF) return;
    this.#prompt.style.height = "auto";
    this.#prompt.style.height = `${this.#prompt.scrollHeight}px`;
  }
}
