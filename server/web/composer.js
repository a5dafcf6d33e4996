// Where the user writes. What cannot be sent yet waits in the field, where it was typed.

import { behind } from "./asked.js";
import { cleaned, cleanedText } from "./clean.js";
import { footOf } from "./composer_foot.js";
import { direct } from "./direction.js";
import { byId, el } from "./dom.js";
import { joined } from "./drafts.js";
import { earlyOf } from "./early.js";
import { explainKeys, sends } from "./keys.js";
import { NotSent } from "./not_sent.js";
import { ownKey } from "./person.js";
import { largerModel } from "./refusal_words.js";

/** @typedef {import("./api.js").Model} Model */
/** @typedef {import("./composer_foot.js").ComposerState} ComposerState */
/**
 * @typedef {object} Acts
 * @property {(content: string) => void} send
 * @property {(text: string) => void} wait it is to be sent as soon as it can be; what is written behind it is not
 * @property {() => void} takeBack
 * @property {() => void} stop
 * @property {(text: string) => void} stopAndSend
 * @property {(text: string) => void} typed what is written is another text now
 */

const GROWS_BY_ITSELF = CSS.supports("field-sizing", "content");

export class Composer {
  /** @param {Acts} acts */
  constructor(acts) {
    this.#acts = acts;
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
      this.#typed();
    });
    explainKeys(byId("hint"));
    this.#stop.addEventListener("click", acts.stop);
    this.#takeBack.addEventListener("click", acts.takeBack);
    this.#stopAndSend.addEventListener("click", () => acts.stopAndSend(this.#prompt.value));
    this.#sendLater.addEventListener("click", () => this.#submit());
    this.#model.addEventListener("change", () => localStorage.setItem(ownKey("model"), this.#model.value));
  }

  #acts;
  #form = byId("composer");
  #prompt = /** @type {HTMLTextAreaElement} */ (byId("prompt"));
  #model = /** @type {HTMLSelectElement} */ (byId("model"));
  #send = /** @type {HTMLButtonElement} */ (byId("send"));
  #stop = /** @type {HTMLButtonElement} */ (byId("stop"));
  #takeBack = byId("take-back");
  #stopAndSend = byId("stop-and-send");
  #sendLater = byId("send-later");
  /** @type {ComposerState} */
  #state = { running: false, link: "open", waits: false };
  /** A draft was shown. */
  #shown = false;
  /** @type {Model[]} */
  #models = [];
  #notSent = new NotSent(this.#prompt, (name) => {
    this.#model.value = name;
    this.#submit();
  });

  /** What is written, as it is written. */
  get text() {
    return this.#prompt.value;
  }

  /** An answer of the open chat is on its way. */
  get running() {
    return this.#state.running;
  }

  /** The model to ask; undefined: the server's default. */
  get model() {
    return this.#model.value || undefined;
  }

  /** @param {Model[]} models */
  setModels(models) {
    const wanted = localStorage.getItem(ownKey("model")) ?? models.find((model) => model.default)?.name;
    this.#models = models;
    this.#model.replaceChildren(...models.map(({ name }) => el("option", { value: name }, name)));
    this.#model.hidden = models.length === 0;
    if (models.some(({ name }) => name === wanted)) this.#model.value = wanted ?? "";
  }

  /** @param {ComposerState} state */
  setState(state) {
    const held = document.activeElement instanceof HTMLButtonElement && this.#form.contains(document.activeElement);
    const waited = this.#state.waits;
    this.#state = state;
    this.#stop.disabled = false;
    this.#changed();
    if (held) this.#keepFocus();
    if (state.waits && !waited) byId("announcer").textContent = byId("waits-text").textContent;
  }

  /** A button that had the focus may be gone. */
  #keepFocus() {
    if (this.#state.waits) this.#takeBack.focus();
    else this.focus();
  }

  /** A stop was asked for. */
  stopping() {
    this.#stop.disabled = true;
    this.focus();
  }

  /**
   * Another chat is open: show its draft. What was written before there were drafts stays above it.
   * @param {string} text
   */
  show(text) {
    const early = this.#shown ? "" : this.#prompt.value;
    this.#shown = true;
    this.#notSent.hide();
    this.#put(joined(early, text), 0);
    if (early.trim() !== "") this.#typed();
    else this.#changed();
  }

  /**
   * Whether the draft outlives this page. It does, unless it is huge.
   * @param {boolean} kept
   */
  setKept(kept) {
    if (!kept) this.#notSent.note("This text is too long to be kept here.", "Send it, or copy it before you leave.");
  }

  /**
   * The draft was changed elsewhere: one that still says what was kept follows it; a text of its own stays.
   * @param {string} before
   * @param {string} now
   */
  follow(before, now) {
    if (this.#prompt.value !== before || before === now) return;
    this.#prompt.value = now;
    this.#changed();
  }

  /**
   * Take a question to ask it in other words. What was typed meanwhile stays below it.
   * @param {string} content
   */
  edit(content) {
    const typed = this.#prompt.value;
    if (!typed.startsWith(content)) this.#prompt.value = joined(content, typed);
    this.#typed();
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
    this.#notSent.refused(content, error, request, {
      asked: this.model,
      larger: largerModel(error, this.#models, this.model),
    });
  }

  /**
   * What was sent is a draft again, as an answer that was asked for elsewhere came first.
   * @param {boolean} own the page's own turn, which nobody typed
   */
  elsewhere(own) {
    const head = own ? "No summary was written" : "Not sent";
    const rest = own ? "Start anew once it has ended." : "Your text is kept.";
    this.#notSent.note(`${head}: an answer in this chat came first.`, `It was asked for in another tab, or elsewhere. ${rest}`);
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
    this.#submit(earlyOf(this.#prompt.value));
  }

  #submit(asked = this.#prompt.value) {
    const { running, link } = this.#state;
    if (cleaned(asked).text.trim() === "" || link === "stopped") return;
    if (running || link === "lost") this.#acts.wait(asked);
    else this.#acts.send(this.take(asked));
  }

  /**
   * What was asked, as it can be sent. It leaves the field, where what was written behind it stays.
   * @param {string} asked
   */
  take(asked) {
    const { text, count } = cleaned(asked);
    const { length } = this.#prompt.value;
    const rest = behind(this.#prompt.value, asked) ?? "";
    this.#put(rest, length - rest.length);
    this.#notSent.hide();
    if (count > 0) this.#notSent.note("Sent.", cleanedText(count), "done");
    this.#changed();
    return text.trim();
  }

  /**
   * Write into the field; who types goes on where they were.
   * @param {string} text
   * @param {number} gone so many characters left it at its start
   */
  #put(text, gone) {
    const { selectionStart, selectionEnd } = this.#prompt;
    const goesOn = this.#prompt.value !== "" && document.activeElement === this.#prompt;
    this.#prompt.value = text;
    if (goesOn) this.#prompt.setSelectionRange(Math.max(0, selectionStart - gone), Math.max(0, selectionEnd - gone));
  }

  #typed() {
    this.#changed();
    this.#acts.typed(this.#prompt.value);
  }

  #changed() {
    const typed = this.#prompt.value.trim() !== "";
    const { waits, link } = this.#state;
    const foot = footOf(this.#state, typed);
    byId("waits-text").textContent = foot.text;
    byId("waits").hidden = this.#takeBack.hidden = !waits;
    this.#sendLater.hidden = !foot.choosing;
    this.#stopAndSend.hidden = !foot.choosing && !(waits && this.#state.running && link === "open");
    this.#send.hidden = !foot.send;
    this.#stop.hidden = !foot.stop;
    this.#send.disabled = !typed || link === "stopped";
    direct(this.#prompt, this.#prompt.value);
    this.#form.classList.toggle("waiting", waits);
    this.#form.classList.toggle("choosing", foot.choosing);
    if (GROWS_BY_ITSELF) return;
    this.#prompt.style.height = "auto";
    this.#prompt.style.height = `${this.#prompt.scrollHeight}px`;
  }
}
