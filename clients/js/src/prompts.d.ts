/** @typedef {import("./frames.js").SentFlag} PromptFlag */
/**
 * The text as model and history got it.
 * @param {string} text as it was sent
 * @param {PromptFlag[]} flags of its answer (`answer.promptFlags`)
 * @param {number | "system"} [message] which of several messages it is, or the `system` beside it
 * @returns {string}
 */
export function redacted(text: string, flags: PromptFlag[], message?: number | "system"): string;
export type PromptFlag = import("./frames.js").SentFlag;
