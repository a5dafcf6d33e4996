// What becomes of a block: elements, or a passage of plain text where elements would take too long. With all that it
// imports it is a chunk of its own, which the page loads when it has text to show.

import { directed } from "./direction.js";
import { shapesOf } from "./nodes.js";
import { Parser } from "./parser.js";
import { passageShape } from "./passages.js";
import { TooSlow } from "./rule_limits.js";

export { emptyLine, isCode, partOf } from "./cuts.js";
export { formulasShown } from "./formula_view.js";
export { withoutHalfLine } from "./growing.js";
export { passageShape } from "./passages.js";

/** @typedef {import("./nodes.js").Outline} Outline */
/** @typedef {import("./parser.js").Block} Block */
/** @typedef {import("./parser.js").Known} Known */
/** @typedef {import("./patch.js").Child} Child */
/** @typedef {{characters: number, tokens: number, ms: number}} BlockLimits of one block that is formatted */
/** @typedef {{child: Child | undefined, missing: Set<string>, slow: boolean}} Formatted missing: labels without a link */

const SPLIT_MS = 40;
export const parser = new Parser();

/**
 * The blocks of a text, null where it would take too long to find them.
 * @param {string} text
 * @param {Known} known
 */
export function split(text, known) {
  try {
    return parser.split(text, known, SPLIT_MS);
  } catch (error) {
    if (error instanceof TooSlow) return null;
    throw error;
  }
}

/**
 * The element that shows a block.
 * @param {Block} block
 * @param {string} source its text
 * @param {Known} known
 * @param {Outline} outline of what stands before it; changed to what stands before the next
 * @param {BlockLimits} limits
 * @param {boolean} growing more text may follow
 * @returns {Formatted}
 */
export function formatted(block, source, known, outline, limits, growing) {
  const { tokens } = block;
  const code = tokens[0]?.type === "fence" || tokens[0]?.type === "code_block";
  const passage = (/** @type {boolean} */ slow) => ({ child: passageShape(source, growing), missing: new Set(), slow });
  if (!code && (source.length > limits.characters || tokens.length > limits.tokens)) return passage(false);
  try {
    const missing = parser.read(block, known, limits.ms, growing);
    const [child] = shapesOf(block.tokens, outline);
    return { child: child && directed(child, outline), missing, slow: false };
  } catch (error) {
    if (!(error instanceof TooSlow) && !(error instanceof RangeError)) throw error; // RangeError: of the stack
    return passage(true);
  }
}
