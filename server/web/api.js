// The HTTP routes beside the socket (docs/protocol.md). The sign-in cookie travels by itself; an answer that is for
// somebody else is none.

import { isForAnother } from "./person.js";

/** @typedef {{tenant: string, project: string, user: string, person: string}} Me `person`: who that is, as an id */
/** @typedef {import("./summary.js").Priced} Priced */
/** @typedef {{name: string, version: string, max_model_len: number} & Priced} Model `prices` where they are shown */
/** @typedef {{id: string, title: string, updated_ms: number, running: boolean}} Conversation */
/**
 * @typedef {object} Message
 * @property {string} id
 * @property {"user" | "assistant" | "system"} role
 * @property {string} content
 * @property {"running" | "ended"} status
 * @property {string} request_id
 * @property {string} reason
 * @property {string} code
 * @property {string} model
 * @property {import("/web/client/answer.js").SafetyFlag[]} flags
 * @property {import("/web/client/answer.js").SafetyBlock | null} safety
 * @property {import("/web/client/answer.js").ContextUse | null} context
 * @property {string | null} continues the answer that this one goes on with
 * @property {import("/web/client/answer.js").Usage | null} usage
 * @property {import("/web/client/answer.js").Cost | null} cost
 */

/**
 * @typedef {{id: string, user: string, made_ms: number, seen_ms: number, address: string, agent: string,
 *   current: boolean}} BrowserSession
 */

/** The code of `me` where the browser has no sign-in, or no longer. */
export const SIGNED_OUT = "signed_out";
/** The code of every call once somebody else has signed in. */
export const SOMEBODY_ELSE = "somebody_else";
const PAGES_MAX = 40; // of one conversation; the server's pages hold 50 messages

/** An error answer: `code` is one of docs/protocol.md, or "offline". */
export class HttpError extends Error {
  /**
   * @param {number} status
   * @param {string} code
   * @param {string} message
   * @param {number} [afterMs] when to come again, where that is known
   */
  constructor(status, code, message, afterMs = 0) {
    super(message);
    this.status = status;
    this.code = code;
    this.afterMs = afterMs;
  }
}

/** @returns {Promise<Me>} */
export async function me() {
  const found = await call("GET", "/v1/me");
  if (found.tenant === null) throw new HttpError(401, SIGNED_OUT, "Nobody is signed in.");
  return found;
}

/**
 * @param {{code: string} | {key: string}} proof
 * @returns {Promise<Me>}
 */
export const login = (proof) => call("POST", "/v1/login", proof);

/** Sign out who the page is of, and nobody else. Throws where that is not who is signed in. */
export async function logout() {
  await me().catch((/** @type {HttpError} */ error) => {
    if (error.code === SOMEBODY_ELSE) throw error;
  });
  await call("POST", "/v1/logout");
}

/** @returns {Promise<BrowserSession[]>} the browsers that are signed in as the reader, newest first */
export const sessions = async () => (await call("GET", "/v1/sessions")).sessions;

/**
 * Sign a browser out; one that has ended is gone already.
 * @param {string} id
 * @returns {Promise<object>}
 */
export const endSession = (id) => call("DELETE", `/v1/sessions/${encodeURIComponent(id)}`);

/** @returns {Promise<string>} a single-use ticket for `hello.token` */
export const ticket = async () => (await call("POST", "/v1/tickets", {})).ticket;

/** @returns {Promise<Model[]>} */
export const models = async () => (await call("GET", "/v1/models")).models;

/**
 * @param {string | null} cursor
 * @returns {Promise<{conversations: Conversation[], cursor: string | null}>}
 */
export const conversations = (cursor) => call("GET", "/v1/conversations" + query(cursor));

/**
 * Delete a chat; one that the server does not know is gone already.
 * @param {string} id
 */
export async function deleteConversation(id) {
  try {
    await call("DELETE", `/v1/conversations/${encodeURIComponent(id)}`);
  } catch (error) {
    if (!(error instanceof HttpError && error.status === 404)) throw error;
  }
}

/**
 * All messages of a conversation, oldest first.
 * @param {string} id
 * @returns {Promise<Message[]>}
 */
export async function messages(id) {
  const path = `/v1/conversations/${encodeURIComponent(id)}/messages`;
  const found = [];
  for (let cursor = null, page = 0; page < PAGES_MAX && (page === 0 || cursor); page++) {
    const reply = await call("GET", path + query(cursor));
    found.push(...reply.messages);
    cursor = reply.cursor;
  }
  return found;
}

/** @param {string | null} cursor */
function query(cursor) {
  return cursor ? `?cursor=${encodeURIComponent(cursor)}` : "";
}

/**
 * @param {string} method
 * @param {string} path
 * @param {object} [body]
 * @returns {Promise<any>}
 */
async function call(method, path, body) {
  const headers = body ? { "content-type": "application/json" } : undefined;
  let reply;
  try {
    reply = await fetch(path, { method, headers, body: body && JSON.stringify(body) });
  } catch {
    throw new HttpError(0, "offline", "The server cannot be reached.");
  }
  const answer = await reply.json().catch(() => ({}));
  if (isForAnother(reply)) throw new HttpError(401, SOMEBODY_ELSE, "Somebody else signed in here.");
  if (reply.ok) return answer;
  const error = answer.error ?? { code: "internal", message: `The server answered ${reply.status}.` };
  throw new HttpError(reply.status, error.code, error.message, error.after_ms);
}
