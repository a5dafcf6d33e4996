// What becomes of a block: elements, or a passage of plain text where elements would take too long. With all that it
// imports it is a chunk of its own, which the page loads when it has text to show.

import { directed } from "./direction.js";
import { shapesOf } from "./nodes.js";
import { inOneStep, Parser } from "./parser.js";
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
/**
 * Limits of a block that is formatted. `asked`: its reader asked for it, so that nothing is left to ask for.
 * @typedef {{characters: number, tokens: number, elements: number, ms: number, asked: boolean}} BlockLimits
 */
/**
 * `missing`: labels without a link. `elements`: how many it has, with those that its references may become.
 * @typedef {{child: Child | undefined, missing: Set<string>, elements: number, slow: boolean}} Formatted
 */

const SPLIT_MS = 40;
const REFERENCE = /\[\^?/g; // that may become an element, a footnote's two: as many as characters
export const parser = new Parser();

/**
 * The blocks of a text, null where it would take too long to find them.
 * @param {string} text
 * @param {Known} known
 * @param {{ms?: number, tokens?: number}} [limits] tokens: of a block
 */
export function split(text, known, { ms = SPLIT_MS, tokens } = {}) {
  try {
    return parser.split(text, known, ms, tokens);
  } catch (error) {
    if (error instanceof TooSlow) return null;
    throw error;
  }
}

/**
 * The element that shows a block, in steps.
 * @param {Block} block
 * @param {string} source its text
 * @param {Known} known
 * @param {Outline} outline of what stands before it; changed to what stands before the next
 * @param {BlockLimits} limits
 * @param {boolean} growing more text may follow
 * @returns {Generator<undefined, Formatted, void>}
 */
export function* formattedInSteps(block, source, known, outline, limits, growing) {
  const { tokens } = block;
  const code = tokens[0]?.type === "fence" || tokens[0]?.type === "code_block";
  const passage = (/** @type {boolean} */ slow) => {
    const child = passageShape(source, growing || limits.asked);
    return { child, missing: new Set(), elements: elementsOf(child), slow };
  };
  if (!code && (source.length > limits.characters || tokens.length > limits.tokens)) return passage(false);
  try {
    const missing = yield* parser.readInSteps(block, known, limits.ms, growing);
    const [child] = shapesOf(block.tokens, outline);
    yield;
    const later = missing.size > 0 ? (source.match(REFERENCE) ?? []).join("").length : 0;
    const elements = (child ? elementsOf(child) : 0) + later;
    if (elements > limits.elements) return passage(false);
    return { child: child && directed(child, outline), missing, elements, slow: false };
  } catch (error) {
    if (!(error instanceof TooSlow) && !(error instanceof RangeError)) throw error; // RangeError: of the stack
    return passage(true);
  }
}

/**
 * The element that shows a block.
 * @param {Parameters<typeof formattedInSteps>} given
 */
export function formatted(...given) {
  return inOneStep(formattedInSteps(...given));
}

/**
 * @param {Child} child
 * @returns {number}
 */
function elementsOf(child) {
  return typeof child === "string" ? 0 : child.children.reduce((sum, each) => sum + elementsOf(each), 1);
}
