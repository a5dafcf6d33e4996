// What the page says of things that a safety policy took out, and of answers that it ended. Pure.

import { nameOf, parts } from "./marks.js";

/** @typedef {import("/web/client/answer.js").SafetyFlag} SafetyFlag */
/** @typedef {import("/web/client/answer.js").SafetyBlock} SafetyBlock */
/**
 * Words of a category. `chip`: before its number; `one`, `many`: counted; `same`: what the number stands for;
 * `without`: what a question should do without; `none`: what a policy lets in that forbids it.
 * @typedef {{name: string, chip: string, one: string, many: string, same: string, without: string, none: string}} Words
 */

/** @type {Map<string, Words>} */
const WORDS = new Map([
  ["api_key", words("API key", "API key", "key", "keys", "key", "the key")],
  ["private_key", words("private key", "private key", "private key", "private keys", "key", "the key")],
  ["card", words("card number", "card", "card number", "card numbers", "card", "the number")],
  ["iban", words("IBAN", "IBAN", "IBAN", "IBANs", "IBAN", "the IBAN")],
  ["email", words("e-mail address", "e-mail", "e-mail address", "e-mail addresses", "address", "the address")],
  ["phone", words("phone number", "phone", "phone number", "phone numbers", "number", "the number")],
]);
const POLICIES = { tenant: "your organization’s", project: "this project’s", platform: "this service’s" };

/**
 * @param {string} name
 * @param {string} chip
 * @param {string} one
 * @param {string} many
 * @param {string} same
 * @param {string} without
 * @returns {Words}
 */
function words(name, chip, one, many, same, without) {
  return { name, chip, one, many, same, without, none: `no ${many} in` };
}

/**
 * A name that a policy's author chose may be a plural, or no noun: nothing is made of it.
 * @param {string} category
 * @returns {Words}
 */
function wordsOf(category) {
  const name = category.replaceAll("_", " ");
  const counted = `× ${name}`;
  const own = { name, chip: name, one: counted, many: counted, same: "one", without: "it" };
  return WORDS.get(category) ?? { ...own, none: `nothing in that it calls “${name}”` };
}

/** @param {string} scope */
function policyOf(scope) {
  return `${POLICIES[/** @type {keyof POLICIES} */ (scope)] ?? "the"} safety policy`;
}

/**
 * "e-mail 1" for "[EMAIL_1]".
 * @param {string} source
 */
export function chipLabel(source) {
  const { category, number } = nameOf(source);
  return `${wordsOf(category).chip} ${number}`;
}

/**
 * What is said of an answer's placeholder to whoever asks.
 * @param {string} source the placeholder
 * @param {string} shown how the page shows it there
 * @param {string} scope
 */
export function removedText(source, shown, scope) {
  const { name, same } = wordsOf(nameOf(source).category);
  return {
    title: `${capital(name)}, removed`,
    lines: [
      `${capital(policyOf(scope))} lets none out. It never reached this page.`,
      `“${shown}” is the same ${same} all through this answer.`,
    ],
  };
}

/**
 * What is said of a question's placeholder to whoever asks.
 * @param {string} source
 * @param {string} _shown
 * @param {string} scope
 */
export function keptOutText(source, _shown, scope) {
  const { name } = wordsOf(nameOf(source).category);
  const said = `${capital(policyOf(scope))} lets none in. The model read “${source}” in its place.`;
  return { title: `${capital(name)}, removed`, lines: [said] };
}

/**
 * What is missing from an answer; no text where nothing is.
 * @param {string} text
 * @param {SafetyFlag[]} flags
 */
export function summaryText(text, flags) {
  /** @type {Map<string, Set<string>>} */
  const found = new Map();
  for (const source of parts(text, flags).filter((_, i) => i % 2 === 1)) {
    const { category } = nameOf(source);
    found.set(category, (found.get(category) ?? new Set()).add(source));
  }
  const counts = [...found].map(([category, { size }]) => {
    const { one, many } = wordsOf(category);
    return `${size} ${size === 1 ? one : many}`;
  });
  return counts.length > 0 ? `Removed before it reached you: ${counts.join(", ")}.` : "";
}

/**
 * Why an answer ended at its last word, and what may be done about it.
 * @param {SafetyBlock | null | undefined} safety
 */
export function blockedText(safety) {
  const kept = "Nothing after this place was kept.";
  if (!safety) {
    const rest = `${kept} Ask in another way, or give your administrator the request id.`;
    return { head: "Stopped here by the safety policy.", rest };
  }
  const { name, without } = wordsOf(safety.category);
  const ask = without === "it" ? "Ask without it" : `Ask without ${without} itself`;
  return {
    head: `Stopped here by ${policyOf(safety.scope)}: ${name}.`,
    rest: `${kept} ${ask}, or give your administrator the request id.`,
  };
}

/**
 * Why a question was not sent, and what may be done about it.
 * @param {SafetyBlock} safety
 */
export function refusedText({ category, scope }) {
  return {
    head: `Not sent: ${policyOf(scope)} lets ${wordsOf(category).none}.`,
    rest: "Nothing was stored or billed. Change the text and send it again.",
  };
}

/** @param {string} text */
function capital(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
