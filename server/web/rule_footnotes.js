// Footnotes: "[^1]" in a text, and "[^1]: what it says" as a block of its own, which stays where it was written.
// As a definition of a link it may come long after its mark. A note shows as its number, never as its label, which
// would make a button with the words of whoever wrote it.

/** @typedef {import("markdown-it").StateBlock} StateBlock */
/** @typedef {import("markdown-it").StateInline} StateInline */

const MARK = /\[\^([^\s[\]]{1,64})\](?!\()/y;
const NOTE = /\[\^([^\s[\]]{1,64})\]:[ \t]*/y;

/** @param {import("markdown-it").MarkdownIt} md */
export function footnotes(md) {
  md.inline.ruler.before("link", "footnote", mark);
  const rules = () => md.block.ruler.getRules("paragraph");
  md.block.ruler.before("reference", "footnote", (...given) => note(rules(), ...given), { alt: ["paragraph"] });
}

/**
 * No label of a link is like it.
 * @param {string} label
 */
function keyOf(label) {
  return `\n^${label}`;
}

/**
 * @param {StateInline} state
 * @param {boolean} silent
 */
function mark(state, silent) {
  MARK.lastIndex = state.pos;
  const [whole = "", label = ""] = MARK.exec(state.src) ?? [];
  if (whole === "" || state.pos + whole.length > state.posMax) return false;
  const note = state.env?.references?.[keyOf(label)];
  if (!note) return false;
  if (!silent) state.push("footnote_mark", "", 0).meta = { note };
  state.pos += whole.length;
  return true;
}

/**
 * @param {ReturnType<import("markdown-it").MarkdownIt["block"]["ruler"]["getRules"]>} rules that end a paragraph
 * @param {StateBlock} state
 * @param {number} from
 * @param {number} to
 * @param {boolean} silent
 */
function note(rules, state, from, to, silent) {
  const start = (state.bMarks[from] ?? 0) + (state.tShift[from] ?? 0);
  if ((state.sCount[from] ?? 0) - state.blkIndent >= 4) return false;
  NOTE.lastIndex = start;
  const [whole = "", label = ""] = NOTE.exec(state.src) ?? [];
  if (whole === "" || start + whole.length > (state.eMarks[from] ?? 0)) return false;
  if (silent) return true;
  let end = from + 1;
  while (end < to && !state.isEmpty(end) && !rules.some((rule) => rule(state, end, to, true))) end++;
  state.line = end;
  const open = state.push("footnote_open", "div", 1);
  open.map = [from, end];
  const definition = state.push("reference_definition", "", 0);
  definition.hidden = true;
  definition.meta = { label: keyOf(label) };
  /** @type {import("./parser.js").Definition} */
  const first = { href: "", title: "", note: 0 };
  if (state.env) open.meta = { note: ((state.env.references ??= {})[keyOf(label)] ??= first) };
  const words = state.push("inline", "", 0);
  words.content = state.getLines(from, end, state.blkIndent, false).trim().slice(whole.length).trim();
  words.map = [from, end];
  words.children = [];
  state.push("footnote_close", "div", -1);
  return true;
}
