// What a reader knows of one request, and what one more frame does to it. Pure: no socket, no clock.

import { sha256 } from "./sha256.js";

/** @typedef {import("./frames.js").ServerMessage} ServerMessage */
/** @typedef {import("./frames.js").Send} Send */
/** @typedef {import("./frames.js").Delta} Delta */
/** @typedef {import("./frames.js").Event} LogEvent */
/** @typedef {import("./frames.js").End} End */
/** @typedef {Delta | LogEvent | import("./frames.js").Snap | import("./frames.js").Retract | End} Logged of an answer */
/**
 * Where a request stands. "moved": its worker is gone, another takes it over. "parked": nobody was reading, so its
 * worker does something else. "resumed": a reader is back, the worker soon too.
 * @typedef {"sending" | "queued" | "running" | "moved" | "parked" | "resumed" | "ended" | "failed"} Status
 */
/** @typedef {{input: number, cached_input?: number, output: number, total: number}} Usage */
/** @typedef {{nano: number, currency: string}} Cost */
/**
 * A place that safety marked: a redaction's placeholder stands at code point `p` and has `n` of them; or what stands
 * there was flagged and let through (`action` "flag"). `scope` says whose policy it is.
 * @typedef {{category: string, action: "redact" | "flag", scope: "platform" | "tenant" | "project", p: number,
 *   n: number}} SafetyFlag
 */
/** @typedef {import("./frames.js").SentFlag} PromptFlag */
/** @typedef {import("./frames.js").ContextUse} ContextUse */
/** @typedef {import("./frames.js").EndSafety} SafetyBlock what blocked an answer, and whose policy it was */
/** @typedef {{queue_ms: number, ttft_ms: number | null, total_ms: number}} Timing */
/**
 * What `apply` did. "stale" was ignored; "gap" and "diverged" ask the caller to attach again at `applied`.
 * @typedef {"text" | "reset" | "status" | "end" | "stale" | "gap" | "diverged"} Outcome
 */
/** @typedef {Outcome | "accepted" | "failed"} Change */
/**
 * Where a piece of text comes from, for clients that asked for it (option `trace`).
 * @typedef {object} Trace
 * @property {string} id the request
 * @property {number} a the first log offset it covers
 * @property {number} b the last one
 * @property {number} tokens how many tokens the text covers by now
 * @property {boolean} final nothing follows
 * @property {number | null} batch which delta of this reading it was, counted by the server
 * @property {number | null} ms how long the gateway held it back to merge it
 */
/**
 * Somebody who wants to know of a change. When it returns, or the promise that it returned is settled, the change
 * counts as applied and may be acknowledged.
 * @typedef {(answer: Answer, change: Change, trace: Trace | undefined) => unknown} Watcher
 */

const STATUSES = new Set(["queued", "running", "moved", "parked", "resumed"]);

/**
 * The log offsets that a frame covers, the first and the last; null: it is about this connection only.
 * @param {Logged} frame
 * @returns {[number, number] | null}
 */
export function span(frame) {
  if (frame.t === "delta") return [frame.a, frame.b];
  return frame.o === undefined ? null : [frame.o, frame.o];
}

/** A refusal or a failure that the server named with a code of docs/protocol.md. */
export class ProtocolError extends Error {
  /**
   * @param {{code: string, message: string, retry?: boolean, after_ms?: number, scope?: string,
   *   limit?: number, dimension?: string, remaining?: number, spent?: number, held?: number,
   *   resets_at_ms?: number, safety?: import("./frames.js").RefusedPrompt,
   *   tokens?: import("./frames.js").TokenCounts}} frame an `error`
   */
  constructor(frame) {
    super(frame.message);
    this.name = "ProtocolError";
    this.code = frame.code;
    /** The same message may work later. */
    this.retry = frame.retry ?? false;
    this.afterMs = frame.after_ms ?? null;
    this.scope = frame.scope ?? null;
    this.limit = frame.limit ?? null;
    /** What is counted at the limit; of money the numbers are in nano-USD. */
    this.dimension = frame.dimension ?? null;
    this.remaining = frame.remaining ?? null;
    this.spent = frame.spent ?? null;
    this.held = frame.held ?? null;
    /** When it begins anew, Unix ms. */
    this.resetsAtMs = frame.resets_at_ms ?? null;
    /** The place for which a prompt was refused. */
    this.safety = frame.safety ?? null;
    /** By how much a prompt is too large. */
    this.tokens = frame.tokens ?? null;
  }
}

