// What is said of a chat's summary, and what it costs. Pure.

import { costText } from "./money.js";

/** @typedef {{name: string, default: boolean, prices?: {currency: string, input_nano: number, output_nano: number, request_nano: number}}} Priced */

const UNIT = 1_000_000; // tokens that a price is of

/** What the model is asked for. */
export const summaryAsk =
  "Summarize our conversation so far, so that a new one can go on from it: what was asked and decided, the facts and " +
  "names that matter, and what is still open. Write only the summary, in the language of the conversation.";

/**
 * Whether a turn is the page's own, which nobody typed.
 * @param {string | undefined} content
 */
export function isOwn(content) {
  return content === summaryAsk;
}

/**
 * What the new chat is told before everything else.
 * @param {string} summary
 */
export function systemOf(summary) {
  return `Summary of the conversation so far:\n\n${summary.trim()}`;
}

/**
 * About what a turn costs, in text; empty where prices are not told.
 * @param {Priced[]} models
 * @param {string | undefined} asked name of the model that answers; undefined: the default one
 * @param {number} input
 * @param {number} output
 */
export function priceOf(models, asked, input, output) {
  const prices = models.find((model) => (asked === undefined ? model.default : model.name === asked))?.prices;
  if (!prices) return "";
  const nano = (prices.input_nano * input + prices.output_nano * output) / UNIT + prices.request_nano;
  const rounded = Number(nano.toPrecision(2)); // an estimate
  return costText({ nano: Math.round(rounded), currency: prices.currency });
}
