// What the page says: numbers, times and errors in words. Pure.

import { endsAtATime, limitText } from "./limit_words.js";
import { FULL, refusedAsFull } from "./going_on.js";
import { blockedText } from "./safety_words.js";

/** @typedef {import("/web/client/answer.js").Usage} Usage */
/** @typedef {import("./answer_view.js").Shown} Shown */
/**
 * What one waits for. `icon`: something holds an answer up that is on its way, and this is a picture of it.
 * @typedef {{text: string, icon: "" | "pause" | "move" | "clock" | "link"}} Wait
 */

const TITLE_MAX = 80;
const UNSEEN = /^[\p{Z}\p{C}]$/u;

/** @param {Usage} usage */
export function usageText({ input, output, total }) {
  return `${number(total)} tokens (${number(input)} in, ${number(output)} out)`;
}

/** @param {number} value */
function number(value) {
  return value.toLocaleString("en");
}

const MOVED = new Map([
  ["lost", "Its worker failed. Another one takes over…"],
  ["preempt", "Something more urgent came first. Continuing in a moment…"],
]);

/**
 * What an answer that is on its way waits for; no text where it just grows.
 * @param {Shown} answer
 * @param {boolean} connected
 * @returns {Wait}
 */
export function waitOf({ status, queue, cancelling, paused, movedBecause, text }, connected) {
  if (cancelling) return { text: "Stopping…", icon: "" };
  if (!connected) return { text: "Reconnecting…", icon: "link" };
  if (status === "parked") return { text: "Waiting: nobody was reading. Continuing now…", icon: "clock" };
  if (status === "resumed") return { text: "Continuing in a moment…", icon: "clock" };
  if (status === "moved") {
    return { text: MOVED.get(movedBecause ?? "") ?? "Moved to another worker. Continuing in a moment…", icon: "move" };
  }
  if (paused) return { text: "Paused: this device is slow to read", icon: "pause" };
  if (status === "queued" && queue && queue.position > 0) {
    return { text: `Waiting, number ${number(queue.position)} in line…`, icon: "" };
  }
  if (text !== "") return { text: "", icon: "" };
  return { text: status === "sending" ? "Sending…" : "Thinking…", icon: "" };
}

const REASONS = new Map([
  ["cancelled", "You stopped this answer."],
  ["length", "Cut off: the answer reached its length limit."],
  ["blocked", "Stopped here by the safety policy."],
  ["deadline", "Stopped: it took longer than its time limit."],
  ["budget", "Stopped here: the budget or the prepaid credit is used up. What was said so far is kept."],
  ["slow_reader", "Stopped: nobody was reading."],
  ["error", "The answer broke off because of a fault on our side."],
]);

/**
 * Whether a limit cut the answer off, so that its reader should not take it for whole.
 * @param {string | null} reason
 */
export function cutOff(reason) {
  return REASONS.has(reason ?? "") && reason !== "cancelled" && reason !== "error";
}

/**
 * Why an answer ended, where that is worth saying.
 * @param {string | null} reason
 */
export function reasonText(reason) {
  return REASONS.get(reason ?? "") ?? "";
}

/**
 * Why an answer ended, as it is said aloud.
 * @param {Pick<Shown, "reason" | "safety">} answer
 */
export function endText({ reason, safety }) {
  return reason === "blocked" ? blockedText(safety).head : reasonText(reason);
}

/**
 * How an answer ended, as it is said aloud.
 * @param {Pick<Shown, "reason" | "safety" | "error"> & {message?: {continue?: string | null} | null}} answer
 */
export function saidAtEnd(answer) {
  if (refusedAsFull(answer, answer.message?.continue)) return FULL;
  const said = answer.error ? errorText(answer.error) : endText(answer) || "Answer complete";
  return answer.reason === "cancelled" ? "Answer stopped" : said;
}

