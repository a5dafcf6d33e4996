// The reference client of the session protocol parley.v1 (docs/protocol.md). No dependency, no build:
//
//   import { Client } from "./client.js";
//   const client = new Client({ token: async () => ticket, onChange: (answer) => show(answer.text) });
//   client.connect();
//   const answer = await client.send({ content: "Name three rivers." });
//   await answer.done;
//
// It owns the answers and acknowledges what they applied. What a frame means to an answer is decided in
// answer.js, when to acknowledge in acks.js; link.js keeps a connection.

import { Acks } from "./acks.js";
import { Answer, ProtocolError } from "./answer.js";
import { uuid7 } from "./ids.js";
import { Link, SignedOut } from "./link.js";

export { Answer, ProtocolError, SignedOut };

/** @typedef {import("./answer.js").Frame} Frame */
/** @typedef {import("./link.js").LinkState} LinkState */
/** @typedef {import("./answer.js").Outcome | "accepted" | "failed"} Change */
/**
 * @typedef {object} Options
 * @property {() => Promise<string>} token a fresh ticket or an API key, asked for at every connection; it
 *   throws SignedOut where there is none to be had
 * @property {string} [url] of the socket; the page's own origin unless given
 * @property {(state: LinkState) => void} [onState]
 * @property {(answer: Answer, change: Change) => void} [onChange] when it returns, the change counts as applied
 * @property {(error: ProtocolError) => void} [onError] an error that belongs to no answer
 * @property {{events?: number, bytes?: number}} [window] smaller windows than the server's
 * @property {number} [backoffMs] ceiling of the first wait before a reconnect
 */
/**
 * @typedef {object} Message what to send: `content` or `messages`, the rest as docs/protocol.md has it
 * @property {string} [content]
 * @property {{role: string, content: string}[]} [messages]
 * @property {string} [conversation]
 * @property {string} [model]
 * @property {object} [options]
 * @property {object} [metadata]
 */

const AGENT = { name: "parley-js", version: "1" };
const BACKOFF_MS = 500;
const ACK_MS = 200;
const encoder = new TextEncoder();

