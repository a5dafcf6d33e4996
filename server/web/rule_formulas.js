// Formulas: `$…$` as Pandoc reads it, `$$…$$`, `\(…\)` and `\[…\]`. Each search for an end stops at the next such
// sign, so that reading takes as long as the text is.

/** @typedef {import("markdown-it").StateBlock} StateBlock */
/** @typedef {import("markdown-it").StateInline} StateInline */
/** @typedef {{sign: string, from: number, to: number, behind: number}} Formula `from`, `to`: what it says */

const FORMULA_MAX = 4096; // characters
const ENDS = new Map([["$", "$"], ["$$", "$$"], ["\\(", "\\)"], ["\\[", "\\]"]]);
/** What ends a search, by the sign that began it; a pair of a backslash and another character is one. */
const STOPS = new Map([
  ["$", /\\[^]|[$`]/g], // in code it is no sign
  ["$$", /\\[^]|\$\$/g],
  ["\\(", /\\[^]/g],
  ["\\[", /\\[^]/g],
]);
const CODE_INDENT = 4;

/** @param {import("markdown-it").MarkdownIt} md */
export function formulas(md) {
  md.inline.ruler.before("escape", "formula", inline);
  md.block.ruler.before("fence", "formula", block, { alt: ["paragraph", "reference", "blockquote", "list"] });
}

/**
 * The formula that begins here, if one does.
 * @param {string} text
 * @param {number} at
 * @param {number} [max] where the text ends
 * @returns {Formula | null}
 */
export function formulaAt(text, at, max = text.length) {
  const sign = signAt(text, at);
  const from = at + sign.length;
  const to = sign === "" ? -1 : endOf(text, sign, from, Math.min(max, from + FORMULA_MAX));
  if (to < 0 || text.slice(from, to).trim() === "") return null;
  if (sign === "$" && !isPandocs(text, from, to)) return null;
  return { sign, from, to, behind: to + sign.length };
}

/**
 * What ends a formula.
 * @param {string} sign that begins it
 */
export function endSign(sign) {
  return ENDS.get(sign) ?? sign;
}

/**
 * No space stands at either edge, and no digit behind: "$5 and $10" is money.
 * @param {string} text
 * @param {number} from
 * @param {number} to
 */
function isPandocs(text, from, to) {
  return /\S/.test(text.charAt(from)) && /\S/.test(text.charAt(to - 1)) && !/\d/.test(text.charAt(to + 1));
}

/**
 * @param {string} text
 * @param {number} at
 */
function signAt(text, at) {
  const one = text.charAt(at);
  if (one !== "$" && one !== "\\") return "";
  const two = text.slice(at, at + 2);
  if (ENDS.has(two)) return two;
  return one === "$" ? one : "";
}

/**
 * Where the end sign is: -1, nowhere.
 * @param {string} text
 * @param {string} sign
 * @param {number} from
 * @param {number} max
 */
function endOf(text, sign, from, max) {
  const end = endSign(sign);
  const stops = /** @type {RegExp} */ (STOPS.get(sign));
  stops.lastIndex = from;
  for (let found = stops.exec(text); found && stops.lastIndex <= max; found = stops.exec(text)) {
    if (found[0] === end) return found.index;
    if (found[0] === sign || found[0] === "`") return -1;
  }
  return -1;
}

/**
 * @param {StateInline} state
 * @param {boolean} silent
 */
function inline(state, silent) {
  const found = formulaAt(state.src, state.pos, state.posMax);
  if (!found) return false;
  if (!silent) {
    const token = state.push("math_inline", "math", 0);
    token.markup = found.sign;
    token.content = state.src.slice(found.from, found.to);
  }
  state.pos = found.behind;
  return true;
}

/**
 * One that stands on lines of its own. From the line that begins it to the next empty line nothing else is a block;
 * where it turns out to be none, they are a paragraph.
 * @param {StateBlock} state
 * @param {number} start
 * @param {number} end
 * @param {boolean} silent
 */
function block(state, start, end, silent) {
  if (indent(state, start) >= CODE_INDENT) return false;
  const first = lineOf(state, start);
  const sign = signAt(first, 0);
  if (sign !== "$$" && sign !== "\\[") return false;
  const to = endOf(first, sign, sign.length, first.length);
  if (to >= 0 && (first.slice(sign.length, to).trim() === "" || first.slice(to + 2).trim() !== "")) return false;
  if (silent) return true;
  if (to >= 0) return formula(state, start, start + 1, sign);
  let next = start + 1;
  for (; goesOn(state, next, end); next++) {
    const line = lineOf(state, next);
    const at = endOf(line, sign, 0, line.length);
    if (at < 0) continue;
    if (line.slice(at + 2).trim() === "") return formula(state, start, next + 1, sign);
    return paragraph(state, start, paragraphEnd(state, next + 1, end));
  }
  return paragraph(state, start, next);
}

/**
 * @param {StateBlock} state
 * @param {number} start
 * @param {number} next
 * @param {string} sign
 */
function formula(state, start, next, sign) {
  const token = state.push("math_block", "math", 0);
  const lines = state.getLines(start, next, state.sCount[start] ?? 0, false).trim();
  token.block = true;
  token.markup = sign;
  token.content = lines.slice(sign.length, -sign.length);
  token.map = [start, next];
  state.line = next;
  return true;
}

/**
 * @param {StateBlock} state
 * @param {number} start
 * @param {number} next
 */
function paragraph(state, start, next) {
  const map = /** @type {[number, number]} */ ([start, next]);
  state.push("paragraph_open", "p", 1).map = map;
  const words = state.push("inline", "", 0);
  words.content = state.getLines(start, next, state.blkIndent, false).trim();
  words.map = map;
  words.children = [];
  state.push("paragraph_close", "p", -1);
  state.line = next;
  return true;
}

/**
 * Where a paragraph ends that has these lines behind a formula.
 * @param {StateBlock} state
 * @param {number} line
 * @param {number} end
 */
function paragraphEnd(state, line, end) {
  const others = state.md.block.ruler.getRules("paragraph");
  const { parentType } = state;
  state.parentType = "paragraph";
  while (goesOn(state, line, end) && !others.some((rule) => rule(state, line, end, true))) line++;
  state.parentType = parentType;
  return line;
}

/**
 * @param {StateBlock} state
 * @param {number} line
 * @param {number} end
 */
function goesOn(state, line, end) {
  return line < end && !state.isEmpty(line) && indent(state, line) >= 0;
}

/**
 * @param {StateBlock} state
 * @param {number} line
 */
function indent(state, line) {
  return (state.sCount[line] ?? 0) - state.blkIndent;
}

/**
 * @param {StateBlock} state
 * @param {number} line
 */
function lineOf({ src, bMarks, tShift, eMarks }, line) {
  return src.slice((bMarks[line] ?? 0) + (tShift[line] ?? 0), eMarks[line]);
}
