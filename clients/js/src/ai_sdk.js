// A `ChatTransport` for Vercel's AI SDK (ai 7): `useChat` over Parley's sessions. It imports nothing of the SDK.
//
//   import { ParleyTransport } from "parley-client/ai-sdk";
//   const transport = new ParleyTransport({ url, token });
//   const chat = useChat({ id, transport, resume: true });
//
// What a message becomes is decided in ui_messages.js, what a page is told of an answer in ui_chunks.js.

import { AnswerStream } from "./answer_stream.js";
import { Client, Conversations, ProtocolError, SignedOut } from "./client.js";
import { uuid7 } from "./ids.js";
import { KeptAnswers } from "./kept_answers.js";
import { fieldsOf, newestTurn, refused, shownMessages, wholeChat } from "./ui_messages.js";

export { ProtocolError, SignedOut };

/** @typedef {import("./client.js").Answer} Answer */
/** @typedef {import("./ui_chunks.js").Chunk} Chunk */
/** @typedef {import("./ui_messages.js").SentMessage} SentMessage */
/** @typedef {import("./ui_messages.js").ParleyMessage} ParleyMessage */
/** @typedef {import("./ui_messages.js").ParleyMetadata} ParleyMetadata */
/** @typedef {{body?: object, metadata?: unknown, headers?: unknown}} RequestOptions given with a message; no headers are sent */
/**
 * @typedef {object} TransportOptions
 * @property {() => Promise<string>} token a fresh ticket, as the client's
 * @property {string} [url] of the socket, wss://HOST/v1/ws; the page's own origin unless given
 * @property {boolean} [stored] Parley keeps the chats, and only the newest turn is sent; else the page keeps them, and
 *   all of its messages are sent each time
 * @property {() => Promise<string>} [pass] a history pass, for `load`; without one the page's own sign-in counts
 * @property {object | (() => object | Promise<object>)} [body] `{ model, system, metadata, …options }` for every message
 * @property {import("./kept_answers.js").Storage} [storage] which answers a reloaded page goes on with; sessionStorage
 *   unless given
 * @property {(state: import("./client.js").LinkState) => void} [onState] where the connection stands
 * @property {import("./connection.js").SocketClass} [WebSocket] where the runtime has none (Node 20)
 */

const NOBODYS = new Set(["not_resumable", "forbidden"]);

/** An id for a new chat, of the kind that a stored one must have. */
export function newChatId() {
  return uuid7(Date.now());
}

export class ParleyTransport {
  /** @param {TransportOptions} options */
  constructor(options) {
    const { token, url, onState, WebSocket } = options;
    this.#options = options;
    this.#kept = new KeptAnswers(options.storage);
    this.#client = new Client({ token, url, onState, WebSocket, onChange: (answer) => this.#changed(answer) });
  }

  /** What resuming brings begins with the answer's first word. */
  resumeStreamIsReplay = true;

  #options;
  #client;
  #kept;
  /** @type {Map<string, AnswerStream>} the newest reader of each chat */
  #readers = new Map();
  /** @type {WeakMap<Answer, Set<() => unknown>>} who wants to know of a change */
  #watchers = new WeakMap();
  /** @type {WeakSet<Answer>} that the server has */
  #begun = new WeakSet();
  /** @type {Map<string, Answer>} stopped, and perhaps not ended yet, by chat */
  #stopping = new Map();

