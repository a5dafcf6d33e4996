// Which way text runs: by its first strong letter, as Unicode's bidirectional algorithm finds it (rules P2 and P3).
// Chips, code and formulas have a direction of their own and give none. Pure, but for `direct`.

/** @typedef {import("./patch.js").Child} Child */
/** @typedef {import("./patch.js").Shape} Shape */
/** @typedef {"ltr" | "rtl"} Direction */

// Letters, and the marks that stand for one. The ranges are those that Unicode keeps for writing from right to left.
const STRONG = /[\p{L}\u200e\u200f\u061c]/u;
const FROM_THE_RIGHT = /[\u0590-\u08ff\u200f\ufb1d-\ufdff\ufe70-\ufeff\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;

/** The page's own. @type {Direction} */
const PAGE = "ltr";
const BLOCKS = new Set(["p", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "th", "td"]);
const LISTS = new Set(["ul", "ol"]);
const INLINE = new Set(["a", "br", "button", "code", "del", "em", "kbd", "span", "strong", "sub", "sup"]);

/**
 * The direction of a text, null where no letter tells.
 * @param {string} text
 * @returns {Direction | null}
 */
export function directionOf(text) {
  const letter = STRONG.exec(text)?.[0];
  if (letter === undefined) return null;
  return FROM_THE_RIGHT.test(letter) ? "rtl" : "ltr";
}

/**
 * Give an element the direction of a text. Where no letter tells, it inherits.
 * @param {HTMLElement} element
 * @param {string} text
 */
export function direct(element, text) {
  const direction = directionOf(text);
  if (direction === null) element.removeAttribute("dir");
  else if (element.getAttribute("dir") !== direction) element.setAttribute("dir", direction);
}

/**
 * A block with the directions of all blocks in it: only what turns says so. One without a letter that tells runs as
 * the one before it.
 * @param {Child} child
 * @param {{side: Direction}} outline of what stands before it; changed to what stands before the next
 * @returns {Child}
 */
export function directed(child, outline) {
  const direction = strongOf(child) ?? outline.side;
  outline.side = direction;
  if (typeof child === "string" || hasItsOwn(child)) return child;
  return turned({ ...child, children: inside(child, direction, false) }, direction, PAGE);
}

/**
 * @param {Shape} parent
 * @param {Direction} direction
 * @param {boolean} listed in a list
 */
function inside({ tag, children }, direction, listed) {
  if (tag === "li") return itemChildren(children, direction);
  return children.map((child) => within(child, direction, LISTS.has(tag) || listed));
}

/**
 * @param {Child} child
 * @param {Direction} inherited
 * @param {boolean} listed its list, or one that it is in, gives its side to it
 * @returns {Child}
 */
function within(child, inherited, listed) {
  if (typeof child === "string") return child;
  if (hasItsOwn(child)) return turned(child, PAGE, inherited);
  const isOfList = listed && (LISTS.has(child.tag) || child.tag === "li");
  const direction = isOfList || !isBlock(child) ? inherited : (strongOf(child) ?? inherited);
  return turned({ ...child, children: inside(child, direction, isOfList) }, direction, inherited);
}

/**
 * An item keeps its list's side; words that run the other way are an element of their own.
 * @param {Child[]} children
 * @param {Direction} side
 * @returns {Child[]}
 */
function itemChildren(children, side) {
  return runs(children).flatMap((run) => {
    if (!Array.isArray(run)) return [within(run, side, true)];
    const direction = first(run) ?? side;
    const words = run.map((each) => within(each, direction, false));
    return direction === side ? words : [{ tag: "div", attributes: { class: "turned", dir: direction }, children: words }];
  });
}

/**
 * Blocks, and the words between them.
 * @param {Child[]} children
 */
function runs(children) {
  /** @type {(Shape | Child[])[]} */
  const parts = [];
  for (const child of children) {
    const last = parts[parts.length - 1];
    if (typeof child !== "string" && !INLINE.has(child.tag)) parts.push(child);
    else if (Array.isArray(last)) last.push(child);
    else parts.push([child]);
  }
  return parts;
}

/**
 * @param {Child} child
 * @returns {Direction | null}
 */
function strongOf(child) {
  if (typeof child === "string") return directionOf(child);
  return hasItsOwn(child) ? null : first(child.children);
}

/**
 * @param {Child[]} children
 * @returns {Direction | null}
 */
function first(children) {
  for (const child of children) {
    const direction = strongOf(child);
    if (direction !== null) return direction;
  }
  return null;
}

/**
 * Code, a chip, a formula or a footnote's number.
 * @param {Shape} shape
 */
function hasItsOwn({ tag, attributes = {} }) {
  return tag === "code" || tag === "button" || attributes.class === "code" || "data-source" in attributes;
}

/** @param {Shape} shape */
function isBlock({ tag, attributes = {} }) {
  return BLOCKS.has(tag) || LISTS.has(tag) || ["table", "footnote"].includes(attributes.class ?? "");
}

/**
 * @param {Shape} shape
 * @param {Direction} direction
 * @param {Direction} inherited
 * @returns {Shape}
 */
function turned(shape, direction, inherited) {
  return direction === inherited ? shape : { ...shape, attributes: { ...shape.attributes, dir: direction } };
}
