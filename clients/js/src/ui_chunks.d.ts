/**
 * What a page must be told of an answer that is finished, beside its text; null: it ended well.
 * @param {Answer} answer
 * @returns {ProtocolError | null}
 */
export function failureOf({ error, reason, code, safety }: Answer): ProtocolError | null;
/** One reading of an answer from its start. */
export class ChunkReading {
    /** @param {string} [model] that was asked for */
    constructor(model?: string);
    /**
     * What is new since the last time.
     * @param {Answer} answer
     * @returns {Chunk[]}
     */
    next(answer: Answer): Chunk[];
    #private;
}
export type Answer = import("./answer.js").Answer;
export type ParleyMetadata = import("./ui_messages.js").ParleyMetadata;
export type Standing = {
    status: import("./answer.js").Status;
    queue: {
        position: number;
        wait_ms: number;
    } | null;
    paused: boolean;
};
/**
 * A `UIMessageChunk`, of those that a text has. `reset-step` takes back all that was shown of the message.
 */
export type Chunk = {
    type: "start";
    messageId: string;
    messageMetadata: ParleyMetadata;
} | {
    type: "start-step";
} | {
    type: "reset-step";
} | {
    type: "finish-step";
} | {
    type: "text-start";
    id: string;
} | {
    type: "text-delta";
    id: string;
    delta: string;
} | {
    type: "text-end";
    id: string;
} | {
    type: "message-metadata";
    messageMetadata: ParleyMetadata;
} | {
    type: "data-parley-status";
    data: Standing;
    transient: true;
} | {
    type: "finish";
    finishReason: FinishReason;
    messageMetadata: ParleyMetadata;
};
export type FinishReason = "stop" | "length" | "content-filter" | "error" | "other";
import { ProtocolError } from "./answer.js";
