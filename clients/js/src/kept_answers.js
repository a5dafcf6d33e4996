// Which answer of each chat this page had not read to its end, over a reload.

/** @typedef {Pick<globalThis.Storage, "getItem" | "setItem" | "removeItem">} Storage as sessionStorage is */

const PREFIX = "parley-answer:";

export class KeptAnswers {
  /** @param {Storage} [storage] */
  constructor(storage = own()) {
    this.#storage = storage;
  }

  #storage;

  /**
   * The id of the chat's answer.
   * @param {string} chat
   */
  of(chat) {
    return this.#storage.getItem(PREFIX + chat);
  }

  /**
   * @param {string} chat
   * @param {string} id of its request
   */
  keep(chat, id) {
    try {
      this.#storage.setItem(PREFIX + chat, id);
    } catch {
      // It is full: the answer comes all the same, and only a reload would miss it.
    }
  }

  /**
   * Unless there is a newer one.
   * @param {string} chat
   * @param {string} id
   */
  forget(chat, id) {
    if (this.of(chat) === id) this.#storage.removeItem(PREFIX + chat);
  }
}

/** The page's sessionStorage; where there is none, or the browser denies it, as long as the module lives. @returns {Storage} */
function own() {
  try {
    if (globalThis.sessionStorage) return globalThis.sessionStorage;
  } catch {
    // a sandboxed frame, or cookies are off
  }
  /** @type {Map<string, string>} */
  const kept = new Map();
  return {
    getItem: (key) => kept.get(key) ?? null,
    setItem: (key, value) => void kept.set(key, value),
    removeItem: (key) => void kept.delete(key),
  };
}
