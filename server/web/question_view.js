// One question on the page: as it was typed, then as the model read it and the history keeps it.

import { redacted } from "/web/client/client.js";
import { chipShape } from "./chip_shape.js";
import { Chips } from "./chips.js";
import { direct } from "./direction.js";
import { el } from "./dom.js";
import { parts, placesAfter } from "./marks.js";
import { chipLabel, keptOutText } from "./safety_words.js";
import { isOwn } from "./summary.js";

/** @typedef {import("/web/client/answer.js").SafetyFlag} SafetyFlag */
/** @typedef {import("/web/client/frames.js").SentFlag} SentFlag */

const OWN = "This page asked for a summary, to begin a new chat with";

export class QuestionView {
  /**
   * @param {string} content
   * @param {SafetyFlag[]} flags what a safety policy marked in it
   */
  constructor(content, flags) {
    this.text = content;
    this.#sent = content;
    this.#bubble = el("div", { class: "bubble" });
    this.#chips = new Chips(this.#bubble, keptOutText);
    const own = isOwn(content);
    const shown = own ? el("details", {}, el("summary", {}, OWN), this.#bubble) : this.#bubble;
    const heading = el("h2", { class: "unseen" }, own ? "This page asked" : "You said");
    this.element = el("article", { class: own ? "question own" : "question" }, heading, shown);
    this.#show(content, flags);
  }

  /** What it says now. */
  text;
  #sent;
  #bubble;
  #chips;
  /** @type {SafetyFlag[]} */
  #places = [];

  /**
   * It was accepted: placeholders stand for what the policy keeps from the model.
   * @param {SentFlag[]} flags by their places in what was sent
   */
  accepted(flags) {
    const places = placesAfter(flags);
    if (places.length !== this.#places.length) this.#show(redacted(this.#sent, flags), places);
  }

  /**
   * It was accepted before: it is what the history has.
   * @param {string} content
   * @param {SafetyFlag[]} flags by their places in `content`
   */
  stored(content, flags) {
    this.#show(content, flags);
  }

  /**
   * @param {string} text
   * @param {SafetyFlag[]} places
   */
  #show(text, places) {
    const before = /** @type {Set<string>} */ (new Set());
    const all = parts(text, places);
    const shown = all.map((part, i) => (i % 2 === 0 ? part : chip(part, before)));
    this.text = text;
    this.#places = places;
    this.#bubble.replaceChildren(...shown);
    direct(this.#bubble, all.filter((_, i) => i % 2 === 0).join(""));
    this.#chips.update(text, places);
  }
}

/**
 * @param {string} source
 * @param {Set<string>} before
 */
function chip(source, before) {
  const { attributes } = chipShape(source, "text", before);
  return el("button", attributes, chipLabel(source));
}
