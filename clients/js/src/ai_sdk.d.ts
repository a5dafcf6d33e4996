/** An id for a new chat, of the kind that a stored one must have. */
export function newChatId(): string;
export class ParleyTransport {
    /** @param {TransportOptions} options */
    constructor(options: TransportOptions);
    /** What resuming brings begins with the answer's first word. */
    resumeStreamIsReplay: boolean;
    /**
     * Called by `useChat`.
     * @param {{trigger: "submit-message" | "regenerate-message", chatId: string, messageId: string | undefined,
     *   messages: SentMessage[], abortSignal: AbortSignal | undefined} & RequestOptions} asked
     * @returns {Promise<ReadableStream<Chunk>>}
     */
    sendMessages({ trigger, chatId, messageId, messages, abortSignal, body, metadata }: {
        trigger: "submit-message" | "regenerate-message";
        chatId: string;
        messageId: string | undefined;
        messages: SentMessage[];
        abortSignal: AbortSignal | undefined;
    } & RequestOptions): Promise<ReadableStream<Chunk>>;
    /**
     * Called by `useChat` where it resumes. The answer that the page, before it was reloaded, had not read to its end.
     * @param {{chatId: string, abortSignal?: AbortSignal} & RequestOptions} asked
     * @returns {Promise<ReadableStream<Chunk> | null>}
     */
    reconnectToStream({ chatId, abortSignal }: {
        chatId: string;
        abortSignal?: AbortSignal;
    } & RequestOptions): Promise<ReadableStream<Chunk> | null>;
    /**
     * What Parley keeps of a chat, for `useChat({ messages })`; the answer that still runs comes by resuming.
     * @param {string} chatId
     * @returns {Promise<ParleyMessage[]>} none where the chat is new
     */
    load(chatId: string): Promise<ParleyMessage[]>;
    /** End the session. Its answers go on, and a reloaded page finds them again. */
    close(): void;
    #private;
}
export type Answer = import("./client.js").Answer;
export type Chunk = import("./ui_chunks.js").Chunk;
export type SentMessage = import("./ui_messages.js").SentMessage;
export type ParleyMessage = import("./ui_messages.js").ParleyMessage;
export type ParleyMetadata = import("./ui_messages.js").ParleyMetadata;
/**
 * given with a message; no headers are sent
 */
export type RequestOptions = {
    body?: object;
    metadata?: unknown;
    headers?: unknown;
};
export type TransportOptions = {
    /**
     * a fresh ticket, as the client's
     */
    token: () => Promise<string>;
    /**
     * of the socket, wss://HOST/v1/ws; the page's own origin unless given
     */
    url?: string | undefined;
    /**
     * Parley keeps the chats, and only the newest turn is sent; else the page keeps them, and
     * all of its messages are sent each time
     */
    stored?: boolean | undefined;
    /**
     * a history pass, for `load`; without one the page's own sign-in counts
     */
    pass?: (() => Promise<string>) | undefined;
    /**
     * `{ model, system, metadata, …options }` for every message
     */
    body?: object | (() => object | Promise<object>) | undefined;
    /**
     * which answers a reloaded page goes on with; sessionStorage
     * unless given
     */
    storage?: import("./kept_answers.js").Storage | undefined;
    /**
     * where the connection stands
     */
    onState?: ((state: import("./client.js").LinkState) => void) | undefined;
    /**
     * where the runtime has none (Node 20)
     */
    WebSocket?: import("./connection.js").SocketClass | undefined;
};
import { ProtocolError } from "./client.js";
import { SignedOut } from "./client.js";
export { ProtocolError, SignedOut };
