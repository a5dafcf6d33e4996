/**
 * The log offsets that a frame covers, the first and the last; null: it is about this connection only.
 * @param {Logged} frame
 * @returns {[number, number] | null}
 */
export function span(frame: Logged): [number, number] | null;
/** A refusal or a failure that the server named with a code of docs/protocol.md. */
export class ProtocolError extends Error {
    /**
     * @param {{code: string, message: string, retry?: boolean, after_ms?: number, scope?: string,
     *   limit?: number, dimension?: string, remaining?: number, spent?: number, held?: number,
     *   resets_at_ms?: number, safety?: import("./frames.js").RefusedPrompt,
     *   tokens?: import("./frames.js").TokenCounts}} frame an `error`
     */
    constructor(frame: {
        code: string;
        message: string;
        retry?: boolean;
        after_ms?: number;
        scope?: string;
        limit?: number;
        dimension?: string;
        remaining?: number;
        spent?: number;
        held?: number;
        resets_at_ms?: number;
        safety?: import("./frames.js").RefusedPrompt;
        tokens?: import("./frames.js").TokenCounts;
    });
    code: string;
    /** The same message may work later. */
    retry: boolean;
    afterMs: number | null;
    scope: string | null;
    limit: number | null;
    /** What is counted at the limit; of money the numbers are in nano-USD. */
    dimension: string | null;
    remaining: number | null;
    spent: number | null;
    held: number | null;
    /** When it begins anew, Unix ms. */
    resetsAtMs: number | null;
    /** The place for which a prompt was refused. */
    safety: import("./frames.js").RefusedPrompt | null;
    /** By how much a prompt is too large. */
    tokens: import("./frames.js").TokenCounts | null;
}
/** One request and the text of its answer so far: always a prefix of the server's log. */
export class Answer {
    /**
     * @param {string} id the request's id
     * @param {Send | null} message the `send` that starts it; null for a reader of somebody's request
     */
    constructor(id: string, message: Send | null);
    id: string;
    message: import("./frames.js").Send | null;
    accepted: boolean;
    /** @type {number | null} */
    epoch: number | null;
    /** The highest log offset that is part of `text`. */
    applied: number;
    text: string;
    /** What safety marked in `text`, in its order. @type {SafetyFlag[]} */
    flags: SafetyFlag[];
    /** The server had its turn before, and told what safety found in it to a connection that is lost. */
    dup: boolean;
    /** What safety found in the prompt as it was sent (prompts.js); nothing where it is a `dup`. @type {PromptFlag[]} */
    promptFlags: PromptFlag[];
    /** What of its conversation its prompt has; null where that is not known. @type {ContextUse | null} */
    context: ContextUse | null;
    /** The most tokens that it may have; null where that is not known. @type {number | null} */
    maxTokens: number | null;
    /** Tokens that `text` covers. */
    tokens: number;
    /** @type {Status} */
    status: Status;
    /** @type {{position: number, wait_ms: number} | null} */
    queue: {
        position: number;
        wait_ms: number;
    } | null;
    /** Why it moved to another worker, the last time: lost, drain, preempt or pool. @type {string | null} */
    movedBecause: string | null;
    /** The server holds text back because this reader is slow. */
    paused: boolean;
    /** A cancel was asked for and not answered yet. */
    cancelling: boolean;
    /** @type {string | null} */
    reason: string | null;
    /** @type {string | null} */
    code: string | null;
    /** What a blocked answer was blocked for. @type {SafetyBlock | null} */
    safety: SafetyBlock | null;
    /** @type {Usage | null} */
    usage: Usage | null;
    /** @type {Cost | null} */
    cost: Cost | null;
    /** @type {Timing | null} */
    timing: Timing | null;
    /** Whether `end.h` was the hash of `text`; null before the end. @type {boolean | null} */
    verified: boolean | null;
    /** @type {ProtocolError | null} */
    error: ProtocolError | null;
    /** Resolves with this answer at its end; rejects with a ProtocolError where it was refused or lost. */
    done: Promise<any>;
    /** No more frames will change it. */
    get finished(): boolean;
    /**
     * Apply one frame of this request's `g`.
     * @param {ServerMessage} frame
     * @returns {Outcome}
     */
    apply(frame: ServerMessage): Outcome;
    /**
     * It will never end: the server refused it or does not know it.
     * @param {ProtocolError} error
     */
    fail(error: ProtocolError): void;
    /** Forget what was applied, to read the log from its start. */
    rewind(): void;
    #private;
}
export type ServerMessage = import("./frames.js").ServerMessage;
export type Send = import("./frames.js").Send;
export type Delta = import("./frames.js").Delta;
export type LogEvent = import("./frames.js").Event;
export type End = import("./frames.js").End;
/**
 * of an answer
 */
export type Logged = Delta | LogEvent | import("./frames.js").Snap | import("./frames.js").Retract | End;
/**
 * Where a request stands. "moved": its worker is gone, another takes it over. "parked": nobody was reading, so its
 * worker does something else. "resumed": a reader is back, the worker soon too.
 */
export type Status = "sending" | "queued" | "running" | "moved" | "parked" | "resumed" | "ended" | "failed";
export type Usage = {
    input: number;
    cached_input?: number;
    output: number;
    total: number;
};
export type Cost = {
    nano: number;
    currency: string;
};
/**
 * A place that safety marked: a redaction's placeholder stands at code point `p` and has `n` of them; or what stands
 * there was flagged and let through (`action` "flag"). `scope` says whose policy it is.
 */
export type SafetyFlag = {
    category: string;
    action: "redact" | "flag";
    scope: "platform" | "tenant" | "project";
    p: number;
    n: number;
};
export type PromptFlag = import("./frames.js").SentFlag;
export type ContextUse = import("./frames.js").ContextUse;
/**
 * what blocked an answer, and whose policy it was
 */
export type SafetyBlock = import("./frames.js").EndSafety;
export type Timing = {
    queue_ms: number;
    ttft_ms: number | null;
    total_ms: number;
};
/**
 * What `apply` did. "stale" was ignored; "gap" and "diverged" ask the caller to attach again at `applied`.
 */
export type Outcome = "text" | "reset" | "status" | "end" | "stale" | "gap" | "diverged";
export type Change = Outcome | "accepted" | "failed";
/**
 * Where a piece of text comes from, for clients that asked for it (option `trace`).
 */
export type Trace = {
    /**
     * the request
     */
    id: string;
    /**
     * the first log offset it covers
     */
    a: number;
    /**
     * the last one
     */
    b: number;
    /**
     * how many tokens the text covers by now
     */
    tokens: number;
    /**
     * nothing follows
     */
    final: boolean;
    /**
     * which delta of this reading it was, counted by the server
     */
    batch: number | null;
    /**
     * how long the gateway held it back to merge it
     */
    ms: number | null;
};
/**
 * Somebody who wants to know of a change. When it returns, or the promise that it returned is settled, the change
 * counts as applied and may be acknowledged.
 */
export type Watcher = (answer: Answer, change: Change, trace: Trace | undefined) => unknown;
