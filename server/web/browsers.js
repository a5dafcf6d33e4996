// The browsers that are signed in as the reader: what and where they are, and "sign out" for each and for all.

import * as api from "./api.js";
import { button, byId, el } from "./dom.js";
import { agoText, browserText } from "./words_of_browsers.js";

/** @typedef {import("./api.js").BrowserSession} BrowserSession */

export class Browsers {
  /** @param {() => Promise<void>} onLeave sign this browser out, and leave */
  constructor(onLeave) {
    this.#onLeave = onLeave;
    byId("show-browsers").addEventListener("click", () => void this.#open());
    this.#everywhere.addEventListener("click", () => void this.#leaveAll());
  }

  #onLeave;
  #dialog = /** @type {HTMLDialogElement} */ (byId("browsers"));
  #list = byId("browsers-list");
  #said = byId("browsers-said");
  #everywhere = /** @type {HTMLButtonElement} */ (byId("browsers-everywhere"));
  #close = byId("browsers-close");
  /** @type {BrowserSession[]} */
  #sessions = [];

  async #open() {
    this.#sessions = [];
    this.#draw();
    this.#say("Looking…");
    this.#dialog.showModal();
    this.#close.focus();
    await this.#attempt(async () => {
      this.#sessions = await api.sessions();
      this.#say("");
    });
    this.#draw();
  }

  /** @param {BrowserSession} session */
  async #end(session) {
    if (session.current) return this.#onLeave();
    await this.#attempt(async () => {
      await api.endSession(session.id);
      this.#sessions = this.#sessions.filter(({ id }) => id !== session.id);
      this.#say(`${browserText(session.agent)} was signed out.`);
      this.#close.focus(); // its button goes
    });
    this.#draw();
  }

  /** The others first: where that fails, this browser can try again. */
  async #leaveAll() {
    this.#everywhere.disabled = true;
    const done = await this.#attempt(async () => {
      for (const { id, current } of await api.sessions()) if (!current) await api.endSession(id);
    });
    this.#everywhere.disabled = false;
    if (done) return this.#onLeave();
    await this.#attempt(async () => void (this.#sessions = await api.sessions()), "");
    this.#draw();
  }

  /**
   * Whether it worked; else it is said why not.
   * @param {() => Promise<void>} act
   * @param {string} [instead] of the error's words
   */
  async #attempt(act, instead) {
    try {
      await act();
      return true;
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      if (instead !== "") this.#say(`That did not work: ${why.replace(/\.$/, "")}. Try again.`);
      return false;
    }
  }

  /** @param {string} text */
  #say(text) {
    this.#said.textContent = text;
  }

  #draw() {
    const now = Date.now();
    this.#list.replaceChildren(...this.#sessions.map((session) => this.#item(session, now)));
    this.#everywhere.hidden = this.#sessions.length === 0;
  }

  /**
   * @param {BrowserSession} session
   * @param {number} now
   */
  #item(session, now) {
    const what = browserText(session.agent);
    const seen = session.current ? "This browser" : `Last used ${agoText(session.seen_ms, now)}`;
    const facts = `Signed in ${agoText(session.made_ms, now)}${session.address ? ` · ${session.address}` : ""}`;
    const label = session.current ? "Sign out this browser" : `Sign out ${what}, last used ${agoText(session.seen_ms, now)}`;
    const text = el("div", {}, el("strong", {}, what), el("span", {}, seen), el("span", {}, facts));
    const act = button({ class: "plain", "aria-label": label }, ["Sign out"], () => void this.#end(session));
    return el("li", {}, text, act);
  }
}
