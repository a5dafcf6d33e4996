// Which elements show the tokens of a block. Pure: plain objects, made into DOM by patch.js.

import { hasSigns, SIGNS_NOTE, withSigns } from "./bidi_signs.js";
import { chipShape } from "./chip_shape.js";
import { inParts } from "./code_parts.js";
import { codeWraps } from "./code_wrap.js";
import { formulaShape } from "./formula_shape.js";
import { START, withChips, withoutMarks } from "./marks.js";
import { safeHref } from "./rule_links.js";

/** @typedef {import("markdown-it").Token} Token */
/** @typedef {import("./patch.js").Child} Child */
/** @typedef {import("./patch.js").Shape} Shape */
/**
 * What stands before a block: the level of the last heading, the placeholders, and which way it ran.
 * @typedef {{level: number, sources: Set<string>, side: import("./direction.js").Direction}} Outline
 */
/**
 * Where a token stands. `linked`: in a link.
 * @typedef {{outline: Outline, linked: boolean, link: LinkOf}} Place
 */
/** @typedef {(href: string, title: string, shown: string) => Record<string, string> | null} LinkOf null: no link */
/** @typedef {{shape: Shape | null, children: Child[], place: Place}} Frame shape null: its children stand in its parent */

const DEPTH_MAX = 24; // elements of text in one another; deeper ones are left out, their text is not
const REL = "noopener noreferrer nofollow";
const SHORT_CELL = 24; // letters that do not wrap
const EAST_ASIAN = /[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Hangul}]/u;

/**
 * Tokens that hold others: what opens them becomes an element, null where it becomes none. More kinds may be added.
 * @type {Record<string, (open: Token, place: Place) => Shape | null>}
 */
export const containers = {
  paragraph_open: ({ hidden }) => (hidden ? null : element("p")),
  heading_open: ({ tag }, { outline }) => {
    const level = Number(tag.slice(1));
    outline.level = Math.min(level + 2, outline.level + 1, 6);
    return element(`h${outline.level}`, { class: `level-${level}` });
  },
  blockquote_open: () => element("blockquote"),
  bullet_list_open: () => element("ul"),
  ordered_list_open: (open) => element("ol", picked(open, "start")),
  list_item_open: (open) => element("li", picked(open, "class")),
  table_open: () => element("table"),
  thead_open: () => element("thead"),
  tbody_open: () => element("tbody"),
  tr_open: () => element("tr"),
  th_open: (open) => element("th", aligned(open)),
  td_open: (open) => element("td", aligned(open)),
  em_open: () => element("em"),
  strong_open: () => element("strong"),
  s_open: () => element("del"),
  sub_open: () => element("sub"),
  sup_open: () => element("sup"),
  kbd_open: () => element("kbd"),
  link_open: () => element("a"),
  footnote_open: () => element("div", { class: "footnote" }),
};

/**
 * Tokens that hold none. More kinds may be added.
 * @type {Record<string, (token: Token, place: Place) => Child[]>}
 */
export const leaves = {
  text: ({ content }) => [withoutMarks(content)],
  softbreak: () => ["\n"],
  hardbreak: () => [element("br")],
  hr: () => [element("hr")],
  chip: ({ content }, place) => [chipShape(content, place.linked ? "link" : "text", place.outline.sources)],
  code_inline: ({ content }, place) => [element("code", {}, codeOf(content, place))],
  fence: ({ content, info }, place) => [codeShape(info, content, place)],
  code_block: ({ content }, place) => [codeShape("", content, place)],
  footnote_mark: ({ meta }, { linked }) => [linked ? noteOf(meta) : element("sup", {}, [noteButton(meta, "mark")])],
  math_inline: ({ markup, content }) => [formulaShape(markup, content, false)],
  math_block: ({ markup, content }) => [formulaShape(markup, content, true)],
  image: (token, place) => imageOf(token, place),
  reference_definition: () => [],
};

/**
 * What is done with an element once its children are known.
 * @type {Record<string, (shape: Shape, open: Token, place: Place) => Child[]>}
 */
