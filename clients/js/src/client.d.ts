export class Client {
    /** @param {Options} options */
    constructor(options: Options);
    options: Options;
    /** Where the connection stands. */
    get state(): import("./link.js").LinkState;
    /** What happened so far. @returns {Counters} */
    get counters(): Counters;
    /** Connect, and stay connected until `close` or a reason to stop. */
    connect(): void;
    /** End the session. Its requests go on; `attach` finds them again. */
    close(): void;
    /** Reconnect now instead of at the end of the backoff. */
    reconnect(): void;
    /**
     * A new id, made from the server's clock; waits for the first welcome, and for another one after this machine's
     * clock was set, or it slept. Rejects where none will come, as the client has stopped.
     */
    newId(): Promise<string>;
    /**
     * Start one turn. Resolves once it has an id; `answer.done` tells how it ended. Until the server accepts it,
     * it is kept and sent again after every reconnect. `onWaiting` is told why it waits while there is no connection.
     * Once the client has stopped it rejects with the cause, or `answer.done` does.
     * @param {Message} message
     * @param {{onWaiting?: (why: Cause) => void}} [listeners]
     * @returns {Promise<Answer>}
     */
    send(message: Message, { onWaiting }?: {
        onWaiting?: (why: Cause) => void;
    }): Promise<Answer>;
    /**
     * Read a request from its start, whoever sent it and wherever it stands.
     * @param {string} id
     * @returns {Answer}
     */
    attach(id: string): Answer;
    /**
     * Stop reading. The request goes on; `attach` finds it again. The answer fails with code "closed".
     * @param {Answer} answer
     */
    detach(answer: Answer): void;
    /**
     * Ask to stop generating. The answer ends with reason "cancelled" and keeps its text.
     * @param {Answer} answer
     */
    cancel(answer: Answer): void;
    #private;
}
export type ClientMessage = import("./frames.js").ClientMessage;
export type ServerMessage = import("./frames.js").ServerMessage;
export type Hello = import("./frames.js").Hello;
export type Welcome = import("./frames.js").Welcome;
/**
 * a message of protocol parley.v1
 */
export type Frame = ClientMessage | ServerMessage;
export type LinkState = import("./link.js").LinkState;
export type Cause = import("./causes.js").Cause;
export type Change = import("./answer.js").Change;
export type SafetyFlag = import("./answer.js").SafetyFlag;
export type Trace = import("./answer.js").Trace;
export type Options = {
    /**
     * a fresh ticket or an API key, asked for at every connection and when the
     * one in use is about to end; it throws SignedOut where there is none to be had
     */
    token: () => Promise<string>;
    /**
     * of the socket, wss://HOST/v1/ws; the page's own origin unless given
     */
    url?: string | undefined;
    /**
     * where the runtime has none (Node 20): that of a package
     */
    WebSocket?: import("./connection.js").SocketClass | undefined;
    onState?: ((state: LinkState) => void) | undefined;
    /**
     * when it returns, or the promise that it returned is settled,
     * the change counts as applied; the server waits for readers who are slow
     */
    onChange?: import("./answer.js").Watcher | undefined;
    /**
     * an error that belongs to no answer
     */
    onError?: ((error: ProtocolError) => void) | undefined;
    /**
     * smaller windows than the server's
     */
    window?: {
        events?: number;
        bytes?: number;
    } | undefined;
    /**
     * fewer, larger pieces of text after an answer's first second; true unless given
     */
    batch?: boolean | undefined;
    /**
     * tell with each piece of text where in the log it is and how long it was held back
     */
    trace?: boolean | undefined;
    /**
     * ceiling of the first wait before a reconnect
     */
    backoffMs?: number | undefined;
};
/**
 * what to send: `content` or `messages`, the rest as docs/protocol.md has it
 */
export type Message = {
    content?: string | undefined;
    messages?: {
        role: string;
        content: string;
    }[] | undefined;
    conversation?: string | undefined;
    /**
     * what the model is told before; a conversation keeps it for its later turns
     */
    system?: string | undefined;
    /**
     * in place of content: the id of the conversation's newest answer, which ended "length",
     * or of its request; the text goes on there
     */
    continue?: string | undefined;
    model?: string | undefined;
    options?: object | undefined;
    metadata?: object | undefined;
    /**
     * of the request, made by `newId`; the same id and message again run nothing twice
     */
    id?: string | undefined;
};
/**
 * What a client saw. `verified` and `mismatched` count the hash checks of answers that ended.
 */
export type Counters = {
    verified: number;
    mismatched: number;
    /**
     * frames that did not come next, so that the log was read again from what was applied
     */
    gaps: number;
    /**
     * frames that came again and were ignored
     */
    stale: number;
    /**
     * turns that the server had not got before a reconnect
     */
    resent: number;
    /**
     * answers that went on after a reconnect or handover
     */
    resumed: number;
    reconnects: number;
    handovers: number;
};
import { Answer } from "./answer.js";
import { Conversations } from "./conversations.js";
import { ProtocolError } from "./answer.js";
import { redacted } from "./prompts.js";
import { SignedOut } from "./link.js";
export { Answer, Conversations, ProtocolError, redacted, SignedOut };
