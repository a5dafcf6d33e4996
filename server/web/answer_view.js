// One answer on the page: its text while it arrives, what it cost, and what can be done with it.

import { ProtocolError } from "/web/client/client.js";
import { Chips } from "./chips.js";
import { button, copyText, el, icon } from "./dom.js";
import { cutText, isFull, joined, refusedAsFull } from "./going_on.js";
import { MarkdownView } from "./markdown.js";
import { marked } from "./marks.js";
import { costText } from "./money.js";
import { blockedText, removedText, summaryText } from "./safety_words.js";
import { WaitNote } from "./wait_note.js";
import { cutOff, errorText, ofRules, reasonText, usageText, waitMsOf, waitOf } from "./words.js";

/** @typedef {import("/web/client/answer.js").Answer} Answer */
/**
 * What an answer is to its reader: a live one, or one the server stored.
 * @typedef {Pick<Answer, "text" | "status" | "reason" | "usage" | "cost">
 *   & Partial<Pick<Answer, "id" | "queue" | "error" | "cancelling" | "verified" | "paused" | "movedBecause" | "flags"
 *   | "safety" | "context">>} Shown `id` is the request's
 */
/**
 * @typedef {{retry: () => void, edit: () => void, goOn: (view: AnswerView, id: string) => void}} Actions what may be
 *   done with the question, and with an answer that was cut
 */

const CALM_MS = 500;
const COPIED_MS = 1500;

export class AnswerView {
  /**
   * @param {Actions} actions
   * @param {boolean} [begins] it is a summary that a new chat may begin with
   */
  constructor(actions, begins = false) {
    this.#actions = actions;
    this.#text = el("div", { class: "prose" });
    this.#state = el("p", { class: "state" });
    this.#note = el("div", { class: "note", hidden: "" });
    this.#removed = el("p", { class: "missing", hidden: "" });
    this.#facts = el("span", { class: "facts" });
    this.#copy = button({ class: "quiet" }, [icon("copy"), "Copy"], () => this.#copied());
    this.#retry = button({ class: "quiet retry" }, [icon("retry"), "Retry"], actions.retry);
    this.#goOn = button({ class: "plain" }, ["Continue"], () => actions.goOn(this, this.#last?.id ?? ""));
    this.#more = el("div", { class: "choices more", hidden: "" }, this.#goOn);
    this.#begin = el("div", { class: "choices begin", hidden: "" }, begins ? beginButton(() => this.#source) : "");
    this.#foot = el("div", { class: "foot", hidden: "" }, this.#facts, this.#copy, this.#retry);
    this.#markdown = new MarkdownView(this.#text);
    this.#chips = new Chips(this.#text, removedText);
    this.element = el(
      "article",
      { class: "answer", "aria-busy": "true" },
      el("h2", { class: "unseen" }, "Answer"),
      this.#text,
      this.#state,
      this.#note,
      this.#more,
      this.#removed,
      this.#begin,
      this.#foot,
    );
  }

  #actions;
  #text;
  #state;
  #note;
  #removed;
  #facts;
  #copy;
  #retry;
  #goOn;
  #more;
  #begin;
  #foot;
  #markdown;
  #chips;
  /** The parts that it went on with, as one. @type {Shown | null} */
  #before = null;
  /** The newest part that reached its limit. @type {Shown | null} */
  #last = null;
  /** Where it stood before it was to go on. @type {{before: Shown | null, last: Shown | null} | null} */
  #tried = null;
  /** To go on was refused for ever. */
  #full = false;
  /** The answer's text. */
  #source = "";
  /** What it was said to wait for. */
  #waited = "";
  /** What the markdown view was given. */
  #shown = "";
  /** @type {WaitNote | undefined} */
  #wait;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #calm;

