/** @typedef {{type: "text", text: string, state: "done"}} TextPart */
/** @typedef {{id: string, role: "user" | "assistant", metadata: ParleyMetadata, parts: TextPart[]}} ParleyMessage */
/**
 * All that the page has, for a model that remembers nothing.
 * @param {SentMessage[]} messages
 * @param {Message} fields
 * @returns {Message}
 */
export function wholeChat(messages: SentMessage[], { system, ...fields }: Message): Message;
/**
 * The newest turn alone, for a conversation that Parley keeps.
 * @param {string} conversation
 * @param {SentMessage[]} messages
 * @param {Message} fields
 * @returns {Message}
 */
export function newestTurn(conversation: string, messages: SentMessage[], fields: Message): Message;
/**
 * `{ model, system, metadata, …options }`, as a page gives it with `body`, as fields of a `send`.
 * @param {object} body
 * @param {unknown} metadata beside it
 * @returns {Message}
 */
export function fieldsOf(body: object, metadata: unknown): Message;
/**
 * A stored conversation as `useChat` shows it, without the answer that still runs: resuming brings that.
 * @param {StoredMessage[]} stored
 * @returns {ParleyMessage[]}
 */
export function shownMessages(stored: StoredMessage[]): ParleyMessage[];
/**
 * Without what is not known.
 * @param {Record<string, unknown>} facts
 * @returns {ParleyMetadata}
 */
export function known(facts: Record<string, unknown>): ParleyMetadata;
/** @param {string} message */
export function refused(message: string): ProtocolError;
export type TextPart = {
    type: "text";
    text: string;
    state: "done";
};
export type ParleyMessage = {
    id: string;
    role: "user" | "assistant";
    metadata: ParleyMetadata;
    parts: TextPart[];
};
export type StoredMessage = import("./conversations.js").StoredMessage;
export type Message = import("./client.js").Message;
/**
 * what is read of a `UIMessage`
 */
export type SentMessage = {
    id: string;
    role: string;
    parts: {
        type: string;
        text?: string;
    }[];
};
/**
 * What the metadata of an answer's message say; each is there once it is known.
 */
export type ParleyMetadata = {
    requestId?: string | undefined;
    /**
     * the one that was asked for; absent: the default
     */
    model?: string | undefined;
    /**
     * how it ended (docs/protocol.md): `stop`, `length`, `cancelled`, `blocked`, …
     */
    reason?: string | undefined;
    /**
     * of a reason that is a failure
     */
    code?: string | undefined;
    usage?: import("./answer.js").Usage | undefined;
    cost?: import("./answer.js").Cost | undefined;
    timing?: import("./answer.js").Timing | undefined;
    /**
     * the places of its text that safety marked
     */
    flags?: import("./answer.js").SafetyFlag[] | undefined;
    /**
     * what a blocked answer was blocked for
     */
    safety?: import("./frames.js").EndSafety | undefined;
    /**
     * what safety found in what was sent
     */
    promptFlags?: import("./frames.js").SentFlag[] | undefined;
    context?: import("./frames.js").ContextUse | undefined;
    /**
     * its text was the server's, by the hash
     */
    verified?: boolean | undefined;
};
import { ProtocolError } from "./answer.js";