/** One request and the text of its answer so far: always a prefix of the server's log. */
export class Answer {
  /**
   * @param {string} id the request's id
   * @param {Send | null} message the `send` that starts it; null for a reader of somebody's request
   */
  constructor(id, message) {
    this.id = id;
    this.message = message;
    this.accepted = message === null;
    /** @type {number | null} */
    this.epoch = null;
    /** The highest log offset that is part of `text`. */
    this.applied = 0;
    this.text = "";
    /** What safety marked in `text`, in its order. @type {SafetyFlag[]} */
    this.flags = [];
    /** The server had its turn before, and told what safety found in it to a connection that is lost. */
    this.dup = false;
    /** What safety found in the prompt as it was sent (prompts.js); nothing where it is a `dup`. @type {PromptFlag[]} */
    this.promptFlags = [];
    /** What of its conversation its prompt has; null where that is not known. @type {ContextUse | null} */
    this.context = null;
    /** The most tokens that it may have; null where that is not known. @type {number | null} */
    this.maxTokens = null;
    /** Tokens that `text` covers. */
    this.tokens = 0;
    /** @type {Status} */
    this.status = "sending";
    /** @type {{position: number, wait_ms: number} | null} */
    this.queue = null;
    /** Why it moved to another worker, the last time: lost, drain, preempt or pool. @type {string | null} */
    this.movedBecause = null;
    /** The server holds text back because this reader is slow. */
    this.paused = false;
    /** A cancel was asked for and not answered yet. */
    this.cancelling = false;
    /** @type {string | null} */
    this.reason = null;
    /** @type {string | null} */
    this.code = null;
    /** What a blocked answer was blocked for. @type {SafetyBlock | null} */
    this.safety = null;
    /** @type {Usage | null} */
    this.usage = null;
    /** @type {Cost | null} */
    this.cost = null;
    /** @type {Timing | null} */
    this.timing = null;
    /** Whether `end.h` was the hash of `text`; null before the end. @type {boolean | null} */
    this.verified = null;
    /** @type {ProtocolError | null} */
    this.error = null;
    this.#points = 0;
    this.#repaired = false;
    /** Resolves with this answer at its end; rejects with a ProtocolError where it was refused or lost. */
    this.done = new Promise((resolve, reject) => (this.#settle = { resolve, reject }));
    this.done.catch(() => {}); // not everybody waits for it
  }

  /** @type {number} code points in `text` */
  #points;
  /** @type {boolean} one repair from offset 0 was used up */
  #repaired;
  /** @type {{resolve: (answer: Answer) => void, reject: (error: Error) => void}} */
  #settle = { resolve() {}, reject() {} };

  /** No more frames will change it. */
  get finished() {
    return this.status === "ended" || this.status === "failed";
  }

  /**
   * Apply one frame of this request's `g`.
   * @param {ServerMessage} frame
   * @returns {Outcome}
   */
  apply(frame) {
    if (this.finished) return "stale";
    switch (frame.t) {
      case "snap":
        this.epoch = frame.epoch;
        this.#replace(frame.x);
        this.flags = [];
        this.applied = frame.o;
        return "reset";
      case "retract":
        this.#replace(Array.from(this.text).slice(0, frame.p).join(""));
        this.flags = this.flags.filter(({ p, n }) => p + n <= frame.p);
        this.applied = frame.o;
        return "reset";
      case "event":
        if (frame.o === undefined) return this.#connectionEvent(frame);
        return this.#inOrder(frame.o, frame.o) ?? this.#event(frame, frame.o);
      case "delta":
        return this.#inOrder(frame.a, frame.b) ?? this.#delta(frame);
      case "end":
        return this.#inOrder(frame.o, frame.o) ?? this.#end(frame);
      default:
        return "stale";
    }
  }

  /**
   * It will never end: the server refused it or does not know it.
   * @param {ProtocolError} error
   */
  fail(error) {
    if (this.finished) return;
    this.status = "failed";
    this.paused = this.cancelling = false;
    this.error = error;
    this.#settle.reject(error);
  }

  /** Forget what was applied, to read the log from its start. */
  rewind() {
    this.#replace("");
    this.flags = [];
    this.applied = 0;
    this.tokens = 0;
  }

  /**
   * null where offsets a..b come next.
   * @param {number} a
   * @param {number} b
   * @returns {Outcome | null}
   */
  #inOrder(a, b) {
    if (a === this.applied + 1) return null;
    return b <= this.applied ? "stale" : "gap";
  }

  /**
   * @param {Delta} frame
   * @returns {Outcome}
   */
  #delta(frame) {
    if (frame.p !== this.#points && this.#mayRepair()) return "diverged";
    this.text += frame.x;
    this.#points += countPoints(frame.x);
    this.tokens = frame.i ?? this.tokens;
    this.applied = frame.b;
    this.status = "running";
    return "text";
  }

  /**
   * @param {LogEvent} frame
   * @param {number} o
   * @returns {Outcome}
   */
  #event(frame, o) {
    this.applied = o;
    if (STATUSES.has(frame.k)) this.status = /** @type {Status} */ (frame.k);
    if (frame.k === "flagged") this.flags.push(frame.v);
    if (frame.k === "moved") this.movedBecause = frame.v?.why ?? null;
    return "status";
  }

  /**
   * @param {LogEvent} frame
   * @returns {Outcome}
   */
  #connectionEvent(frame) {
    if (frame.k === "paused") this.paused = true;
    if (frame.k === "unpaused") this.paused = false;
    return "status";
  }

  /**
   * @param {End} frame
   * @returns {Outcome}
   */
  #end(frame) {
    const verified = sha256(this.text) === frame.h;
    if (!verified && this.#mayRepair()) return "diverged";
    this.applied = frame.o;
    this.status = "ended";
    this.reason = frame.reason;
    this.code = frame.code ?? null;
    this.safety = frame.safety ?? null;
    this.usage = frame.usage;
    this.cost = frame.cost ?? null; // not everybody is told
    this.timing = frame.timing;
    this.verified = verified;
    this.paused = this.cancelling = false;
    this.#settle.resolve(this);
    return "end";
  }

  /** The first divergence is repaired from offset 0, a second one is reported. */
  #mayRepair() {
    const may = !this.#repaired;
    this.#repaired = true;
    if (may) this.rewind();
    return may;
  }

  /** @param {string} text */
  #replace(text) {
    this.text = text;
    this.#points = countPoints(text);
  }
}

/** @param {string} text */
function countPoints(text) {
  let points = text.length;
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    if (unit >= 0xd800 && unit < 0xdc00) points--; // the first half of a surrogate pair
  }
  return points;
}
