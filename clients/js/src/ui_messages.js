// The messages of Vercel's AI SDK and those of Parley, each made from the other. Pure.

import { ProtocolError } from "./answer.js";

/** @typedef {import("./conversations.js").StoredMessage} StoredMessage */
/** @typedef {import("./client.js").Message} Message */
/** @typedef {{id: string, role: string, parts: {type: string, text?: string}[]}} SentMessage what is read of a `UIMessage` */
/**
 * What the metadata of an answer's message say; each is there once it is known.
 * @typedef {object} ParleyMetadata
 * @property {string} [requestId]
 * @property {string} [model] the one that was asked for; absent: the default
 * @property {string} [reason] how it ended (docs/protocol.md): `stop`, `length`, `cancelled`, `blocked`, …
 * @property {string} [code] of a reason that is a failure
 * @property {import("./answer.js").Usage} [usage]
 * @property {import("./answer.js").Cost} [cost]
 * @property {import("./answer.js").Timing} [timing]
 * @property {import("./answer.js").SafetyFlag[]} [flags] the places of its text that safety marked
 * @property {import("./answer.js").SafetyBlock} [safety] what a blocked answer was blocked for
 * @property {import("./answer.js").PromptFlag[]} [promptFlags] what safety found in what was sent
 * @property {import("./answer.js").ContextUse} [context]
 * @property {boolean} [verified] its text was the server's, by the hash
 */

const UUID7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

/** @typedef {{type: "text", text: string, state: "done"}} TextPart */
/** @typedef {{id: string, role: "user" | "assistant", metadata: ParleyMetadata, parts: TextPart[]}} ParleyMessage */

/**
 * All that the page has, for a model that remembers nothing.
 * @param {SentMessage[]} messages
 * @param {Message} fields
 * @returns {Message}
 */
export function wholeChat(messages, { system, ...fields }) {
  lastTurn(messages);
  const said = messages.map((message) => ({ role: message.role, content: textOf(message) }));
  // An answer that was stopped before its first word says nothing, nor does what an older page sent by mistake.
  const turns = said.filter(({ content }) => content !== "");
  return { ...fields, messages: system ? [{ role: "system", content: system }, ...turns] : turns };
}

/**
 * The newest turn alone, for a conversation that Parley keeps.
 * @param {string} conversation
 * @param {SentMessage[]} messages
 * @param {Message} fields
 * @returns {Message}
 */
export function newestTurn(conversation, messages, fields) {
  if (!UUID7.test(conversation)) throw refused(`a stored chat's id must be of newChatId(), and is ${conversation}`);
  return { ...fields, conversation, content: textOf(lastTurn(messages)) };
}

/**
 * `{ model, system, metadata, …options }`, as a page gives it with `body`, as fields of a `send`.
 * @param {object} body
 * @param {unknown} metadata beside it
 * @returns {Message}
 */
export function fieldsOf(body, metadata) {
  const { model, system, metadata: own, ...options } = /** @type {Record<string, any>} */ (body);
  const given = Object.entries({ model, system, metadata: own ?? metadata });
  const fields = Object.fromEntries(given.filter(([, value]) => value !== undefined));
  return Object.keys(options).length > 0 ? { ...fields, options } : fields;
}

/**
 * A stored conversation as `useChat` shows it, without the answer that still runs: resuming brings that.
 * @param {StoredMessage[]} stored
 * @returns {ParleyMessage[]}
 */
export function shownMessages(stored) {
  return stored.filter(({ status }) => status !== "running").map((message) => ({
    id: message.role === "assistant" ? message.request_id : message.id,
    role: message.role,
    metadata: message.role === "assistant" ? metadataOf(message) : {},
    parts: [{ type: "text", text: message.content, state: "done" }],
  }));
}

/**
 * @param {StoredMessage} message
 * @returns {ParleyMetadata}
 */
function metadataOf({ request_id: requestId, model, reason, code, usage, cost, flags, safety }) {
  return known({ requestId, model, reason, code, usage, cost, flags, safety });
}

/**
 * Without what is not known.
 * @param {Record<string, unknown>} facts
 * @returns {ParleyMetadata}
 */
export function known(facts) {
  return Object.fromEntries(Object.entries(facts).filter(([, value]) => value !== null && value !== undefined && value !== ""));
}

/** @param {SentMessage[]} messages */
function lastTurn(messages) {
  if (!Array.isArray(messages) || !messages.every(isMessage)) throw refused("each message has a role and parts of `UIMessage`");
  const last = messages.at(-1);
  if (last?.role !== "user") throw refused("the last message must be the user's: an answer cannot be continued");
  if (textOf(last).trim() === "") throw refused("the message is empty: a turn needs text");
  return last;
}

/** @param {SentMessage} message */
function textOf({ parts }) {
  if (parts.some(({ type }) => type === "file")) throw refused("a message has a file, and Parley takes text only");
  return parts.map(({ type, text }) => (type === "text" ? text : "")).join("");
}

/** @param {any} message */
function isMessage(message) {
  const { role, parts } = message ?? {};
  if (typeof role !== "string" || !Array.isArray(parts)) return false;
  return parts.every((part) => typeof part?.type === "string" && (part.type !== "text" || typeof part.text === "string"));
}

/** @param {string} message */
export function refused(message) {
  return new ProtocolError({ code: "bad_request", message });
}
