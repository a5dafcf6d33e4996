// How much of a text is formatted; what is more is plain text.

/** @typedef {import("./formatter.js").BlockLimits} BlockLimits */
/**
 * `all`: elements of the text, what follows is plain. `piece`: characters taken at once. `waits`: it shows text once
 * a frame, and rests in between.
 * @typedef {BlockLimits & {all: number, piece: number, waits: boolean}} Limits
 */

/** @type {Limits} */
export const LIMITS = {
  characters: 32 * 1024,
  tokens: 20_000,
  elements: 5_000,
  all: 10_000,
  ms: 30,
  piece: 4 * 1024,
  asked: false,
  waits: true,
};
/** Those of a passage whose format is asked for. */
export const ASKED = {
  characters: 128 * 1024,
  tokens: 50_000,
  elements: 21_000, // they are laid out in parts, but their style is computed once more at the end
  ms: 1000, // a slow phone takes ten times what elements and tokens let a computer take
  piece: 128 * 1024,
  asked: true,
};

const TASK_MS = 12;
const TASK_DRAWN = 1500; // elements and lines: what is made quickly may be laid out for long

/** What is done before the page may do something else. */
export class Task {
  #until = performance.now() + TASK_MS;
  #drawn = 0;

  /**
   * More was shown.
   * @param {number} size elements and lines
   */
  drew(size) {
    this.#drawn += size;
  }

  isOver() {
    return this.#drawn > TASK_DRAWN || performance.now() > this.#until;
  }
}
