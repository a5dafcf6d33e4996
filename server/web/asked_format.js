// Passages of plain text whose format is asked for. What is made of one is laid out unseen before it, in parts, so that
// no task is long; the plain text can be read until all of it is there.

import { afterFrame } from "./frames.js";

/**
 * Begins to format a passage in an element, until it `isLeft`; `whole` is called once all is there.
 * @template T
 * @typedef {(root: HTMLElement, kept: T, isLeft: () => boolean, whole: () => void) => Formatting} Begin
 */
/** @typedef {{defined: (label: string) => void, settled: () => Promise<void>}} Formatting */
/** @typedef {{format: AskedFormat, formatting: Formatting | null}} Asked */

const COMING = "coming";
const UNSEEN = "unseen-yet";

/** @template T */
export class AskedFormats {
  /**
   * @param {Begin<T>} begin
   * @param {(passage: Element, root: Element) => void} replaced
   */
  constructor(begin, replaced) {
    this.#begin = begin;
    this.#replaced = replaced;
  }

  #begin;
  #replaced;
  /** @type {Map<Element, T>} those that may be asked for */
  #passages = new Map();
  /** @type {Asked[]} */
  #asked = [];

  /**
   * @param {Element} passage
   * @param {T} kept what its format is made of
   */
  add(passage, kept) {
    this.#passages.set(passage, kept);
  }

  /** What its button does: begin, or stop what was begun. @param {EventTarget | null} target */
  clicked(target) {
    const pressed = target instanceof Element ? target.closest(".show-formatted") : null;
    const passage = pressed?.closest(".passage");
    const coming = this.#asked.find(({ format }) => format.isComing && format.passage === passage);
    const kept = passage && this.#passages.get(passage);
    if (coming) this.#leave(coming.format);
    else if (kept) this.#ask(passage, kept);
  }

  /** None is wanted any more. */
  leave() {
    for (const { format } of this.#asked.splice(0)) format.leave();
    this.#passages.clear();
  }

  /** @param {string} label */
  defined(label) {
    for (const { formatting } of this.#asked) formatting?.defined(label);
  }

  /** Resolves once all that was asked for is there. */
  async settled() {
    for (const { format, formatting } of this.#asked) {
      await formatting?.settled();
      await format.over;
    }
  }

  /**
   * @param {Element} passage
   * @param {T} kept
   */
  #ask(passage, kept) {
    const format = new AskedFormat(passage);
    /** @type {Asked} */
    const asked = { format, formatting: null };
    this.#asked.push(asked);
    const isLeft = () => {
      if (format.isLeft()) this.#leave(format);
      return !this.#asked.includes(asked);
    };
    const whole = () => format.show(() => {
      this.#passages.delete(passage);
      this.#replaced(passage, format.root);
    });
    asked.formatting = this.#begin(format.root, kept, isLeft, whole);
  }

  /** @param {AskedFormat} format */
  #leave(format) {
    this.#asked = this.#asked.filter((each) => each.format !== format);
    format.leave();
  }
}

class AskedFormat {
  /** @param {Element} passage */
  constructor(passage) {
    this.passage = passage;
    this.root.className = `formatted ${COMING} ${UNSEEN}`;
    passage.before(this.root);
    this.#wasInPage = passage.isConnected;
    this.#said = this.#head.map((node) => node?.textContent ?? "");
    this.#say(["Formatting…", "Stop formatting"]);
  }

  passage;
  root = document.createElement("div");
  isComing = true;
  /** @type {() => void} */
  #end = () => {};
  /** Resolves once it is shown, or not wanted any more. @type {Promise<void>} */
  over = new Promise((resolve) => (this.#end = resolve));
  #wasInPage;
  #said;

  /** The page shows something else. */
  isLeft() {
    return this.#wasInPage && this.isComing && !this.passage.isConnected;
  }

  /**
   * All is there: it takes the place of the plain text, a frame after its style was computed once more.
   * @param {() => void} then
   */
  show(then) {
    this.root.classList.remove(UNSEEN);
    afterFrame(() => {
      if (!this.isComing) return;
      this.#replace();
      then();
      this.#end();
    });
  }

  #replace() {
    this.isComing = false;
    const focused = this.passage.contains(document.activeElement);
    this.passage.remove();
    this.root.classList.remove(COMING);
    this.root.tabIndex = -1;
    if (focused) this.root.focus({ preventScroll: true }); // the button that had it is gone
  }

  /** Nothing is made of it any more: what is still plain stays so. */
  leave() {
    this.root.remove();
    if (this.isComing) this.#say(this.#said);
    this.isComing = false;
    this.#end();
  }

  /** What its head says, and what its button does. */
  get #head() {
    return [this.passage.querySelector(".passage-head")?.firstChild, this.passage.querySelector("button")];
  }

  /** @param {string[]} words */
  #say(words) {
    this.#head.forEach((node, i) => node && (node.textContent = words[i] ?? ""));
  }
}
