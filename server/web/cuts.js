// How much of a text is split into blocks at once, so that no block costs more than its limit. Pure: of the text
// alone, whatever pieces it came in.

const FENCE = /^ {0,3}(`{3,}(?!`)|~{3,}(?!~))([^\n]*)/;
const INDENTED = /^(?: {4}| {0,3}\t)/;
const UNINDENTED = /\n(?! {4}| {0,3}\t|[ \t]*(?:\n|$))/;

/**
 * Whether a text begins with a block of code.
 * @param {string} text
 */
export function isCode(text) {
  return INDENTED.test(text) || fenceOf(text) !== null;
}

/**
 * Where the part of whole lines ends that is split next. `over`: more text stands behind it, and it is a block
 * of code alone, or too long to be anything but a passage where it is one block. `to` 0, and not `over`: code goes on.
 * @param {string} lines
 * @param {number} longest characters of a block
 * @returns {{to: number, over: boolean}}
 */
export function partOf(lines, longest) {
  const code = codeEnd(lines);
  if (code !== null) return { to: code, over: code > 0 && code < lines.length };
  if (lines.length <= longest) return { to: lines.length, over: false };
  const end = lines.indexOf("\n", longest - 1) + 1 || lines.length;
  const line = lines.lastIndexOf("\n", end - 2) + 1;
  if (end - line > longest) return { to: line, over: true }; // it would cost too much by itself
  return { to: end, over: end < lines.length };
}

/**
 * Where the first empty line ends from here on: -1, nowhere.
 * @param {string} lines
 * @param {number} from
 */
export function emptyLine(lines, from) {
  const line = /\n[ \t]*\n/g;
  line.lastIndex = Math.max(0, from - 1);
  return line.exec(lines) ? line.lastIndex : -1;
}

/**
 * Where the code ends that lines begin with: 0 if it goes on, null if they begin with something else.
 * @param {string} lines
 */
function codeEnd(lines) {
  if (INDENTED.test(lines)) {
    const found = UNINDENTED.exec(lines);
    return found ? found.index + 1 : 0;
  }
  const fence = fenceOf(lines);
  if (fence === null) return null;
  const closing = new RegExp(`\\n {0,3}\\${fence.charAt(0)}{${fence.length},}[ \\t]*(?:\\n|$)`);
  const found = closing.exec(lines);
  return found ? found.index + found[0].length : 0;
}

/** @param {string} text */
function fenceOf(text) {
  const [, fence = "", info = ""] = FENCE.exec(text) ?? [];
  return fence === "" || (fence.startsWith("`") && info.includes("`")) ? null : fence;
}
