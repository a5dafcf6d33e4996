// Keeps one welcomed connection: dials, backs off, hands over without a gap, wakes, stops. It knows no answers.

import { Connection, SUPERSEDED, mayReconnect } from "./connection.js";

/** @typedef {import("./answer.js").Frame} Frame */
/**
 * Where the connection stands. "waiting": reconnects in `inMs`. "stopped": will not reconnect by itself.
 * @typedef {{state: "connecting"} | {state: "open"} | {state: "waiting", inMs: number, attempt: number}
 *   | {state: "stopped", code: string, message: string}} LinkState
 */
/**
 * @typedef {object} Owner
 * @property {() => Promise<string>} token a fresh ticket or an API key, asked for at every connection
 * @property {(token: string) => Frame} hello the first frame of a connection
 * @property {(welcome: Frame, hello: Frame) => void} onWelcome a connection took over; `hello` is what it asked
 * @property {(frame: Frame) => void} onFrame every later frame of the connection that holds
 * @property {(error: Frame) => void} onError an error before `welcome`
 * @property {(state: LinkState) => void} onState
 */

/** Thrown by `token` when there is no way to get one: the client stops instead of trying again. */
export class SignedOut extends Error {}

const BACKOFF_MS_MAX = 20_000;
const HEALTHY_MS = 30_000; // a connection that lived this long starts the backoff anew
const STOPPED_AS = new Map([
  [SUPERSEDED, "superseded"],
  [4500, "bad_message"],
  [4501, "unauthorized"],
  [4502, "hello_timeout"],
  [4504, "forbidden"],
  [4505, "connection_limit"],
  [4506, "version"],
  [4509, "too_large"],
]);

export class Link {
  /**
   * @param {string} url
   * @param {number} backoffMs the first reconnect waits at most this long, later ones twice as long each
   * @param {Owner} owner
   */
  constructor(url, backoffMs, owner) {
    this.url = url;
    this.backoffMs = backoffMs;
    this.owner = owner;
    /** @type {LinkState} */
    this.state = { state: "stopped", code: "closed", message: "not connected yet" };
    this.reconnects = 0;
  }

  /** @type {Connection | null} welcomed */
  #current = null;
  /** @type {Connection | null} dialled, not welcomed yet */
  #next = null;
  #dials = 0;
  #dialling = false;
  #attempt = 0;
  #probeMs = 10_000;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #retryTimer;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #healthyTimer;

  /** Connect, and stay connected until `stop` or a reason to stop. */
  start() {
    if (this.state.state !== "stopped") return;
    addEventListener("online", this.wake);
    document.addEventListener("visibilitychange", this.#visible);
    this.#attempt = 0;
    void this.#dial();
  }

  /**
   * @param {string} code
   * @param {string} message
   */
  stop(code, message) {
    this.#dials++;
    this.#dialling = false;
    this.#current?.close();
    this.#next?.close();
    this.#current = this.#next = null;
    clearTimeout(this.#retryTimer);
    clearTimeout(this.#healthyTimer);
    removeEventListener("online", this.wake);
    document.removeEventListener("visibilitychange", this.#visible);
    this.#become({ state: "stopped", code, message });
  }

  /**
   * Send one frame, if a connection holds.
   * @param {Frame} frame
   * @returns {boolean}
   */
  tell(frame) {
    return this.#current?.tell(frame) ?? false;
  }

  /** The server asked us to move: dial a second connection, which takes over at its welcome. */
  handOver() {
    if (!this.#next && !this.#dialling) void this.#dial();
  }

  /** Reconnect now instead of at the end of the backoff; find out whether an open socket still lives. */
  wake = () => {
    if (this.state.state === "waiting") void this.#dial();
    else this.#current?.probe(this.#probeMs);
  };

  #visible = () => {
    if (document.visibilityState === "visible") this.wake();
  };

  async #dial() {
    clearTimeout(this.#retryTimer);
    const dial = ++this.#dials;
    this.#dialling = true;
    if (!this.#current) this.#become({ state: "connecting" });
    let token;
    try {
      token = await this.owner.token();
    } catch (error) {
      if (dial === this.#dials) this.#noToken(error);
      return;
    }
    if (dial !== this.#dials) return; // stopped, or dialled again, meanwhile
    this.#dialling = false;
    this.#next?.close();
    /** @type {Frame} */
    let hello;
    const connection = new Connection(this.url, {
      onOpen: () => connection.tell((hello = this.owner.hello(token))),
      onFrame: (frame) => this.#receive(connection, frame, hello),
      onClose: (code, reason) => this.#lost(connection, code, reason),
    });
    this.#next = connection;
  }

  /** @param {unknown} error */
  #noToken(error) {
    this.#dialling = false;
    if (error instanceof SignedOut) this.stop("unauthorized", error.message);
    else if (!this.#current) this.#retryLater();
  }

  /**
   * @param {Connection} connection
   * @param {Frame} frame
   * @param {Frame} hello
   */
  #receive(connection, frame, hello) {
    if (connection === this.#current) this.owner.onFrame(frame);
    else if (connection !== this.#next) return;
    else if (frame.t === "welcome") this.#welcome(connection, frame, hello);
    else if (frame.t === "error") this.owner.onError(frame);
  }

  /**
   * The new connection takes over; the one before, if it still lives, is closed. No frame is lost between them.
   * @param {Connection} connection
   * @param {Frame} welcome
   * @param {Frame} hello
   */
  #welcome(connection, welcome, hello) {
    this.#current?.close();
    this.#current = connection;
    this.#next = null;
    const { interval_ms, timeout_ms } = welcome.heartbeat;
    connection.expectEvery(interval_ms + timeout_ms);
    this.#probeMs = timeout_ms;
    clearTimeout(this.#healthyTimer);
    this.#healthyTimer = setTimeout(() => (this.#attempt = 0), HEALTHY_MS);
    this.owner.onWelcome(welcome, hello);
    this.#become({ state: "open" });
  }

  /**
   * @param {Connection} connection
   * @param {number} code
   * @param {string} reason
   */
  #lost(connection, code, reason) {
    if (connection === this.#current) this.#current = null;
    else if (connection === this.#next) this.#next = null;
    else return;
    clearTimeout(this.#healthyTimer);
    if (this.#current || this.#next || this.#dialling) return; // the other one carries on
    if (mayReconnect(code)) this.#retryLater();
    else this.stop(STOPPED_AS.get(code) ?? "closed", reason || `the server closed the connection (${code})`);
  }

  /** Full jitter: a random wait between nothing and a ceiling that doubles. */
  #retryLater() {
    const inMs = Math.random() * Math.min(BACKOFF_MS_MAX, this.backoffMs * 2 ** this.#attempt++);
    this.reconnects++;
    this.#retryTimer = setTimeout(() => void this.#dial(), inMs);
    this.#become({ state: "waiting", inMs, attempt: this.#attempt });
  }

  /** @param {LinkState} state */
  #become(state) {
    this.state = state;
    this.owner.onState(state);
  }
}