export class Client {
  /** @param {Options} options */
  constructor(options) {
    this.options = options;
    /** What happened so far. `verified` and `mismatched` count the hash checks of finished answers. */
    this.counters = { verified: 0, mismatched: 0, gaps: 0, stale: 0, resent: 0, resumed: 0 };
    const url = options.url ?? location.origin.replace(/^http/, "ws") + "/v1/ws";
    this.#link = new Link(url, options.backoffMs ?? BACKOFF_MS, {
      token: options.token,
      hello: (token) => this.#hello(token),
      onWelcome: (welcome, hello) => this.#welcome(welcome, hello),
      onFrame: (frame) => this.#frame(frame),
      onError: (frame) => this.#error(frame),
      onState: (state) => this.#linked(state),
    });
  }

  #link;
  /** @type {Map<string, Answer>} answers without an end, by id */
  #open = new Map();
  /** @type {Map<number, Answer>} by `g` of the connection that holds */
  #byG = new Map();
  #limits = { events: 256, bytes: 32 * 1024, connection_bytes: 128 * 1024, frame: 256 * 1024 };
  #acks = new Acks(this.#limits);
  /** @type {string | null} */
  #resumeToken = null;
  /** @type {number | null} the server's clock minus ours */
  #clockOffsetMs = null;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #ackTimer;
  /** @type {{resolve: (value?: unknown) => void, reject: (error: Error) => void}[]} wait for the first welcome */
  #clockless = [];

  /** Where the connection stands. */
  get state() {
    return this.#link.state;
  }

  /** Connect, and stay connected until `close` or a reason to stop. */
  connect() {
    document.addEventListener("visibilitychange", this.#hidden);
    this.#link.start();
  }

  /** End the session. Its requests go on; `attach` finds them again. */
  close() {
    this.#acknowledge();
    this.#link.tell({ t: "bye" });
    this.#link.stop("closed", "the client was closed");
  }

  /** Reconnect now instead of at the end of the backoff. */
  reconnect() {
    this.#link.wake();
  }

  /** A new id, made from the server's clock; waits for the first welcome. */
  async newId() {
    if (this.#clockOffsetMs === null) {
      await new Promise((resolve, reject) => this.#clockless.push({ resolve, reject }));
    }
    return uuid7(Date.now() + Number(this.#clockOffsetMs));
  }

  /**
   * Start one turn. Resolves once it has an id; `answer.done` tells how it ended. Until the server accepts it,
   * it is kept and sent again after every reconnect.
   * @param {Message} message
   * @returns {Promise<Answer>}
   */
  async send(message) {
    const id = await this.newId();
    const answer = new Answer(id, { ...message, t: "send", id });
    this.#open.set(id, answer);
    const limit = this.#limits.frame;
    if (encoder.encode(JSON.stringify(answer.message)).length > limit) {
      this.#fail(answer, { code: "too_large", message: `a message has at most ${limit} bytes`, limit });
    } else if (this.state.state === "stopped") {
      this.#fail(answer, this.state);
    } else {
      this.#link.tell(/** @type {Frame} */ (answer.message));
    }
    return answer;
  }

  /**
   * Read a request from its start, whoever sent it and wherever it stands.
   * @param {string} id
   * @returns {Answer}
   */
  attach(id) {
    const known = this.#open.get(id);
    if (known) return known;
    const answer = new Answer(id, null);
    this.#open.set(id, answer);
    this.#link.tell({ t: "attach", id, o: 0 });
    return answer;
  }

  /**
   * Ask to stop generating. The answer ends with reason "cancelled" and keeps its text.
   * @param {Answer} answer
   */
  cancel(answer) {
    if (answer.finished) return;
    answer.cancelling = true;
    this.#link.tell({ t: "cancel", id: answer.id });
  }

  /**
   * @param {string} token
   * @returns {Frame}
   */
  #hello(token) {
    const requests = Array.from(this.#open.values(), ({ id, epoch, applied: o }) => ({ id, epoch, o }));
    /** @type {Frame} */
    const hello = { t: "hello", v: 1, token, agent: AGENT, window: this.options.window };
    if (this.#resumeToken) hello.resume = { token: this.#resumeToken, requests };
    else if (requests.length > 0) hello.resume = { requests };
    return hello;
  }

  /**
   * @param {Frame} welcome
   * @param {Frame} hello
   */
  #welcome(welcome, hello) {
    this.#resumeToken = welcome.resume_token;
    this.#clockOffsetMs = welcome.now - Date.now();
    const { events = Infinity, bytes = Infinity } = this.options.window ?? {};
    this.#limits = {
      ...welcome.limits,
      events: Math.min(events, welcome.limits.events),
      bytes: Math.min(bytes, welcome.limits.bytes),
    };
    this.#acks = new Acks(this.#limits);
    this.#byG.clear();
    /** @type {Frame[]} */
    const asked = hello.resume?.requests ?? [];
    this.#resume(welcome.requests, new Map(asked.map(({ id, o }) => [id, o])));
    for (const waiting of this.#clockless.splice(0)) waiting.resolve();
  }

  /**
   * Take up every open answer where it stood; what the server never got is sent again.
   * @param {Frame[]} listed
   * @param {Map<string, number>} asked what each answer had applied when this connection said hello
   */
  #resume(listed, asked) {
    const byId = new Map(listed.map((each) => [each.id, each]));
    for (const { id, state } of listed) {
      if (!this.#open.has(id) && state !== "gone") this.#link.tell({ t: "detach", id });
    }
    for (const answer of [...this.#open.values()]) {
      const found = byId.get(answer.id);
      if (found?.state === "gone") {
        this.#fail(answer, { code: found.why ?? "not_resumable", message: "the server no longer has this answer" });
      } else if (!found && !answer.accepted) {
        if (asked.has(answer.id)) this.counters.resent++;
        this.#link.tell(/** @type {Frame} */ (answer.message));
      } else if (!found || asked.get(answer.id) !== answer.applied) {
        answer.accepted = true;
        this.#reattach(answer); // not listed, or read on over the old connection meanwhile
      } else {
        this.counters.resumed++;
        this.#bind(answer, found);
      }
      if (answer.cancelling) this.#link.tell({ t: "cancel", id: answer.id });
    }
  }

  /**
   * @param {Answer} answer
   * @param {Frame} frame `accepted`, `attached` or an item of `welcome.requests`
   */
  #bind(answer, frame) {
    this.#byG.set(frame.g, answer);
    answer.accepted = true;
    answer.epoch ??= frame.epoch;
    answer.queue = frame.queue ?? answer.queue;
    if (["queued", "running", "parked"].includes(frame.state)) answer.status = frame.state;
    else if (answer.status === "sending") answer.status = "queued";
    this.#changed(answer, "accepted");
  }

  /**
   * Move the server's cursor to what is applied; frames of the old cursor are ignored until `attached`.
   * @param {Answer} answer
   */
  #reattach(answer) {
    for (const [g, bound] of this.#byG) {
      if (bound !== answer) continue;
      this.#byG.delete(g);
      this.#acks.drop(g);
    }
    this.#link.tell({ t: "attach", id: answer.id, epoch: answer.epoch ?? undefined, o: answer.applied });
  }

  /** @param {Frame} frame */
  #frame(frame) {
    switch (frame.t) {
      case "delta":
      case "event":
      case "snap":
      case "retract":
      case "end":
        return this.#logged(frame);
      case "accepted":
      case "attached": {
        const answer = this.#open.get(frame.id);
        if (answer) this.#bind(answer, frame);
        return;
      }
      case "ping":
        this.#link.tell({ t: "pong", ts: frame.ts, a: this.#acks.take() });
        return;
      case "error":
        return this.#error(frame);
      case "go_away":
        return this.#link.handOver();
      case "auth_required":
        void this.options.token().then(
          (token) => this.#link.tell({ t: "auth", token }),
          () => {}, // unanswered, the server closes 4014, and the reconnect asks again
        );
        return;
    }
  }

  /**
   * A message of a request's log.
   * @param {Frame} frame
   */
  #logged(frame) {
    const answer = this.#byG.get(frame.g);
    if (!answer) return;
    const before = answer.applied;
    const outcome = answer.apply(frame);
    if (outcome === "stale") {
      this.counters.stale++;
    } else if (outcome === "gap" || outcome === "diverged") {
      this.counters.gaps++;
      this.#reattach(answer);
      if (outcome === "diverged") this.#changed(answer, "reset");
    } else {
      if (outcome === "end") this.#ended(answer, frame.g);
      this.#changed(answer, outcome);
      if (frame.t !== "event" || frame.o !== undefined) this.#applied(frame, before, answer.applied);
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

  /**
   * @param {Frame} frame
   * @param {number} before
   * @param {number} applied
   */
  #applied(frame, before, applied) {
    if (this.#acks.note(frame, before, applied)) this.#acknowledge();
    else this.#ackTimer ??= setTimeout(() => this.#acknowledge(), ACK_MS);
  }

  #acknowledge() {
    clearTimeout(this.#ackTimer);
    this.#ackTimer = undefined;
    if (this.#acks.pending) this.#link.tell({ t: "ack", a: this.#acks.take() });
  }

  #hidden = () => {
    if (document.visibilityState === "hidden") this.#acknowledge();
  };

  /** @param {Frame} frame */
  #error(frame) {
    const details = /** @type {Frame & {code: string, message: string}} */ (frame);
    const answer = this.#open.get(frame.id);
    if (answer && frame.re === "cancel") answer.cancelling = false;
    else if (answer && (frame.re === "attach" || !answer.accepted)) return this.#fail(answer, details);
    this.options.onError?.(new ProtocolError(details));
  }

  /**
   * @param {Answer} answer
   * @param {{code: string, message: string, limit?: number}} error
   */
  #fail(answer, error) {
    this.#open.delete(answer.id);
    answer.fail(new ProtocolError(error));
    this.#changed(answer, "failed");
  }

  /** @param {LinkState} state */
  #linked(state) {
    if (state.state === "stopped") this.#stopped(state);
    this.options.onState?.(state);
  }

  /** @param {{code: string, message: string}} error */
  #stopped(error) {
    clearTimeout(this.#ackTimer);
    this.#ackTimer = undefined;
    this.#resumeToken = null;
    document.removeEventListener("visibilitychange", this.#hidden);
    for (const waiting of this.#clockless.splice(0)) waiting.reject(new ProtocolError(error));
    for (const answer of [...this.#open.values()]) this.#fail(answer, error);
  }

  /**
   * @param {Answer} answer
   * @param {Change} change
   */
  #changed(answer, change) {
    try {
      this.options.onChange?.(answer, change);
    } catch (error) {
      reportError(error); // a fault of the listener must not break the stream
    }
  }
}
