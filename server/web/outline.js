// What stands before a block, as far as it changes how the block shows. Pure.

/** @typedef {import("./nodes.js").Outline} Outline */

const PAGE_HEADING = 2; // the page's own headings are h1 and h2

/** @returns {Outline} */
export function newOutline() {
  return { level: PAGE_HEADING, sources: new Set(), side: "ltr" };
}

/** @param {Outline} outline */
export function copyOf({ level, sources, side }) {
  return { level, sources: new Set(sources), side };
}
