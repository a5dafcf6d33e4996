// What the labels of a text mean: links and notes, the first of a label. What is still open looks through to what is
// finished, so that nothing is copied. Pure.

/** @typedef {import("./parser.js").Definition} Definition */

export class Definitions {
  /** @param {Definitions} [before] those of the text that stands before */
  constructor(before) {
    this.#before = before;
    this.#notes = before ? before.#notes : 0;
  }

  #before;
  /** How many notes there are. @type {number} */
  #notes;
  /** @type {Map<string, Definition>} */
  #own = new Map();

  /**
   * @param {string} label
   * @returns {Definition | undefined}
   */
  get(label) {
    return this.#before?.get(label) ?? this.#own.get(label);
  }

  /**
   * More of them: each note gets the next number.
   * @param {[string, Definition][]} defines
   */
  add(defines) {
    for (const [label, definition] of defines) {
      if (this.get(label)) continue;
      if (definition.note !== undefined) definition.note = ++this.#notes;
      this.#own.set(label, definition);
    }
  }
}

/** What waits for labels that nothing defined so far. @template T */
export class Waiting {
  /** @type {Map<string, Set<T>>} */
  #by = new Map();
  /** What need not wait any longer. @type {Set<T>} */
  ready = new Set();

  /**
   * @param {T} waiter
   * @param {Iterable<string>} labels
   */
  add(waiter, labels) {
    for (const label of labels) {
      const others = this.#by.get(label) ?? new Set();
      this.#by.set(label, others.add(waiter));
    }
  }

  /** @param {string} label */
  defined(label) {
    for (const waiter of this.#by.get(label) ?? []) this.ready.add(waiter);
    this.#by.delete(label);
  }
}
