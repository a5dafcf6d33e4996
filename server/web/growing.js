// The end of a text that grows: half a mark does not flash as text, and what was begun shows as if it were closed.
// Pure.

import { formulaAt } from "./rule_formulas.js";

const LABEL_MAX = 1000;
const LINE_MAX = 200;
const HALF_MAX = 40;
// A line that so far holds only marks would flash as text, or as another kind of block.
const MARKER_LINE =
  /^[ \t>]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+\[[ xX]?\]?|[-*+]|#{1,6}|\d{1,9}[.)]?|`{1,3}|~{1,3}|[-*_=]{2,})?[ \t]*$/;
const ROW = /^[ \t>]*\|/;
const DELIMITER_ROW = /^[ \t>|:-]*$/;
const HALF = /(?:[*_~`]{1,8}|\\|!?\[|\[\^\w{0,16}|<(?:b(?:r[ \t]{0,3}\/?)?|\/?(?:s(?:u[bp]?)?|k(?:bd?)?))?|&#?[a-z0-9]{0,31})$/i;
const SIGN = /\\[^]|`+|\*+|~~|\$\$?|<(?:sub|sup|kbd)>/gi;
const BEGUN = /<(\w+)>[^<`\n]{1,200}$/y;

/**
 * A text without the half line at its end, and without the head of a table that no line below it shows to be one.
 * @param {string} text
 */
export function withoutHalfLine(text) {
  const last = text.lastIndexOf("\n") + 1;
  const line = text.slice(last);
  if (line.length > LINE_MAX) return text;
  const above = lineAbove(text, last);
  if (DELIMITER_ROW.test(line) && isHead(text, above)) return text.slice(0, above);
  return MARKER_LINE.test(line) || isHead(text, last) ? text.slice(0, last) : text;
}

/**
 * Whether a row starts here, and none stands above it.
 * @param {string} text
 * @param {number} at
 */
function isHead(text, at) {
  return ROW.test(text.slice(at, at + LINE_MAX)) && !text.slice(lineAbove(text, at), at).includes("|");
}

/**
 * @param {string} text
 * @param {number} at the start of a line
 */
function lineAbove(text, at) {
  return at < 2 ? 0 : text.lastIndexOf("\n", at - 2) + 1;
}

/**
 * The words of a block with what they begin closed: ** * ~~ ` and a link whose address is on its way.
 * @param {string} words
 */
export function closed(words) {
  const end = Math.max(0, words.length - HALF_MAX);
  const text = words.slice(0, end) + words.slice(end).replace(HALF, "").trimEnd();
  /** @type {string[]} */
  const open = [];
  SIGN.lastIndex = 0;
  for (let found = SIGN.exec(text); found; found = SIGN.exec(text)) {
    const [sign] = found;
    const behind = formulaAt(text, found.index)?.behind ?? found.index + sign.length;
    if (sign.startsWith("`")) {
      const to = closingTicks(text, behind, sign.length);
      if (to < 0) return text + sign + open.reverse().join("");
      SIGN.lastIndex = to;
    } else if (/[\\$]/.test(sign)) SIGN.lastIndex = behind;
    else if (sign.startsWith("<")) begin(open, text, found.index);
    else toggle(open, sign, text.charAt(found.index - 1), text.charAt(behind));
  }
  return withoutHalfLink(text) + open.reverse().join("");
}

/**
 * A tag around the last words, which nothing closes so far.
 * @param {string[]} open
 * @param {string} text
 * @param {number} at
 */
function begin(open, text, at) {
  BEGUN.lastIndex = at;
  const found = BEGUN.exec(text);
  if (found) open.push(`</${found[1]}>`);
}

/**
 * @param {string[]} open
 * @param {string} sign
 * @param {string} before
 * @param {string} after
 */
function toggle(open, sign, before, after) {
  const at = open.lastIndexOf(sign);
  if (at >= 0 && before.trim() !== "") open.splice(at);
  else if (sign.length <= 3 && after.trim() !== "" && !/[a-z0-9]/i.test(before)) open.push(sign);
}

/**
 * "see [text](https://a.ex" is "see text".
 * @param {string} text
 */
function withoutHalfLink(text) {
  const to = text.lastIndexOf("](");
  if (to < 0 || text.indexOf(")", to) >= 0) return text;
  for (let from = to - 1, depth = 1; from >= Math.max(0, to - LABEL_MAX); from--) {
    const symbol = text.charAt(from);
    if (symbol === "]") depth++;
    if (symbol === "[" && --depth === 0) return text.slice(0, from).replace(/!$/, "") + text.slice(from + 1, to);
  }
  return text;
}

/**
 * @param {string} text
 * @param {number} from
 * @param {number} length
 */
function closingTicks(text, from, length) {
  const run = /`+/g;
  run.lastIndex = from;
  for (let found = run.exec(text); found; found = run.exec(text)) {
    if (found[0].length === length) return run.lastIndex;
  }
  return -1;
}
