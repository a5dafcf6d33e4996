// Markdown's blocks: lines in, a tree out. Pure; a subset of CommonMark plus tables and task lists.
//
// A block is closed by lines that were already seen, never by what comes later: of the blocks of a prefix of a
// text, all but the last are blocks of the text. The streaming view rests on that.

import { withoutMarks } from "./marks.js";

/**
 * @typedef {{kind: "paragraph" | "heading" | "rule" | "code" | "quote" | "list" | "table", end: number,
 *   text?: string, level?: number, language?: string, closed?: boolean, blocks?: Block[], ordered?: boolean,
 *   first?: number, loose?: boolean, items?: Block[][], align?: string[], rows?: string[][]}} Block
 * `end` is the index of the line after the block.
 */
/** @typedef {{indent: number, offset: number, kind: string, first: number, rest: string}} Marker */

const DEPTH_MAX = 12; // deeper nesting is shown as text
// Each of these looks at a character a bounded number of times, whatever the text is: where a repetition could
// share characters with the next one, a lookahead forbids it.
const HEADING = /^ {0,3}(#{1,6})(?![^ \t])/;
const RULE = /^ {0,3}([-*_])[ \t]*(?:\1[ \t]*){2,}$/;
const FENCE = /^( {0,3})(`{3,}(?!`)|~{3,}(?!~))([^`]*)$/;
const QUOTE = /^ {0,3}> ?/;
const MARKER = /^( *)([-*+]|(\d{1,9})[.)])(?:([ \t]+)([^]*)|)$/;
const DELIMITER_ROW = /^ {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*(?:\|[ \t]*)?$/;

/**
 * The blocks of lines[from…].
 * @param {string[]} lines
 * @param {number} [from]
 * @param {number} [depth]
 * @returns {Block[]}
 */
export function parseBlocks(lines, from = 0, depth = 0) {
  /** @type {Block[]} */
  const blocks = [];
  for (let at = from; at < lines.length; ) {
    if (isBlank(line(lines, at))) {
      at++;
      continue;
    }
    const block = blockAt(lines, at, depth);
    blocks.push(block);
    at = block.end;
  }
  return blocks;
}

/**
 * @param {string[]} lines
 * @param {number} at
 * @param {number} depth
 * @returns {Block}
 */
function blockAt(lines, at, depth) {
  const first = line(lines, at);
  const heading = HEADING.exec(first);
  if (heading) {
    const text = headingText(first.slice(heading[0].length));
    return { kind: "heading", level: heading[1]?.length ?? 1, text, end: at + 1 };
  }
  const fence = FENCE.exec(first);
  if (fence) return code(lines, at, fence);
  if (RULE.test(first)) return { kind: "rule", end: at + 1 };
  if (depth < DEPTH_MAX) {
    if (QUOTE.test(first)) return quote(lines, at, depth);
    if (marker(first)) return list(lines, at, depth);
  }
  return isTable(lines, at) ? table(lines, at) : paragraph(lines, at, depth);
}

/**
 * What follows the marks of a heading, without the marks that may close it.
 * @param {string} rest
 */
function headingText(rest) {
  const text = rest.trim();
  let end = text.length;
  while (text.charAt(end - 1) === "#") end--;
  const closes = end === 0 || text.charAt(end - 1) === " " || text.charAt(end - 1) === "\t";
  return closes ? text.slice(0, end).trimEnd() : text;
}

/**
 * @param {string[]} lines
 * @param {number} at
 * @param {RegExpExecArray} fence
 * @returns {Block}
 */
function code(lines, at, fence) {
  const [, indent = "", ticks = "", info = ""] = fence;
  const content = [];
  let end = at + 1;
  let closed = false;
  for (; end < lines.length && !closed; end++) {
    closed = closesFence(line(lines, end), ticks);
    if (!closed) content.push(dedent(line(lines, end), indent.length));
  }
  const language = withoutMarks(info.trim().split(/\s+/)[0] ?? "");
  return { kind: "code", language, text: content.join("\n"), closed, end };
}

/**
 * Whether a line holds nothing but at least as many of the marks that opened the fence.
 * @param {string} text
 * @param {string} ticks
 */
function closesFence(text, ticks) {
  const from = indentOf(text);
  let to = from;
  while (text.charAt(to) === ticks.charAt(0)) to++;
  return from <= 3 && to - from >= ticks.length && isBlank(text.slice(to));
}

/**
 * @param {string[]} lines
 * @param {number} at
 * @param {number} depth
 * @returns {Block}
 */
function quote(lines, at, depth) {
  const inner = [];
  let fenced = false;
  let end = at;
  for (; end < lines.length; end++) {
    const text = line(lines, end);
    if (QUOTE.test(text)) inner.push(text.replace(QUOTE, ""));
    else if (!fenced && continuesParagraph(inner, text, lines, end)) inner.push(text);
    else break;
    fenced ||= isFence(inner[inner.length - 1]);
  }
  return { kind: "quote", blocks: parseBlocks(inner, 0, depth + 1), end };
}

/**
 * @param {string[]} lines
 * @param {number} at
 * @param {number} depth
 * @returns {Block}
 */
function list(lines, at, depth) {
  const head = /** @type {Marker} */ (marker(line(lines, at)));
  /** @type {Block[][]} */
  const items = [];
  let loose = false;
  let end = at;
  while (end < lines.length) {
    const next = skipBlank(lines, end);
    const found = next < lines.length ? marker(line(lines, next)) : null;
    if (!found || found.kind !== head.kind || RULE.test(line(lines, next))) break;
    loose ||= items.length > 0 && next > end;
    const item = itemLines(lines, next, found);
    const blocks = parseBlocks(item.inner, 0, depth + 1);
    loose ||= blocks.length > 1 && item.inner.some((text, i) => isBlank(text) && i < item.inner.length - 1);
    items.push(blocks);
    end = item.end;
  }
  return { kind: "list", ordered: head.first >= 0, first: head.first, loose, items, end };
}

/**
 * The lines of one item without its marker and indentation.
 * @param {string[]} lines
 * @param {number} at
 * @param {Marker} found
 */
function itemLines(lines, at, found) {
  const inner = [found.rest];
  let fenced = isFence(found.rest);
  let end = at + 1;
  while (end < lines.length) {
    const next = skipBlank(lines, end);
    if (next >= lines.length) break;
    const text = line(lines, next);
    const nested = indentOf(text) >= found.offset || (indentOf(text) >= found.indent + 2 && marker(text));
    if (!nested && (fenced || next !== end || !continuesParagraph(inner, text, lines, next))) break;
    for (; end < next; end++) inner.push("");
    inner.push(dedent(text, found.offset));
    fenced ||= isFence(inner[inner.length - 1]);
    end = next + 1;
  }
  return { inner, end };
}

/**
 * @param {string[]} lines
 * @param {number} at
 * @returns {Block}
 */
function table(lines, at) {
  const align = cells(line(lines, at + 1)).map((cell) => {
    if (cell.endsWith(":")) return cell.startsWith(":") ? "center" : "right";
    return "";
  });
  const rows = [cells(line(lines, at))];
  let end = at + 2;
  for (; end < lines.length; end++) {
    const text = line(lines, end);
    if (isBlank(text) || startsBlock(text)) break;
    rows.push(cells(text));
  }
  return { kind: "table", align, rows, end };
}

/**
 * @param {string[]} lines
 * @param {number} at
 * @param {number} depth
 * @returns {Block}
 */
function paragraph(lines, at, depth) {
  const content = [line(lines, at).trimStart()];
  let end = at + 1;
  for (; end < lines.length; end++) {
    const text = line(lines, end);
    if (isBlank(text) || (startsBlock(text) && depth < DEPTH_MAX) || isTable(lines, end)) break;
    content.push(text.trimStart());
  }
  return { kind: "paragraph", text: content.join("\n").trimEnd(), end };
}

/**
 * Whether a line ends a paragraph. A list that does not start at 1, or an empty item, does not: it is more
 * often a wrapped sentence.
 * @param {string} text
 */
function startsBlock(text) {
  if (HEADING.test(text) || FENCE.test(text) || QUOTE.test(text) || RULE.test(text)) return true;
  const found = marker(text);
  return found !== null && found.rest !== "" && found.first <= 1;
}

/**
 * Whether a line without the container's prefix still belongs to the paragraph inside it, which is in no fence.
 * @param {string[]} inner what the container holds so far
 * @param {string} text
 * @param {string[]} lines
 * @param {number} at
 */
function continuesParagraph(inner, text, lines, at) {
  const before = inner[inner.length - 1] ?? "";
  if (isBlank(before) || isBlank(text) || startsBlock(text) || marker(text) || isTable(lines, at)) return false;
  return !HEADING.test(before) && !RULE.test(before);
}

/** @param {string | undefined} text */
function isFence(text) {
  return FENCE.test((text ?? "").trimStart());
}

/**
 * @param {string[]} lines
 * @param {number} at
 */
function isTable(lines, at) {
  const header = line(lines, at);
  const delimiter = line(lines, at + 1);
  if (!header.includes("|") || !delimiter.includes("-") || !DELIMITER_ROW.test(delimiter)) return false;
  return (delimiter.includes("|") || delimiter.includes(":")) && cells(header).length === cells(delimiter).length;
}

/**
 * The cells of a row: split at pipes that are not escaped.
 * @param {string} row
 * @returns {string[]}
 */
function cells(row) {
  const inner = row.trim().replace(/^\|/, "").replace(/(?<!\\)\|$/, "");
  return inner.split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
}

/**
 * @param {string} text
 * @returns {Marker | null}
 */
function marker(text) {
  const found = MARKER.exec(text);
  if (!found) return null;
  const [, spaces = "", symbol = "", digits, gap = " ", rest = ""] = found;
  const width = gap.length > 4 ? 1 : gap.length; // five spaces and more are the item's own indentation
  return {
    indent: spaces.length,
    offset: spaces.length + symbol.length + width,
    kind: symbol.slice(-1),
    first: digits === undefined ? -1 : Number(digits),
    rest: gap.slice(width) + rest,
  };
}

/**
 * @param {string[]} lines
 * @param {number} at
 */
function skipBlank(lines, at) {
  while (at < lines.length && isBlank(line(lines, at))) at++;
  return at;
}

/**
 * @param {string[]} lines
 * @param {number} at
 */
function line(lines, at) {
  return lines[at] ?? "";
}

/** @param {string} text */
function isBlank(text) {
  return text.trim() === "";
}

/** @param {string} text */
function indentOf(text) {
  return text.length - text.trimStart().length;
}

/**
 * Without at most `count` leading spaces.
 * @param {string} text
 * @param {number} count
 */
function dedent(text, count) {
  return text.slice(Math.min(count, indentOf(text)));
}
