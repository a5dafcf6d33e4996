// Which elements show a block of Markdown. Pure: plain objects, made into DOM by markdown.js.

import { chipShape } from "./chip_shape.js";
import { parseInline, plain } from "./inline.js";
import { withChips } from "./marks.js";

/** @typedef {import("./blocks.js").Block} Block */
/** @typedef {string | Shape} Child */
/** @typedef {{tag: string, attributes?: Record<string, string>, children: Child[]}} Shape */
/**
 * What stands before a block: the level of the last heading, and the placeholders.
 * @typedef {{level: number, sources: Set<string>}} Outline
 */

const REL = "noopener noreferrer nofollow";

/**
 * The elements that show one block.
 * @param {Block} block
 * @param {boolean} growing more text may follow
 * @param {Outline} outline of what stands before it; a heading or a placeholder changes it
 * @returns {Shape}
 */
export function shape(block, growing, outline) {
  switch (block.kind) {
    case "heading":
      return headingShape(block, growing, outline);
    case "rule":
      return { tag: "hr", children: [] };
    case "code":
      return codeShape(block, outline);
    case "quote":
      return { tag: "blockquote", children: shapes(block.blocks ?? [], growing, outline) };
    case "list":
      return listShape(block, growing, outline);
    case "table":
      return tableShape(block, growing, outline);
    case "paragraph":
      return { tag: "p", children: inline(block.text, growing, outline) };
  }
}

/**
 * @param {Block[]} blocks
 * @param {boolean} growing
 * @param {Outline} outline
 * @returns {Shape[]}
 */
function shapes(blocks, growing, outline) {
  return blocks.map((block, i) => shape(block, growing && i === blocks.length - 1, outline));
}

/**
 * Below the page's own h1 and h2, and never more than one level below the heading before it.
 * @param {Block} block
 * @param {boolean} growing
 * @param {Outline} outline
 * @returns {Shape}
 */
function headingShape({ level = 1, text }, growing, outline) {
  outline.level = Math.min(level + 2, outline.level + 1, 6);
  return { tag: `h${outline.level}`, attributes: { class: `level-${level}` }, children: inline(text, growing, outline) };
}

/**
 * @param {Block} block
 * @param {Outline} outline
 * @returns {Shape}
 */
function codeShape({ language = "", text = "" }, outline) {
  const label = language || "text";
  const copy = { type: "button", class: "quiet copy-code", "aria-label": `Copy ${label} code` };
  const scroll = { tabindex: "0", role: "group", "aria-label": `${label} code` };
  return {
    tag: "div",
    attributes: { class: "code" },
    children: [
      {
        tag: "div",
        attributes: { class: "code-head" },
        children: [
          { tag: "span", children: [label] },
          { tag: "button", attributes: copy, children: ["Copy"] },
        ],
      },
      { tag: "pre", attributes: scroll, children: [{ tag: "code", children: code(text, outline) }] },
    ],
  };
}

/**
 * @param {Block} block
 * @param {boolean} growing
 * @param {Outline} outline
 * @returns {Shape}
 */
function listShape({ ordered, first, loose, items = [] }, growing, outline) {
  /** @type {Record<string, string>} */
  const attributes = {};
  if (loose) attributes.class = "loose";
  if (ordered && first !== 1) attributes.start = String(first);
  const children = items.map((blocks, i) => itemShape(shapes(blocks, growing && i === items.length - 1, outline)));
  return { tag: ordered ? "ol" : "ul", attributes, children };
}

/**
 * An item's first paragraph stands in it without a box of its own.
 * @param {Shape[]} inner
 * @returns {Shape}
 */
function itemShape([head, ...rest]) {
  if (!head) return { tag: "li", children: [] };
  if (head.tag !== "p") return { tag: "li", children: [head, ...rest] };
  const task = taskOf(head.children);
  if (!task) return { tag: "li", children: [...head.children, ...rest] };
  return { tag: "li", attributes: { class: "task" }, children: [...task, ...rest] };
}

/**
 * "[x] done" as a ticked box, null for any other item.
 * @param {Child[]} children
 * @returns {Child[] | null}
 */
function taskOf([first, ...rest]) {
  const box = typeof first === "string" ? /^\[([ xX])\] /.exec(first) : null;
  if (!box || typeof first !== "string") return null;
  return [(box[1] === " " ? "☐ " : "☑ ") + first.slice(box[0].length), ...rest];
}

/**
 * @param {Block} block
 * @param {boolean} growing
 * @param {Outline} outline
 * @returns {Shape}
 */
function tableShape({ align = [], rows = [] }, growing, outline) {
  const [head = [], ...body] = rows;
  /**
   * @param {string[]} cells
   * @param {string} tag
   * @param {boolean} open
   * @returns {Shape}
   */
  const row = (cells, tag, open) => {
    const children = head.map((_, i) =>
      cell(tag, align[i], inline(cells[i], open && i === cells.length - 1, outline)),
    );
    return { tag: "tr", children };
  };
  /** @type {Shape[]} */
  const table = [{ tag: "thead", children: [row(head, "th", false)] }];
  const rest = body.map((cells, i) => row(cells, "td", growing && i === body.length - 1));
  if (rest.length > 0) table.push({ tag: "tbody", children: rest });
  const attributes = { class: "table", tabindex: "0", role: "group", "aria-label": "Table" };
  return { tag: "div", attributes, children: [{ tag: "table", children: table }] };
}

/**
 * @param {string} tag
 * @param {string | undefined} align
 * @param {Child[]} children
 * @returns {Shape}
 */
function cell(tag, align, children) {
  return { tag, attributes: align ? { class: `align-${align}` } : {}, children };
}

/**
 * @param {string | undefined} text
 * @param {boolean} growing
 * @param {Outline} outline
 * @returns {Child[]}
 */
function inline(text, growing, outline) {
  return parseInline(text ?? "", growing).map((node) => inlineShape(node, "text", outline));
}

/**
 * @param {string} text
 * @param {Outline} outline
 * @returns {Child[]}
 */
function code(text, outline) {
  const parts = withChips(text).filter((part) => part !== "");
  return parts.map((part) => inlineShape(part, "code", outline));
}

/**
 * @param {import("./inline.js").Node} node
 * @param {"text" | "code" | "link"} place where it stands
 * @param {Outline} outline
 * @returns {Child}
 */
function inlineShape(node, place, outline) {
  if (typeof node === "string") return node;
  if (node.tag === "chip") return chipShape(plain(node.children), place, outline.sources);
  const within = place === "link" || node.href !== undefined ? "link" : node.tag === "code" ? "code" : place;
  const children = node.children.map((child) => inlineShape(child, within, outline));
  if (node.href === undefined) return { tag: node.tag, children };
  const shown = plain(node.children);
  /** @type {Record<string, string>} */
  const attributes = { href: node.href, rel: REL, target: "_blank" };
  if (shown !== node.href) attributes.title = node.href; // where it really goes
  return { tag: "a", attributes, children: shown === "" ? [node.href] : children };
}
