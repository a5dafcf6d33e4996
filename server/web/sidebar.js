// The list of chats, newest first under headings of days, and on a phone the drawer that holds it.

import * as api from "./api.js";
import { button, byId, el, icon } from "./dom.js";
import { NEW } from "./drafts.js";
import { dayText, titleOf } from "./words.js";

/** @typedef {import("./api.js").Conversation & {typed?: boolean}} Conversation `typed`: the server has no turn of it */

const NARROW = matchMedia("(max-width: 760px)");

export class Sidebar {
  /** @param {(id: string) => void} onDeleted */
  constructor(onDeleted) {
    this.#onDeleted = onDeleted;
    this.#menu.addEventListener("click", () => this.#drawer(true));
    this.#backdrop.addEventListener("click", () => this.close());
    this.#sidebar.addEventListener("click", (event) => {
      if (event.target instanceof Element && event.target.closest("a")) this.close();
    });
    NARROW.addEventListener("change", () => this.#drawer(false));
    this.#drawer(false);
  }

  #onDeleted;
  #sidebar = byId("sidebar");
  #list = byId("conversations");
  #menu = byId("menu");
  #backdrop = byId("backdrop");
  #main = byId("main");
  #confirm = /** @type {HTMLDialogElement} */ (byId("confirm"));
  /** @type {Conversation[]} */
  #conversations = [];
  /** @type {string | null} */
  #cursor = null;
  /** @type {string | null} */
  #current = null;
  /** @type {{id: string, text: string, at: number, fresh: boolean}[]} */
  #drafts = [];

  /** The drawer covers the page. */
  get open() {
    return this.#menu.getAttribute("aria-expanded") === "true";
  }

  /** Read the newest chats again. */
  async load() {
    const { conversations, cursor } = await api.conversations(null);
    const known = new Set(conversations.map(({ id }) => id));
    const others = this.#conversations.filter(({ id }) => !known.has(id));
    const typed = others.filter((each) => each.typed);
    const older = this.#cursor ? others.filter((each) => !each.typed) : [];
    this.#conversations = [...typed, ...conversations, ...older];
    this.#cursor = older.length > 0 ? this.#cursor : cursor;
    this.#draw();
  }

  /**
   * A chat was just used: it stands first.
   * @param {string} id
   * @param {string} title of a new chat
   */
  touch(id, title) {
    const known = this.#of(id);
    const typed = known?.typed ?? !known;
    const first = { id, title: known && !typed ? known.title : title, updated_ms: Date.now(), running: true, typed };
    this.#conversations = [first, ...this.#conversations.filter((each) => each.id !== id)];
    this.#draw();
  }

  /**
   * The server took a turn of a chat.
   * @param {string} id
   * @param {string} title of a new chat
   */
  accepted(id, title) {
    const known = this.#of(id);
    if (!known?.typed) return;
    known.typed = false;
    known.title = title;
    this.#draw();
  }

  /**
   * A turn of a chat is taken back: a chat that has no other is none.
   * @param {string} id
   * @returns {boolean} whether it is gone
   */
  refused(id) {
    if (!this.#of(id)?.typed) return false;
    this.#drop(id);
    return true;
  }

  /**
   * @param {string} id
   * @param {boolean} running
   */
  setRunning(id, running) {
    const known = this.#of(id);
    if (!known || known.running === running) return;
    known.running = running;
    this.#draw();
  }

  /** @param {string | null} id */
  setCurrent(id) {
    this.#current = id;
    this.#draw();
  }

  /**
   * Chats with a draft are marked. One that the server has no turn of is in the list by its draft alone.
   * @param {{id: string, text: string, at: number, fresh: boolean}[]} drafts
   */
  setDrafts(drafts) {
    const before = JSON.stringify(this.#drafts.map(marks));
    this.#drafts = drafts;
    if (JSON.stringify(drafts.map(marks)) !== before) this.#draw();
  }

  /** Nothing is listed any more. */
  clear() {
    this.#conversations = this.#drafts = [];
    this.#cursor = null;
    this.#draw();
  }

  /** @param {string} id */
  titleOf(id) {
    return this.#listed().find((each) => each.id === id)?.title;
  }

  /** @param {string} id */
  isTyped(id) {
    return this.#listed().find((each) => each.id === id)?.typed ?? false;
  }

  /** All chats, newest first. @returns {Conversation[]} */
  #listed() {
    const fresh = this.#drafts.filter((draft) => draft.fresh && !this.#of(draft.id));
    const typed = fresh.map(({ id, text, at }) => {
      return { id, title: titleOf(text), updated_ms: at, running: false, typed: true };
    });
    return [...typed, ...this.#conversations];
  }

  /** @param {string} id */
  #of(id) {
    return this.#conversations.find((each) => each.id === id);
  }

  /** @param {string} id */
  #drop(id) {
    this.#conversations = this.#conversations.filter((each) => each.id !== id);
    this.#draw();
  }

  /** Close the drawer. */
  close() {
    if (!this.open) return;
    this.#drawer(false);
    this.#menu.focus();
  }

  /** @param {boolean} open */
  #drawer(open) {
    this.#menu.setAttribute("aria-expanded", String(open));
    document.body.classList.toggle("drawer", open);
    this.#backdrop.hidden = !open;
    this.#sidebar.inert = NARROW.matches && !open;
    this.#main.inert = open;
    if (open) this.#sidebar.querySelector("a")?.focus();
  }

  #draw() {
    const focused = document.activeElement instanceof HTMLElement ? document.activeElement.dataset.focus : null;
    const now = new Date();
    /** @type {Map<string, HTMLElement[]>} */
    const days = new Map();
    for (const conversation of this.#listed()) {
      const day = dayText(conversation.updated_ms, now);
      days.set(day, [...(days.get(day) ?? []), this.#item(conversation)]);
    }
    byId("new-draft").hidden = this.#current === null || !this.#hasDraft(NEW);
    const sections = Array.from(days, ([day, items]) =>
      el("section", {}, el("h2", {}, day), el("ul", {}, ...items)),
    );
    const older = button({ class: "quiet older" }, ["Show older chats"], () => void this.#older());
    this.#list.replaceChildren(...sections, ...(this.#cursor ? [older] : []));
    if (focused) this.#refocus(focused);
  }

  /** @param {string} id */
  #hasDraft(id) {
    return this.#drafts.some((draft) => draft.id === id);
  }

  /** @param {string} key */
  #refocus(key) {
    const again = this.#list.querySelector(`[data-focus="${CSS.escape(key)}"]`);
    if (again instanceof HTMLElement) again.focus();
  }

  /** @param {Conversation} conversation */
  #item({ id, title, running }) {
    const link = el("a", { href: `#/${id}`, "data-focus": id, title }, el("span", { class: "name" }, title));
    if (id === this.#current) link.setAttribute("aria-current", "page");
    if (id !== this.#current && this.#hasDraft(id)) link.append(el("span", { class: "draft" }, "Draft"));
    if (running) link.append(el("span", { class: "running", role: "img", "aria-label": "answering" }));
    const label = { class: "icon remove", "aria-label": `Delete “${title}”`, "data-focus": `${id} delete` };
    return el("li", {}, link, button(label, [icon("delete")], () => this.#ask(id, title)));
  }

  async #older() {
    const { conversations, cursor } = await api.conversations(this.#cursor);
    const known = new Set(this.#conversations.map(({ id }) => id));
    this.#conversations.push(...conversations.filter(({ id }) => !known.has(id)));
    this.#cursor = cursor;
    this.#draw();
  }

  /**
   * @param {string} id
   * @param {string} title
   */
  #ask(id, title) {
    byId("confirm-text").textContent = `“${title}” will be deleted. You cannot get it back.`;
    this.#confirm.returnValue = "";
    this.#confirm.onclose = () => {
      if (this.#confirm.returnValue === "delete") void this.#delete(id);
    };
    this.#confirm.showModal();
  }

  /** @param {string} id */
  async #delete(id) {
    await api.deleteConversation(id);
    this.#drop(id);
    this.#onDeleted(id);
  }
}

/**
 * What the list shows of a draft.
 * @param {{id: string, text: string, fresh: boolean}} draft
 */
function marks({ id, text, fresh }) {
  return [id, fresh ? titleOf(text) : ""];
}
