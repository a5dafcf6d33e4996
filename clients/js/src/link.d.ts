/**
 * A token, whatever the callback does: rejects where it throws, hangs, or gives none.
 * @param {() => Promise<string>} token
 * @param {number} ms
 */
export function freshToken(token: () => Promise<string>, ms: number): Promise<string>;
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
    constructor(message?: string, code?: string);
    code: string;
}
export class Link {
    /**
     * @param {string} url
     * @param {number} backoffMs the first reconnect waits at most this long, later ones twice as long each
     * @param {Owner} owner
     * @param {SocketClass} [Socket] the runtime's own unless given
     */
    constructor(url: string, backoffMs: number, owner: Owner, Socket?: SocketClass);
    url: string;
    backoffMs: number;
    owner: Owner;
    /** @type {LinkState} */
    state: LinkState;
    /** Connections that took over from one that still held, and those that came after a loss. */
    handovers: number;
    reconnects: number;
    /** Connect, and stay connected until `stop` or a reason to stop. */
    start(): void;
    /**
     * @param {string} code
     * @param {string} message
     */
    stop(code: string, message: string): void;
    /**
     * Send one frame, if a connection holds.
     * @param {ClientMessage} frame
     * @returns {boolean}
     */
    tell(frame: ClientMessage): boolean;
    /**
     * The server asked us to move: dial a second connection, which takes over at its welcome. Where that fails it is
     * tried again until the time is over or the server closes; then we reconnect as after any loss.
     * @param {number} inMs
     * @param {string} [url] where to; only the same origin is followed
     */
    handOver(inMs: number, url?: string): void;
    /** Reconnect now instead of at the end of the backoff; find out whether an open socket still lives. */
    wake: () => void;
    #private;
}
export type ClientMessage = import("./frames.js").ClientMessage;
export type ServerMessage = import("./frames.js").ServerMessage;
export type Hello = import("./frames.js").Hello;
export type Welcome = import("./frames.js").Welcome;
export type SocketClass = import("./connection.js").SocketClass;
/**
 * Where the connection stands. "waiting": reconnects in `inMs`, `why` it has to. "stopped": will not reconnect by
 * itself.
 */
export type LinkState = {
    state: "connecting";
} | {
    state: "open";
} | {
    state: "waiting";
    inMs: number;
    attempt: number;
    why: import("./causes.js").Cause;
} | {
    state: "stopped";
    code: string;
    message: string;
};
export type Owner = {
    /**
     * a fresh ticket or an API key, asked for at every connection
     */
    token: () => Promise<string>;
    /**
     * the first frame of a connection
     */
    hello: (token: string) => Hello;
    /**
     * a connection took over; `hello` is what it asked
     */
    onWelcome: (welcome: Welcome, hello: Hello) => void;
    /**
     * every later frame of the connection that holds
     */
    onFrame: (frame: ServerMessage) => void;
    /**
     * an error before `welcome`
     */
    onError: (error: import("./frames.js").Error) => void;
    onState: (state: LinkState) => void;
};
