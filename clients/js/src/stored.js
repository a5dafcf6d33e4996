// What a gateway says of stored conversations, checked: a reply that is none reaches no page. Pure.

import { ProtocolError } from "./answer.js";

/** @typedef {import("./conversations.js").ConversationPage} ConversationPage */
/** @typedef {import("./conversations.js").MessagePage} MessagePage */
/** @typedef {Record<string, unknown>} Facts */

const ROLES = ["user", "assistant"];
const STATUSES = ["running", "ended"];

/** @param {Facts} found @returns {ConversationPage} */
export function conversationPage(found) {
  return checkedPage(found, "conversations", ({ id, title, updated_ms, running }) =>
    isText(id) && isText(title) && typeof updated_ms === "number" && typeof running === "boolean");
}

/** @param {Facts} found @returns {MessagePage} */
export function messagePage(found) {
  return checkedPage({ system: "", ...found }, "messages", isMessage);
}

/** @param {Facts} message */
function isMessage({ id, role, content, status, request_id, reason, code, model, flags, safety, usage, cost }) {
  const texts = [id, content, request_id].every(isText) && [reason, code, model].every((text) => isAbsent(text) || isText(text));
  const named = ROLES.includes(/** @type {string} */ (role)) && STATUSES.includes(/** @type {string} */ (status));
  const marks = isAbsent(flags) || (Array.isArray(flags) && flags.every(isFacts));
  return texts && named && marks && [safety, usage, cost].every((facts) => isAbsent(facts) || isFacts(facts));
}

/**
 * @param {Facts} found
 * @param {string} name of its rows
 * @param {(row: Facts) => boolean} isRow
 * @returns {any}
 */
function checkedPage(found, name, isRow) {
  const { cursor = null } = found;
  const rows = found[name];
  const good = Array.isArray(rows) && rows.every((row) => isFacts(row) && isRow(row)) && (cursor === null || isText(cursor));
  if (good) return { ...found, cursor };
  throw new ProtocolError({ code: "bad_reply", message: `the reply is no page of ${name}: who answers is no gateway` });
}

/** @param {unknown} value */
function isText(value) {
  return typeof value === "string";
}

/** @param {unknown} value @returns {value is Facts} */
function isFacts(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** @param {unknown} value */
function isAbsent(value) {
  return value === undefined || value === null;
}
