// Text shown as it is: all of it before the parser has come, and passages that would take too long. Pure.

import { withoutMarks } from "./marks.js";

/** @typedef {import("./patch.js").Shape} Shape */

const PART = 4096; // characters laid out together: a browser breaks the lines of a part anew when it grows
const KB = 1000;

/**
 * A passage that is not formatted, and the button that formats it.
 * @param {string} text
 * @param {boolean} growing it has no button, or none yet
 * @returns {Shape}
 */
export function passageShape(text, growing) {
  const size = Math.ceil(new TextEncoder().encode(text).length / KB);
  const said = `Long passage, ${size} kB, as plain text`;
  const show = { type: "button", class: "quiet show-formatted" };
  /** @type {Shape[]} */
  const button = growing ? [] : [{ tag: "button", attributes: show, children: ["Show formatted"] }];
  const head = { tag: "p", attributes: { class: "passage-head" }, children: [said, ...button] };
  return { tag: "div", attributes: { class: "passage" }, children: [head, ...plainShapes(text)] };
}

/**
 * @param {string} text
 * @returns {Shape[]}
 */
export function plainShapes(text) {
  const shown = withoutMarks(text);
  /** @type {Shape[]} */
  const shapes = [];
  for (let from = 0; from < shown.length; ) {
    const to = partEnd(shown, from);
    const part = shown.slice(from, to).replace(/\n$/, "");
    shapes.push({ tag: "div", attributes: { class: "as-is" }, children: part === "" ? [] : [part] });
    from = to;
  }
  return shapes;
}

/**
 * Behind the last line that fits a part, else behind the last word, else where it is full.
 * @param {string} text
 * @param {number} from
 */
function partEnd(text, from) {
  const full = from + PART;
  if (text.length <= full) return text.length;
  for (const symbol of ["\n", " "]) {
    const at = text.lastIndexOf(symbol, full - 1);
    if (at > from) return at + 1;
  }
  const low = text.charCodeAt(full);
  return low >= 0xdc00 && low < 0xe000 ? full - 1 : full;
}

/** @param {import("./patch.js").Child} child */
export function isPassage(child) {
  return typeof child !== "string" && child.attributes?.class === "passage";
}
