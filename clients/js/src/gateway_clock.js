// The server's clock, carried on from `welcome.now`. This machine's own may be wrong, and may be set while we are
// connected: it is not asked. A steady clock may stand still while the machine sleeps: then, too, the two disagree.

const STEP_MS = 60_000; // ids may be 5 min ahead and 24 h old

export class GatewayClock {
  /** @type {number | null} */
  #at = null;
  #date = 0;
  #steady = 0;

  /** @param {number} now Unix ms, as the server just said */
  set(now) {
    this.#at = now;
    this.#date = Date.now();
    this.#steady = performance.now();
  }

  /** Whether `now` can be told: the server has said it, and since then no clock was set and nobody slept. */
  get known() {
    return this.#at !== null && Math.abs(Date.now() - this.#date - this.#elapsed) < STEP_MS;
  }

  /** Unix ms of the server. */
  now() {
    return Math.floor(Number(this.#at) + this.#elapsed);
  }

  get #elapsed() {
    return performance.now() - this.#steady;
  }
}
