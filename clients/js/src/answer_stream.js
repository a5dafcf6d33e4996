// One answer as a ReadableStream of chunks, which are made as they are read: nothing is queued, and a page that
// reads slowly slows its server down.

import { ChunkReading, failureOf } from "./ui_chunks.js";

/** @typedef {import("./answer.js").Answer} Answer */
/** @typedef {import("./ui_chunks.js").Chunk} Chunk */

export class AnswerStream {
  /**
   * @param {Answer} answer
   * @param {string | undefined} model that was asked for
   * @param {() => void} onRead the page has all of it
   */
  constructor(answer, model, onRead) {
    this.answer = answer;
    this.#reading = new ChunkReading(model);
    this.#onRead = onRead;
    /** @type {ReadableStream<Chunk>} */
    this.chunks = new ReadableStream(
      { pull: (controller) => this.#pull(controller), cancel: () => this.#leave() },
      { highWaterMark: 0 }, // else an error would overtake text
    );
  }

  #reading;
  #onRead;
  /** The page reads no more of it. */
  left = false;
  #changed = () => {};
  #taken = () => {};
  /** @type {Promise<void> | undefined} until what changed was taken */
  #untaken;

  /** The answer is another one. The promise is settled once the page has read that. */
  changed() {
    if (this.left) return undefined;
    this.#untaken ??= new Promise((resolve) => (this.#taken = resolve));
    const untaken = this.#untaken;
    this.#changed();
    return untaken;
  }

  /** @param {ReadableStreamDefaultController<Chunk>} controller */
  async #pull(controller) {
    while (!this.left) {
      const chunks = this.#reading.next(this.answer);
      this.#settle();
      for (const chunk of chunks) controller.enqueue(chunk);
      if (chunks.length > 0) return;
      if (this.answer.finished) return this.#close(controller);
      await new Promise((resolve) => (this.#changed = () => resolve(undefined)));
    }
  }

  /** @param {ReadableStreamDefaultController<Chunk>} controller */
  #close(controller) {
    this.#leave();
    this.#onRead();
    const failure = failureOf(this.answer);
    if (failure) controller.error(failure);
    else controller.close();
  }

  #leave() {
    this.left = true;
    this.#settle();
    this.#changed();
  }

  #settle() {
    this.#taken();
    this.#untaken = undefined;
  }
}
