// How much of CommonMark the chat page's renderer gets right: its examples without raw HTML, with `breaks` off and
// none of the page's own rules. Prints "passed of all", then each example that fails. Run by scripts/markdown_figures.py.
// What differs on purpose is made alike: a heading's level, the frame of code, links in place of images.

import spec from "commonmark-spec";
import MarkdownIt from "markdown-it";

import { shapesOf } from "../server/web/nodes.js";
import { Parser } from "../server/web/parser.js";

/** @typedef {import("../server/web/patch.js").Child} Child */

const parser = new Parser({ breaks: false, rules: [], follows: () => true });
const full = new MarkdownIt("commonmark");
const NAMED = { "&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": '"' };
const EDGES = /^<\/?(?:p|h\d|ul|ol|li|blockquote|pre|hr|br)\b/;
const BLOCKS = /^<\/?(?:p|h\d|ul|ol|li|blockquote|pre|hr)\b/;

const failed = [];
const examples = spec.tests.filter(({ markdown }) => !hasHtml(full.parse(tabbed(markdown), {})));
for (const { number, markdown, html } of examples) {
  const [ours, theirs] = [joined(shown(tabbed(markdown))), joined(parts(tabbed(html)))];
  if (ours !== theirs) failed.push({ number, ours, theirs });
}
console.log(`${examples.length - failed.length} of ${examples.length}`);
for (const { number, ours, theirs } of failed) console.log(`${number}\n  ours   ${JSON.stringify(ours)}\n  theirs ${JSON.stringify(theirs)}`);

/** @param {string} text */
function tabbed(text) {
  return text.replaceAll("→", "\t");
}

/** @param {import("markdown-it").Token[]} tokens @returns {boolean} */
function hasHtml(tokens) {
  return tokens.some(({ type, children }) => type.startsWith("html_") || hasHtml(children ?? []));
}

/** Our elements, as tags and texts. @param {string} text */
function shown(text) {
  const known = new Map();
  const blocks = parser.split(text, known);
  for (const { defines } of blocks) for (const [label, definition] of defines) known.set(label, definition);
  const link = (/** @type {string} */ href, /** @type {string} */ title) => (title ? { href, title } : { href });
  return blocks.flatMap((block) => {
    parser.read(block, known, Infinity, false);
    return shapesOf(block.tokens, { level: 2, sources: new Set() }, { breaks: false, link }).flatMap(tagged);
  });
}

/** @param {Child} child @returns {string[]} */
function tagged(child) {
  if (typeof child === "string") return [child];
  const { tag, attributes = {}, children } = child;
  if (attributes.class === "code") return codeOf(children);
  const level = /^level-(\d)$/.exec(attributes.class ?? "");
  const name = level ? `h${level[1]}` : tag;
  const own = level ? {} : attributes;
  const open = `<${name}${Object.entries(own).map(([key, value]) => ` ${key}="${value}"`).join("")}>`;
  return [open, ...children.flatMap(tagged), ...(["br", "hr"].includes(tag) ? [] : [`</${name}>`])];
}

/** @param {Child[]} children */
function codeOf([head, pre]) {
  const label = head.children[0].children[0];
  const open = label === "text" ? "<code>" : `<code class="language-${label}">`;
  const text = pre.children[0].children.map((/** @type {string} */ part) => `${part}\n`);
  return ["<pre>", open, ...text, "</code>", "</pre>"];
}

/** HTML as CommonMark writes it, as tags and texts. @param {string} html */
function parts(html) {
  return html.split(/(<[^>]*>)/).filter((part) => part !== "").flatMap((part) => {
    const plain = part.replace(/&(?:amp|lt|gt|quot);/g, (name) => NAMED[name]);
    const image = /^<img src="(.*?)" alt="(.*?)"(?: title="(.*?)")? \/>$/s.exec(plain);
    if (!image) return [part.startsWith("<") ? plain.replace(/ \/>$/, ">") : plain];
    const [, src, alt, title] = image;
    return [`<a href="${src}"${title ? ` title="${title}"` : ""}>`, alt || src, "</a>"];
  });
}

/** One text; lines between blocks say nothing. @param {string[]} all */
function joined(all) {
  let pre = false;
  const kept = all.map((part, i) => {
    if (part === "<pre>" || part === "</pre>") pre = part === "<pre>";
    if (part.startsWith("<") && part.endsWith(">")) return part;
    if (pre) return all[i + 1] === "</code>" ? part.replace(/\n$/, "") : part;
    const start = EDGES.test(all[i - 1] ?? "<p>") ? part.trimStart() : part;
    return BLOCKS.test(all[i + 1] ?? "<p>") ? start.trimEnd() : start;
  });
  return kept.join("");
}
