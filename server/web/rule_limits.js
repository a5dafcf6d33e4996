// What keeps hostile text from stopping the page: how deep blocks stand in one another, and how long reading takes.

/** @typedef {import("markdown-it").StateBlock} StateBlock */

const DEPTH_MAX = 24; // of tokens: a list in a list is two
const STEPS = 32; // between two looks at the clock
const STEPS_MIN = 1500; // a block of so few is not slow: the machine is

export class TooSlow extends Error {}

/** How long reading may take. */
export class Clock {
  #until = Infinity; // by performance.now()
  #steps = 0;
  #seen = 0;
  #most = Infinity;
  #before = 0;

  /**
   * @param {number} ms
   * @param {number} [most] tokens of a block
   */
  start(ms, most = Infinity) {
    this.#until = performance.now() + ms;
    this.#most = most;
    this.#steps = 0;
    this.#seen = STEPS_MIN;
  }

  /**
   * Throws if it took longer.
   * @param {number} [steps] done since the last look
   */
  look = (steps = 1) => {
    this.#steps += steps;
    if (this.#steps < this.#seen + STEPS) return;
    this.#seen = this.#steps;
    if (performance.now() > this.#until) throw new TooSlow();
  };

  /**
   * Throws if a block has more tokens than it may have.
   * @param {StateBlock} state
   */
  count({ level, tokens }) {
    if (level === 0) this.#before = tokens.length;
    else if (tokens.length - this.#before > this.#most) throw new TooSlow();
  }
}

/**
 * @param {import("markdown-it").MarkdownIt} md
 * @param {Clock} clock
 */
export function limits(md, clock) {
  const look = () => {
    clock.look();
    return false;
  };
  md.inline.ruler.before("text", "clock", look);
  const lookAndCount = (/** @type {StateBlock} */ state) => {
    clock.count(state);
    return look();
  };
  md.block.ruler.before("table", "clock", lookAndCount, { alt: ["paragraph", "reference", "blockquote", "list"] });
  const paragraph = md.block.ruler.getRules("").at(-1);
  // markdown-it itself would drop what is too deep.
  md.block.ruler.before("table", "depth", (state, from, to, silent) => {
    return state.level >= DEPTH_MAX && paragraph !== undefined && paragraph(state, from, to, silent);
  });
}
