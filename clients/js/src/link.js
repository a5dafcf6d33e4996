// Keeps one welcomed connection: dials, backs off, hands over without a gap, wakes, stops. It knows no answers.

import { checkedToken, noToken } from "./causes.js";
import { Connection, RATE_LIMITED, SUPERSEDED, mayReconnect } from "./connection.js";
import { inTime } from "./in_time.js";

/** @typedef {import("./frames.js").ClientMessage} ClientMessage */
/** @typedef {import("./frames.js").ServerMessage} ServerMessage */
/** @typedef {import("./frames.js").Hello} Hello */
/** @typedef {import("./frames.js").Welcome} Welcome */
/** @typedef {import("./connection.js").SocketClass} SocketClass */
/**
 * Where the connection stands. "waiting": reconnects in `inMs`, `why` it has to. "stopped": will not reconnect by
 * itself.
 * @typedef {{state: "connecting"} | {state: "open"}
 *   | {state: "waiting", inMs: number, attempt: number, why: import("./causes.js").Cause}
 *   | {state: "stopped", code: string, message: string}} LinkState
 */
/**
 * @typedef {object} Owner
 * @property {() => Promise<string>} token a fresh ticket or an API key, asked for at every connection
 * @property {(token: string) => Hello} hello the first frame of a connection
 * @property {(welcome: Welcome, hello: Hello) => void} onWelcome a connection took over; `hello` is what it asked
 * @property {(frame: ServerMessage) => void} onFrame every later frame of the connection that holds
 * @property {(error: import("./frames.js").Error) => void} onError an error before `welcome`
 * @property {(state: LinkState) => void} onState
 */

/** Thrown by `token` when there is no way to get one: the client stops instead of trying again. */
export class SignedOut extends Error {
  /**
   * @param {string} [message]
   * @param {string} [code] why the client stops
   */
  constructor(message, code = "unauthorized") {
    super(message);
    this.code = code;
  }
}

const BACKOFF_MS_MAX = 20_000;
const TOKEN_MS_MAX = 15_000;
const HEALTHY_MS = 30_000; // a connection that lived this long starts the backoff anew
const STRAY_MS = 60_000; // longer than a gateway takes to notice that a client is gone
const RATE_LIMITED_MS = 1_000; // the least wait after a close that says so, where no error named another
const STOPPED_AS = new Map([
  [SUPERSEDED, "superseded"],
  [4500, "bad_message"],
  [4501, "unauthorized"],
  [4502, "hello_timeout"],
  [4504, "forbidden"],
  [4505, "connection_limit"],
  [4506, "version"],
  [4507, "account_suspended"],
  [4509, "too_large"],
]);

export class Link {
  /**
   * @param {string} url
   * @param {number} backoffMs the first reconnect waits at most this long, later ones twice as long each
   * @param {Owner} owner
   * @param {SocketClass} [Socket] the runtime's own unless given
   */
  constructor(url, backoffMs, owner, Socket) {
    this.#Socket = Socket;
    this.url = url;
    this.backoffMs = backoffMs;
    this.owner = owner;
    /** @type {LinkState} */
    this.state = { state: "stopped", code: "closed", message: "not connected yet" };
    /** Connections that took over from one that still held, and those that came after a loss. */
    this.handovers = this.reconnects = 0;
  }

  #Socket;
  /** @type {Connection | null} welcomed */
  #current = null;
  /** @type {Connection | null} dialled, not welcomed yet */
  #next = null;
  #dials = 0;
  #dialling = false;
  #attempt = 0;
  #probeMs = 10_000;
  /** @type {{by: number, url: string, attempt: number} | null} the server asked to leave the current one */
  #leaving = null;
  /** Until then a 4003 may be our own doing: a hello of ours was not welcomed, and may be answered late. */
  #strayUntil = 0;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #retryTimer;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #healthyTimer;

