// Marks round the placeholders of an answer, for the Markdown parser, which gives no offsets: two private-use
// characters that the page sets by the answer's flags alone. Pure.

/** @typedef {import("/web/client/answer.js").SafetyFlag} SafetyFlag */
/** @typedef {{tag: string, children: string[]}} Element */

export const START = "\uee00";
export const END = "\uee01";
const POINTS_MAX = 96; // of a placeholder
const MARKS = /[\uee00\uee01]/g;
const PLACEHOLDER = /^\[([A-Z][A-Z0-9_]*)_(\d+)\]$/;
const LAST_PLACEHOLDER = /\[[A-Z][A-Z0-9_]*_\d+\]$/;
const MARKED = /\uee00([^\uee01]*)\uee01/;

/**
 * The text of an answer with its redactions' placeholders between marks. While it grows, a placeholder at its end
 * waits: what says that it is one comes just behind it.
 * @param {string} text
 * @param {SafetyFlag[]} flags
 * @param {boolean} growing
 */
export function marked(text, flags, growing) {
  const all = parts(text, flags);
  const shown = all.map((part, i) => (i % 2 === 0 ? withoutMarks(part) : START + part + END));
  const rest = shown.pop() ?? "";
  return shown.join("") + (growing ? rest.replace(LAST_PLACEHOLDER, "") : rest);
}

/**
 * The text in parts: each second one is the placeholder of a redaction.
 * @param {string} text
 * @param {SafetyFlag[]} flags
 */
export function parts(text, flags) {
  const found = [];
  let from = 0;
  let point = 0;
  for (const flag of redactions(flags)) {
    if (flag.p < point) continue;
    const at = indexAfter(text, from, flag.p - point);
    const to = indexAfter(text, at, flag.n);
    const source = text.slice(at, to);
    if (categoryOf(source) !== flag.category) continue;
    found.push(text.slice(from, at), source);
    from = to;
    point = flag.p + flag.n;
  }
  return [...found, text.slice(from)];
}

/**
 * The redactions of a question, found in it as it was sent, by their places in what became of it.
 * @param {import("/web/client/frames.js").SentFlag[]} sent
 * @returns {SafetyFlag[]}
 */
export function placesAfter(sent) {
  let moved = 0;
  return sent.flatMap(({ category, action, scope, p, n, x }) => {
    if (x === undefined) return [];
    const flag = { category, action, scope, p: p + moved, n: Array.from(x).length };
    moved += flag.n - n;
    return [flag];
  });
}

/**
 * The flags that stand for something removed, as they stand in the text.
 * @param {SafetyFlag[]} flags
 */
function redactions(flags) {
  const found = flags.filter(({ action, n }) => action === "redact" && n <= POINTS_MAX);
  return found.sort((one, other) => one.p - other.p);
}

/** @param {string} text */
export function withoutMarks(text) {
  return text.replace(MARKS, "");
}

/**
 * Code with its placeholders as elements.
 * @param {string} text
 * @returns {(string | Element)[]}
 */
export function withChips(text) {
  const parts = text.split(MARKED).map((part, i) => (i % 2 === 0 ? part : chip(part)));
  return parts.length > 1 ? parts.filter((part) => part !== "") : parts;
}

/**
 * @param {string} source
 * @returns {Element}
 */
export function chip(source) {
  return { tag: "chip", children: [source] };
}

/**
 * What a placeholder stands for: "email" and "1" of "[EMAIL_1]".
 * @param {string} source
 */
export function nameOf(source) {
  const found = PLACEHOLDER.exec(source);
  return { category: (found?.[1] ?? "").toLowerCase(), number: found?.[2] ?? "" };
}

/** @param {string} source */
function categoryOf(source) {
  return nameOf(source).category;
}

/**
 * The index that lies so many code points behind another one.
 * @param {string} text
 * @param {number} from
 * @param {number} points
 */
function indexAfter(text, from, points) {
  let at = from;
  for (let left = points; left > 0 && at < text.length; left--) at += (text.codePointAt(at) ?? 0) > 0xffff ? 2 : 1;
  return at;
}
