// A user's stored conversations, over HTTP beside the socket (docs/protocol.md, "HTTP beside the socket").
//
//   const chats = new Conversations({ url: "https://chat.example.com", token: async () => pass });
//   for await (const chat of chats.all()) console.log(chat.title);

import { ProtocolError } from "./answer.js";
import { checkedToken } from "./causes.js";
import { inTime } from "./in_time.js";
import { conversationPage, messagePage } from "./stored.js";

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
 * @property {() => string} [user] who uses the page now, as any text, where that changes without a reload: the pass of
 *   another one is dropped, and what was asked for them is refused (`user_changed`)
 */

const REPLY_MS_MAX = 30_000;
const TOKEN_MS_MAX = 15_000;
const PAGES_MAX = 1_000; // of one list; a gateway's pages hold 50

export class Conversations {
  /** @param {Access} [access] */
  constructor({ url, token, user = () => "" } = {}) {
    if (!url && !globalThis.location) throw new Error("no page here: give the option url");
    this.#url = (url ?? location.origin).replace(/^ws/, "http").replace(/\/(v1\/ws)?$/, "");
    this.#ask = token;
    this.#user = user;
  }

  #url;
  #ask;
  #user;
  /** @type {{user: string, token: string} | null} */
  #kept = null;

  /**
   * @param {string | null} [cursor] of the page before
   * @returns {Promise<ConversationPage>}
   */
  async list(cursor) {
    return conversationPage(await this.#read("/v1/conversations" + query(cursor)));
  }

  /** All of them, page by page, the last used first. @returns {AsyncGenerator<StoredConversation>} */
  async *all() {
    for await (const page of this.#pages((cursor) => this.list(cursor))) yield* page.conversations;
  }

  /**
   * @param {string} id
   * @param {string | null} [cursor] of the page before
   * @returns {Promise<MessagePage>}
   */
  async messages(id, cursor) {
    return messagePage(await this.#read(path(id) + "/messages" + query(cursor)));
  }

  /** All messages of one, page by page, oldest first. @param {string} id @returns {AsyncGenerator<StoredMessage>} */
  async *allMessages(id) {
    for await (const page of this.#pages((cursor) => this.messages(id, cursor))) yield* page.messages;
  }

  /**
   * @param {string} id
   * @param {string} title of 1 to 80 characters, some of them visible
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
   * Each page of one list, for one user.
   * @template {{cursor: string | null}} Page
   * @param {(cursor: string | null) => Promise<Page>} read
   */
  async *#pages(read) {
    const user = this.#user();
    /** @type {Set<string>} */
    const asked = new Set();
    for (let cursor = null; ; ) {
      this.#expect(user);
      const page = await read(cursor);
      yield page;
      cursor = page.cursor;
      if (!cursor) return;
      if (asked.has(cursor) || asked.size === PAGES_MAX) {
        throw new ProtocolError({ code: "bad_reply", message: "the list has no end: who answers is no gateway" });
      }
      asked.add(cursor);
    }
  }

  /**
   * What is of the user who asked, and of nobody who came meanwhile.
   * @param {string} path
   */
  async #read(path) {
    const user = this.#user();
    const found = await this.#call("GET", path);
    this.#expect(user);
    return found;
  }

  /** @param {string} user */
  #expect(user) {
    if (this.#user() === user) return;
    throw new ProtocolError({ code: "user_changed", message: "another user came while this was asked for" });
  }

  /**
   * @param {string} method
   * @param {string} path
   * @param {object} [body]
   * @returns {Promise<any>}
   */
  async #call(method, path, body) {
    const user = this.#user();
    const kept = this.#kept?.user === user;
    try {
      return await this.#once(user, method, path, body);
    } catch (error) {
      if (!(kept && error instanceof ProtocolError && error.code === "unauthorized")) throw error;
      this.#kept = null; // the pass is over: once more with a fresh one
      return this.#once(user, method, path, body);
    }
  }

  /**
   * @param {string} user
   * @param {() => Promise<string>} ask
   */
  async #token(user, ask) {
    if (this.#kept?.user === user) return this.#kept.token;
    const token = await freshToken(ask);
    this.#expect(user);
    this.#kept = { user, token };
    return token;
  }

  /**
   * @param {string} user
   * @param {string} method
   * @param {string} path
   * @param {object} [body]
   */
  async #once(user, method, path, body) {
    /** @type {Record<string, string>} */
    const headers = body ? { "content-type": "application/json" } : {};
    if (this.#ask) headers.authorization = `Bearer ${await this.#token(user, this.#ask)}`;
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
  const error = typeof found?.error === "object" ? found.error : {};
  const code = typeof error?.code === "string" ? error.code : "bad_reply";
  const message = typeof error?.message === "string" ? error.message : `HTTP ${status}`;
  throw new ProtocolError({ ...error, code, message });
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
