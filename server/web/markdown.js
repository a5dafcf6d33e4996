// Markdown that arrives in pieces, shown with DOM calls only. The DOM depends on the text alone, never on how it
// was cut into pieces. A finished block is never rebuilt; the open one is read again at most once a frame, and for
// a tenth of the time at most.

import { followNote } from "./notes.js";
import { plainShapes } from "./passages.js";
import { patchAt, trim } from "./patch.js";

/** @typedef {typeof import("./formatter.js")} Formatter */
/** @typedef {import("./formatter.js").BlockLimits} BlockLimits */
/** @typedef {import("./nodes.js").Outline} Outline */
/** @typedef {import("./parser.js").Block} Block */
/** @typedef {import("./parser.js").Known} Known */
/**
 * A finished block that may change once more: a definition may make links of it, or its reader asks to see it
 * formatted. `outline` is of what stands before it.
 * @typedef {{index: number, source: string, outline: Outline, limits: BlockLimits}} Kept
 */

/** @typedef {BlockLimits & {waits: boolean}} Limits waits: it shows text once a frame, and rests in between */

/** @type {Limits} */
const LIMITS = { characters: 32 * 1024, tokens: 20_000, ms: 30, waits: true };
const NO_LIMITS = { characters: Infinity, tokens: Infinity, ms: Infinity };
const PAGE_HEADING = 2; // the page's own headings are h1 and h2
const PIECE = 4 * 1024; // characters taken at once
const TASK_MS = 12;
const REST = 10; // how many times as long as it worked the view waits, and a frame at least
const FRAME_MS = 15;

/** @type {Formatter | undefined} */
let formatter;
/** @type {Promise<void> | undefined} */
let loading;

/** Loads what formats; until then text is plain. */
export function ready() {
  loading ??= import("./formatter.js").then(
    (loaded) => void (formatter = loaded),
    (error) => {
      loading = undefined;
      throw error;
    },
  );
  return loading;
}