const ERRORS = new Map([
  ["overloaded", "All workers are busy."],
  ["rate_limited", "Too many requests."],
  ["insufficient_quota", "The prepaid credit is used up."],
  ["budget_exceeded", "The budget is used up."],
  ["account_suspended", "This account is suspended."],
  ["conversation_busy", "An answer in this chat is still running."],
  ["not_resumable", "The server no longer has this answer."],
  ["superseded", "This chat was taken over by another connection."],
  ["closed", "The connection is closed."],
  ["unauthorized", "You were signed out here, or your key has expired or was revoked, or your account was closed."],
]);

/**
 * @typedef {{message: string, afterMs?: number | null} & import("./limit_words.js").LimitFacts} Refused
 */

/**
 * How long to wait after a refusal; 0: nobody knows.
 * @param {Refused} error
 */
export function waitMsOf(error) {
  return endsAtATime(error) ? (error.afterMs ?? 0) : 0;
}

const OF_RULES = new Set(["rate_limited", "budget_exceeded", "insufficient_quota", "conversation_busy"]);

/**
 * A limit or a rule refused it; nothing is broken.
 * @param {Refused} error
 */
export function ofRules({ code }) {
  return OF_RULES.has(code);
}

/**
 * A refusal, for people: what it is, and what to do.
 * @param {Refused} error
 * @param {number} [leftMs] what is left of the wait
 */
export function refusalWords(error, leftMs = waitMsOf(error)) {
  const { code, message } = error;
  if (waitMsOf(error) > 0 && leftMs <= 0) return { head: "The wait is over: you can send it again now.", rest: "" };
  const head = limitText(error, new Date()) || (ERRORS.get(code) ?? sentence(message));
  const kept = code === "budget_exceeded" ? "Your text is kept." : "";
  return { head, rest: leftMs > 0 ? `Try again in ${seconds(leftMs)}.` : kept };
}

/** @param {Refused} error */
export function errorText(error) {
  const { head, rest } = refusalWords(error);
  return `${head} ${rest}`.trim();
}

/**
 * What becomes of what was sent, while the line is lost.
 * @param {{accepted: boolean}[]} answers that are on their way
 * @param {boolean} sending a message has not even an id
 */
export function meanwhileText(answers, sending) {
  if (sending || answers.some(({ accepted }) => !accepted)) return "Your message waits and is sent when the line is back.";
  return answers.length > 0 ? "Your answer goes on meanwhile." : "";
}

/**
 * The server's own words, as a sentence.
 * @param {string} message
 */
export function sentence(message) {
  const trimmed = message.trim() || "Something went wrong";
  return trimmed.charAt(0).toUpperCase() + trimmed.slice(1) + (/[.!?]$/.test(trimmed) ? "" : ".");
}

/** @param {number} ms */
export function seconds(ms) {
  const whole = Math.max(1, Math.ceil(ms / 1000));
  return whole === 1 ? "1 second" : `${whole} seconds`;
}

/**
 * The heading a chat stands under. Days are the calendar's: one on which clocks change has 23 or 25 hours.
 * @param {number} updatedMs
 * @param {Date} now
 */
export function dayText(updatedMs, now) {
  const start = (/** @type {number} */ daysAgo) =>
    new Date(now.getFullYear(), now.getMonth(), now.getDate() - daysAgo).getTime();
  if (updatedMs >= start(0)) return "Today";
  if (updatedMs >= start(1)) return "Yesterday";
  if (updatedMs >= start(7)) return "Last 7 days";
  return "Earlier";
}

/**
 * A chat's title, as the server will make it from its first message (server/conversations/titles.py).
 * @param {string} content
 */
export function titleOf(content) {
  const title = Array.from(content.split(/\s+/).filter(Boolean).join(" "));
  if (title.length > 0 && title.every((each) => UNSEEN.test(each))) return "…";
  if (title.length <= TITLE_MAX) return title.join("");
  const head = title.slice(0, TITLE_MAX);
  const end = head.lastIndexOf(" ");
  return `${head.slice(0, end >= TITLE_MAX / 2 ? end : TITLE_MAX - 1).join("")}…`;
}
