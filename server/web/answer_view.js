// One answer on the page: its text while it arrives, what it cost, and what can be done with it.

import { button, copyText, el, icon } from "./dom.js";
import { MarkdownView } from "./markdown.js";
import { costText } from "./money.js";
import { cutOff, errorText, reasonText, usageText, waitMsOf, waitOf } from "./words.js";

/** @typedef {import("/web/client/answer.js").Answer} Answer */
/**
 * What an answer is to its reader: a live one, or one the server stored.
 * @typedef {Pick<Answer, "text" | "status" | "reason" | "usage" | "cost">
 *   & Partial<Pick<Answer, "queue" | "error" | "cancelling" | "verified" | "paused" | "movedBecause">>} Shown
 */

const COPIED_MS = 1500;
const TICK_MS = 1000;

export class AnswerView {
  /** @param {() => void} onRetry */
  constructor(onRetry) {
    this.#text = el("div", { class: "prose", dir: "auto" });
    this.#state = el("p", { class: "state" });
    this.#note = el("p", { class: "note", hidden: "" });
    this.#facts = el("span", { class: "facts" });
    this.#copy = button({ class: "quiet" }, [icon("copy"), "Copy"], () => this.#copied());
    this.#retry = button({ class: "quiet retry" }, [icon("retry"), "Retry"], onRetry);
    this.#foot = el("div", { class: "foot", hidden: "" }, this.#facts, this.#copy, this.#retry);
    this.#markdown = new MarkdownView(this.#text);
    this.element = el(
      "article",
      { class: "answer", "aria-busy": "true" },
      el("h2", { class: "unseen" }, "Answer"),
      this.#text,
      this.#state,
      this.#note,
      this.#foot,
    );
  }

  #text;
  #state;
  #note;
  #facts;
  #copy;
  #retry;
  #foot;
  #markdown;
  /** What it was said to wait for. */
  #waited = "";
  /** What the markdown view was given. */
  #shown = "";
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;

  /**
   * Show an answer as it is now. Called at most once a frame.
   * @param {Shown} answer
   * @param {boolean} [connected] false: the connection that it comes by is lost
   */
  show(answer, connected = true) {
    this.#showText(answer.text);
    const finished = answer.status === "ended" || answer.status === "failed";
    this.element.classList.toggle("growing", !finished && answer.text !== "");
    this.element.setAttribute("aria-busy", String(!finished));
    this.#wait(finished ? { text: "", icon: "" } : waitOf(answer, connected));
    if (finished) this.#finish(answer);
  }

  /** @param {import("./words.js").Wait} wait */
  #wait(wait) {
    if (wait.text === this.#waited) return;
    this.#waited = wait.text;
    this.#state.replaceChildren(...(wait.icon ? [icon(wait.icon)] : []), wait.text);
    this.#state.classList.toggle("held", wait.icon !== "");
    this.element.classList.toggle("held", wait.icon !== "");
  }

  /** @param {string} text */
  #showText(text) {
    if (text === this.#shown) return;
    if (text.startsWith(this.#shown)) this.#markdown.push(text.slice(this.#shown.length));
    else this.#markdown.reset(text);
    this.#shown = text;
  }

  /** @param {Shown} answer */
  #finish(answer) {
    this.#markdown.finish();
    this.#tell(answer);
    const facts = [];
    if (answer.usage) facts.push(usageText(answer.usage));
    if (answer.cost) facts.push(costText(answer.cost));
    this.#facts.textContent = facts.join(" · ");
    this.#copy.hidden = answer.text === "";
    this.#retry.hidden = answer.error?.code === "unknown_conversation";
    this.#foot.hidden = false;
  }

  /** Why it ended as it did. @param {Shown} answer */
  #tell({ error, reason, verified }) {
    clearTimeout(this.#timer);
    const bad = Boolean(error) || reason === "error" || verified === false;
    this.#note.classList.toggle("error", bad);
    this.#note.classList.toggle("held", !bad && cutOff(reason));
    if (verified === false) this.#say("This answer may be incomplete. Reload to check it.");
    else if (error) this.#count(error, Date.now() + waitMsOf(error));
    else this.#say(reasonText(reason));
  }

  /**
   * Say what was refused and count the wait down.
   * @param {import("./words.js").Refused} error
   * @param {number} until Unix ms
   */
  #count(error, until) {
    const left = until - Date.now();
    this.#say(errorText(error, left));
    const over = left <= 0 && waitMsOf(error) > 0;
    this.#note.classList.toggle("error", !over);
    this.#note.classList.toggle("held", over);
    if (left <= 0) return;
    this.#timer = setTimeout(() => this.element.isConnected && this.#count(error, until), Math.min(TICK_MS, left));
  }

  /** @param {string} text */
  #say(text) {
    this.#note.textContent = text;
    this.#note.hidden = text === "";
  }

  #copied() {
    void copyText(this.#shown).then(() => flash(this.#copy, "Copied"));
  }
}

/**
 * Say for a moment that something was copied.
 * @param {HTMLButtonElement} from
 * @param {string} text
 */
export function flash(from, text) {
  if (from.classList.contains("done")) return;
  const before = [...from.childNodes];
  from.classList.add("done");
  from.replaceChildren(...(before.some((node) => node instanceof SVGElement) ? [icon("done")] : []), text);
  setTimeout(() => {
    from.classList.remove("done");
    from.replaceChildren(...before);
  }, COPIED_MS);
}
