// The element that shows a formula: its source, until formula_view.js makes MathML of it. Pure.

import { showFormula } from "./formula_view.js";
import { END, START, withoutMarks } from "./marks.js";
import { endSign } from "./rule_formulas.js";

/** @typedef {import("./patch.js").Shape} Shape */

const SHORT = 40; // characters of one that is seldom wider than a phone
const PLACEHOLDER = new RegExp(`${START}([^${END}]*)${END}`, "g");

/**
 * @param {string} sign what begins it
 * @param {string} content
 * @param {boolean} alone it is a block
 * @returns {Shape}
 */
export function formulaShape(sign, content, alone) {
  const source = withoutMarks(sign + content + endSign(sign));
  const display = sign !== "$" && sign !== "\\(";
  /** @type {Record<string, string>} */
  const attributes = { class: display ? "formula display" : "formula", dir: "ltr", "data-source": source };
  if (display || source.length > SHORT) Object.assign(attributes, { tabindex: "0", role: "group", "aria-label": "Formula" });
  const tex = texOf(content);
  const make = (/** @type {Element} */ element) => showFormula({ element, tex, source, display });
  return { tag: alone ? "div" : "span", attributes, children: [source], made: { key: `${display} ${source}`, make } };
}

/**
 * What a policy removed is no formula.
 * @param {string} content
 */
function texOf(content) {
  const shown = (/** @type {string} */ _, /** @type {string} */ source) => `\\text{${source.replaceAll("_", "\\_")}}`;
  return withoutMarks(content.replace(PLACEHOLDER, shown));
}
