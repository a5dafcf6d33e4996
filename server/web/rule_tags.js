// `<sub>`, `<sup>` and `<kbd>` around a few words of one line: with `<br>` all of HTML that is read. One that nothing
// closes is text.

/** @typedef {import("markdown-it").StateInline} StateInline */

// No other tag of its name and no code in between, which might hold what looks like its end.
const PAIR = /<(sub|sup|kbd)>((?:(?!<\/?\1\b)[^`\n]){1,200})<\/\1>/iy;

/** @param {import("markdown-it").MarkdownIt} md */
export function tags(md) {
  md.inline.ruler.before("autolink", "tag", pair);
}

/**
 * @param {StateInline} state
 * @param {boolean} silent
 */
function pair(state, silent) {
  PAIR.lastIndex = state.pos;
  const [whole = "", name = "", words = ""] = PAIR.exec(state.src) ?? [];
  const [from, { posMax }] = [state.pos, state];
  if (whole === "" || from + whole.length > posMax) return false;
  if (!silent) {
    const tag = name.toLowerCase();
    state.pos = from + name.length + 2;
    state.posMax = state.pos + words.length;
    state.push(`${tag}_open`, tag, 1);
    state.md.inline.tokenize(state);
    state.push(`${tag}_close`, tag, -1);
    state.posMax = posMax;
  }
  state.pos = from + whole.length;
  return true;
}
