// One WebSocket: frames in, frames out, and whether it still lives. It knows nothing of requests.

import { badReply, lost, unreachable } from "./causes.js";

/** @typedef {import("./frames.js").ClientMessage} ClientMessage */
/** @typedef {import("./frames.js").ServerMessage} ServerMessage */
/**
 * @typedef {object} Listener
 * @property {() => void} onOpen the socket is open: the first frame must be `hello`
 * @property {(frame: ServerMessage) => void} onFrame
 * @property {(code: number, reason: string) => void} onClose called once, also where the peer went silent
 */

/**
 * A socket as far as it is used: the browser's, Node's, that of a package.
 * @typedef {object} Socket
 * @property {number} readyState
 * @property {(data: string) => void} send
 * @property {(code?: number) => void} close
 * @property {((event: any) => void) | null} onopen
 * @property {((event: any) => void) | null} onmessage
 * @property {((event: any) => void) | null} onerror
 * @property {((event: any) => void) | null} onclose
 */
/** @typedef {new (url: string, protocol: string) => Socket} SocketClass */

export const SUBPROTOCOL = "parley.v1.json";
export const SUPERSEDED = 4003;
export const RATE_LIMITED = 4013;
const ABNORMAL = 1006;
const OPEN = 1; // of readyState
const WELCOME_MS_MAX = 15_000;
const RETRYABLE = new Set([1001, 1005, ABNORMAL, 1011, 1012, 1013]);

/**
 * Whether a client may connect again after this close code. The number range is the policy.
 * @param {number} code
 */
export function mayReconnect(code) {
  return RETRYABLE.has(code) || (code >= 4000 && code < 4500 && code !== SUPERSEDED);
}

export class Connection {
  /**
   * @param {string} url ws:// or wss://
   * @param {Listener} listener
   * @param {SocketClass} [Socket] the runtime's own unless given
   */
  constructor(url, listener, Socket = WebSocket) {
    this.#listener = listener;
    /** @type {Socket} */
    this.#socket = new Socket(url, SUBPROTOCOL);
    this.#url = url;
    this.#socket.onopen = () => {
      this.#opened = true;
      if (!this.#closed) listener.onOpen();
    };
    this.#socket.onerror = (event) => void (this.#trouble = String(event.message ?? ""));
    this.#socket.onmessage = (event) => this.#receive(event.data);
    this.#socket.onclose = (event) => this.#lost(event.code, event.reason);
    this.#watch();
  }

  #listener;
  #socket;
  #silenceMs = WELCOME_MS_MAX;
  #closed = false;
  #opened = false;
  #url;
  #trouble = "";
  /** @type {import("./causes.js").Cause | null} */
  #nonsense = null;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;
  /** The last `error` about the connection itself: it says why the close that follows. @type {import("./frames.js").Error | null} */
  fault = null;
  saidHello = false;
  welcomed = false;

  /**
   * After `welcome`: how long silence may last before the socket counts as dead.
   * @param {number} silenceMs
   */
  expectEvery(silenceMs) {
    this.#silenceMs = silenceMs;
    this.#watch();
  }

  /**
   * Find out within `ms` whether the peer is still there (after sleep or a change of network).
   * @param {number} ms
   */
  probe(ms) {
    if (!this.tell({ t: "ping", ts: Date.now() })) return;
    this.#watch(ms);
  }

  /**
   * Send one frame.
   * @param {ClientMessage} frame
   * @returns {boolean} false where the socket is not open
   */
  tell(frame) {
    if (this.#closed || this.#socket.readyState !== OPEN) return false;
    this.#socket.send(JSON.stringify(frame));
    return true;
  }

  /**
   * Why it was lost.
   * @param {number} code
   * @param {string} reason
   */
  cause(code, reason) {
    if (this.#nonsense) return this.#nonsense;
    return this.#opened ? lost(code, reason, this.fault) : unreachable(this.#url, reason || this.#trouble);
  }

  /** Close without telling the listener, and without waiting for the peer: whoever closes knows. */
  close() {
    this.#closed = true;
    clearTimeout(this.#timer);
    this.#socket.close(1000);
  }

  /** @param {unknown} data */
  #receive(data) {
    if (this.#closed) return;
    this.#watch();
    /** @type {unknown} */
    let frame;
    try {
      frame = JSON.parse(String(data));
    } catch {
      this.#nonsense = badReply(this.#url);
      this.#socket.close();
      return this.#lost(ABNORMAL, "");
    }
    if (typeof frame !== "object" || frame === null) return;
    const known = /** @type {ServerMessage} */ (frame);
    if (known.t === "error" && known.id === undefined) this.fault = known;
    this.#listener.onFrame(known);
  }

  /** @param {number} [ms] */
  #watch(ms = this.#silenceMs) {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#socket.close();
      this.#lost(ABNORMAL, `nothing came for ${ms} ms`); // a close handshake with a dead peer takes minutes
    }, ms);
  }

  /**
   * @param {number} code
   * @param {string} reason
   */
  #lost(code, reason) {
    if (this.#closed) return;
    this.#closed = true;
    clearTimeout(this.#timer);
    this.#listener.onClose(code, reason);
  }
}
