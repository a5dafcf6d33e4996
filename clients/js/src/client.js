// The reference client of the session protocol parley.v1 (docs/protocol.md). No dependency, no build:
//
//   import { Client } from "./client.js";
//   const client = new Client({ token: async () => ticket, onChange: (answer) => show(answer.text) });
//   client.connect();
//   const answer = await client.send({ content: "Name three rivers." });
//   await answer.done;
//
// What a frame means to an answer is decided in answer.js; readings.js keeps the open answers, acks.js says when to
// acknowledge, link.js keeps a connection. Types for TypeScript: client.d.ts.

import { Answer, ProtocolError } from "./answer.js";
import { Conversations } from "./conversations.js";
import { uuid7 } from "./ids.js";
import { freshToken, Link, SignedOut } from "./link.js";
import { redacted } from "./prompts.js";
import { Readings } from "./readings.js";
import { GatewayClock } from "./gateway_clock.js";
import { WaitingSends } from "./waiting.js";

export { Answer, Conversations, ProtocolError, redacted, SignedOut };

/** @typedef {import("./frames.js").ClientMessage} ClientMessage */
/** @typedef {import("./frames.js").ServerMessage} ServerMessage */
/** @typedef {import("./frames.js").Hello} Hello */
/** @typedef {import("./frames.js").Welcome} Welcome */
/** @typedef {ClientMessage | ServerMessage} Frame a message of protocol parley.v1 */
/** @typedef {import("./link.js").LinkState} LinkState */
/** @typedef {import("./causes.js").Cause} Cause */
/** @typedef {import("./answer.js").Change} Change */
/** @typedef {import("./answer.js").SafetyFlag} SafetyFlag */
/** @typedef {import("./answer.js").Trace} Trace */
/**
 * @typedef {object} Options
 * @property {() => Promise<string>} token a fresh ticket or an API key, asked for at every connection and when the
 *   one in use is about to end; it throws SignedOut where there is none to be had
 * @property {string} [url] of the socket, wss://HOST/v1/ws; the page's own origin unless given
 * @property {import("./connection.js").SocketClass} [WebSocket] where the runtime has none (Node 20): that of a package
 * @property {(state: LinkState) => void} [onState]
 * @property {import("./answer.js").Watcher} [onChange] when it returns, or the promise that it returned is settled,
 *   the change counts as applied; the server waits for readers who are slow
 * @property {(error: ProtocolError) => void} [onError] an error that belongs to no answer
 * @property {{events?: number, bytes?: number}} [window] smaller windows than the server's
 * @property {boolean} [batch] fewer, larger pieces of text after an answer's first second; true unless given
 * @property {boolean} [trace] tell with each piece of text where in the log it is and how long it was held back
 * @property {number} [backoffMs] ceiling of the first wait before a reconnect
 */
/**
 * @typedef {object} Message what to send: `content` or `messages`, the rest as docs/protocol.md has it
 * @property {string} [content]
 * @property {{role: string, content: string}[]} [messages]
 * @property {string} [conversation]
 * @property {string} [system] what the model is told before; a conversation keeps it for its later turns
 * @property {string} [continue] in place of content: the id of the conversation's newest answer, which ended "length",
 *   or of its request; the text goes on there
 * @property {string} [model]
 * @property {object} [options]
 * @property {object} [metadata]
 * @property {string} [id] of the request, made by `newId`; the same id and message again run nothing twice
 */
/**
 * What a client saw. `verified` and `mismatched` count the hash checks of answers that ended.
 * @typedef {object} Counters
 * @property {number} verified
 * @property {number} mismatched
 * @property {number} gaps frames that did not come next, so that the log was read again from what was applied
 * @property {number} stale frames that came again and were ignored
 * @property {number} resent turns that the server had not got before a reconnect
 * @property {number} resumed answers that went on after a reconnect or handover
 * @property {number} reconnects
 * @property {number} handovers
 */

const AGENT = { name: "parley-js", version: "1" };
const BACKOFF_MS = 500;
const TIME_MS_MAX = 15_000; // for another connection that tells the time
const AUTH_RETRY_MS_MIN = 250;
const AUTH_RETRY_MS_MAX = 5_000;

