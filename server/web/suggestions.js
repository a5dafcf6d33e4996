// What an empty page offers to ask.

import { button, byId, el } from "./dom.js";

const SUGGESTIONS = [
  "Explain how rainbows form, in simple words",
  "Plan a weekend in Lisbon for two",
  "Write a polite reminder about an unpaid invoice",
  "Compare three ways to learn a language",
];

/** @param {(text: string) => void} onChosen */
export function suggest(onChosen) {
  byId("suggestions").replaceChildren(
    ...SUGGESTIONS.map((text) => el("li", {}, button({ class: "suggestion" }, [text], () => onChosen(text)))),
  );
}
