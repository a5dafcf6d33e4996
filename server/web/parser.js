// Markdown by markdown-it: the tokens of a text, block by block, never its HTML. Pure. A chunk of its own: the page
// loads it when it has text to show, and shows plain text until then.

import MarkdownIt from "markdown-it";
import cjkFriendly from "markdown-it-cjk-friendly";

import { closed } from "./growing.js";
import { withoutMarks } from "./marks.js";
import { lineBreaks } from "./rule_breaks.js";
import { chips } from "./rule_chips.js";
import { footnotes } from "./rule_footnotes.js";
import { formulas } from "./rule_formulas.js";
import { Clock, limits } from "./rule_limits.js";
import { isFollowed, links } from "./rule_links.js";
import { tables } from "./rule_tables.js";
import { tags } from "./rule_tags.js";
import { tasks } from "./rule_tasks.js";

/** @typedef {import("markdown-it").Token} Token */
/** @typedef {(md: import("markdown-it").MarkdownIt) => void} Rule */
/** @typedef {{href: string, title: string, note?: number}} Definition of a link, or of the note of this number */
/** @typedef {{get: (label: string) => Definition | undefined}} Known definitions by their label */
/**
 * One block of a text: `source` is its part of the text, from `from` to `to`. `defines` are the links it defines.
 * @typedef {{tokens: Token[], from: number, to: number, defines: [string, Definition][]}} Block
 */

const STEP = 1000; // tokens read at once
const LEVELS_MAX = 100; // of brackets in one another
/** Rules beside markdown-it's own. @type {Rule[]} */
export const RULES = [cjkFriendly, lineBreaks, tags, footnotes, formulas, tasks];

export class Parser {
  /** @param {{breaks?: boolean, rules?: Rule[], follows?: (address: string) => boolean}} [options] */
  constructor({ breaks = true, rules = RULES, follows = isFollowed } = {}) {
    this.#md = new MarkdownIt({ html: false, linkify: true, breaks, maxNesting: LEVELS_MAX });
    this.#md.use(links, follows).use(chips);
    for (const rule of rules) this.#md.use(rule);
    this.#md.use(tables, this.#clock).use(limits, this.#clock);
    this.#inlineRules = this.#md.core.ruler.getRules("").slice(2); // without `normalize` and `block`
  }

  #md;
  #inlineRules;
  #clock = new Clock();

  /**
   * The blocks of a text, their words unread. Of a text of whole lines, all blocks but the last are blocks of any
   * text that begins with it.
   * @param {string} text
   * @param {Known} known
   * @param {number} [ms] it throws where that takes longer
   * @param {number} [most] tokens of a block: it throws where there are more
   * @returns {Block[]}
   */
  split(text, known, ms = Infinity, most = Infinity) {
    /** @type {Token[]} */
    const tokens = [];
    const { references, own } = asked(known, new Set());
    this.#clock.start(ms, most);
    this.#md.block.parse(text, this.#md, { references }, tokens);
    const lines = new Lines(text);
    /** @type {Block[]} */
    const blocks = [];
    for (let at = 0; at < tokens.length; ) {
      const first = /** @type {Token} */ (tokens[at]);
      let end = at + 1;
      if (first.nesting === 1) while (tokens[end]?.level !== 0) end++;
      end += first.nesting;
      const part = tokens.slice(at, end);
      const [from, to] = first.map ?? [0, 0];
      blocks.push({ tokens: part, from: lines.start(from), to: lines.start(to), defines: definitions(part, own) });
      at = end;
    }
    return blocks;
  }

  /**
   * Read the words of a block. Throws where that takes longer than `ms`.
   * @param {Parameters<Parser["readInSteps"]>} given
   */
  read(...given) {
    return inOneStep(this.readInSteps(...given));
  }

  /**
   * As `read`, in steps.
   * @param {Block} block
   * @param {Known} known
   * @param {number} ms
   * @param {boolean} growing more text may follow: what was begun is read as if it were closed
   * @returns {Generator<undefined, Set<string>, void>} labels that have no definition yet, if they are any
   */
  *readInSteps(block, known, ms, growing) {
    const { tokens, defines } = block;
    /** @type {Set<string>} */
    const missing = new Set();
    const { references, own } = asked(known, missing);
    for (const [label, definition] of defines) own[label] ??= definition;
    if (growing) close(tokens);
    block.tokens = [];
    for (let at = 0, left = ms; at < tokens.length; ) {
      if (at > 0) yield;
      const part = tokens.slice(at, partEnd(tokens, at + STEP));
      at += part.length;
      const began = performance.now();
      this.#clock.start(left);
      block.tokens = block.tokens.concat(this.#readPart(part, references));
      left -= performance.now() - began;
    }
    return missing;
  }

  /**
   * @param {Token[]} tokens
   * @param {Record<string, Definition>} references
   */
  #readPart(tokens, references) {
    const state = new this.#md.core.State("", this.#md, { references });
    state.tokens = tokens;
    for (const rule of this.#inlineRules) rule(state);
    for (const token of state.tokens) if (token.type === "fence") token.info = this.#language(token.info);
    return state.tokens;
  }

  /** The first word of what stands behind a fence. @param {string} info */
  #language(info) {
    return withoutMarks(this.#md.utils.unescapeAll(info).trim().split(/\s+/)[0] ?? "");
  }
}

/**
 * What steps lead to.
 * @template T
 * @param {Generator<unknown, T, void>} steps
 */
export function inOneStep(steps) {
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
  }
}

/**
 * Behind a token that closes another: no rule looks further back than to what is open.
 * @param {Token[]} tokens
 * @param {number} from
 */
function partEnd(tokens, from) {
  let end = from;
  while (end < tokens.length && tokens[end - 1]?.nesting !== -1) end++;
  return end;
}

/**
 * Definitions as markdown-it asks for them, and what it adds to them.
 * @param {Known} known
 * @param {Set<string>} missing takes the labels that were asked for in vain
 */
function asked(known, missing) {
  /** @type {Record<string, Definition>} */
  const own = Object.create(null);
  const references = new Proxy(own, {
    get(_, label) {
      const found = typeof label === "string" ? known.get(label) ?? own[label] : undefined;
      if (!found && typeof label === "string") missing.add(label);
      return found;
    },
  });
  return { references, own };
}

/**
 * @param {Token[]} tokens
 * @param {Record<string, Definition>} own
 * @returns {[string, Definition][]}
 */
function definitions(tokens, own) {
  /** @type {[string, Definition][]} */
  const found = [];
  for (const { type, meta } of tokens) {
    if (type !== "reference_definition") continue;
    const label = String(meta?.label);
    const definition = own[label];
    if (definition) found.push([label, definition]);
  }
  return found;
}

/**
 * Close what the last words of a growing block began.
 * @param {Token[]} tokens
 */
function close(tokens) {
  for (let at = tokens.length - 1; at >= 0; at--) {
    const token = /** @type {Token} */ (tokens[at]);
    if (token.type === "inline" && token.content !== "") token.content = closed(token.content);
    if (token.nesting === 0 && token.content !== "") return;
  }
}

/** Where the lines of a text start; asked in order. */
class Lines {
  /** @param {string} text */
  constructor(text) {
    this.text = text;
    this.line = 0;
    this.at = 0;
  }

  /** @param {number} line */
  start(line) {
    for (; this.line < line; this.line++) {
      const end = this.text.indexOf("\n", this.at);
      this.at = end < 0 ? this.text.length : end + 1;
    }
    return this.at;
  }
}