  /**
   * Called by `useChat`.
   * @param {{trigger: "submit-message" | "regenerate-message", chatId: string, messageId: string | undefined,
   *   messages: SentMessage[], abortSignal: AbortSignal | undefined} & RequestOptions} asked
   * @returns {Promise<ReadableStream<Chunk>>}
   */
  async sendMessages({ trigger, chatId, messageId, messages, abortSignal, body, metadata }) {
    const { body: always, stored = false } = this.#options;
    const edited = trigger === "submit-message" && messageId !== undefined;
    if (stored && edited) throw refused("a turn of a stored conversation cannot be edited: send a new one");
    const fields = fieldsOf({ ...(typeof always === "function" ? await always() : always), ...body }, metadata);
    const message = stored ? newestTurn(chatId, messages, fields) : wholeChat(messages, fields);
    this.#connect();
    await unlessAborted(this.#stopped(chatId), abortSignal);
    const id = await unlessAborted(this.#client.newId(), abortSignal);
    const answer = await this.#client.send({ ...message, id });
    this.#kept.keep(chatId, id);
    try {
      await unlessAborted(this.#accepted(answer), abortSignal);
    } catch (error) {
      if (abortSignal?.aborted) this.#cancel(chatId, answer);
      else this.#kept.forget(chatId, id);
      throw error;
    }
    return this.#read(chatId, answer, abortSignal, message.model);
  }

  /**
   * Called by `useChat` where it resumes. The answer that the page, before it was reloaded, had not read to its end.
   * @param {{chatId: string, abortSignal?: AbortSignal} & RequestOptions} asked
   * @returns {Promise<ReadableStream<Chunk> | null>}
   */
  async reconnectToStream({ chatId, abortSignal }) {
    const id = this.#kept.of(chatId);
    if (!id) return null;
    this.#connect();
    const answer = this.#client.attach(id);
    try {
      await unlessAborted(this.#accepted(answer), abortSignal);
    } catch (error) {
      if (!(error instanceof ProtocolError && NOBODYS.has(error.code))) throw error;
      this.#kept.forget(chatId, id);
      return null;
    }
    return this.#read(chatId, answer, abortSignal);
  }

  /**
   * What Parley keeps of a chat, for `useChat({ messages })`; the answer that still runs comes by resuming.
   * @param {string} chatId
   * @returns {Promise<ParleyMessage[]>} none where the chat is new
   */
  async load(chatId) {
    const chats = new Conversations({ url: this.#options.url, token: this.#options.pass });
    const messages = [];
    try {
      for await (const message of chats.allMessages(chatId)) messages.push(message);
    } catch (error) {
      if (!(error instanceof ProtocolError && error.code === "unknown_conversation")) throw error;
    }
    const running = messages.find(({ status }) => status === "running");
    if (running) this.#kept.keep(chatId, running.request_id);
    return shownMessages(messages);
  }

  /** End the session. Its answers go on, and a reloaded page finds them again. */
  close() {
    this.#client.close();
  }

  /** Connect, also where it had stopped: the user may have signed in again. */
  #connect() {
    if (this.#client.state.state === "stopped") this.#client.connect();
  }

  /**
   * The answer as the page reads it.
   * @param {string} chatId
   * @param {Answer} answer
   * @param {AbortSignal} [signal]
   * @param {string} [model] that was asked for
   */
  #read(chatId, answer, signal, model) {
    const watcher = () => reader.changed();
    const reader = new AnswerStream(answer, model, () => {
      this.#watchers.get(answer)?.delete(watcher);
      if (this.#readers.get(chatId) === reader) this.#readers.delete(chatId);
      if (answer.status === "ended") this.#kept.forget(chatId, answer.id);
    });
    this.#watch(answer, watcher);
    this.#readers.set(chatId, reader);
    // React mounts a page twice in development: what is resumed anew in the same breath was not stopped.
    signal?.addEventListener("abort", () => setTimeout(() => this.#stop(chatId, reader)), { once: true });
    return reader.chunks;
  }

  /**
   * The page reads no more, and nobody else does.
   * @param {string} chatId
   * @param {AnswerStream} reader
   */
  #stop(chatId, reader) {
    if (this.#readers.get(chatId) !== reader) return;
    this.#readers.delete(chatId);
    this.#cancel(chatId, reader.answer);
  }

  /**
   * @param {string} chatId
   * @param {Answer} answer
   */
  #cancel(chatId, answer) {
    this.#kept.forget(chatId, answer.id);
    this.#client.cancel(answer);
    this.#stopping.set(chatId, answer);
  }

  /**
   * What was stopped in this chat has ended, so that a turn may begin.
   * @param {string} chatId
   */
  async #stopped(chatId) {
    const reader = this.#readers.get(chatId);
    if (reader?.left) this.#stop(chatId, reader);
    await this.#stopping.get(chatId)?.done.catch(() => {});
    this.#stopping.delete(chatId);
  }

  /**
   * The server has it. Rejects where it will not.
   * @param {Answer} answer
   */
  async #accepted(answer) {
    while (!this.#begun.has(answer) && !answer.finished) {
      await new Promise((resolve) => this.#watch(answer, () => void resolve(undefined)));
    }
    if (answer.error && !this.#begun.has(answer)) throw answer.error;
  }

  /**
   * @param {Answer} answer
   * @param {() => unknown} watcher
   */
  #watch(answer, watcher) {
    const watchers = this.#watchers.get(answer) ?? new Set();
    this.#watchers.set(answer, watchers.add(watcher));
  }

  /** @param {Answer} answer */
  #changed(answer) {
    if (!answer.error) this.#begun.add(answer);
    return Promise.all([...(this.#watchers.get(answer) ?? [])].map((watcher) => watcher()));
  }
}

/**
 * @template T
 * @param {Promise<T>} promise
 * @param {AbortSignal} [signal]
 * @returns {Promise<T>}
 */
async function unlessAborted(promise, signal) {
  signal?.throwIfAborted();
  if (!signal) return promise;
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason);
    signal.addEventListener("abort", abort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", abort));
  });
}
