/**
 * What `token` gave, where it can be one.
 * @param {unknown} given
 * @returns {string}
 */
export function checkedToken(given: unknown): string;
/**
 * `token` threw, hung, or gave none.
 * @param {unknown} error
 * @returns {Cause}
 */
export function noToken(error: unknown): Cause;
/**
 * No WebSocket was opened.
 * @param {string} url
 * @param {string} detail what the runtime says of it; browsers say nothing
 * @returns {Cause}
 */
export function unreachable(url: string, detail: string): Cause;
/**
 * A connection ended.
 * @param {number} code
 * @param {string} reason
 * @param {import("./frames.js").Error | null} fault what the server said of it before
 * @returns {Cause}
 */
export function lost(code: number, reason: string, fault: import("./frames.js").Error | null): Cause;
/**
 * What came over the socket is no message of the protocol.
 * @param {string} url
 * @returns {Cause}
 */
export function badReply(url: string): Cause;
/**
 * `code`: "no_token", "unreachable", "lost", "bad_reply", or a code of the protocol that the server named.
 */
export type Cause = {
    code: string;
    message: string;
};
