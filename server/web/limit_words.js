// What the page says of a limit that refuses: whose it is, of what, and when it begins anew. Pure.

import { costText } from "./money.js";

/**
 * @typedef {{code: string, scope?: string | null, dimension?: string | null, remaining?: number | null,
 *   resetsAtMs?: number | null}} LimitFacts as in a ProtocolError
 */

const DAY_MS = 24 * 3600 * 1000;
const OWNERS = new Map([
  ["tenant", "Your organization's"],
  ["project", "This project's"],
  ["key", "This key's"],
  ["user", "Your"],
  ["model", "This model's"],
]);
const PERIODS = new Map([
  ["day", " for today"],
  ["week", " for this week"],
  ["month", " for this month"],
]);
const RATES = new Map([
  ["requests_per_minute", "requests a minute"],
  ["tokens_per_minute", "tokens a minute"],
  ["input_tokens_per_minute", "tokens asked a minute"],
  ["output_tokens_per_minute", "tokens answered a minute"],
  ["concurrency", "answers at once"],
]);

/**
 * A sentence about the limit, empty where the refusal is not about one.
 * @param {LimitFacts} error
 * @param {Date} now
 */
export function limitText(error, now) {
  const { code, scope, dimension } = error;
  if (code === "insufficient_quota") return `${spentText("The prepaid credit", error)}.`;
  const owner = OWNERS.get(scope ?? "") ?? "The";
  if (code === "budget_exceeded") {
    const anew = error.resetsAtMs ? `; it begins anew ${whenText(error.resetsAtMs, now)}` : "";
    return `${spentText(`${owner} budget${PERIODS.get(dimension ?? "") ?? ""}`, error)}${anew}.`;
  }
  const rate = RATES.get(dimension ?? "");
  return code === "rate_limited" && rate ? `${owner} limit of ${rate} is reached.` : "";
}

/**
 * What is left of it does not do.
 * @param {string} what
 * @param {LimitFacts} error
 */
function spentText(what, { remaining }) {
  if (!remaining) return `${what} is used up`;
  const left = costText({ nano: remaining, currency: "usd" });
  return `${left} of ${what.charAt(0).toLowerCase()}${what.slice(1)} is left, which does not pay for this request`;
}

/**
 * "at 18:00", "on 1 December", "on 1 December at 01:00": in the reader's own time.
 * @param {number} atMs
 * @param {Date} now
 */
export function whenText(atMs, now) {
  const at = new Date(atMs);
  const time = at.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
  if (atMs - now.getTime() < DAY_MS) return `at ${time}`;
  const day = at.toLocaleDateString("en-GB", { day: "numeric", month: "long" });
  return time === "00:00" ? `on ${day}` : `on ${day} at ${time}`;
}
