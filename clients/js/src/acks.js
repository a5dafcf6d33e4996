// When to acknowledge what was applied (docs/protocol.md, "Window and acknowledgement"). Pure.

import { span } from "./answer.js";

/** @typedef {import("./answer.js").Logged} Logged */
/** @typedef {{events: number, bytes: number, connection_bytes: number}} Windows */

const OTHER_BYTES = 64; // what a logged message without text counts
const encoder = new TextEncoder();

/**
 * Offsets that one connection brought and that are applied, not acknowledged yet. What another connection brought
 * is none of its business: an acknowledgement never goes beyond what its own connection was sent.
 */
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
   * Note a frame that is applied now, or was before.
   * @param {Logged} frame
   * @returns {boolean} whether to acknowledge at once
   */
  note(frame) {
    const covered = span(frame);
    if (!covered) return false;
    const [first, last] = covered;
    const open = this.#open.get(frame.g) ?? { o: 0, events: 0, bytes: 0 };
    open.o = last;
    open.events += last - first + 1;
    open.bytes += "x" in frame ? encoder.encode(frame.x).length : OTHER_BYTES;
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
