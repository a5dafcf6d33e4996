/** @typedef {import("./frames.js").SentFlag} PromptFlag */
/**
 * The text as model and history got it.
 * @param {string} text as it was sent
 * @param {PromptFlag[]} flags of its answer (`answer.promptFlags`)
 * @param {number} [message] which of several messages it is
 * @returns {string}
 */
export function redacted(text: string, flags: PromptFlag[], message?: number): string;
export type PromptFlag = import("./frames.js").SentFlag;
