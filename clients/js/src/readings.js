// The open answers of one client: who is behind a `g` of the connection that holds, what is to be acknowledged, and
// what has to be said again after a reconnect. It sends frames by `tell`; it knows no socket, no token, no backoff.

import { Acks } from "./acks.js";
import { Answer, ProtocolError, span } from "./answer.js";

/** @typedef {import("./answer.js").Logged} Logged */
/** @typedef {import("./frames.js").ClientMessage} ClientMessage */
/** @typedef {import("./frames.js").WelcomeRequest} WelcomeRequest */
/** @typedef {import("./frames.js").Accepted["flags"]} PromptFlags */
/** @typedef {{g: number, epoch?: number, state?: string, queue?: import("./frames.js").QueuePosition,
 *   flags?: PromptFlags, dup?: boolean, context?: import("./frames.js").ContextUse, max_tokens?: number}} Bound */
/** @typedef {import("./answer.js").Change} Change */
/** @typedef {import("./answer.js").Trace} Trace */
/** @typedef {import("./answer.js").Watcher} Watcher */
/** @typedef {{code: string, message: string, limit?: number, dimension?: string}} Failure */
/** @typedef {{answer: Answer, moved: boolean}} Cursor whose frames a `g` brings; moved: until they were asked again */

const ACK_MS = 200;
const LISTED_MAX = 32; // a hello has 4 KiB; answers beyond are attached after the welcome
const RETRY_MS = 1_000;
const RETRIES_MAX = 5;
const encoder = new TextEncoder();

export class Readings {
  /**
   * @param {(frame: ClientMessage) => void} tell
   * @param {Watcher} watcher
   * @param {boolean} traced
   */
  constructor(tell, watcher, traced) {
    this.#tell = tell;
    this.#watcher = watcher;
    this.#traced = traced;
    this.counters = { verified: 0, mismatched: 0, gaps: 0, stale: 0, resent: 0, resumed: 0 };
  }

  /** The server's, once there was a welcome: a longer frame would end the connection. */
  frameBytesMax = 256 * 1024;
  #tell;
  #watcher;
  #traced;
  /** @type {Map<string, Answer>} answers without an end, by id */
  #open = new Map();
  /** @type {Map<number, Cursor>} by `g` of the connection that holds */
  #byG = new Map();
  #acks = new Acks({ events: 256, bytes: 32 * 1024, connection_bytes: 128 * 1024 });
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #ackTimer;
  #ackBy = Infinity;
  /** @type {Map<Answer, number>} how often an attach was refused for now */
  #refusals = new Map();

  /** @param {string} id */
  get(id) {
    return this.#open.get(id);
  }

  /**
   * A new answer: one to send, or one to read from its start.
   * @param {string} id
   * @param {import("./frames.js").Send | null} message
   */
  add(id, message) {
    const answer = new Answer(id, message);
    this.#open.set(id, answer);
    return answer;
  }

  /**
   * Send its turn, unless it is longer than the server reads.
   * @param {Answer} answer
   */
  send(answer) {
    const message = /** @type {ClientMessage} */ (answer.message);
    const limit = this.frameBytesMax;
    if (encoder.encode(JSON.stringify(message)).length <= limit) return void this.#tell(message);
    const facts = { code: "too_large", limit, dimension: "frame_bytes" };
    this.fail(answer, { ...facts, message: `a message has at most ${limit} bytes` });
  }