  /** Connect, and stay connected until `stop` or a reason to stop. */
  start() {
    if (this.state.state !== "stopped") return;
    globalThis.addEventListener?.("online", this.wake);
    globalThis.document?.addEventListener("visibilitychange", this.#visible);
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
    this.#strayUntil = 0;
    this.#current?.close();
    this.#next?.close();
    this.#current = this.#next = this.#leaving = null;
    clearTimeout(this.#retryTimer);
    clearTimeout(this.#healthyTimer);
    globalThis.removeEventListener?.("online", this.wake);
    globalThis.document?.removeEventListener("visibilitychange", this.#visible);
    this.#become({ state: "stopped", code, message });
  }

  /**
   * Send one frame, if a connection holds.
   * @param {ClientMessage} frame
   * @returns {boolean}
   */
  tell(frame) {
    return this.#current?.tell(frame) ?? false;
  }

  /**
   * The server asked us to move: dial a second connection, which takes over at its welcome. Where that fails it is
   * tried again until the time is over or the server closes; then we reconnect as after any loss.
   * @param {number} inMs
   * @param {string} [url] where to; only the same origin is followed
   */
  handOver(inMs, url) {
    if (this.#leaving) return;
    this.#leaving = { by: performance.now() + inMs, url: sameOrigin(this.url, url), attempt: 0 };
    if (!this.#next && !this.#dialling) void this.#dial(this.#leaving.url);
  }

  /** Reconnect now instead of at the end of the backoff; find out whether an open socket still lives. */
  wake = () => {
    if (this.state.state === "waiting") void this.#dial();
    else this.#current?.probe(this.#probeMs);
  };

  #visible = () => {
    if (document.visibilityState === "visible") this.wake();
  };

  async #dial(url = this.url) {
    clearTimeout(this.#retryTimer);
    const dial = ++this.#dials;
    this.#dialling = true;
    if (!this.#current) this.#become({ state: "connecting" });
    let token;
    try {
      token = await freshToken(() => this.owner.token(), TOKEN_MS_MAX);
    } catch (error) {
      if (dial === this.#dials) this.#noToken(error);
      return;
    }
    if (dial !== this.#dials) return; // stopped, or dialled again, meanwhile
    this.#dialling = false;
    if (this.#next) this.#strayed(this.#next);
    this.#next?.close();
    this.#next = this.#connect(url, token);
  }

  /**
   * @param {string} url
   * @param {string} token
   */
  #connect(url, token) {
    /** @type {Hello} */
    let hello;
    /** @type {import("./connection.js").Listener} */
    const listener = {
      onOpen: () => void (connection.saidHello = connection.tell((hello = this.owner.hello(token)))),
      onFrame: (frame) => this.#receive(connection, frame, hello),
      onClose: (code, reason) => this.#lost(connection, code, reason),
    };
    const connection = new Connection(url, listener, this.#Socket);
    return connection;
  }

  /** @param {unknown} error */
  #noToken(error) {
    this.#dialling = false;
    if (this.#current) return void (error instanceof SignedOut || this.#moveLater());
    if (error instanceof SignedOut) this.stop(error.code, error.message);
    else this.#retryLater(noToken(error));
  }

  /**
   * @param {Connection} connection
   * @param {ServerMessage} frame
   * @param {Hello} hello
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
   * @param {Welcome} welcome
   * @param {Hello} hello
   */
  #welcome(connection, welcome, hello) {
    if (this.#leaving) this.handovers++;
    this.#current?.close();
    connection.welcomed = true;
    this.#current = connection;
    this.#next = this.#leaving = null;
    const { interval_ms, timeout_ms } = welcome.heartbeat;
    connection.expectEvery(interval_ms + timeout_ms);
    this.#probeMs = timeout_ms;
    clearTimeout(this.#retryTimer);
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
    if (!connection.welcomed) this.#strayed(connection);
    if (this.#current) return void (mayReconnect(code) && this.#moveLater());
    clearTimeout(this.#healthyTimer);
    if (this.#next || this.#dialling) return; // the other one carries on
    this.#leaving = null;
    const { fault } = connection;
    const waitMs = fault?.after_ms ?? (code === RATE_LIMITED ? RATE_LIMITED_MS : 0);
    const why = connection.cause(code, reason);
    if (mayReconnect(code) || this.#ownDoing(code)) return this.#retryLater(why, waitMs);
    const message = reason || fault?.message || `the server closed the connection (${code})`;
    this.stop(STOPPED_AS.get(code) ?? "closed", message);
  }

  /**
   * A connection ends without its welcome: its hello may still be on its way to a gateway.
   * @param {Connection} connection
   */
  #strayed(connection) {
    if (connection.saidHello) this.#strayUntil = performance.now() + STRAY_MS;
  }

  /**
   * Whether it was a late hello of ours that superseded our connection. One such hello excuses one 4003.
   * @param {number} code
   */
  #ownDoing(code) {
    if (code !== SUPERSEDED || performance.now() >= this.#strayUntil) return false;
    this.#strayUntil = 0;
    return true;
  }

  /** A connection that should have taken over did not: once more, while there is time. */
  #moveLater() {
    if (!this.#leaving) return;
    const { by, url } = this.#leaving;
    const inMs = this.#jitter(this.#leaving.attempt++);
    // Too late: the server will close, and we reconnect as after any loss.
    if (performance.now() + inMs >= by) return void (this.#leaving = null);
    clearTimeout(this.#retryTimer);
    this.#retryTimer = setTimeout(() => void this.#dial(url), inMs);
  }

  /**
   * @param {import("./causes.js").Cause} why
   * @param {number} [waitMs] the server asked to wait at least this long
   */
  #retryLater(why, waitMs = 0) {
    const inMs = waitMs + this.#jitter(this.#attempt++);
    this.reconnects++;
    clearTimeout(this.#retryTimer);
    this.#retryTimer = setTimeout(() => void this.#dial(), inMs);
    this.#become({ state: "waiting", inMs, attempt: this.#attempt, why });
  }

  /**
   * Full jitter: a random wait between nothing and a ceiling that doubles.
   * @param {number} attempt
   */
  #jitter(attempt) {
    return Math.random() * Math.min(BACKOFF_MS_MAX, this.backoffMs * 2 ** attempt);
  }

  /** @param {LinkState} state */
  #become(state) {
    this.state = state;
    this.owner.onState(state);
  }
}

/**
 * A token, whatever the callback does: rejects where it throws, hangs, or gives none.
 * @param {() => Promise<string>} token
 * @param {number} ms
 */
export async function freshToken(token, ms) {
  return checkedToken(await inTime(Promise.resolve(token()), ms));
}

/**
 * The address that a `go_away` names where it is of the same scheme, host and port as ours, else ours.
 * @param {string} ours
 * @param {unknown} named
 */
function sameOrigin(ours, named) {
  if (typeof named !== "string") return ours;
  try {
    const theirs = new URL(named.replace(/^http/, "ws"), ours);
    const { protocol, host } = new URL(ours);
    return theirs.protocol === protocol && theirs.host === host ? theirs.href : ours;
  } catch {
    return ours; // not an address
  }
}
