// Sends that the server does not have yet, and who wants to know why they wait.

/** @typedef {import("./answer.js").Answer} Answer */
/** @typedef {import("./causes.js").Cause} Cause */
/** @typedef {{tell: (why: Cause) => void, answer: Answer | null, over: boolean}} WaitingSend */

export class WaitingSends {
  /** @type {Set<WaitingSend>} */
  #sends = new Set();

  /**
   * One more that waits.
   * @param {(why: Cause) => void} tell
   * @param {Cause | null} why it waits from its start
   * @returns {WaitingSend}
   */
  add(tell, why) {
    this.#prune();
    const send = { tell, answer: null, over: false };
    this.#sends.add(send);
    if (why) tell(why);
    return send;
  }

  /**
   * The client is not connected.
   * @param {Cause} why
   */
  say(why) {
    this.#prune();
    for (const { tell } of this.#sends) {
      try {
        tell(why);
      } catch (error) {
        console.error(error); // a fault of the listener must not keep us from connecting
      }
    }
  }

  #prune() {
    for (const send of this.#sends) {
      if (send.over || send.answer?.accepted || send.answer?.finished) this.#sends.delete(send);
    }
  }
}