  /**
   * Stop reading.
   * @param {Answer} answer
   */
  detach(answer) {
    if (!this.#open.delete(answer.id)) return;
    this.#unbind(answer);
    this.#tell({ t: "detach", id: answer.id });
    this.fail(answer, { code: "closed", message: "this answer was detached" });
  }

  /** What a hello asks to resume: the newest answers, those that are only in the outbox last. */
  asked() {
    const newest = [...this.#open.values()].reverse();
    const listed = [...newest.filter(({ accepted }) => accepted), ...newest.filter(({ accepted }) => !accepted)];
    return listed.slice(0, LISTED_MAX).map(({ id, epoch, applied: o }) => ({ id, epoch, o }));
  }

  /**
   * A connection took over: take up every open answer where it stands; what the server never got is sent again.
   * @param {WelcomeRequest[]} listed `welcome.requests`
   * @param {Set<string>} asked ids that the hello named
   * @param {import("./acks.js").Windows} windows
   */
  resume(listed, asked, windows) {
    this.#acks = new Acks(windows);
    this.#byG.clear();
    this.#refusals.clear();
    const byId = new Map(listed.map((each) => [each.id, each]));
    for (const { id, state } of listed) {
      if (!this.#open.has(id) && state !== "gone") this.#tell({ t: "detach", id });
    }
    for (const answer of [...this.#open.values()]) {
      const found = byId.get(answer.id);
      if (found?.state === "gone") {
        this.fail(answer, { code: found.why ?? "not_resumable", message: "the server no longer has this answer" });
        continue;
      }
      if (found?.g !== undefined) {
        this.counters.resumed++;
        this.bind(answer, /** @type {Bound} */ (found)); // what the old connection brought meanwhile comes again and is ignored
      } else if (found || answer.accepted) {
        this.#attach(answer);
      } else {
        if (asked.has(answer.id)) this.counters.resent++;
        this.send(answer);
      }
      if (answer.cancelling && !answer.finished) this.#tell({ t: "cancel", id: answer.id });
    }
  }

  /**
   * From now on `frame.g` is this answer.
   * @param {Answer} answer
   * @param {Bound} frame `accepted`, `attached` or an item of `welcome.requests`
   */
  bind(answer, frame) {
    this.#byG.set(frame.g, { answer, moved: false });
    this.#refusals.delete(answer);
    if (!answer.accepted) answer.dup = frame.dup ?? true; // one that a welcome lists was accepted before
    answer.accepted = true;
    answer.epoch ??= frame.epoch ?? null;
    answer.queue = frame.queue ?? answer.queue;
    answer.promptFlags = frame.flags ?? answer.promptFlags;
    answer.context = frame.context ?? answer.context;
    answer.maxTokens = frame.max_tokens ?? answer.maxTokens;
    if (answer.status === "sending") {
      answer.status = frame.state === "running" || frame.state === "parked" ? frame.state : "queued";
    }
    answer.paused = false; // the server says so again where it still holds
    this.#changed(answer, "accepted");
  }

  /**
   * A message of a request's log.
   * @param {Logged} frame
   */
  receive(frame) {
    const cursor = this.#byG.get(frame.g);
    if (!cursor) return; // late frames of a cursor that was moved
    const { answer } = cursor;
    const outcome = answer.apply(frame);
    if (outcome === "gap" || outcome === "diverged") {
      this.counters.gaps++;
      this.#attach(answer);
      if (outcome === "diverged") this.#changed(answer, "reset");
    } else if (outcome === "stale") {
      this.counters.stale++;
      if (span(frame)) this.#note(frame);
    } else {
      if (outcome === "end") this.#ended(answer, frame.g);
      const done = this.#changed(answer, outcome, this.#traced ? traceOf(answer, frame, outcome) : undefined);
      if (!span(frame)) return; // about this connection, not of the log
      const acks = this.#acks;
      if (!isPromise(done)) this.#note(frame);
      else void done.then(() => acks === this.#acks && !cursor.moved && this.#note(frame));
    }
  }

  /**
   * An `error` that names a request.
   * @param {import("./frames.js").Error} frame
   * @returns {boolean} whether it is settled here; else it is for the application
   */
  refused(frame) {
    const answer = this.#open.get(frame.id ?? "");
    if (!answer) return false;
    if (frame.re === "cancel") answer.cancelling = false;
    if (frame.re === "cancel" || (frame.re === "send" && answer.accepted)) return false;
    const refusals = (this.#refusals.get(answer) ?? 0) + 1;
    if (frame.re !== "send" && frame.retry && refusals <= RETRIES_MAX) {
      this.#refusals.set(answer, refusals);
      this.#unbind(answer);
      setTimeout(() => this.#refusals.has(answer) && this.#attach(answer), frame.after_ms ?? RETRY_MS);
    } else {
      this.fail(answer, frame);
    }
    return true;
  }

  /** Acknowledge what is applied, now. */
  acknowledge() {
    clearTimeout(this.#ackTimer);
    this.#ackTimer = undefined;
    this.#ackBy = Infinity;
    if (this.#acks.pending) this.#tell({ t: "ack", a: this.#acks.take() });
  }

  /** The acknowledgements, to be carried by a `pong`. */
  vector() {
    return this.#acks.take();
  }

  /**
   * @param {Answer} answer
   * @param {Failure} error
   */
  fail(answer, error) {
    this.#open.delete(answer.id);
    this.#refusals.delete(answer);
    this.#unbind(answer);
    answer.fail(new ProtocolError(error));
    this.#changed(answer, "failed");
  }

  /**
   * The client stops: no open answer will end.
   * @param {Failure} error
   */
  failAll(error) {
    clearTimeout(this.#ackTimer);
    this.#ackTimer = undefined;
    for (const answer of [...this.#open.values()]) this.fail(answer, error);
  }

  /**
   * Move the server's cursor to what is applied; frames of the old cursor are ignored until `attached`.
   * @param {Answer} answer
   */
  #attach(answer) {
    this.#unbind(answer);
    this.#tell({ t: "attach", id: answer.id, epoch: answer.epoch ?? undefined, o: answer.applied });
  }

  /** @param {Answer} answer */
  #unbind(answer) {
    for (const [g, cursor] of this.#byG) {
      if (cursor.answer !== answer) continue;
      cursor.moved = true;
      this.#byG.delete(g);
      this.#acks.drop(g);
    }
  }

  /**
   * @param {Answer} answer
   * @param {number} g
   */
  #ended(answer, g) {
    this.#open.delete(answer.id);
    this.#byG.delete(g);
    this.counters[answer.verified ? "verified" : "mismatched"]++;
  }

  /** @param {Logged} frame */
  #note(frame) {
    // A hidden tab's timers fire once a minute: what arrives later than the timer was due takes its place.
    if (this.#acks.note(frame) || performance.now() >= this.#ackBy) return this.acknowledge();
    if (this.#ackTimer !== undefined) return;
    this.#ackBy = performance.now() + ACK_MS;
    this.#ackTimer = setTimeout(() => this.acknowledge(), ACK_MS);
  }

  /**
   * @param {Answer} answer
   * @param {Change} change
   * @param {Trace} [trace]
   */
  #changed(answer, change, trace) {
    try {
      const done = this.#watcher(answer, change, trace);
      return isPromise(done) ? done.catch(report) : undefined;
    } catch (error) {
      report(error); // a fault of the listener must not break the stream
      return undefined;
    }
  }
}

/**
 * Tell of a fault of the application's.
 * @param {unknown} error
 */
function report(error) {
  if ("reportError" in globalThis) reportError(error);
  else console.error(error); // Node
}

/**
 * @param {Answer} answer
 * @param {Logged} frame
 * @param {Change} outcome
 * @returns {Trace | undefined}
 */
function traceOf(answer, frame, outcome) {
  const covered = span(frame);
  if (outcome === "status" || !covered) return undefined;
  const [a, b] = covered;
  const { batch = null, ms = null } = /** @type {Partial<import("./frames.js").Delta>} */ (frame);
  return { id: answer.id, a, b, tokens: answer.tokens, final: outcome === "end", batch, ms };
}

/**
 * @param {unknown} value
 * @returns {value is Promise<unknown>}
 */
function isPromise(value) {
  return value instanceof Promise;
}