  /** What is shown next goes on with it. */
  goesOn() {
    this.#tried = { before: this.#before, last: this.#last };
    if (this.#last) this.#before = joined(this.#before, this.#last);
    this.#last = null;
    this.#markdown.reset(this.#shown); // its last block is open again
    this.#foot.hidden = this.#note.hidden = this.#more.hidden = true;
  }

  /**
   * Show an answer as it is now. Called at most once a frame.
   * @param {Shown} part of it, the newest
   * @param {boolean} [connected] false: the connection that it comes by is lost
   */
  show(part, connected = true) {
    if (refusedAsFull(part, this.#tried)) return this.#stays();
    const answer = joined(this.#before, part);
    const finished = answer.status === "ended" || answer.status === "failed";
    this.#showText(answer, finished);
    this.element.classList.toggle("growing", !finished && answer.text !== "");
    const busy = String(!finished);
    if (this.element.getAttribute("aria-busy") !== busy) this.element.setAttribute("aria-busy", busy);
    this.#showWait(finished ? { text: "", icon: "" } : waitOf(answer, connected));
    if (finished) this.#finish(answer, part);
  }

  /** It stays as it was: the model cannot read it and go on. */
  #stays() {
    const { before = null, last = null } = this.#tried ?? {};
    this.#before = before;
    if (before === null) this.#tried = null;
    this.#full = true;
    if (last) this.show(last);
  }

  /** @param {import("./words.js").Wait} wait */
  #showWait(wait) {
    if (wait.text === this.#waited) return;
    this.#waited = wait.text;
    this.#state.replaceChildren(...(wait.icon ? [icon(wait.icon)] : []), wait.text);
    this.#state.classList.toggle("held", wait.icon !== "");
    this.element.classList.toggle("held", wait.icon !== "");
  }

  /**
   * @param {Shown} answer
   * @param {boolean} finished
   */
  #showText({ text, flags = [] }, finished) {
    this.#source = text;
    const shown = marked(text, flags, !finished);
    if (shown === this.#shown) return;
    if (shown.startsWith(this.#shown)) this.#markdown.push(shown.slice(this.#shown.length));
    else this.#markdown.reset(shown);
    this.#shown = shown;
    this.#flow();
    this.#chips.update(text, flags);
    this.#tellRemoved(summaryText(text, flags));
  }

  /** Text comes: the mark at its end pulses once no more does. An animation costs a style in each frame. */
  #flow() {
    clearTimeout(this.#calm);
    this.#calm = setTimeout(() => this.element.classList.remove("flowing"), CALM_MS);
    this.element.classList.toggle("flowing", true);
  }

  /** @param {string} removed what a policy took out */
  #tellRemoved(removed) {
    if (removed === this.#removed.textContent) return; // to set it is work, whatever it was
    this.#removed.textContent = removed;
    this.#removed.hidden = removed === "";
  }

  /**
   * @param {Shown} answer
   * @param {Shown} part of it, the newest
   */
  #finish(answer, part) {
    this.#markdown.finish();
    this.#tell(answer, part);
    const cut = part.reason === "length" && part.verified !== false;
    if (cut) this.#last = { ...part, flags: [...(part.flags ?? [])] };
    const again = part.status === "failed" && this.#tried?.last;
    if (again && this.#tried) [this.#before, this.#last] = [this.#tried.before, this.#tried.last];
    this.#more.hidden = (!cut && !again) || this.#isFull(part);
    const { usage, cost } = again ? joined(this.#before, again) : answer;
    const facts = [];
    if (usage) facts.push(usageText(usage));
    if (cost) facts.push(costText(cost));
    this.#facts.textContent = facts.join(" · ");
    this.#copy.hidden = answer.text === "";
    this.#begin.hidden = this.#begin.childElementCount === 0 || answer.text === "" || !(cut || part.reason === "stop");
    this.#retry.hidden = answer.error?.code === "unknown_conversation" || this.#tried !== null;
    this.#foot.hidden = false;
  }

  /**
   * Why it ended as it did.
   * @param {Shown} answer
   * @param {Shown} part of it, the newest
   */
  #tell(answer, part) {
    const { error, reason, verified } = answer;
    this.#wait?.stop();
    const bad = (error ? !ofRules(error) : false) || reason === "error" || verified === false;
    this.#note.classList.toggle("error", bad);
    this.#note.classList.toggle("held", !bad && (Boolean(error) || cutOff(reason)));
    this.#note.classList.toggle("blocked", reason === "blocked");
    if (verified === false) this.#say("This answer may be incomplete. Reload to check it.");
    else if (error && waitMsOf(error) > 0) this.#wait = new WaitNote(this.#note, error, this.#tried ? null : this.#actions);
    else if (error) this.#say(errorText(error));
    else if (reason === "blocked") this.#block(answer);
    else this.#say(reason === "length" ? cutText(part.usage, this.#isFull(part)) : reasonText(reason));
  }

  /** Nothing more of it can come. @param {Shown} part the newest */
  #isFull(part) {
    return this.#full || isFull(part);
  }

  /** A safety policy ended it here. @param {Shown} answer */
  #block({ id, safety }) {
    const { head, rest } = blockedText(safety);
    const edit = button({ class: "plain" }, ["Edit the question"], this.#actions.edit);
    const copy = button({ class: "plain" }, ["Copy request id"], () => {
      void copyText(id ?? "").then(() => flash(copy, "Copied"));
    });
    copy.hidden = !id;
    const said = el("p", {}, el("strong", {}, head), ` ${rest}`);
    this.#note.replaceChildren(icon("removed"), said, el("div", { class: "choices" }, edit, copy));
    this.#note.hidden = false;
  }

  /** @param {string} text */
  #say(text) {
    this.#note.textContent = text;
    this.#note.hidden = text === "";
  }

  #copied() {
    void copyText(this.#source).then(() => flash(this.#copy, "Copied"));
  }
}

/**
 * Begins a new chat with a summary; start_anew.js hears of it.
 * @param {() => string} text
 */
function beginButton(text) {
  const begin = () => made.dispatchEvent(new CustomEvent("begin-anew", { detail: text(), bubbles: true }));
  const made = button({ class: "plain" }, ["Begin a new chat with this"], begin);
  return made;
}

/**
 * What a view shows of a turn that failed.
 * @param {unknown} error
 * @returns {Shown}
 */
export function failed(error) {
  const message = error instanceof Error ? error.message : String(error);
  const typed = error instanceof ProtocolError ? error : new ProtocolError({ code: "internal", message });
  return { text: "", status: "failed", reason: null, usage: null, cost: null, error: typed };
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