const closers = {
  table: (shape) => {
    const attributes = { class: "table", tabindex: "0", role: "group", "aria-label": "Table" };
    return [element("div", attributes, [shape])];
  },
  th: (shape) => [cellShape(shape)],
  td: (shape) => [cellShape(shape)],
  em: (shape) => [EAST_ASIAN.test(plain(shape.children)) ? { ...shape, attributes: { class: "dotted" } } : shape],
  div: (shape, { meta }) => [{ ...shape, children: [noteButton(meta, "number"), element("p", {}, shape.children)] }],
  a: (shape, open, place) => linkShape(String(open.attrGet("href")), open, shape.children, place),
};

/**
 * The address of a link that leads out of the page, and says where to.
 * @type {LinkOf}
 */
export function outward(address, _title, shown) {
  const href = safeHref(address);
  if (href === null) return null;
  /** @type {Record<string, string>} */
  const attributes = { href, rel: REL, target: "_blank" };
  if (shown !== href) attributes.title = href;
  return attributes;
}

/**
 * The elements that show the tokens of a block.
 * @param {Token[]} tokens
 * @param {Outline} outline of what stands before it; a heading or a placeholder changes it
 * @param {{breaks?: boolean, link?: LinkOf}} [options] breaks: each line of a paragraph is a line
 * @returns {Child[]}
 */
export function shapesOf(tokens, outline, { breaks = true, link = outward } = {}) {
  /** @type {Frame} */
  const root = { shape: null, children: [], place: { outline, linked: false, link } };
  walk(tokens, root, breaks);
  return root.children;
}

/**
 * @param {Token[]} tokens
 * @param {Frame} root
 * @param {boolean} breaks
 */
function walk(tokens, root, breaks) {
  /** @type {{frame: Frame, open: Token | null}[]} */
  const stack = [{ frame: root, open: null }];
  for (const token of tokens) {
    const { frame, open } = /** @type {(typeof stack)[number]} */ (stack[stack.length - 1]);
    if (token.type === "inline") walk(token.children ?? [], frame, breaks);
    else if (token.nesting === 1) stack.push({ frame: frameOf(token, frame, stack.length), open: token });
    else if (token.nesting === -1) {
      stack.pop();
      const parent = stack[stack.length - 1]?.frame;
      if (parent && open) append(parent, finished(frame, open, parent.place));
    } else if (token.type === "softbreak" && breaks) append(frame, leaves.hardbreak?.(token, frame.place) ?? []);
    else append(frame, (leaves[token.type] ?? (() => [token.content]))(token, frame.place));
  }
}

/**
 * @param {Token} open
 * @param {Frame} parent
 * @param {number} depth
 * @returns {Frame}
 */
function frameOf(open, parent, depth) {
  const deep = !open.block && depth > DEPTH_MAX;
  const shape = deep ? null : containers[open.type]?.(open, parent.place) ?? null;
  const place = shape?.tag === "a" ? { ...parent.place, linked: true } : parent.place;
  return { shape, children: [], place };
}

/**
 * @param {Frame} frame
 * @param {Token} open
 * @param {Place} place
 * @returns {Child[]}
 */
function finished({ shape, children }, open, place) {
  if (!shape) return children;
  const whole = { ...shape, children };
  return closers[shape.tag]?.(whole, open, place) ?? [whole];
}

/**
 * Neighbouring texts become one.
 * @param {Frame} frame
 * @param {Child[]} added
 */
function append({ children }, added) {
  for (const child of added) {
    const last = children[children.length - 1];
    if (typeof child === "string" && typeof last === "string") children[children.length - 1] = last + child;
    else if (child !== "") children.push(child);
  }
}

/**
 * A link holds no link.
 * @param {string} address
 * @param {Token} token
 * @param {Child[]} children
 * @param {Place} place
 * @returns {Child[]}
 */
