// What was typed and the server did not take, by chat: kept for this tab, so that neither a reload nor a look at another
// chat loses it. Gone when the turn is accepted, and at signing out.

const KEY = "unsent";
const CHATS_MAX = 8;

export class Unsent {
  /** @type {Map<string, string>} the latest chat last */
  #kept = new Map(stored());

  /**
   * @param {string} conversation
   * @param {string} content
   */
  keep(conversation, content) {
    this.#kept.delete(conversation);
    this.#kept.set(conversation, content);
    for (const oldest of this.#kept.keys()) if (this.#kept.size > CHATS_MAX) this.#kept.delete(oldest);
    this.#store();
  }

  /** @param {string} conversation */
  of(conversation) {
    return this.#kept.get(conversation);
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

/** @returns {[string, string][]} */
function stored() {
  try {
    const found = JSON.parse(sessionStorage.getItem(KEY) ?? "[]");
    return Array.isArray(found) ? found.filter((each) => Array.isArray(each) && each.length === 2) : [];
  } catch {
    return [];
  }
}
