// The strip above the composer: what is wrong with the connection, in words, and what can be done.

import { byId } from "./dom.js";
import { errorText, seconds } from "./words.js";

/** @typedef {import("/web/client/link.js").LinkState} LinkState */

const QUIET_MS = 700; // a blip shorter than this is not worth a word
const TICK_MS = 1000;
// A gateway on this machine needs no line.
const LOCAL = new Set(["localhost", "127.0.0.1", "[::1]"]).has(location.hostname);

export class Notice {
  /**
   * @param {() => void} onAct connect again, now
   * @param {(connected: boolean) => void} onSaid the reader was told that the connection is lost, or it is back
   * @param {() => string} meanwhile what becomes of what was sent
   */
  constructor(onAct, onSaid, meanwhile) {
    this.#action.addEventListener("click", onAct);
    this.#onSaid = onSaid;
    this.#meanwhile = meanwhile;
    for (const event of ["online", "offline"]) addEventListener(event, () => this.#link && this.show(this.#link));
  }

  #onSaid;
  #meanwhile;

  #box = byId("notice");
  #text = byId("notice-text");
  #action = byId("notice-action");
  #head = byId("notice-head");
  /** @type {LinkState | null} */
  #link = null;
  #wasOpen = false;
  #said = false;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;

  /** @param {LinkState} link */
  show(link) {
    clearTimeout(this.#timer);
    this.#link = link;
    const needsNone = LOCAL && link.state === "open";
    if (link.state !== "stopped" && !navigator.onLine && !needsNone) {
      this.#say(this.#meanwhile() || "What you type is kept and sent when the line is back.", "", "You are offline.");
    } else if (link.state === "open") {
      this.#wasOpen = true;
      this.#said = false;
      this.#box.hidden = true;
      this.#onSaid(true);
    } else if (link.state === "stopped") {
      this.#say(errorText(link), link.code === "unauthorized" ? "Sign in" : "Connect");
    } else {
      const until = Date.now() + (link.state === "waiting" ? link.inMs : 0);
      const wait = this.#said ? 0 : QUIET_MS;
      this.#timer = setTimeout(() => this.#count(until), wait);
    }
  }

  /** @param {number} until */
  #count(until) {
    const left = until - Date.now();
    const what = this.#wasOpen ? "The connection was lost." : "The server cannot be reached yet.";
    const when = left > 0 ? ` Trying again in ${seconds(left)}.` : " Connecting…";
    this.#say(`${what} ${this.#meanwhile()}`.trim() + when, left > 0 ? "Try now" : "");
    if (left > 0) this.#timer = setTimeout(() => this.#count(until), Math.min(TICK_MS, left));
  }

  /**
   * @param {string} text
   * @param {string} action
   * @param {string} [head]
   */
  #say(text, action, head = "") {
    this.#head.textContent = head;
    this.#text.textContent = text;
    this.#action.textContent = action;
    this.#action.hidden = action === "";
    this.#box.hidden = false;
    this.#said = true;
    this.#onSaid(false);
  }
}
