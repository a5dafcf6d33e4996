/**
 * Whether a client may connect again after this close code. The number range is the policy.
 * @param {number} code
 */
export function mayReconnect(code: number): boolean;
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
export const SUBPROTOCOL: "parley.v1.json";
export const SUPERSEDED: 4003;
export const RATE_LIMITED: 4013;
export class Connection {
    /**
     * @param {string} url ws:// or wss://
     * @param {Listener} listener
     * @param {SocketClass} [Socket] the runtime's own unless given
     */
    constructor(url: string, listener: Listener, Socket?: SocketClass);
    /** The last `error` about the connection itself: it says why the close that follows. @type {import("./frames.js").Error | null} */
    fault: import("./frames.js").Error | null;
    saidHello: boolean;
    welcomed: boolean;
    /**
     * After `welcome`: how long silence may last before the socket counts as dead.
     * @param {number} silenceMs
     */
    expectEvery(silenceMs: number): void;
    /**
     * Find out within `ms` whether the peer is still there (after sleep or a change of network).
     * @param {number} ms
     */
    probe(ms: number): void;
    /**
     * Send one frame.
     * @param {ClientMessage} frame
     * @returns {boolean} false where the socket is not open
     */
    tell(frame: ClientMessage): boolean;
    /**
     * Why it was lost.
     * @param {number} code
     * @param {string} reason
     */
    cause(code: number, reason: string): import("./causes.js").Cause;
    /** Close without telling the listener, and without waiting for the peer: whoever closes knows. */
    close(): void;
    #private;
}
export type ClientMessage = import("./frames.js").ClientMessage;
export type ServerMessage = import("./frames.js").ServerMessage;
export type Listener = {
    /**
     * the socket is open: the first frame must be `hello`
     */
    onOpen: () => void;
    onFrame: (frame: ServerMessage) => void;
    /**
     * called once, also where the peer went silent
     */
    onClose: (code: number, reason: string) => void;
};
/**
 * A socket as far as it is used: the browser's, Node's, that of a package.
 */
export type Socket = {
    readyState: number;
    send: (data: string) => void;
    close: (code?: number) => void;
    onopen: ((event: any) => void) | null;
    onmessage: ((event: any) => void) | null;
    onerror: ((event: any) => void) | null;
    onclose: ((event: any) => void) | null;
};
export type SocketClass = new (url: string, protocol: string) => Socket;
