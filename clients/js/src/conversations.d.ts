export class Conversations {
    /** @param {Access} [access] */
    constructor({ url, token, user }?: Access);
    /**
     * @param {string | null} [cursor] of the page before
     * @returns {Promise<ConversationPage>}
     */
    list(cursor?: string | null): Promise<ConversationPage>;
    /** All of them, page by page, the last used first. @returns {AsyncGenerator<StoredConversation>} */
    all(): AsyncGenerator<StoredConversation>;
    /**
     * @param {string} id
     * @param {string | null} [cursor] of the page before
     * @returns {Promise<MessagePage>}
     */
    messages(id: string, cursor?: string | null): Promise<MessagePage>;
    /** All messages of one, page by page, oldest first. @param {string} id @returns {AsyncGenerator<StoredMessage>} */
    allMessages(id: string): AsyncGenerator<StoredMessage>;
    /**
     * @param {string} id
     * @param {string} title of 1 to 80 characters, some of them visible
     * @returns {Promise<void>}
     */
    rename(id: string, title: string): Promise<void>;
    /**
     * From then on nobody can read it, and soon its texts are erased.
     * @param {string} id
     * @returns {Promise<void>}
     */
    delete(id: string): Promise<void>;
    #private;
}
export type StoredConversation = {
    id: string;
    title: string;
    updated_ms: number;
    running: boolean;
};
export type StoredMessage = {
    id: string;
    role: "user" | "assistant";
    content: string;
    /**
     * of a running answer `client.attach(request_id)` reads the text
     */
    status: "running" | "ended";
    request_id: string;
    reason: string;
    model: string;
    code: string;
    flags: import("./answer.js").SafetyFlag[];
    safety: import("./answer.js").SafetyBlock | null;
    usage: import("./answer.js").Usage | null;
    cost: import("./answer.js").Cost | null;
    created_ms: number;
};
/**
 * newest first
 */
export type ConversationPage = {
    conversations: StoredConversation[];
    cursor: string | null;
};
/**
 * oldest first
 */
export type MessagePage = {
    messages: StoredMessage[];
    cursor: string | null;
    system: string;
};
export type Access = {
    /**
     * of the gateway, https://HOST; the page's own origin unless given
     */
    url?: string | undefined;
    /**
     * a history pass (`history` of POST /v1/tickets), or on a server a key; it is
     * kept until the gateway refuses it. Without one the page's own sign-in counts
     */
    token?: (() => Promise<string>) | undefined;
    /**
     * who uses the page now, as any text, where that changes without a reload: the pass of
     * another one is dropped, and what was asked for them is refused (`user_changed`)
     */
    user?: (() => string) | undefined;
};
