// How large a table may be. markdown-it completes short rows with empty cells, thousands of them from a few hundred
// characters: here a table ends, and text goes on, before its rows lack more cells than they have characters.

import { ruleOf } from "./rule_links.js";

/** @typedef {import("markdown-it").StateBlock} StateBlock */

const COLUMNS_MAX = 100;
const LACKING_MAX = 100; // cells, beside one for each character of its rows

/**
 * @param {import("markdown-it").MarkdownIt} md
 * @param {import("./rule_limits.js").Clock} clock
 */
export function tables(md, clock) {
  const rule = ruleOf(md.block.ruler, "table");
  let [columns, left] = [0, 0];
  /** @type {typeof rule} */
  const table = (state, from, to, silent) => {
    if (!rule(state, from, to, true)) return false;
    columns = cells(lineOf(state, from + 1));
    left = LACKING_MAX;
    clock.look(columns);
    return columns <= COLUMNS_MAX && (silent || rule(state, from, to, false));
  };
  /** The table above ends here. @type {typeof rule} */
  const full = (state, line, _, silent) => {
    if (!silent || state.parentType !== "table") return false;
    const row = lineOf(state, line);
    clock.look(columns);
    clock.count(state);
    left += row.length - Math.max(0, columns - cells(row));
    return left < 0;
  };
  md.block.ruler.at("table", table, { alt: ["paragraph", "reference"] });
  md.block.ruler.before("table", "full_table", full, { alt: ["blockquote"] });
}

/** @param {string} row */
function cells(row) {
  const bars = row.split("|").length - row.split("\\|").length;
  return bars + 1 - Number(row.startsWith("|")) - Number(/(?:^|[^\\])\|$/.test(row));
}

/**
 * @param {StateBlock} state
 * @param {number} line
 */
function lineOf({ src, bMarks, tShift, eMarks }, line) {
  return src.slice((bMarks[line] ?? 0) + (tShift[line] ?? 0), eMarks[line]).trim();
}
