// Markdown that arrives in pieces, shown with DOM calls only. The DOM depends on the text alone, never on how it
// was cut into pieces. A finished block is never rebuilt; the open one is read again at most once a frame, and for
// a tenth of the time at most.

import { Arriving } from "./arriving.js";
import { AskedFormats } from "./asked_format.js";
import { Definitions, Waiting } from "./definitions.js";
import { afterFrame } from "./frames.js";
import { ASKED, LIMITS, Task } from "./limits.js";
import { followNote } from "./notes.js";
import { copyOf, newOutline } from "./outline.js";
import { isPassage, plainShapes } from "./passages.js";
import { patchAfter, patchAllInSteps, patchInSteps, sizeOf } from "./patch.js";

/** @typedef {typeof import("./formatter.js")} Formatter */
/** @typedef {import("./limits.js").Limits} Limits */
/** @typedef {import("./nodes.js").Outline} Outline */
/** @typedef {import("./parser.js").Block} Block */
/**
 * A finished block that may change once more: a definition may make links of it, or its reader asks to see it
 * formatted. `outline` is of what stands before it.
 * @typedef {{node: ChildNode, source: string, outline: Outline}} Kept
 */
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
    root.addEventListener("click", ({ target }) => this.#asked.clicked(target));
    root.addEventListener("click", ({ target }) => followNote(root, target));
    if (!formatter) ready().then(() => this.#work(), () => {});
  }

  #limits;
  #arriving = new Arriving();
  /** The open block, with the line that has no end yet. */
  #source = "";
  /** The open block took too long to read. */
  #slow = false;
  /** The open block is too long to be split: it ends with the first empty line from here on. -1: it is not. */
  #passage = -1;
  /** More blocks may end in what was taken. */
  #unfinished = false;
  #whole = false;
  /** The last child of the root that is finished. @type {ChildNode | null} */
  #last = null;
  /** Elements of the finished blocks. */
  #elements = 0;
  #task = new Task();
  /** @type {Outline} */
  #outline = newOutline();
  #known = new Definitions();
  /** Finished blocks by the labels that nothing defined so far. @type {Waiting<Kept>} */
  #waiting = new Waiting();
  /** Finished blocks that are shown as plain text. @type {AskedFormats<Kept>} */
  #asked = new AskedFormats(
    (...given) => this.#ask(...given),
    (passage, root) => {
      if (this.#last === passage) this.#last = root;
    },
  );
  /** Steps that finish a block. @type {Generator<number | undefined, void, void> | null} */
  #finishing = null;
  /** Nobody will see it. */
  #isLeft = () => false;
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
    if (this.#whole && text !== "") return this.reset(this.#arriving.text + text); // it goes on after all
    this.#arriving.add(text);
    if (!this.#limits.waits) this.#work();
    else if (this.#timer === undefined && !this.#paused) this.#soon();
  }

  /** The text is complete. */
  finish() {
    this.#arriving.end();
    this.#whole = this.#unfinished = true;
    this.#work();
  }

  /**
   * Start again with another text.
   * @param {string} text
   */
  reset(text) {
    this.#arriving = new Arriving();
    this.#source = "";
    this.#slow = this.#whole = this.#unfinished = false;
    this.#passage = -1;
    this.#last = this.#finishing = null;
    this.#elements = 0;
    this.#outline = newOutline();
    this.#known = new Definitions();
    this.#waiting = new Waiting();
    this.#asked.leave();
    this.#arriving.add(text);
    this.#work();
  }

  /** Resolves once all that came is shown. */
  async settled() {
    await ready();
    if (this.#hasMore() || this.#paused) await new Promise((resolve) => this.#settling.push(() => resolve(undefined)));
    await this.#asked.settled();
    await formatter?.formulasShown();
  }

  #hasMore() {
    return this.#finishing !== null || this.#arriving.hasMore() || this.#unfinished || this.#waiting.ready.size > 0;
  }

  /** It has as many elements as it may have. */
  #isFull() {
    return this.#elements > this.#limits.all;
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
    this.#task = new Task();
    do this.#step(formatter);
    while (this.#hasMore() && !this.#task.isOver());
    if (this.#hasMore() || !this.#showOpen(formatter)) return this.#goOn();
    const now = performance.now();
    this.#due = Math.max(started + FRAME_MS, now + (now - started) * REST);
    for (const resolve of this.#settling.splice(0)) resolve();
  }

  /** What is shown so far is laid out first. */
  #goOn() {
    if (this.#paused) return;
    this.#paused = true;
    afterFrame(() => {
      this.#paused = false;
      if (this.#isLeft()) this.reset("");
      else this.#work();
    });
  }

  /** The text as it came, before the formatter is there. */
  #showUnread() {
    if (!this.#show(null, plainShapes(this.#arriving.text))) this.#goOn();
  }

  /** @param {Formatter} by */
  #step(by) {
    const [changed] = this.#waiting.ready;
    if (this.#finishing) this.#goOnFinishing();
    else if (this.#unfinished || this.#arriving.hasMore()) this.#take(by);
    else if (changed) {
      this.#waiting.ready.delete(changed);
      this.#formatAgain(by, changed);
    }
  }

  /**
   * Take a piece of what came, and finish blocks that it ends.
   * @param {Formatter} by
   */
  #take(by) {
    const piece = this.#unfinished ? "" : this.#arriving.take(this.#limits.piece);
    this.#source += piece;
    const last = this.#whole && !this.#arriving.hasMore();
    if (!this.#unfinished && !last && !piece.includes("\n")) return;
    const end = last ? this.#source.length : this.#source.lastIndexOf("\n") + 1;
    this.#unfinished = this.#finishSome(by, this.#source.slice(0, end), last);
  }

  /**
   * Finish the blocks that lines end; true if more may end in them.
   * @param {Formatter} by
   * @param {string} lines
   * @param {boolean} last no line will follow
   */
  #finishSome(by, lines, last) {
    if (this.#passage >= 0) return this.#finishPassage(by, lines, last);
    const blank = /^(?:[ \t]*\n)+/.exec(lines)?.[0].length ?? 0;
    if (blank > 0) return this.#ended(blank);
    if (this.#isFull()) this.#passage = this.#limits.characters;
    if (this.#isFull()) return true;
    const { to, over } = by.partOf(lines, this.#limits.characters);
    if (to === 0 && !over && !last) return false;
    const blocks = this.#split(by, lines.slice(0, last && !over ? undefined : to));
    const alone = over && blocks !== null && blocks.length === 1 && by.isCode(lines);
    if (blocks === null || (over && blocks.length <= 1 && !alone)) {
      this.#passage = blocks === null ? 0 : this.#limits.characters;
      return true;
    }
    const ended = alone || (last && !over) ? blocks.length : blocks.length - 1;
    for (const [i, block] of blocks.slice(0, ended).entries()) {
      this.#finish(by, block, lines.slice(block.from, block.to));
      if (this.#finishing) return this.#ended(block.to);
      if ((this.#task.isOver() || this.#isFull()) && i + 1 < ended) return this.#ended(block.to);
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
    this.#known.add(block.defines);
    for (const [label] of block.defines) this.#defined(label);
    const limits = this.#slow ? { ...this.#limits, characters: 0 } : this.#limits;
    this.#slow = false;
    this.#finishing = this.#finishInSteps(by, block, source, limits);
    this.#goOnFinishing();
  }

  #goOnFinishing() {
    while (this.#finishing && !this.#task.isOver()) {
      const { done, value } = this.#finishing.next();
      this.#task.drew(value ?? 0);
      if (done) this.#finishing = null;
    }
  }

  /**
   * @param {Formatter} by
   * @param {Block} block
   * @param {string} source
   * @param {Limits} limits
   */
  *#finishInSteps(by, block, source, limits) {
    const outline = copyOf(this.#outline);
    const steps = by.formattedInSteps(block, source, this.#known, this.#outline, limits, false);
    const { child, missing, elements } = yield* steps;
    if (child === undefined) return;
    this.#elements += elements;
    this.#last = yield* patchInSteps(this.root, this.#last, child);
    const kept = { node: this.#last, source, outline };
    if (isPassage(child)) this.#asked.add(/** @type {Element} */ (this.#last), kept);
    this.#waiting.add(kept, missing);
    for (const label of missing) if (this.#known.get(label)) this.#waiting.defined(label); // meanwhile
  }

  /** @param {string} label */
  #defined(label) {
    this.#waiting.defined(label);
    this.#asked.defined(label);
  }

  /**
   * @param {Formatter} by
   * @param {Kept} kept
   */
  #formatAgain(by, kept) {
    const { source, node } = kept;
    const limits = { ...this.#limits, elements: Infinity }; // it was counted with all its links
    const outline = copyOf(kept.outline);
    const blocks = this.#split(by, source) ?? [];
    const all = blocks.map((block) => by.formatted(block, source.slice(block.from, block.to), this.#known, outline, limits, false));
    const [only, ...others] = all.filter(({ child }) => child !== undefined);
    if (only?.child === undefined || others.length > 0 || only.slow) return;
    kept.node = patchAfter(this.root, node.previousSibling, only.child);
    if (this.#last === node) this.#last = kept.node;
    this.#task.drew(sizeOf(only.child));
    this.#waiting.add(kept, only.missing);
  }

  /**
   * @param {Formatter} by
   * @param {string} text
   */
  #split(by, text) {
    return by.split(text, this.#known, this.#limits.asked ? this.#limits : undefined);
  }

  /** True: all of it is shown. @param {Formatter} by */
  #showOpen(by) {
    const text = this.#whole ? this.#source : by.withoutHalfLine(this.#source);
    const long = text.length > this.#limits.characters && !by.isCode(text);
    const plain = long || this.#passage >= 0 || this.#isFull();
    const blocks = plain ? null : this.#split(by, text);
    const passage = () => (text.trim() === "" ? [] : [by.passageShape(text, true)]);
    return this.#show(this.#last, blocks ? this.#openChildren(by, text, blocks) : passage());
  }

  /**
   * Show children behind one, as much of them as a task may draw; true: all of them.
   * @param {ChildNode | null} before
   * @param {import("./patch.js").Child[]} children
   */
  #show(before, children) {
    const task = new Task(); // what it took to read them does not count, so that each goes on
    const steps = patchAllInSteps(this.root, before, children);
    while (!task.isOver()) {
      const { done, value } = steps.next();
      if (done) return true;
      task.drew(value);
    }
    return false;
  }

  /**
   * @param {Formatter} by
   * @param {string} text
   * @param {Block[]} blocks
   */
  #openChildren(by, text, blocks) {
    const outline = copyOf(this.#outline);
    const known = new Definitions(this.#known);
    return blocks.flatMap((block, i) => {
      known.add(block.defines);
      const limits = this.#slow && i === 0 ? { ...this.#limits, characters: 0 } : this.#limits;
      const source = text.slice(block.from, block.to);
      const { child, slow } = by.formatted(block, source, known, outline, limits, i === blocks.length - 1);
      if (i === 0) this.#slow ||= slow;
      return child ?? [];
    });
  }

  /** @type {import("./asked_format.js").Begin<Kept>} */
  #ask = (root, { source, outline }, isLeft, whole) => {
    const view = new MarkdownView(root, { ...this.#limits, ...ASKED });
    view.#known = this.#known;
    view.#outline = copyOf(outline);
    view.#isLeft = isLeft;
    view.#settling.push(whole);
    view.#arriving.add(source);
    view.finish();
    return {
      settled: () => view.settled(),
      defined: (label) => {
        view.#defined(label);
        if (view.#hasMore()) view.#goOn();
      },
    };
  };
}
