// Which addresses are links: http, https and mailto, written out or bare. None holds a mark of marks.js.

import { START, END } from "./marks.js";

/** @typedef {import("markdown-it").MarkdownIt} MarkdownIt */

const LINK_MAX = 2048; // characters of a bare address
const REMEMBERED_MAX = 256;
const DEFINITION_LINES = 2;
const TRAILING = /[*_~]+$/;

/** The address of a link that may be followed, null for any other. */
export const safeHref = remembered((address) => {
  try {
    const { protocol, href } = new URL(address);
    return ["http:", "https:", "mailto:"].includes(protocol) ? href : null;
  } catch {
    return null; // relative, or no address at all
  }
});

/** @param {string} address */
export function isFollowed(address) {
  return safeHref(address) !== null;
}

/**
 * @param {MarkdownIt} md
 * @param {(address: string) => boolean} follows
 */
export function links(md, follows) {
  bare(md);
  const normal = remembered(md.normalizeLink.bind(md));
  md.normalizeLink = (address) => (isMarked(address) ? address : normal(address));
  let defining = false;
  md.validateLink = (address) => !isMarked(address) && (!defining || follows(address));
  const { parseLinkTitle } = md.helpers;
  md.helpers.parseLinkTitle = (text, start, max, before) => {
    const found = parseLinkTitle(text, start, max, before);
    return isMarked(found.str) ? { ...found, ok: false, can_continue: false } : found;
  };
  const rule = ruleOf(md.block.ruler, "reference");
  // A definition of more lines could begin in a block that is long finished. One that is no link hides no text.
  md.block.ruler.at("reference", (state, from, to, silent) => {
    const { lineMax } = state;
    state.lineMax = Math.min(lineMax, from + DEFINITION_LINES);
    defining = true;
    try {
      return rule(state, from, to, silent);
    } finally {
      defining = false;
      state.lineMax = lineMax;
    }
  });
}

/**
 * Addresses without brackets: those with `://` alone, which the rule inside a text finds as it reads.
 * @param {MarkdownIt} md
 */
function bare(md) {
  md.core.ruler.disable("linkify");
  md.linkify.add("//", null).add("ftp:", null);
  const match = md.linkify.matchAtStart.bind(md.linkify);
  md.linkify.matchAtStart = (text) => {
    const found = match(text.slice(0, LINK_MAX));
    if (!found || found.url.length >= LINK_MAX) return null;
    found.url = found.url.replace(TRAILING, "");
    return found;
  };
}

/**
 * An open block asks for the same addresses in each frame.
 * @template T
 * @param {(address: string) => T} of
 */
function remembered(of) {
  /** @type {Map<string, T>} */
  const known = new Map();
  return (/** @type {string} */ address) => {
    let found = known.get(address);
    if (found === undefined) {
      if (known.size >= REMEMBERED_MAX) known.clear();
      known.set(address, (found = of(address)));
    }
    return found;
  };
}

/**
 * markdown-it's own rule of this name, which it gives to nobody.
 * @param {MarkdownIt["block"]["ruler"]} ruler
 * @param {string} name
 */
export function ruleOf(ruler, name) {
  const all = ruler.getRules("");
  ruler.disable(name);
  const others = new Set(ruler.getRules(""));
  ruler.enable(name);
  const found = all.find((rule) => !others.has(rule));
  if (!found) throw new Error(`markdown-it has no rule ${name}`);
  return found;
}

/** @param {string} text */
function isMarked(text) {
  return text.includes(START) || text.includes(END);
}
