export class KeptAnswers {
    /** @param {Storage} [storage] */
    constructor(storage?: Storage);
    /**
     * The id of the chat's answer.
     * @param {string} chat
     */
    of(chat: string): string | null;
    /**
     * @param {string} chat
     * @param {string} id of its request
     */
    keep(chat: string, id: string): void;
    /**
     * Unless there is a newer one.
     * @param {string} chat
     * @param {string} id
     */
    forget(chat: string, id: string): void;
    #private;
}
/**
 * as sessionStorage is
 */
export type Storage = Pick<globalThis.Storage, "getItem" | "setItem" | "removeItem">;
