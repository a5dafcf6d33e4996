// What is written and not sent, by person and chat: kept in this browser over reloads, other chats and sign-ins of the
// same person. Signing out removes it, as does the sign-in of somebody else. Other tabs of the person hear of each change.

/** @typedef {{content: string, id?: string}} Turn what went out and nobody took yet. `id`: its request */
/**
 * @typedef {object} Draft
 * @property {number} at when it was changed, Unix ms
 * @property {string} text
 * @property {Turn[]} sent
 * @property {boolean} fresh the server has no turn of this chat
 * @property {string} summary what the chat is to begin with
 * @property {string} origin the chat that the summary is of; empty where there is none
 */

const ALL = "draft:";
const DRAFTS_MAX = 30;
const TURNS_MAX = 4;
const CHARACTERS_MAX = 400_000; // of one, as it is stored; a browser has room for some millions
const AGE_MS_MAX = 30 * 24 * 3600 * 1000;

/** The chat that has no message yet. */
export const NEW = "new";

export class Drafts {
  /**
   * @param {string} who the person's id
   * @param {() => void} onChange
   * @param {(chat: string, before: string, now: string) => void} onElsewhere another tab wrote
   */
  constructor(who, onChange, onElsewhere) {
    this.#prefix = `${ALL}${who}:`;
    this.#onChange = onChange;
    this.#onElsewhere = onElsewhere;
    this.#read();
    addEventListener("storage", (event) => this.#changedElsewhere(event));
  }

  #prefix;
  #over = false;
  #onChange;
  #onElsewhere;
  /** @type {Map<string, Draft>} */
  #kept = new Map();

  /** What is to be said of them, the latest first. */
  get all() {
    const newest = [...this.#kept].sort(([, a], [, b]) => b.at - a.at);
    const all = newest.map(([id, { text, sent, at, fresh }]) => ({ id, text: joined(...contents(sent), text), at, fresh }));
    return all.filter(({ text }) => text.trim() !== "");
  }

  /** @param {string} chat */
  text(chat) {
    return this.#kept.get(chat)?.text ?? "";
  }

  /**
   * @param {string} chat
   * @param {string} text
   * @param {boolean} [fresh]
   * @returns {boolean} whether it outlives this page
   */
  write(chat, text, fresh = this.#of(chat).fresh) {
    return this.#put(chat, { ...this.#of(chat), text, fresh });
  }

  /** @param {string} chat */
  summary(chat) {
    return this.#of(chat).summary;
  }

  /** The chat that the summary of this one is of. @param {string} chat */
  origin(chat) {
    return this.#of(chat).origin;
  }

  /**
   * @param {string} chat
   * @param {string} summary
   * @param {string} [origin]
   */
  summarize(chat, summary, origin = this.origin(chat)) {
    const kept = { summary, origin: summary === "" ? "" : origin };
    if (summary !== this.summary(chat) || kept.origin !== this.origin(chat)) this.#put(chat, { ...this.#of(chat), ...kept });
  }

  /**
   * The chat that is to begin with a summary is another one now.
   * @param {string} from
   * @param {string} to
   */
  moveSummary(from, to) {
    const { summary, origin } = this.#of(from);
    if (summary === "") return;
    this.summarize(from, "");
    this.summarize(to, summary, origin);
  }

  /**
   * A turn goes out: until it is known to be taken, it may come back.
   * @param {string} chat
   * @param {string} content
   * @param {string} text what is written still
   * @param {boolean} [fresh]
   */
  sent(chat, content, text, fresh = this.#of(chat).fresh) {
    const before = this.#of(chat).sent.filter((turn) => turn.content !== content);
    this.#put(chat, { ...this.#of(chat), text, sent: [...before, { content }].slice(-TURNS_MAX), fresh });
  }

  /**
   * The new chat that a turn begins has an id.
   * @param {string} chat
   * @param {string} content
   * @param {boolean} open the reader is in it: what is written goes with it
   */
  begun(chat, content, open) {
    const { text } = this.#of(NEW);
    this.sent(chat, content, open ? text : "", true);
    if (open) this.write(NEW, "");
    this.taken(NEW, content);
  }

  /**
   * @param {string} chat
   * @param {string} content
   * @param {string} id the request that it went out as
   */
  sentAs(chat, content, id) {
    const draft = this.#of(chat);
    this.#put(chat, { ...draft, sent: draft.sent.map((turn) => (turn.content === content ? { content, id } : turn)) });
  }

  /**
   * The server has it, or its writer.
   * @param {string} chat
   * @param {string} content
   * @param {boolean} [fresh]
   */
  taken(chat, content, fresh = false) {
    const draft = this.#of(chat);
    this.#put(chat, { ...draft, sent: draft.sent.filter((turn) => turn.content !== content), fresh });
  }

  /**
   * The server has these requests. What one of them asked may read otherwise by now, if a policy redacted it.
   * @param {string} chat
   * @param {Set<string>} ids
   */
  arrived(chat, ids) {
    const draft = this.#kept.get(chat);
    if (draft) this.#put(chat, { ...draft, fresh: false, sent: draft.sent.filter(({ id = "" }) => !ids.has(id)) });
  }

  /**
   * What went out and was not taken is a draft again, before what was written since.
   * @param {string} chat
   * @returns {string} the draft now
   */
  giveBack(chat) {
    const draft = this.#of(chat);
    const text = joined(...contents(draft.sent), draft.text);
    if (draft.sent.length > 0) this.#put(chat, { ...draft, text, sent: [] });
    return text;
  }

  /** @param {string} chat */
  drop(chat) {
    this.#put(chat, blank());
  }

  /** Remove all of this person's. */
  clear() {
    for (const chat of [...this.#kept.keys()]) this.drop(chat);
  }

  /** Somebody else is signed in: what is stored stays as it is, and nothing is shown of it. */
  leave() {
    this.#over = true;
    this.#kept.clear();
    this.#onChange();
  }

  /** @param {string} chat */
  #of(chat) {
    return this.#kept.get(chat) ?? blank();
  }

  /**
   * @param {string} chat
   * @param {Draft} draft
   */
  #put(chat, draft) {
    if (this.#over) return false;
    const some = draft.text.trim() !== "" || draft.sent.length > 0 || draft.summary.trim() !== "";
    if (some) this.#kept.set(chat, { ...draft, at: Date.now() });
    else this.#kept.delete(chat);
    const stored = !some || this.#store(chat);
    if (!some || !stored) forget(this.#prefix + chat); // an older text in its place would mislead
    this.#onChange();
    return stored;
  }

  /** @param {string} chat */
  #store(chat) {
    const text = JSON.stringify(this.#kept.get(chat));
    if (text.length > CHARACTERS_MAX) return false;
    const others = [...this.#kept].filter(([id]) => id !== chat).sort(([, a], [, b]) => a.at - b.at);
    for (const [oldest] of others.splice(0, others.length + 1 - DRAFTS_MAX)) this.#lose(oldest);
    for (;;) {
      try {
        localStorage.setItem(this.#prefix + chat, text);
        return true;
      } catch {
        const oldest = others.shift(); // no room: older ones go first
        if (!oldest) return false;
        this.#lose(oldest[0]);
      }
    }
  }

  /** @param {string} chat */
  #lose(chat) {
    this.#kept.delete(chat);
    forget(this.#prefix + chat);
  }

  /** Read those of this person; others', and old ones, go. */
  #read() {
    for (const key of storedKeys()) {
      const draft = key.startsWith(this.#prefix) ? parsed(localStorage.getItem(key)) : null;
      if (draft && draft.at > Date.now() - AGE_MS_MAX) this.#kept.set(key.slice(this.#prefix.length), draft);
      else forget(key);
    }
  }

  /** @param {StorageEvent} event */
  #changedElsewhere({ key, newValue }) {
    if (this.#over || !key?.startsWith(this.#prefix)) return;
    const chat = key.slice(this.#prefix.length);
    const draft = parsed(newValue);
    const before = this.text(chat);
    if (draft) this.#kept.set(chat, draft);
    else this.#kept.delete(chat);
    this.#onChange();
    if (draft) this.#onElsewhere(chat, before, draft.text);
  }
}

/**
 * One text below the other, blank ones left out.
 * @param {...string} texts
 */
export function joined(...texts) {
  const some = texts.filter((text) => text.trim() !== "");
  return some.length > 0 ? some.join("\n\n") : (texts.at(-1) ?? "");
}

/** @param {Turn[]} turns */
function contents(turns) {
  return turns.map(({ content }) => content);
}

/** @returns {Draft} */
function blank() {
  return { at: 0, text: "", sent: [], fresh: false, summary: "", origin: "" };
}

function storedKeys() {
  try {
    return Object.keys(localStorage).filter((key) => key.startsWith(ALL));
  } catch {
    return []; // a browser that lets pages store nothing
  }
}

/** @param {string} key */
function forget(key) {
  try {
    localStorage.removeItem(key);
  } catch {
    // nothing is stored there
  }
}

/**
 * @param {string | null} text
 * @returns {Draft | null}
 */
function parsed(text) {
  try {
    const { at, text: written, sent, fresh, summary, origin } = JSON.parse(text ?? "null");
    const turns = Array.isArray(sent) ? sent.filter((turn) => typeof turn?.content === "string") : [];
    if (typeof at !== "number" || typeof written !== "string") return null;
    const begins = { summary: textOf(summary), origin: textOf(origin) };
    return { at, text: written, sent: turns, fresh: fresh === true, ...begins };
  } catch {
    return null;
  }
}

/** @param {unknown} value */
function textOf(value) {
  return typeof value === "string" ? value : "";
}
