// The element that stands for a placeholder. Pure.

import { chipLabel } from "./safety_words.js";

/** @typedef {import("./patch.js").Shape} Shape */

/**
 * A placeholder: a button that says what stood there, in code the placeholder itself, so that columns stay. The
 * first of a number is a tab stop. A link holds no button.
 * @param {string} source
 * @param {"text" | "code" | "link"} place
 * @param {Set<string>} before those that stand before it; it is added
 * @returns {Shape}
 */
export function chipShape(source, place, before) {
  const label = chipLabel(source);
  /** @type {Record<string, string>} its word has a direction of its own, and gives the text none */
  const attributes = { dir: "ltr", "data-source": source };
  if (place === "link") return { tag: "span", attributes: { ...attributes, class: "chip" }, children: [label] };
  attributes.type = "button";
  attributes.class = place === "code" ? "chip verbatim" : "chip";
  attributes["aria-label"] = `${label}, removed`;
  if (before.has(source)) attributes.tabindex = "-1";
  before.add(source);
  return { tag: "button", attributes, children: [place === "code" ? source : label] };
}
