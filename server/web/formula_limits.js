// What a formula may ask of Temml, whose own limit counts the macros that it expands, not what they become: no
// definition, so many tokens once its macros are expanded, and so many parts, so deep in one another. Pure.

/** @typedef {import("temml").Options} Options */

const DEFINES = /\\(?:[gex]?def|(?:future)?let|(?:re)?newcommand|providecommand|global|long)(?![a-zA-Z@])/;
const LOOKED_UP_MAX = 6000; // names and characters
const PARTS_MAX = 5000;
const DEPTH_MAX = 100; // of parts: an element has up to three of them
const EXPANSIONS_MAX = 200; // of its macros
const SPACE_MAX_EM = 20; // that it may ask for
const SPACE_MAX_PT = 200;
const TIMES = new Map([["cancelto", 3], ["lap", 2]]); // that Temml makes elements of what stands in one
const NO_PARTS = new Set(["loc", "token"]);

/**
 * Throws where a formula defines something: what it is made of could not be bounded.
 * @param {string} tex
 */
export function refuseDefinitions(tex) {
  const found = DEFINES.exec(tex);
  if (found) throw new Error(`${found[0]} defines something`);
}

/**
 * How Temml is to read one.
 * @param {boolean} display
 * @returns {Options}
 */
export function optionsOf(display) {
  return {
    displayMode: display,
    throwOnError: true,
    trust: false,
    wrap: display ? "none" : "tex",
    maxSize: [SPACE_MAX_EM, SPACE_MAX_PT],
    maxExpand: EXPANSIONS_MAX,
    macros: countedMacros(),
  };
}

/**
 * No macros of our own; throws once Temml has asked for too many: it asks for each token that it expands or reads.
 * @returns {Record<string, never>}
 */
function countedMacros() {
  let asked = 0;
  return new Proxy({}, {
    getOwnPropertyDescriptor(own, name) {
      if (++asked > LOOKED_UP_MAX) throw new Error("it is too long");
      return Reflect.getOwnPropertyDescriptor(own, name);
    },
  });
}

/**
 * Throws where what Temml read has too many parts, or too deep ones: it makes some of them more than once.
 * @param {unknown} tree
 */
export function refuseTooMuch(tree) {
  let parts = 0;
  const count = (/** @type {unknown} */ part, /** @type {number} */ depth) => {
    if (typeof part !== "object" || part === null) return;
    const { type = "" } = /** @type {{type?: string}} */ (part);
    if (type !== "") parts++;
    if (parts > PARTS_MAX || depth > DEPTH_MAX) throw new Error("it is too long, or too much in one another");
    const inside = Object.entries(part).filter(([name]) => !NO_PARTS.has(name));
    for (let times = TIMES.get(type) ?? 1; times > 0; times--) for (const [, each] of inside) count(each, depth + 1);
  };
  count(tree, 0);
}