export class Client {
  /** @param {Options} options */
  constructor(options) {
    this.options = options;
    this.#readings = new Readings(
      (frame) => this.#link.tell(frame),
      (answer, change, trace) => this.options.onChange?.(answer, change, trace),
      options.trace ?? false,
    );
    /** @type {import("./link.js").Owner} */
    const owner = {
      token: options.token,
      hello: (token) => this.#hello(token),
      onWelcome: (welcome, hello) => this.#welcome(welcome, hello),
      onFrame: (frame) => this.#frame(frame),
      onError: (frame) => this.#error(frame),
      onState: (state) => this.#linked(state),
    };
    this.#link = new Link(urlOf(options), options.backoffMs ?? BACKOFF_MS, owner, options.WebSocket);
  }

  /** @type {Readings} */
  #readings;
  /** @type {Link} */
  #link;
  /** @type {string | null} */
  #resumeToken = null;
  #clock = new GatewayClock();
  /** Counts welcomes, so that what was begun on an earlier connection is told apart. */
  #connections = 0;
  #waiting = new WaitingSends();
  /** @type {{resolve: (value?: unknown) => void, reject: (error: Error) => void}[]} wait for a welcome, which tells the time */
  #clockless = [];
  /** Why it stopped; null: it was not connected yet, or is to be. @type {{code: string, message: string} | null} */
  #over = null;

  /** Where the connection stands. */
  get state() {
    return this.#link.state;
  }

  /** What happened so far. @returns {Counters} */
  get counters() {
    const { reconnects, handovers } = this.#link;
    return { ...this.#readings.counters, reconnects, handovers };
  }

  /** Connect, and stay connected until `close` or a reason to stop. */
  connect() {
    globalThis.document?.addEventListener("visibilitychange", this.#hidden);
    this.#over = null;
    this.#link.start();
  }

  /** End the session. Its requests go on; `attach` finds them again. */
  close() {
    this.#readings.acknowledge();
    this.#link.tell({ t: "bye" });
    this.#link.stop("closed", "the client was closed");
  }

  /** Reconnect now instead of at the end of the backoff. */
  reconnect() {
    this.#link.wake();
  }

  /**
   * A new id, made from the server's clock; waits for the first welcome, and for another one after this machine's
   * clock was set, or it slept. Rejects where none will come, as the client has stopped.
   */
  async newId() {
    if (!this.#clock.known) {
      if (this.#over) throw new ProtocolError(this.#over);
      if (this.state.state === "open") this.#askTime();
      await new Promise((resolve, reject) => this.#clockless.push({ resolve, reject }));
    }
    return uuid7(this.#clock.now());
  }

  /** Have another connection take over, whose welcome tells the time; where it cannot, the steady clock has to do. */
  #askTime() {
    this.#link.handOver(TIME_MS_MAX);
    const connection = this.#connections;
    setTimeout(() => connection === this.#connections && this.#timeIsKnown(), TIME_MS_MAX);
  }

  #timeIsKnown() {
    for (const waiting of this.#clockless.splice(0)) waiting.resolve();
  }

  /**
   * Start one turn. Resolves once it has an id; `answer.done` tells how it ended. Until the server accepts it,
   * it is kept and sent again after every reconnect. `onWaiting` is told why it waits while there is no connection.
   * Once the client has stopped it rejects with the cause, or `answer.done` does.
   * @param {Message} message
   * @param {{onWaiting?: (why: Cause) => void}} [listeners]
   * @returns {Promise<Answer>}
   */
  async send(message, { onWaiting } = {}) {
    const { state } = this;
    const waiting = this.#waiting.add(onWaiting ?? (() => {}), state.state === "waiting" ? state.why : null);
    try {
      waiting.answer = this.#sent(message, message.id ?? (await this.newId()));
      return waiting.answer;
    } finally {
      waiting.over = waiting.answer === null;
    }
  }

  /**
   * @param {Message} message
   * @param {string} id
   */
  #sent(message, id) {
    /** @type {import("./frames.js").Send} */
    const frame = { ...message, t: "send", id };
    const known = this.#readings.get(id);
    const answer = known ?? this.#readings.add(id, frame);
    if (this.state.state === "stopped") this.#readings.fail(answer, this.state);
    else this.#readings.send(answer);
    return answer;
  }

  /**
   * Read a request from its start, whoever sent it and wherever it stands.
   * @param {string} id
   * @returns {Answer}
   */
  attach(id) {
    const known = this.#readings.get(id);
    if (known) return known;
    const answer = this.#readings.add(id, null);
    if (this.#over) this.#readings.fail(answer, this.#over);
    else this.#link.tell({ t: "attach", id, o: 0 });
    return answer;
  }

  /**
   * Stop reading. The request goes on; `attach` finds it again. The answer fails with code "closed".
   * @param {Answer} answer
   */
  detach(answer) {
    this.#readings.detach(answer);
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
   * @returns {Hello}
   */
  #hello(token) {
    const { window, batch = true, trace = false } = this.options;
    const caps = [...(batch ? ["batch"] : []), ...(trace ? ["trace"] : [])];
    const requests = this.#readings.asked();
    /** @type {Hello} */
    const hello = { t: "hello", v: 1, token, agent: AGENT, window, caps };
    if (this.#resumeToken) hello.resume = { token: this.#resumeToken, requests };
    else if (requests.length > 0) hello.resume = { requests };
    return hello;
  }

  /**
   * @param {Welcome} welcome
   * @param {Hello} hello
   */
  #welcome(welcome, hello) {
    this.#connections++;
    this.#resumeToken = welcome.resume_token;
    this.#clock.set(welcome.now);
    this.#readings.frameBytesMax = welcome.limits.frame;
    const { events = Infinity, bytes = Infinity } = this.options.window ?? {};
    const asked = hello.resume?.requests ?? [];
    this.#readings.resume(welcome.requests, new Set(asked.map(({ id }) => id)), {
      events: Math.min(events, welcome.limits.events),
      bytes: Math.min(bytes, welcome.limits.bytes),
      connection_bytes: welcome.limits.connection_bytes,
    });
    this.#timeIsKnown();
  }

  /** @param {ServerMessage} frame */
  #frame(frame) {
    switch (frame.t) {
      case "delta":
      case "event":
      case "snap":
      case "retract":
      case "end":
        return this.#readings.receive(frame);
      case "accepted":
      case "attached": {
        const answer = this.#readings.get(frame.id);
        if (answer) this.#readings.bind(answer, frame);
        return;
      }
      case "ping":
        this.#link.tell({ t: "pong", ts: frame.ts, a: this.#readings.vector() });
        return;
      case "error":
        return this.#error(frame);
      case "go_away":
        return this.#link.handOver(frame.in_ms, frame.url);
      case "auth_required":
        return void this.#authenticate(frame.expires_in_ms);
    }
  }

  /**
   * Show a fresh token before the one in use ends. Without one the server closes, and the reconnect asks again.
   * @param {number} expiresInMs
   */
  async #authenticate(expiresInMs) {
    const connection = this.#connections;
    const until = performance.now() + expiresInMs;
    while (connection === this.#connections && this.state.state === "open" && performance.now() < until) {
      try {
        const token = await freshToken(() => this.options.token(), until - performance.now());
        if (connection === this.#connections) this.#link.tell({ t: "auth", token });
        return;
      } catch (error) {
        if (error instanceof SignedOut) return;
      }
      const leftMs = until - performance.now();
      const waitMs = Math.min(AUTH_RETRY_MS_MAX, Math.max(AUTH_RETRY_MS_MIN, leftMs / 4));
      await new Promise((resolve) => setTimeout(resolve, waitMs * (0.5 + Math.random() / 2)));
    }
  }

  #hidden = () => {
    if (document.visibilityState === "hidden") this.#readings.acknowledge();
  };

  /** @param {import("./frames.js").Error} frame */
  #error(frame) {
    if (this.#readings.refused(frame)) return;
    this.options.onError?.(new ProtocolError(frame));
  }

  /** @param {LinkState} state */
  #linked(state) {
    if (state.state === "stopped") this.#stopped(state);
    if (state.state === "waiting") this.#waiting.say(state.why);
    this.options.onState?.(state);
  }

  /** @param {{code: string, message: string}} error */
  #stopped(error) {
    this.#over = error;
    this.#connections++;
    this.#resumeToken = null;
    globalThis.document?.removeEventListener("visibilitychange", this.#hidden);
    for (const waiting of this.#clockless.splice(0)) waiting.reject(new ProtocolError(error));
    this.#readings.failAll(error);
  }
}

/**
 * The socket's address. Throws where nothing could be connected to, or by nothing.
 * @param {Options} options
 * @returns {string}
 */
function urlOf(options) {
  if (!options.WebSocket && !globalThis.WebSocket) throw new Error("no WebSocket here: give the option WebSocket");
  if (!options.url && !globalThis.location) throw new Error("no page here: give the option url");
  return options.url ?? location.origin.replace(/^http/, "ws") + "/v1/ws";
}
