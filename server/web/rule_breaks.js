// `<br>` is a line break, also in the cell of a table.

/** @typedef {import("markdown-it").StateInline} StateInline */

const TAG = /<br[ \t]*\/?>(?:[ \t]*\n)?/iy;

/** @param {import("markdown-it").MarkdownIt} md */
export function lineBreaks(md) {
  md.inline.ruler.before("autolink", "line_break", lineBreak);
}

/**
 * @param {StateInline} state
 * @param {boolean} silent
 */
function lineBreak(state, silent) {
  TAG.lastIndex = state.pos;
  const found = TAG.exec(state.src);
  if (!found || TAG.lastIndex > state.posMax) return false;
  if (!silent) state.push("hardbreak", "br", 0);
  state.pos += found[0].length;
  return true;
}
