// What a reader of Vercel's UI message stream is told next, so that the message it shows is the answer as it
// stands: derived from the answer, not from the frames that made it. Pure.

import { ProtocolError } from "./answer.js";
import { known } from "./ui_messages.js";

/** @typedef {import("./answer.js").Answer} Answer */
/** @typedef {import("./ui_messages.js").ParleyMetadata} ParleyMetadata */
/** @typedef {{status: import("./answer.js").Status, queue: {position: number, wait_ms: number} | null, paused: boolean}} Standing */
/**
 * A `UIMessageChunk`, of those that a text has. `reset-step` takes back all that was shown of the message.
 * @typedef {{type: "start", messageId: string, messageMetadata: ParleyMetadata}
 *   | {type: "start-step"} | {type: "reset-step"} | {type: "finish-step"}
 *   | {type: "text-start", id: string} | {type: "text-delta", id: string, delta: string} | {type: "text-end", id: string}
 *   | {type: "message-metadata", messageMetadata: ParleyMetadata}
 *   | {type: "data-parley-status", data: Standing, transient: true}
 *   | {type: "finish", finishReason: FinishReason, messageMetadata: ParleyMetadata}} Chunk
 */
/** @typedef {"stop" | "length" | "content-filter" | "error" | "other"} FinishReason */

/** @type {Record<string, FinishReason>} */
const FINISH_REASONS = { stop: "stop", length: "length", blocked: "content-filter", cancelled: "other" };
/** @type {Record<string, string>} an end that a page must not pass over in silence */
const FAILURES = {
  blocked: "a safety policy ended the answer",
  deadline: "the answer was not done before its deadline",
  budget: "what was left to pay for the answer is used up",
  slow_reader: "nobody read the answer",
  error: "the answer failed",
};
const MAY_WORK_LATER = new Set(["engine_lost", "internal"]);

/** One reading of an answer from its start. */
export class ChunkReading {
  /** @param {string} [model] that was asked for */
  constructor(model) {
    this.#model = model;
  }

  #model;
  #started = false;
  #ended = false;
  /** How many text parts there were: one, and one more after each time that the text became another. */
  #parts = 0;
  #open = false;
  #text = "";
  #flags = "[]";
  #standing = "";

  /**
   * What is new since the last time.
   * @param {Answer} answer
   * @returns {Chunk[]}
   */
  next(answer) {
    if (this.#ended) return [];
    return [...this.#start(answer), ...this.#said(answer), ...this.#marked(answer), ...this.#end(answer)];
  }

  /**
   * @param {Answer} answer
   * @returns {Chunk[]}
   */
  #start({ id, status, queue, paused }) {
    const standing = { status, queue, paused };
    const told = JSON.stringify(standing);
    /** @type {Chunk[]} */
    const status_ = told === this.#standing ? [] : [{ type: "data-parley-status", data: standing, transient: true }];
    this.#standing = told;
    if (this.#started) return status_;
    this.#started = true;
    const messageMetadata = known({ requestId: id, model: this.#model });
    return [{ type: "start", messageId: id, messageMetadata }, { type: "start-step" }, ...status_];
  }

  /**
   * @param {Answer} answer
   * @returns {Chunk[]}
   */
  #said({ text }) {
    /** @type {Chunk[]} */
    const chunks = [];
    if (!text.startsWith(this.#text)) {
      chunks.push({ type: "reset-step" });
      this.#open = false;
      this.#text = "";
    }
    if (text.length === this.#text.length) return chunks;
    if (!this.#open) {
      this.#open = true;
      this.#parts++;
      chunks.push({ type: "text-start", id: String(this.#parts) });
    }
    chunks.push({ type: "text-delta", id: String(this.#parts), delta: text.slice(this.#text.length) });
    this.#text = text;
    return chunks;
  }

  /**
   * @param {Answer} answer
   * @returns {Chunk[]}
   */
  #marked({ flags }) {
    const told = JSON.stringify(flags);
    if (told === this.#flags) return [];
    this.#flags = told;
    return [{ type: "message-metadata", messageMetadata: { flags: [...flags] } }];
  }

  /**
   * @param {Answer} answer
   * @returns {Chunk[]}
   */
  #end(answer) {
    if (!answer.finished) return [];
    this.#ended = true;
    /** @type {Chunk[]} */
    const chunks = this.#open ? [{ type: "text-end", id: String(this.#parts) }] : [];
    if (answer.status === "failed") return chunks;
    const { reason, code, usage, cost, timing, safety, context, verified } = answer;
    const promptFlags = answer.promptFlags.length > 0 ? answer.promptFlags : null;
    const messageMetadata = known({ reason, code, usage, cost, timing, safety, context, verified, promptFlags });
    const finishReason = FINISH_REASONS[reason ?? ""] ?? "error";
    return [...chunks, { type: "finish-step" }, { type: "finish", finishReason, messageMetadata }];
  }
}

/**
 * What a page must be told of an answer that is finished, beside its text; null: it ended well.
 * @param {Answer} answer
 * @returns {ProtocolError | null}
 */
export function failureOf({ error, reason, code, safety }) {
  if (error) return error;
  const said = FAILURES[reason ?? ""];
  if (!said) return null;
  const what = safety ? ` (${safety.category})` : "";
  return new ProtocolError({ code: code ?? reason ?? "", message: said + what, retry: MAY_WORK_LATER.has(code ?? "") });
}
