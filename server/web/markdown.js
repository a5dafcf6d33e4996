// Markdown that arrives in pieces, shown with DOM calls only. The DOM depends on the text alone, never on how it
// was cut into pieces. A finished block is never touched again; the open one is patched in place. One that is
// long is not read again for every piece: what is new of it waits until it is a part of it, or for a moment.

import { parseBlocks } from "./blocks.js";
import { shape } from "./shapes.js";

/** @typedef {import("./blocks.js").Block} Block */
/** @typedef {import("./shapes.js").Child} Child */
/** @typedef {import("./shapes.js").Shape} Shape */

const PAGE_HEADING = 2; // the page's own headings are h1 and h2
const LONG = 8192; // characters of an open block
const PART = 1 / 32;
const WAIT_MS = 500;

export class MarkdownView {
  /**
   * @param {HTMLElement} root where the blocks go; the view owns its children
   * @param {typeof parseBlocks} parse
   */
  constructor(root, parse = parseBlocks) {
    this.root = root;
    this.#parse = parse;
    this.reset("");
  }

  #parse;
  /** Complete lines of the open block. @type {string[]} */
  #lines = [];
  /** How many characters of the open block are read, and how many wait. */
  #read = 0;
  #waiting = "";
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;
  /** The line that has no end yet. */
  #tail = "";
  /** Children of the root that are finished. */
  #finished = 0;
  #outline = newOutline();

  /**
   * More of the text.
   * @param {string} text
   */
  push(text) {
    this.#waiting += text;
    if (this.#read >= LONG && this.#waiting.length < this.#read * PART) {
      this.#timer ??= setTimeout(() => this.#take(), WAIT_MS);
    } else {
      this.#take();
    }
  }

  /** The text is complete. */
  finish() {
    this.#take();
    this.#showOpen(false);
  }

  /** Show what waits. */
  #take() {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const lines = (this.#tail + this.#waiting).split("\n");
    this.#waiting = "";
    this.#tail = lines.pop() ?? "";
    for (const line of lines) this.#lines.push(cleanLine(line));
    const blocks = this.#parse(this.#lines);
    for (const block of blocks.slice(0, -1)) this.#finish(block);
    this.#lines.splice(0, blocks[blocks.length - 2]?.end ?? 0);
    this.#read = this.#lines.reduce((sum, line) => sum + line.length + 1, this.#tail.length);
    this.#showOpen(true);
  }

  /**
   * Start again with another text.
   * @param {string} text
   */
  reset(text) {
    this.#lines = [];
    this.#tail = "";
    this.#waiting = text;
    this.#finished = 0;
    this.#outline = newOutline();
    this.#take();
  }

  /** @param {Block} block */
  #finish(block) {
    patchAt(this.root, this.#finished++, shape(block, false, this.#outline));
  }

  /** @param {boolean} growing */
  #showOpen(growing) {
    const tail = growing ? withoutHalfMarker(this.#tail) : this.#tail;
    const blocks = this.#parse(tail === "" ? this.#lines : [...this.#lines, cleanLine(tail)]);
    const outline = { ...this.#outline, sources: new Set(this.#outline.sources) };
    blocks.forEach((block, i) => {
      const open = growing && i === blocks.length - 1;
      patchAt(this.root, this.#finished + i, shape(block, open, outline));
    });
    trim(this.root, this.#finished + blocks.length);
  }
}

/** @returns {import("./shapes.js").Outline} */
function newOutline() {
  return { level: PAGE_HEADING, sources: new Set() };
}

/**
 * Tabs count four columns; the end of a Windows line is no text.
 * @param {string} line
 */
function cleanLine(line) {
  return line.replace(/\r$/, "").replace(/^[ \t]+/, (indent) => indent.replaceAll("\t", "    "));
}

/**
 * A line that so far holds only a marker would flash as text, or as another kind of block.
 * @param {string} line
 */
function withoutHalfMarker(line) {
  return /^[ \t]*(?:[-*+]|#{1,6}|\d{1,9}[.)]?|`{1,3}|~{1,3}|[|>]|[-*_=]{2,})[ \t]*$/.test(line) ? "" : line;
}

/**
 * Make the child at `index` look like `wanted`, keeping what is right already: a selection or the focus in it
 * survives.
 * @param {Element} parent
 * @param {number} index
 * @param {Child} wanted
 */
function patchAt(parent, index, wanted) {
  const found = parent.childNodes[index];
  if (typeof wanted === "string") {
    if (found instanceof Text) patchText(found, wanted);
    else replaceAt(parent, found, document.createTextNode(wanted));
    return;
  }
  let element = found;
  if (!(element instanceof Element) || element.localName !== wanted.tag) {
    element = replaceAt(parent, found, document.createElement(wanted.tag));
  }
  patch(/** @type {Element} */ (element), wanted);
}

/**
 * @param {Element} element
 * @param {Shape} wanted
 */
function patch(element, { attributes = {}, children }) {
  for (const name of element.getAttributeNames()) if (!(name in attributes)) element.removeAttribute(name);
  for (const [name, value] of Object.entries(attributes)) {
    if (element.getAttribute(name) !== value) element.setAttribute(name, value);
  }
  children.forEach((child, i) => patchAt(element, i, child));
  trim(element, children.length);
}

/**
 * @param {Text} node
 * @param {string} wanted
 */
function patchText(node, wanted) {
  if (node.data === wanted) return;
  if (wanted.startsWith(node.data)) node.appendData(wanted.slice(node.data.length));
  else node.data = wanted;
}

/**
 * @template {Node} T
 * @param {Element} parent
 * @param {Node | undefined} found
 * @param {T} node
 * @returns {T}
 */
function replaceAt(parent, found, node) {
  if (found) parent.replaceChild(node, found);
  else parent.append(node);
  return node;
}

/**
 * @param {Element} parent
 * @param {number} count
 */
function trim(parent, count) {
  while (parent.childNodes.length > count) parent.lastChild?.remove();
}
