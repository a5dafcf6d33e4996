// What the page says of a limit that refuses: whose it is, of what, and when it begins anew. Pure.

import { costText } from "./money.js";

/**
 * @typedef {{code: string, scope?: string | null, dimension?: string | null, limit?: number | null,
 *   remaining?: number | null, resetsAtMs?: number | null}} LimitFacts as in a ProtocolError
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
  ["requests_per_minute", ["request a minute", "requests a minute"]],
  ["tokens_per_minute", ["token a minute", "tokens a minute"]],
  ["input_tokens_per_minute", ["token asked a minute", "tokens asked a minute"]],
  ["output_tokens_per_minute", ["token answered a minute", "tokens answered a minute"]],
  ["concurrency", ["answer at once", "answers at once"]],
]);
const TO_RAISE = "An administrator can raise it.";

/**
 * A sentence about the limit, empty where the refusal is not about one.
 * @param {LimitFacts} error
 * @param {Date} now
 */
export function limitText(error, now) {
  const { code, remaining } = error;
  const [, none] = RATES.get(error.dimension ?? "") ?? [];
  if (code === "insufficient_quota" && none) {
    return `${ownerOf(error.scope)} limit allows no ${none}. ${TO_RAISE}`;
  }
  if (code === "insufficient_quota") {
    return `The prepaid credit ${spentText(remaining)}. An administrator can add to it.`;
  }
  if (code === "budget_exceeded") return budgetText(error, now);
  return code === "rate_limited" ? rateText(error) : "";
}

/**
 * Whether the time at which the same may work again is known: nobody knows when an answer ends.
 * @param {LimitFacts} error
 */
export function endsAtATime({ code, dimension }) {
  return dimension !== "concurrency" && code !== "conversation_busy";
}

/**
 * @param {LimitFacts} error
 * @param {Date} now
 */
function budgetText({ scope, dimension, limit, remaining, resetsAtMs }, now) {
  const size = limit == null ? "" : ` of ${dollars(limit)}`;
  const anew = resetsAtMs ? `; it begins anew ${whenText(resetsAtMs, now)}` : "";
  const period = PERIODS.get(dimension ?? "") ?? "";
  if (limit === 0) return `${ownerOf(scope)} budget${period} allows no spending. ${TO_RAISE}`;
  const what = `${ownerOf(scope)} budget${size}${period}`;
  return `${what} ${spentText(remaining)}${anew}. ${TO_RAISE}`;
}

/** @param {LimitFacts} error */
function rateText({ scope, dimension, limit }) {
  const [one, many] = RATES.get(dimension ?? "") ?? [];
  if (!one) return "";
  const units = limit == null ? many : `${limit.toLocaleString("en")} ${limit === 1 ? one : many}`;
  const free = dimension === "concurrency" ? " Try again when one has ended." : "";
  return `${ownerOf(scope)} limit of ${units} is reached.${free}`;
}

/** @param {string | null | undefined} scope */
function ownerOf(scope) {
  return OWNERS.get(scope ?? "") ?? "The";
}

/**
 * What is left of it does not do.
 * @param {number | null | undefined} remaining
 */
function spentText(remaining) {
  return remaining ? `has ${dollars(remaining)} left, too little for this request` : "is used up";
}

/** @param {number} nano */
function dollars(nano) {
  return costText({ nano, currency: "usd" });
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
