// What a safety policy removed, between the marks of marks.js, is a token of its own: nothing of it is Markdown.

import { END, START } from "./marks.js";

/** @typedef {import("markdown-it").StateInline} StateInline */

const TEXT = /[^\n!#$%&*+\-:<=>@[\\\]^_`{}~\uee00]+/y; // markdown-it's own, and the mark
const MARKED_MAX = 200;

/** @param {import("markdown-it").MarkdownIt} md */
export function chips(md) {
  md.inline.ruler.at("text", text);
  md.inline.ruler.before("escape", "chip", chip);
}

/**
 * @param {StateInline} state
 * @param {boolean} silent
 */
function text(state, silent) {
  TEXT.lastIndex = state.pos;
  const found = TEXT.exec(state.src)?.[0].slice(0, state.posMax - state.pos);
  if (!found) return false;
  if (!silent) state.pending += found;
  state.pos += found.length;
  return true;
}

/**
 * @param {StateInline} state
 * @param {boolean} silent
 */
function chip(state, silent) {
  const { src, pos, posMax } = state;
  if (src.charAt(pos) === "\\" && src.charAt(pos + 1) === START) {
    if (!silent) state.pending += "\\";
    state.pos++;
    return true;
  }
  if (src.charAt(pos) !== START) return false;
  const length = src.slice(pos + 1, Math.min(posMax, pos + MARKED_MAX)).indexOf(END);
  if (length < 0) return false;
  if (!silent) state.push("chip", "", 0).content = src.slice(pos + 1, pos + 1 + length);
  state.pos += length + 2;
  return true;
}
