// A user's stored conversations, over HTTP beside the socket (docs/protocol.md, "HTTP beside the socket").
//
//   const chats = new Conversations({ url: "https://chat.example.com", token: async () => pass });
//   for await (const chat of chats.all()) console.log(chat.title);

import { ProtocolError } from "./answer.js";
import { checkedToken } from "./causes.js";
import { inTime } from "./in_time.js";

/** @typedef {{id: string, title: string, updated_ms: number, running: boolean}} StoredConversation */
/**
 * @typedef {object} StoredMessage
 * @property {string} id
 * @property {"user" | "assistant"} role
 * @property {string} content
 * @property {"running" | "ended"} status of a running answer `client.attach(request_id)` reads the text
 * @property {string} request_id
 * @property {string} reason
 * @property {string} model
 * @property {string} code
 * @property {import("./answer.js").SafetyFlag[]} flags
 * @property {import("./answer.js").SafetyBlock | null} safety
 * @property {import("./answer.js").Usage | null} usage
 * @property {import("./answer.js").Cost | null} cost
 * @property {number} created_ms
 */
/** @typedef {{conversations: StoredConversation[], cursor: string | null}} ConversationPage newest first */
/** @typedef {{messages: StoredMessage[], cursor: string | null, system: string}} MessagePage oldest first */
/**
 * @typedef {object} Access
 * @property {string} [url] of the gateway, https://HOST; the page's own origin unless given
 * @property {() => Promise<string>} [token] a history pass (`history` of POST /v1/tickets), or on a server a key; it is
 *   kept until the gateway refuses it. Without one the page's own sign-in counts
 */

const REPLY_MS_MAX = 30_000;
const TOKEN_MS_MAX = 15_000;

export class Conversations {
  /** @param {Access} [access] */
  constructor({ url, token } = {}) {
    if (!url && !globalThis.location) throw new Error("no page here: give the option url");
    this.#url = (url ?? location.origin).replace(/^ws/, "http").replace(/\/(v1\/ws)?$/, "");
    this.#ask = token;
  }

  #url;
  #ask;
  /** @type {string | null} */
  #token = null;

  /**
   * @param {string | null} [cursor] of the page before
   * @returns {Promise<ConversationPage>}
   */
  list(cursor) {
    return this.#call("GET", "/v1/conversations" + query(cursor));
  }

  /** All of them, page by page, the last used first. @returns {AsyncGenerator<StoredConversation>} */
  async *all() {
    for (let page = await this.list(); ; page = await this.list(page.cursor)) {
      yield* page.conversations;
      if (!page.cursor) return;
    }
  }

  /**
   * @param {string} id
   * @param {string | null} [cursor] of the page before
   * @returns {Promise<MessagePage>}
   */
  messages(id, cursor) {
    return this.#call("GET", path(id) + "/messages" + query(cursor));
  }

  /** All messages of one, page by page, oldest first. @param {string} id @returns {AsyncGenerator<StoredMessage>} */
  async *allMessages(id) {
    for (let page = await this.messages(id); ; page = await this.messages(id, page.cursor)) {
      yield* page.messages;
      if (!page.cursor) return;
    }
  }

  /**
   * @param {string} id
   * @param {string} title of 1 to 80 characters
   * @returns {Promise<void>}
   */
  async rename(id, title) {
    await this.#call("PATCH", path(id), { title });
  }

  /**
   * From then on nobody can read it, and soon its texts are erased.
   * @param {string} id
   * @returns {Promise<void>}
   */
  async delete(id) {
    await this.#call("DELETE", path(id));
  }

  /**
   * @param {string} method
   * @param {string} path
   * @param {object} [body]
   * @returns {Promise<any>}
   */
  async #call(method, path, body) {
    const kept = this.#token;
    try {
      return await this.#once(method, path, body);
    } catch (error) {
      if (!(kept && error instanceof ProtocolError && error.code === "unauthorized")) throw error;
      this.#token = null; // the pass is over: once more with a fresh one
      return this.#once(method, path, body);
    }
  }

  /**
   * @param {string} method
   * @param {string} path
   * @param {object} [body]
   */
  async #once(method, path, body) {
    /** @type {Record<string, string>} */
    const headers = body ? { "content-type": "application/json" } : {};
    if (this.#ask) {
      this.#token ??= await freshToken(this.#ask);
      headers.authorization = `Bearer ${this.#token}`;
    }
    const url = this.#url + path;
    const signal = AbortSignal.timeout(REPLY_MS_MAX);
    const credentials = this.#ask ? "omit" : "same-origin";
    let reply, text;
    try {
      reply = await fetch(url, { method, headers, credentials, signal, body: body && JSON.stringify(body) });
      text = await reply.text();
    } catch (error) {
      throw new ProtocolError({ code: "unreachable", message: noAnswer(url, error), retry: true });
    }
    return read(reply, text);
  }
}

/** @param {() => Promise<string>} ask */
async function freshToken(ask) {
  try {
    return checkedToken(await inTime(Promise.resolve(ask()), TOKEN_MS_MAX));
  } catch (error) {
    const message = `no token to ask with: ${error instanceof Error ? error.message : error}`;
    throw new ProtocolError({ code: "no_token", message, retry: true });
  }
}

/**
 * @param {Response} reply
 * @param {string} text
 */
function read({ ok, status }, text) {
  let found;
  try {
    found = JSON.parse(text);
  } catch {
    const message = `HTTP ${status} and no JSON: a proxy or a sign-in page answers in place of the gateway`;
    throw new ProtocolError({ code: "bad_reply", message, retry: status >= 500 });
  }
  if (ok && typeof found === "object" && found !== null) return found;
  const { code = "bad_reply", message = `HTTP ${status}`, ...more } = found?.error ?? {};
  throw new ProtocolError({ code, message, ...more });
}

/**
 * @param {string} url
 * @param {unknown} error
 */
function noAnswer(url, error) {
  const said = error instanceof Error ? error.message : String(error);
  const hint = "a network or a proxy is down, or the gateway does not list this page's Origin (PARLEY_PUBLIC_ORIGINS)";
  return `no answer from ${url} (${said}): ${hint}`;
}

/** @param {string} id */
const path = (id) => `/v1/conversations/${encodeURIComponent(id)}`;

/** @param {string | null} [cursor] */
const query = (cursor) => (cursor ? `?cursor=${encodeURIComponent(cursor)}` : "");
