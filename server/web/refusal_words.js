// What the page says of a question that comes back to be changed. Pure.

import { refusedText } from "./safety_words.js";
import { sentence } from "./words.js";

/**
 * @typedef {{code: string, message: string, limit?: number | null, dimension?: string | null,
 *   safety?: import("/web/client/frames.js").RefusedPrompt | null, tokens?: {has: number, fit: number} | null}} Refusal
 */

const TO_CHANGE = new Set(["too_large", "bad_request", "bad_message"]);
const encoder = new TextEncoder();

/**
 * Whether the same question is refused for ever: it has to become another one.
 * @param {Refusal} error
 */
export function mustChange({ code, safety }) {
  return Boolean(safety) || TO_CHANGE.has(code);
}

/**
 * The model that reads just enough more for a question that another one cannot read.
 * @param {Refusal} error
 * @param {import("./api.js").Model[]} models
 * @param {string | undefined} asked the one that could not
 * @returns {string} "": none does
 */
export function largerModel({ tokens }, models, asked) {
  const before = models.find(({ name }) => name === asked)?.max_model_len;
  if (!tokens || !before) return "";
  const needed = before + tokens.has - tokens.fit;
  const enough = models.filter(({ max_model_len }) => max_model_len >= needed);
  return enough.sort((a, b) => a.max_model_len - b.max_model_len)[0]?.name ?? "";
}

/**
 * Why a question was not sent, and what may be done about it.
 * @param {Refusal} error
 * @param {string} content
 * @param {{asked?: string, larger?: string}} [models] the one that was asked, and one that could be
 */
export function notSentText(error, content, { asked = "the model", larger = "" } = {}) {
  if (error.safety) return refusedText(error.safety);
  if (error.code !== "too_large") return { head: "Not sent.", rest: `${sentence(error.message)} Change the text and send it again.` };
  const what = "Shorten it, or send it in parts.";
  if (error.tokens) {
    const { has, fit } = error.tokens;
    const sizes = `It has about ${number(has)} tokens, ${number(fit)} fit beside the answer.`;
    const how = larger ? "Shorten it, send it in parts, or ask a model that reads more." : what;
    return { head: `Not sent: this message is longer than ${asked} can read.`, rest: `${sizes} ${how}` };
  }
  const head = "Not sent: this message is too long.";
  if (error.dimension !== "frame_bytes" || !error.limit) return { head, rest: `${sentence(error.message)} ${what}` };
  const has = encoder.encode(content).length;
  return { head, rest: `It has ${kilobytes(has)}, at most ${kilobytes(error.limit)} can be sent at once. ${what}` };
}

/** @param {number} value */
function number(value) {
  return value.toLocaleString("en");
}

/** @param {number} bytes */
function kilobytes(bytes) {
  return `${number(Math.ceil(bytes / 1000))} kB`;
}

/**
 * A question that left nothing on the server. An answer that was to go on stays what it was.
 * @param {import("/web/client/answer.js").Answer} answer
 */
export function refused({ status, message, accepted }) {
  return status === "failed" && message !== null && !message.continue && !accepted;
}
