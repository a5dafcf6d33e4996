// Long code in parts, which are drawn one after another: a browser takes long to lay out thousands of lines of one
// text. Pure.

/** @typedef {import("./patch.js").Child} Child */

const LINES = 256; // of a part
const CHARACTERS = 4096;

/**
 * What code holds, in parts of whole lines; as it is where it is one part. The first parts of a text that grows stay.
 * @param {Child[]} children
 * @returns {Child[]}
 */
export function inParts(children) {
  /** @type {Child[]} */
  let part = [];
  const parts = [part];
  let [lines, characters] = [0, 0];
  for (const child of children) {
    if (typeof child !== "string") {
      part.push(child);
      continue;
    }
    let from = 0;
    for (let at = child.indexOf("\n") + 1; at > 0; at = child.indexOf("\n", at) + 1) {
      if (++lines < LINES && characters + at - from < CHARACTERS) continue;
      part.push(child.slice(from, at));
      parts.push((part = []));
      from = at;
      lines = characters = 0;
    }
    if (from < child.length) part.push(child.slice(from));
    characters += child.length - from;
  }
  const whole = parts.filter(({ length }) => length > 0);
  if (whole.length < 2) return children;
  return whole.map((each) => ({ tag: "span", attributes: { class: "part" }, children: each }));
}
