// Markdown inside a block: text in, a tree out. Pure. Raw HTML is text, an image is a link.

import { DEPTH_MAX, depthOf, merge, settle } from "./emphasis.js";
import { END, START, chip, withChips } from "./marks.js";

/** @typedef {import("./emphasis.js").Node} Node */
/** @typedef {import("./emphasis.js").Piece} Piece */
/** @typedef {import("./emphasis.js").Bracket} Bracket */

const LINK_MAX = 2048;
const HALF_CLOSED = /(\*\*[^*\n]+)\*$/; // the closing ** is arriving
const SPECIAL = /[\\`*_~[\]!<&\n\uee00]|h(?=ttps?:\/\/)/g;
const PUNCTUATION = /[!-/:-@[-`{-~\p{P}\p{S}]/u;
const DESTINATION =
  /\(\s*(?!\s)(?:<([^<>\n]*)>|([^\s()<>]*(?:\([^\s()<>]*\)[^\s()<>]*)*))(?:\s+(?:"[^"]*"|'[^']*'))?\s*\)/y;
const BARE_URL = /https?:\/\/[^\s<>"`]{1,2048}/y;
const AUTOLINK = /<((?:https?:\/\/|mailto:)[^\s<>]+)>/y;
const ENTITY = /&(amp|lt|gt|quot|apos|nbsp|#39);/y;
const ENTITIES = new Map([
  ["amp", "&"],
  ["lt", "<"],
  ["gt", ">"],
  ["quot", '"'],
  ["apos", "'"],
  ["#39", "'"],
  ["nbsp", "\u00a0"],
]);

/**
 * The tree of one block's text.
 * @param {string} text
 * @param {boolean} [growing] more text may follow: what was begun with ** or ` is shown as if it were closed
 * @returns {Node[]}
 */
export function parseInline(text, growing = false) {
  const shown = growing ? text.replace(HALF_CLOSED, "$1") : text;
  return new Scanner(shown, growing).scan();
}

/**
 * The address of a link that may be followed, null for any other.
 * @param {string} address
 */
export function safeHref(address) {
  try {
    const { protocol, href } = new URL(address);
    return ["http:", "https:", "mailto:"].includes(protocol) ? href : null;
  } catch {
    return null; // relative, or no address at all
  }
}

class Scanner {
  /**
   * @param {string} text
   * @param {boolean} growing
   */
  constructor(text, growing) {
    this.text = text;
    this.growing = growing;
    this.at = 0;
    /** @type {Piece[]} */
    this.pieces = [];
    /** @type {Set<number>} lengths of backtick runs that close nowhere */
    this.unclosed = new Set();
    /** @type {number[]} where the brackets that are still open stand in `pieces`, the innermost last */
    this.open = [];
    /** How many of those were open when the last link ended: but for images, they hold no link any more. */
    this.inactive = 0;
    this.lastParenthesis = text.lastIndexOf(")");
  }

  scan() {
    while (this.at < this.text.length) {
      SPECIAL.lastIndex = this.at;
      const next = SPECIAL.exec(this.text)?.index ?? this.text.length;
      this.pieces.push(this.text.slice(this.at, next));
      this.at = next;
      if (next < this.text.length) this.special(this.text.charAt(next));
    }
    return settle(this.pieces, this.growing);
  }

  /** @param {string} symbol */
  special(symbol) {
    switch (symbol) {
      case "\\":
        return this.escape();
      case "`":
        return this.code();
      case "*":
      case "_":
      case "~":
        return this.run(symbol);
      case "!":
        return this.text.charAt(this.at + 1) === "[" ? this.bracket(true) : this.literal(1);
      case "[":
        return this.bracket(false);
      case "]":
        return this.close();
      case "\n":
        return this.lineBreak();
      case "h":
        return this.bareUrl();
      case START:
        return this.chip();
      default:
        return this.angleOrEntity();
    }
  }

  /** @param {number} length */
  literal(length) {
    this.pieces.push(this.text.slice(this.at, this.at + length));
    this.at += length;
  }

  /** A placeholder between its marks. */
  chip() {
    const to = this.text.indexOf(END, this.at);
    if (to < 0) return this.literal(1);
    this.pieces.push(chip(this.text.slice(this.at + 1, to)));
    this.at = to + 1;
  }

  escape() {
    const next = this.text.charAt(this.at + 1);
    if (next === "\n") this.pieces.push({ tag: "br", children: [] });
    else if (/[!-/:-@[-`{-~]/.test(next)) this.pieces.push(next);
    else return this.literal(1);
    this.at += 2;
  }

  code() {
    const length = runLength(this.text, this.at);
    const from = this.at + length;
    const to = this.unclosed.has(length) ? -1 : closingTicks(this.text, from, length);
    if (to < 0) {
      this.unclosed.add(length);
      if (!this.growing || length > 2 || from === this.text.length) return this.literal(length);
    }
    const content = this.text.slice(from, to < 0 ? undefined : to).replaceAll("\n", " ");
    const padded = content.startsWith(" ") && content.endsWith(" ") && /[^ ]/.test(content);
    const trimmed = padded ? content.slice(1, -1) : content;
    this.pieces.push({ tag: "code", children: withChips(trimmed) });
    this.at = to < 0 ? this.text.length : to + length;
  }

  /** @param {string} symbol */
  run(symbol) {
    const count = runLength(this.text, this.at);
    if (symbol === "~" && count !== 2) return this.literal(count);
    const before = codePointBefore(this.text, this.at);
    const after = String.fromCodePoint(this.text.codePointAt(this.at + count) ?? 32);
    const spaceBefore = /\s/.test(before);
    const spaceAfter = /\s/.test(after);
    const left = !spaceAfter && (!PUNCTUATION.test(after) || spaceBefore || PUNCTUATION.test(before));
    const right = !spaceBefore && (!PUNCTUATION.test(before) || spaceAfter || PUNCTUATION.test(after));
    const inWord = symbol === "_" && left && right;
    this.pieces.push({
      symbol,
      count,
      opens: left && (!inWord || PUNCTUATION.test(before)),
      closes: right && (!inWord || PUNCTUATION.test(after)),
      alone: spaceBefore || PUNCTUATION.test(before),
    });
    this.at += count;
  }

  /** @param {boolean} image */
  bracket(image) {
    this.at += image ? 2 : 1;
    this.open.push(this.pieces.length);
    this.pieces.push({ image });
  }

  /** The innermost bracket is closed. */
  leave() {
    this.open.pop();
    this.inactive = Math.min(this.inactive, this.open.length);
  }

  /** A `]`: with an address behind it, what lies since its `[` becomes a link. */
  close() {
    const from = this.open[this.open.length - 1];
    if (from === undefined) return this.literal(1);
    const { image } = /** @type {Bracket} */ (this.pieces[from]);
    const active = image || this.open.length > this.inactive;
    if (!active) return this.unlinked(from, image, false);
    DESTINATION.lastIndex = 0;
    const found = DESTINATION.exec(this.text.slice(this.at + 1, this.at + 2 + LINK_MAX));
    if (!found || found[0].length > LINK_MAX) return this.unlinked(from, image, true);
    if (found[0].includes(START)) return this.unlinked(from, image, false);
    const label = settle(this.pieces.splice(from).slice(1), false);
    this.leave();
    this.link(label, found[1] ?? found[2] ?? "", image);
    this.at += 1 + found[0].length;
    if (!image) this.inactive = this.open.length;
  }

  /**
   * @param {number} from
   * @param {boolean} image
   * @param {boolean} active
   */
  unlinked(from, image, active) {
    const address = this.growing && active && this.text.charAt(this.at + 1) === "(";
    if (address && this.lastParenthesis < this.at) {
      const label = settle(this.pieces.splice(from).slice(1), true); // it is still on its way
      this.pieces = this.pieces.concat(label);
      this.at = this.text.length;
      return;
    }
    this.pieces[from] = image ? "![" : "[";
    this.leave();
    this.literal(1);
  }

  /**
   * @param {Node[]} label
   * @param {string} address
   * @param {boolean} image
   */
  link(label, address, image) {
    const href = safeHref(address);
    const children = image && plain(label) === "" ? [address] : label;
    const link = href === null ? null : { tag: "a", href, children: withoutLinks(children) };
    if (link && depthOf(link) <= DEPTH_MAX) this.pieces.push(link);
    else this.pieces = this.pieces.concat(children);
  }

  lineBreak() {
    const last = this.pieces[this.pieces.length - 1];
    const hard = typeof last === "string" && last.endsWith("  ");
    if (typeof last === "string") this.pieces[this.pieces.length - 1] = last.trimEnd();
    this.pieces.push(hard ? { tag: "br", children: [] } : "\n");
    this.at++;
  }

  bareUrl() {
    BARE_URL.lastIndex = this.at;
    const found = /\w/.test(codePointBefore(this.text, this.at)) ? null : BARE_URL.exec(this.text);
    if (!found) return this.literal(1);
    const mark = found[0].indexOf(START);
    if (mark >= 0) return this.literal(mark);
    const address = trimUrl(found[0]);
    const href = safeHref(address);
    if (href === null || this.open.length > 0) return this.literal(address.length);
    this.pieces.push({ tag: "a", href, children: [address] });
    this.at += address.length;
  }

  angleOrEntity() {
    AUTOLINK.lastIndex = ENTITY.lastIndex = this.at;
    const address = AUTOLINK.exec(this.text);
    const href = address && !address[0].includes(START) ? safeHref(address[1] ?? "") : null;
    if (address && href !== null) {
      this.pieces.push({ tag: "a", href, children: [address[1] ?? ""] });
      this.at = AUTOLINK.lastIndex;
      return;
    }
    const entity = ENTITY.exec(this.text);
    if (!entity) return this.literal(1);
    this.pieces.push(ENTITIES.get(entity[1] ?? "") ?? "");
    this.at = ENTITY.lastIndex;
  }
}

/**
 * @param {Node[]} nodes
 * @returns {Node[]}
 */
function withoutLinks(nodes) {
  const kept = nodes.flatMap((node) => {
    if (typeof node === "string") return [node];
    const children = withoutLinks(node.children);
    return node.tag === "a" ? children : [{ ...node, children }];
  });
  return merge(kept);
}

/**
 * @param {Node[]} nodes
 * @returns {string}
 */
export function plain(nodes) {
  return nodes.map((node) => (typeof node === "string" ? node : plain(node.children))).join("");
}

/**
 * Without the punctuation that ends a sentence, or a bracket opened before the address.
 * @param {string} address
 */
function trimUrl(address) {
  let surplus = 0; // brackets that close more than was opened
  for (const symbol of address) surplus += symbol === ")" ? 1 : symbol === "(" ? -1 : 0;
  for (let end = address.length; ; end--) {
    const last = address.charAt(end - 1);
    const unbalanced = last === ")" && surplus > 0;
    if (!unbalanced && !/[.,:;!?'*_~\]]/.test(last)) return address.slice(0, end);
    if (last === ")") surplus--;
  }
}

/**
 * @param {string} text
 * @param {number} at
 */
function runLength(text, at) {
  let to = at;
  while (text.charAt(to) === text.charAt(at)) to++;
  return to - at;
}

/**
 * @param {string} text
 * @param {number} from
 * @param {number} length
 */
function closingTicks(text, from, length) {
  for (let at = text.indexOf("`", from); at >= 0; at = text.indexOf("`", at)) {
    const found = runLength(text, at);
    if (found === length) return at;
    at += found;
  }
  return -1;
}

/**
 * @param {string} text
 * @param {number} at
 */
function codePointBefore(text, at) {
  if (at === 0) return " ";
  const low = text.charCodeAt(at - 1);
  const from = low >= 0xdc00 && low < 0xe000 && at > 1 ? at - 2 : at - 1;
  return text.slice(from, at);
}
