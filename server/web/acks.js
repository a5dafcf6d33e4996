// When to acknowledge what was applied (docs/protocol.md, "Window and acknowledgement"). Pure.

/** @typedef {import("./answer.js").Frame} Frame */
/** @typedef {{events: number, bytes: number, connection_bytes: number}} Windows */

const OTHER_BYTES = 64; // what a logged message without text counts
const encoder = new TextEncoder();

/** Offsets applied on one connection and not acknowledged yet. */
export class Acks {
  /** @param {Windows} windows */
  constructor(windows) {
    this.windows = windows;
    /** @type {Map<number, {o: number, events: number, bytes: number}>} by `g` */
    this.#open = new Map();
  }

  #open;

  /** Something waits to be acknowledged. */
  get pending() {
    return this.#open.size > 0;
  }

  /**
   * Note an applied frame.
   * @param {Frame} frame
   * @param {number} from the offset that was applied before it
   * @param {number} applied the offset that is applied now
   * @returns {boolean} whether to acknowledge at once
   */
  note(frame, from, applied) {
    const open = this.#open.get(frame.g) ?? { o: 0, events: 0, bytes: 0 };
    open.o = applied;
    open.events += Math.max(0, applied - from);
    open.bytes += frame.x === undefined ? OTHER_BYTES : encoder.encode(frame.x).length;
    this.#open.set(frame.g, open);
    return (
      frame.t === "end" ||
      frame.t === "snap" ||
      open.events * 2 >= this.windows.events ||
      open.bytes * 2 >= this.windows.bytes ||
      this.#bytes() * 2 >= this.windows.connection_bytes
    );
  }

  /**
   * Forget a `g` whose cursor is being moved: its offsets mean nothing any more.
   * @param {number} g
   */
  drop(g) {
    this.#open.delete(g);
  }

  /**
   * The vector for an `ack` or a `pong`; afterwards nothing is pending.
   * @returns {[number, number][]}
   */
  take() {
    const vector = Array.from(this.#open, ([g, { o }]) => /** @type {[number, number]} */ ([g, o]));
    this.#open.clear();
    return vector;
  }

  #bytes() {
    let bytes = 0;
    for (const open of this.#open.values()) bytes += open.bytes;
    return bytes;
  }
}
