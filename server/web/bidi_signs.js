// Signs that nobody sees and that change the order in which letters are shown: code that has them may look like other
// code than it is ("Trojan Source"). In code they show by their numbers. Pure.

/** @typedef {import("./patch.js").Child} Child */

const SIGN = /([\u202a-\u202e\u2066-\u2069])/;
const SIGNS_MAX = 1000; // that are elements, and are copied as they were
const NAMES = new Map([
  ["\u202a", "left-to-right embedding"],
  ["\u202b", "right-to-left embedding"],
  ["\u202c", "end of an embedding or override"],
  ["\u202d", "left-to-right override"],
  ["\u202e", "right-to-left override"],
  ["\u2066", "left-to-right isolate"],
  ["\u2067", "right-to-left isolate"],
  ["\u2068", "isolate"],
  ["\u2069", "end of an isolate"],
]);
export const SIGNS_NOTE = "Hidden signs in this code change the order of its letters. They are shown by their numbers.";

/** @param {string} text */
export function hasSigns(text) {
  return SIGN.test(text);
}

/**
 * A text whose signs are seen.
 * @param {string} text
 * @returns {Child[]}
 */
export function withSigns(text) {
  if (!hasSigns(text)) return text === "" ? [] : [text];
  const parts = text.split(SIGN);
  const shown = parts.slice(0, 2 * SIGNS_MAX).map((part, i) => (i % 2 === 0 ? part : signShape(part)));
  const rest = parts.slice(2 * SIGNS_MAX).map((part, i) => (i % 2 === 0 ? part : `[${numberOf(part)}]`));
  return [...shown, rest.join("")].filter((part) => part !== "");
}

/**
 * @param {string} sign
 * @returns {Child}
 */
function signShape(sign) {
  const number = numberOf(sign);
  const label = `${number}, ${NAMES.get(sign)}`;
  const attributes = { class: "sign", role: "img", "aria-label": label, title: label, "data-source": sign };
  return { tag: "span", attributes, children: [number] };
}

/** @param {string} sign */
function numberOf(sign) {
  return `U+${sign.charCodeAt(0).toString(16).toUpperCase()}`;
}