function linkShape(address, token, children, place) {
  const inside = children.length > 0 ? children : [address];
  const attributes = place.linked ? null : place.link(address, String(token.attrGet("title") ?? ""), plain(inside));
  return attributes ? [element("a", attributes, inside)] : inside;
}

/**
 * An image is a link to it: it would send what its address holds.
 * @param {Token} token
 * @param {Place} place
 */
function imageOf(token, place) {
  /** @type {Frame} */
  const frame = { shape: null, children: [], place: { ...place, linked: true } };
  const words = (token.children ?? []).filter(({ nesting }) => nesting === 0);
  walk(words, frame, false);
  return linkShape(String(token.attrGet("src")), token, frame.children, place);
}

/**
 * @param {Token["meta"]} meta
 * @param {"mark" | "number"} kind
 */
function noteButton(meta, kind) {
  const number = noteOf(meta);
  const said = kind === "mark" ? `Note ${number}` : `Back to where note ${number} belongs`;
  const attributes = { type: "button", class: `note-${kind}`, "data-note": number, "aria-label": said };
  return element("button", attributes, [number]);
}

/** The number of a note. @param {Token["meta"]} meta */
function noteOf(meta) {
  const note = /** @type {import("./parser.js").Definition | undefined} */ (meta?.note);
  return String(note?.note ?? 1);
}

/**
 * @param {string} language
 * @param {string} content
 * @param {Place} place
 * @returns {Shape}
 */
function codeShape(language, content, place) {
  const label = language || "text";
  const copy = { type: "button", class: "quiet copy-code", "aria-label": `Copy ${label} code` };
  const wrap = {
    type: "button",
    class: "quiet wrap-code",
    "aria-label": `Wrap ${label} code`,
    "aria-pressed": String(codeWraps()),
  };
  const head = [
    element("span", {}, [label]),
    element("button", wrap, ["Wrap"]),
    element("button", copy, ["Copy"]),
  ];
  const scroll = { tabindex: "0", role: "group", "aria-label": `${label} code` };
  const code = element("code", {}, inParts(codeOf(content.replace(/\n$/, ""), place)));
  const note = hasSigns(content) ? [element("p", { class: "code-note" }, [SIGNS_NOTE])] : [];
  return element("div", { class: "code" }, [element("div", { class: "code-head" }, head), ...note, element("pre", scroll, [code])]);
}

/**
 * @param {string} content
 * @param {Place} place
 * @returns {Child[]}
 */
function codeOf(content, place) {
  if (!content.includes(START)) return withSigns(withoutMarks(content));
  const kind = place.linked ? "link" : "code";
  return withChips(content).flatMap((part) => {
    return typeof part === "string" ? withSigns(withoutMarks(part)) : chipShape(plain(part.children), kind, place.outline.sources);
  });
}

/** @param {Shape} shape */
function cellShape(shape) {
  if (plain(shape.children).length > SHORT_CELL) return shape;
  const name = [shape.attributes?.class, "short"].filter(Boolean).join(" ");
  return { ...shape, attributes: { ...shape.attributes, class: name } };
}

/**
 * The alignment of a cell, as a class: the page's policy lets no style attribute in.
 * @param {Token} open
 * @returns {Record<string, string>}
 */
function aligned(open) {
  const found = /^text-align:(\w+)$/.exec(String(open.attrGet("style") ?? ""));
  return found ? { class: `align-${found[1]}` } : {};
}

/**
 * @param {Token} token
 * @param {string} name
 * @returns {Record<string, string>}
 */
function picked(token, name) {
  const value = token.attrGet(name);
  return value === null ? {} : { [name]: String(value) };
}

/**
 * @param {string} tag
 * @param {Record<string, string>} [attributes]
 * @param {Child[]} [children]
 * @returns {Shape}
 */
export function element(tag, attributes = {}, children = []) {
  return { tag, attributes, children };
}

/**
 * @param {Child[]} children
 * @returns {string}
 */
export function plain(children) {
  return children.map((child) => (typeof child === "string" ? child : plain(child.children))).join("");
}
