// What was typed and the server did not take, by chat: kept for this tab, so that neither a reload nor a look at another
// chat loses it. Gone when the turn is accepted, and at signing out.

/** @typedef {{content: string, id?: string}} Turn `id`: the request that it went out as */

const KEY = "unsent";
const CHATS_MAX = 8;

export class Unsent {
  /** @type {Map<string, Turn>} the latest chat last */
  #kept = new Map(stored());

  /**
   * @param {string} conversation
   * @param {string} content
   */
  keep(conversation, content) {
    this.#kept.delete(conversation);
    this.#kept.set(conversation, { content });
    for (const oldest of this.#kept.keys()) if (this.#kept.size > CHATS_MAX) this.#kept.delete(oldest);
    this.#store();
  }

  /**
   * It is on its way.
   * @param {string} conversation
   * @param {string} id
   */
  sentAs(conversation, id) {
    const turn = this.#kept.get(conversation);
    if (turn) turn.id = id;
    this.#store();
  }

  /** @param {string} conversation */
  of(conversation) {
    return this.#kept.get(conversation)?.content;
  }

  /**
   * A chat has these messages. One of them may be what was on its way, which a policy may have redacted since.
   * @param {string} conversation
   * @param {import("./api.js").Message[]} messages
   */
  look(conversation, messages) {
    const id = this.#kept.get(conversation)?.id;
    if (id !== undefined && messages.some(({ request_id }) => request_id === id)) this.drop(conversation);
  }

  /** @param {string} conversation */
  drop(conversation) {
    if (this.#kept.delete(conversation)) this.#store();
  }

  clear() {
    this.#kept.clear();
    this.#store();
  }

  #store() {
    try {
      if (this.#kept.size === 0) sessionStorage.removeItem(KEY);
      else sessionStorage.setItem(KEY, JSON.stringify([...this.#kept]));
    } catch {
      // no room for it: it is kept until the page is left
    }
  }
}

/** @returns {[string, Turn][]} */
function stored() {
  try {
    const found = JSON.parse(sessionStorage.getItem(KEY) ?? "[]");
    return Array.isArray(found) ? found.filter((each) => typeof each?.[1]?.content === "string") : [];
  } catch {
    return [];
  }
}
