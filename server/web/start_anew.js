// A new chat that goes on from an old one: by a summary, which the model writes as a turn of its own and the user may edit.

import { models } from "./api.js";
import { markContext } from "./context_mark.js";
import { button, byId, el } from "./dom.js";
import { NEW } from "./drafts.js";
import { isOwn, priceOf, summaryAsk, systemOf } from "./summary.js";

/** @typedef {import("/web/client/answer.js").Answer} Answer */
/** @typedef {import("/web/client/answer.js").ContextUse} Context */

const NEAR_END = 0.1; // of the model's context that is left: from here on it is offered
const SUMMARY_TOKENS = 600;
const RUNNING = "An answer is still on its way. What a summary of this chat costs is said here once it has ended.";

export class StartAnew {
  /**
   * @param {(content: string) => void} ask send a question in the open chat
   * @param {() => import("./drafts.js").Drafts} drafts they keep a summary that was not sent yet, and of which chat it is
   * @param {() => {model: string | undefined, running: boolean}} composer the model that writes it, none: the
   *   server's default, and whether an answer of the open chat is on its way
   */
  constructor(ask, drafts, composer) {
    this.#ask = ask;
    this.#drafts = drafts;
    this.#composer = composer;
    this.#text.addEventListener("input", () => drafts().summarize(this.#chat, this.#text.value));
    byId("log").addEventListener("start-anew", () => this.#offer());
    byId("log").addEventListener("begin-anew", (event) => this.#begin(/** @type {CustomEvent<string>} */ (event).detail));
    this.#dialog.append(
      el("h2", { id: "anew-title" }, "Start anew from here?"),
      this.#said,
      el("form", { method: "dialog", class: "actions" }, this.#keep, this.#empty, this.#write),
    );
    document.body.append(this.#dialog);
    const out = button({ class: "plain" }, ["Leave it out"], () => this.#forget());
    const choices = el("div", { class: "choices" }, this.#again, out);
    const said = "This chat begins with it. Edit it as you like: the model knows nothing else of the old chat.";
    const head = el("div", {}, el("label", { for: "summary" }, "Summary of the old chat"), this.#return);
    this.#box.append(head, el("p", { id: "summary-said" }, said), this.#text, choices);
    byId("composer").before(this.#box);
  }

  #ask;
  #drafts;
  #composer;
  /** By which the summary is kept. */
  #chat = NEW;
  #return = button({ class: "quiet" }, ["Back to it"], () => this.#back());
  #again = button({ class: "plain" }, ["Write again"], () => this.#writeAgain());
  #said = el("p");
  #keep = button({ class: "plain" }, ["Keep this chat"], () => this.#dialog.close());
  #empty = button({ class: "plain" }, ["Begin empty"], () => this.#begin(""));
  #write = button({ class: "primary" }, ["Write the summary"], () => this.#summarize());
  #dialog = el("dialog", { id: "anew", "aria-labelledby": "anew-title" });
  #text = el("textarea", { id: "summary", rows: "8", dir: "auto", "aria-describedby": "summary-said" });
  #box = el("div", { class: "summary", hidden: "" });
  /** @type {Context | null} of the open chat's newest answer */
  #context = null;
  /** @type {Answer["usage"]} */
  #usage = null;
  /** A summary is on its way. */
  #waiting = false;
  /** One has just been put into its field. */
  #begun = false;
  /** The chat whose summary is to be written again, once it is open. */
  #wanted = "";
  /** @type {ReturnType<typeof models> | null} asked for once they matter */
  #known = null;

  /**
   * What is read of the open chat.
   * @param {{context?: Context | null, usage?: Answer["usage"], role?: string}} answer its newest; with a role, as
   *   the server keeps it: a chat that has one does not begin any more
   */
  async read({ context, usage, role }) {
    if (role) this.#forget();
    this.#context = context ?? this.#context;
    this.#usage = usage ?? this.#usage;
    if (role && this.#wanted === this.#chat) this.#offer();
    markContext(context);
    if (!context || context.dropped > 0) return;
    const most = Math.max(0, ...(await this.#models()).map(({ max_model_len }) => max_model_len));
    if (this.#context === context) markContext(context, context.room <= most * NEAR_END);
  }

  /**
   * Another chat is shown; null: a new one.
   * @param {string | null} chat
   */
  opened(chat) {
    this.#context = this.#usage = null;
    this.#waiting = false;
    this.#chat = chat ?? NEW;
    this.#text.value = this.#drafts().summary(this.#chat);
    this.#box.hidden = this.#text.value === "";
    this.#return.hidden = this.#again.hidden = this.#drafts().origin(this.#chat) === "";
  }

  /** Take the focus, where a summary has just come. @returns {boolean} */
  focus() {
    const focus = this.#begun;
    this.#begun = false;
    if (focus) this.#text.focus();
    if (focus) this.#text.setSelectionRange(0, 0);
    this.#text.scrollTop = 0;
    return focus;
  }

  /** An answer began or ended: what is offered is as it is by now. */
  changed() {
    if (this.#dialog.open) void this.#tell();
  }

  /**
   * An answer of the open chat has ended.
   * @param {Answer} answer
   */
  ended(answer) {
    const { message, text, reason, error } = answer;
    void this.read(answer);
    if (!this.#waiting || !isOwn(message?.content)) return;
    this.#waiting = false;
    if (!error && text.trim() !== "" && (reason === "stop" || reason === "length")) this.#begin(text);
  }

  /** What the next send brings, as the first of a new chat. @returns {{system?: string}} */
  get first() {
    return this.#box.hidden || this.#text.value.trim() === "" ? {} : { system: systemOf(this.#text.value) };
  }

  /**
   * A turn was accepted.
   * @param {Answer} answer
   * @param {boolean} here in the open chat
   */
  accepted(answer, here) {
    if (answer.message?.system) this.#drafts().summarize(answer.message.conversation ?? NEW, "");
    if (answer.message?.system && here) this.#forget();
    if (here) void this.read(answer);
  }

  /** The new chat has it, or goes without. */
  #forget() {
    this.#text.value = "";
    this.#box.hidden = true;
    this.#drafts().summarize(this.#chat, "");
  }

  #models() {
    return (this.#known ??= models().catch(() => []));
  }

  #offer() {
    this.#wanted = "";
    this.#dialog.showModal();
    void this.#tell();
  }

  /** What it costs to go on, if that is known yet. */
  async #tell() {
    this.#write.disabled = this.#composer().running;
    this.#said.textContent = this.#write.disabled ? RUNNING : await this.#cost();
  }

  async #cost() {
    const kept = this.#context?.kept ?? 0;
    const tokens = (this.#usage?.total ?? 0) + SUMMARY_TOKENS;
    const price = priceOf(await this.#models(), this.#composer().model, this.#usage?.total ?? 0, SUMMARY_TOKENS);
    const turns = kept === 1 ? "the turn that is" : `the ${kept} turns that are`;
    const cost = `about ${tokens.toLocaleString("en")} tokens${price ? `, ${price}` : ""}`;
    return (
      `A new chat begins with a summary of ${turns} still read. The model writes it as a turn of its own: ` +
      `${cost}. You can edit it before it is used.`
    );
  }

  #summarize() {
    if (this.#composer().running) return;
    this.#waiting = true;
    this.#dialog.close();
    this.#ask(summaryAsk);
  }

  /** @param {string} text */
  #begin(text) {
    this.#drafts().summarize(NEW, text, this.#chat);
    this.#dialog.close();
    this.#begun = text !== "";
    location.hash = "#/";
  }

  /** The old chat writes it; until it has, this one stays. */
  #writeAgain() {
    this.#wanted = this.#drafts().origin(this.#chat);
    location.hash = `#/${this.#wanted}`;
  }

  #back() {
    const origin = this.#drafts().origin(this.#chat);
    this.#forget();
    location.hash = `#/${origin}`;
  }
}