export class MarkdownView {
  /**
   * @param {HTMLElement} root where the blocks go; the view owns its children
   * @param {Partial<Limits>} [limits]
   */
  constructor(root, limits = {}) {
    this.root = root;
    this.#limits = { ...LIMITS, ...limits };
    root.addEventListener("click", ({ target }) => this.#clicked(target));
    root.addEventListener("click", ({ target }) => followNote(root, target));
    if (!formatter) ready().then(() => this.#work(), () => {});
  }

  #limits;
  /** All of the text. */
  #text = "";
  /** What came and was not taken yet, but for the first half of a line's end. */
  #arrived = "";
  #half = "";
  /** The open block, with the line that has no end yet. */
  #source = "";
  /** The open block took too long to read. */
  #slow = false;
  /** The open block is too long to be split: it ends with the first empty line from here on. -1: it is not. */
  #passage = -1;
  /** More blocks may end in what was taken. */
  #unfinished = false;
  #whole = false;
  /** Children of the root that are finished. */
  #finished = 0;
  /** @type {Outline} */
  #outline = newOutline();
  /** @type {Known} */
  #known = new Map();
  /** @type {Map<string, Set<Kept>>} finished blocks by the labels that nothing defined so far */
  #waiting = new Map();
  /** @type {Map<number, Kept>} finished blocks that are shown as plain text */
  #passages = new Map();
  /** @type {Set<Kept>} finished blocks to be formatted again */
  #changed = new Set();
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;
  #paused = false;
  #due = 0;
  /** @type {(() => void)[]} */
  #settling = [];

  /**
   * More of the text.
   * @param {string} text
   */
  push(text) {
    if (this.#whole && text !== "") return this.reset(this.#text + text); // it goes on after all
    this.#add(text);
    if (!this.#limits.waits) this.#work();
    else if (this.#timer === undefined && !this.#paused) this.#soon();
  }

  /** The text is complete. */
  finish() {
    if (this.#half !== "") this.#arrived += "\n";
    this.#half = "";
    this.#whole = this.#unfinished = true;
    this.#work();
  }

  /**
   * Start again with another text.
   * @param {string} text
   */
  reset(text) {
    this.#text = this.#arrived = this.#half = this.#source = "";
    this.#slow = this.#whole = this.#unfinished = false;
    this.#passage = -1;
    this.#finished = 0;
    this.#outline = newOutline();
    this.#known = new Map();
    this.#waiting = new Map();
    this.#passages = new Map();
    this.#changed = new Set();
    this.#add(text);
    this.#work();
  }

  /** Resolves once all that came is shown. */
  async settled() {
    await ready();
    if (this.#hasMore()) await new Promise((resolve) => this.#settling.push(() => resolve(undefined)));
    await formatter?.formulasShown();
  }

  /** @param {string} text */
  #add(text) {
    this.#text += text;
    const come = this.#half + text;
    this.#half = come.endsWith("\r") ? "\r" : "";
    const lines = this.#half === "" ? come : come.slice(0, -1);
    this.#arrived += lines.replace(/\r\n?/g, "\n").replaceAll("\0", "\ufffd");
  }

  #hasMore() {
    return this.#arrived !== "" || this.#unfinished || this.#changed.size > 0;
  }

  #soon() {
    const wait = this.#due - performance.now();
    if (wait <= 0) this.#work();
    else this.#timer = setTimeout(() => this.#work(), wait);
  }

  /** Take what came and show it: in parts, where it is much. */
  #work() {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (!formatter) return this.#showUnread();
    const started = performance.now();
    do this.#step(formatter, started + TASK_MS);
    while (this.#hasMore() && performance.now() < started + TASK_MS);
    if (this.#hasMore()) {
      this.#goOn();
      return;
    }
    this.#showOpen(formatter);
    const now = performance.now();
    this.#due = Math.max(started + FRAME_MS, now + (now - started) * REST);
    for (const resolve of this.#settling.splice(0)) resolve();
  }

  /** What is shown so far is laid out first; a page that nobody sees lays out nothing. */
  #goOn() {
    if (this.#paused) return;
    this.#paused = true;
    const later = () => setTimeout(() => {
      this.#paused = false;
      this.#work();
    });
    if (document.hidden) later();
    else requestAnimationFrame(later);
  }

  /** The text as it came, before the formatter is there. */
  #showUnread() {
    const shapes = plainShapes(this.#text);
    shapes.forEach((shape, i) => patchAt(this.root, i, shape));
    trim(this.root, shapes.length);
  }

  /**
   * @param {Formatter} by
   * @param {number} until
   */
  #step(by, until) {
    const [changed] = this.#changed;
    if (this.#unfinished || this.#arrived !== "") this.#take(by, until);
    else if (changed) {
      this.#changed.delete(changed);
      this.#formatAgain(by, changed);
    }
  }

  /**
   * Take a piece of what came, and finish blocks that it ends.
   * @param {Formatter} by
   * @param {number} until
   */
  #take(by, until) {
    const piece = this.#unfinished ? "" : this.#arrived.slice(0, PIECE);
    this.#arrived = this.#arrived.slice(piece.length);
    this.#source += piece;
    const last = this.#whole && this.#arrived === "";
    if (!this.#unfinished && !last && !piece.includes("\n")) return;
    const end = last ? this.#source.length : this.#source.lastIndexOf("\n") + 1;
    this.#unfinished = this.#finishSome(by, this.#source.slice(0, end), last, until);
  }

  /**
   * Finish the blocks that lines end; true if more may end in them.
   * @param {Formatter} by
   * @param {string} lines
   * @param {boolean} last no line will follow
   * @param {number} until
   */
  #finishSome(by, lines, last, until) {
    if (this.#passage >= 0) return this.#finishPassage(by, lines, last);
    const blank = /^(?:[ \t]*\n)+/.exec(lines)?.[0].length ?? 0;
    if (blank > 0) return this.#ended(blank);
    const { to, over } = by.partOf(lines, this.#limits.characters);
    if (to === 0 && !over && !last) return false;
    const blocks = by.split(lines.slice(0, last && !over ? undefined : to), this.#known);
    const alone = over && blocks !== null && blocks.length === 1 && by.isCode(lines);
    if (blocks === null || (over && blocks.length <= 1 && !alone)) {
      this.#passage = blocks === null ? 0 : this.#limits.characters;
      return true;
    }
    const ended = alone || (last && !over) ? blocks.length : blocks.length - 1;
    for (const [i, block] of blocks.slice(0, ended).entries()) {
      this.#finish(by, block, lines.slice(block.from, block.to));
      if (performance.now() > until && i + 1 < ended) return this.#ended(block.to);
    }
    this.#ended(blocks[ended]?.from ?? (last && !over ? lines.length : to));
    return over;
  }

  /**
   * What is too long to be split ends with the first empty line behind its limit.
   * @param {Formatter} by
   * @param {string} lines
   * @param {boolean} last
   */
  #finishPassage(by, lines, last) {
    const found = by.emptyLine(lines, this.#passage);
    if (found < 0 && !last) return false;
    const to = found < 0 ? lines.length : found;
    this.#passage = -1;
    this.#slow = true;
    this.#finish(by, { tokens: [], from: 0, to, defines: [] }, lines.slice(0, to));
    return this.#ended(to);
  }

  /**
   * The open block begins so much later.
   * @param {number} length
   */
  #ended(length) {
    this.#source = this.#source.slice(length);
    return this.#source !== "";
  }

  /**
   * @param {Formatter} by
   * @param {Block} block
   * @param {string} source
   */
  #finish(by, block, source) {
    for (const [label, definition] of block.defines) {
      this.#known.set(label, definition);
      for (const kept of this.#waiting.get(label) ?? []) this.#changed.add(kept);
      this.#waiting.delete(label);
    }
    const limits = this.#slow ? { ...this.#limits, characters: 0 } : this.#limits;
    this.#slow = false;
    const kept = { index: this.#finished, source, outline: copyOf(this.#outline), limits };
    const { child, missing } = by.formatted(block, source, this.#known, this.#outline, limits, false);
    if (child === undefined) return;
    patchAt(this.root, this.#finished++, child);
    this.#keep(kept, missing, isPassage(child));
  }

  /**
   * @param {Kept} kept
   * @param {Set<string>} missing
   * @param {boolean} passage
   */
  #keep(kept, missing, passage) {
    if (passage) this.#passages.set(kept.index, kept);
    for (const label of missing) {
      const others = this.#waiting.get(label) ?? new Set();
      this.#waiting.set(label, others.add(kept));
    }
  }

  /**
   * @param {Formatter} by
   * @param {Kept} kept
   */
  #formatAgain(by, kept) {
    const { source, index, limits } = kept;
    const outline = copyOf(kept.outline);
    const blocks = by.parser.split(source, this.#known);
    const known = new Map([...blocks.flatMap(({ defines }) => defines), ...this.#known]);
    const all = blocks.map((block) => by.formatted(block, source.slice(block.from, block.to), known, outline, limits, false));
    const children = all.flatMap(({ child }) => child ?? []);
    const [only] = children;
    if (only === undefined || all.some(({ slow }) => slow)) return;
    patchAt(this.root, index, children.length === 1 ? only : { tag: "div", attributes: { class: "formatted" }, children });
    this.#keep(kept, new Set(all.flatMap(({ missing }) => [...missing])), isPassage(only));
  }

  /** @param {Formatter} by */
  #showOpen(by) {
    const text = this.#whole ? this.#source : by.withoutHalfLine(this.#source);
    const long = text.length > this.#limits.characters && !by.isCode(text);
    const blocks = this.#passage >= 0 || long ? null : by.split(text, this.#known);
    let shown = this.#finished;
    if (blocks) for (const child of this.#openChildren(by, text, blocks)) patchAt(this.root, shown++, child);
    else if (text !== "") patchAt(this.root, shown++, by.passageShape(text, true));
    trim(this.root, shown);
  }

  /**
   * @param {Formatter} by
   * @param {string} text
   * @param {Block[]} blocks
   */
  #openChildren(by, text, blocks) {
    const outline = copyOf(this.#outline);
    let known = this.#known;
    return blocks.flatMap((block, i) => {
      if (block.defines.length > 0) known = new Map([...block.defines, ...known]);
      const limits = this.#slow && i === 0 ? { ...this.#limits, characters: 0 } : this.#limits;
      const source = text.slice(block.from, block.to);
      const { child, slow } = by.formatted(block, source, known, outline, limits, i === blocks.length - 1);
      if (i === 0) this.#slow ||= slow;
      return child ?? [];
    });
  }

  /** @param {EventTarget | null} target */
  #clicked(target) {
    const pressed = target instanceof Element ? target.closest(".show-formatted") : null;
    const passage = pressed?.closest(".passage");
    const kept = passage && this.#passages.get([...this.root.children].indexOf(passage));
    if (!kept || !formatter) return;
    this.#passages.delete(kept.index);
    kept.limits = NO_LIMITS;
    this.#formatAgain(formatter, kept);
    const shown = this.root.children[kept.index];
    shown?.setAttribute("tabindex", "-1"); // the button that had the focus is gone
    if (shown instanceof HTMLElement) shown.focus({ preventScroll: true });
  }
}

/** @returns {Outline} */
function newOutline() {
  return { level: PAGE_HEADING, sources: new Set(), side: "ltr" };
}

/** @param {Outline} outline */
function copyOf({ level, sources, side }) {
  return { level, sources: new Set(sources), side };
}

/** @param {import("./patch.js").Child} child */
function isPassage(child) {
  return typeof child !== "string" && child.attributes?.class === "passage";
}
