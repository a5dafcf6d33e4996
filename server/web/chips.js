// The placeholders in a text: those of one number light up together, and each says what stood there. Copies
// hold the placeholder itself, and the sources of formulas.

import { byId, el } from "./dom.js";

/** @typedef {import("/web/client/answer.js").SafetyFlag} SafetyFlag */
/** @typedef {typeof import("./safety_words.js").removedText} Words */

const GAP_PX = 6;

export class Chips {
  /**
   * @param {HTMLElement} root the text they stand in
   * @param {Words} words what is said of one
   */
  constructor(root, words) {
    this.#root = root;
    this.#words = words;
    root.addEventListener("pointerover", (event) => this.#light(chipAt(event)));
    root.addEventListener("pointerleave", () => this.#light(focused(root)));
    root.addEventListener("focusin", (event) => this.#light(chipAt(event)));
    root.addEventListener("focusout", () => this.#light(null));
    root.addEventListener("pointerdown", (event) => {
      const chip = chipAt(event);
      this.#pressed = chip === open?.chip ? chip : null;
    });
    root.addEventListener("click", (event) => this.#clicked(chipAt(event)));
  }

  #root;
  #words;
  /** @type {SafetyFlag[]} */
  #flags = [];
  #text = "";
  /** @type {string | undefined} the placeholder whose number is lit */
  #lit;
  /** The chip that was pressed while it was explained: that closes it. @type {HTMLElement | null} */
  #pressed = null;

  /**
   * The text changed.
   * @param {string} text
   * @param {SafetyFlag[]} flags
   */
  update(text, flags) {
    this.#text = text;
    this.#flags = flags;
    if (this.#lit !== undefined) this.#mark();
  }

  /** @param {HTMLElement | null} chip null: none, but for one that is explained */
  #light(chip) {
    const source = (chip ?? (open?.chips === this ? open.chip : null))?.dataset.source;
    if (source === this.#lit) return;
    this.#lit = source;
    this.#mark();
  }

  #mark() {
    for (const chip of this.#root.querySelectorAll(".chip")) {
      chip.classList.toggle("lit", chip instanceof HTMLElement && chip.dataset.source === this.#lit);
    }
  }

  /** @param {HTMLElement | null} chip */
  #clicked(chip) {
    const closes = chip !== null && chip === this.#pressed;
    this.#pressed = null;
    if (!(chip instanceof HTMLButtonElement) || closes) return;
    const source = chip.dataset.source ?? "";
    const points = Array.from(this.#text);
    const flag = this.#flags.find(({ p, n }) => points.slice(p, p + n).join("") === source);
    explain(this, chip, this.#words(source, chip.textContent ?? "", flag?.scope ?? ""));
  }

  /** What was explained is closed. */
  closed() {
    this.#light(focused(this.#root));
  }
}

/** @type {{chips: Chips, chip: HTMLElement} | null} what is explained */
let open = null;

/**
 * @param {Chips} chips
 * @param {HTMLElement} chip
 * @param {{title: string, lines: string[]}} text
 */
function explain(chips, chip, { title, lines }) {
  const pop = byId("removed");
  pop.hidePopover();
  byId("removed-title").textContent = title;
  byId("removed-text").replaceChildren(...lines.map((line) => el("p", {}, line)));
  open = { chips, chip };
  pop.showPopover();
  place();
  addEventListener("scroll", place, { capture: true, passive: true });
  addEventListener("resize", place);
  pop.addEventListener("toggle", closed);
}

/** @param {Event} event */
function closed(event) {
  const pop = byId("removed");
  if (!(event instanceof ToggleEvent) || pop.matches(":popover-open")) return;
  pop.removeEventListener("toggle", closed);
  removeEventListener("scroll", place, { capture: true });
  removeEventListener("resize", place);
  const chips = open?.chips;
  open = null;
  chips?.closed();
}

/** Below its chip, above where there is no room. Phones show it at their foot (style.css). */
function place() {
  const pop = byId("removed");
  const at = open?.chip.getBoundingClientRect();
  if (!at) return;
  const { width, height } = pop.getBoundingClientRect();
  const below = at.bottom + GAP_PX;
  const top = below + height > innerHeight ? at.top - GAP_PX - height : below;
  pop.style.setProperty("--left", `${Math.max(GAP_PX, Math.min(at.left, innerWidth - width - GAP_PX))}px`);
  pop.style.setProperty("--top", `${Math.max(GAP_PX, top)}px`);
}

/**
 * @param {Event} event
 * @returns {HTMLElement | null}
 */
function chipAt({ target }) {
  return target instanceof Element ? target.closest(".chip") : null;
}

/**
 * @param {HTMLElement} root
 * @returns {HTMLElement | null}
 */
function focused(root) {
  const active = document.activeElement?.closest(".chip") ?? null;
  return active instanceof HTMLElement && root.contains(active) ? active : null;
}

/** The page's own words beside a text. */
const BESIDE = ".foot, .more, .begin, .unread, .code-head, .passage-head, h2.unseen, .own summary";

/**
 * Put what is selected on the clipboard with its placeholders themselves and the sources of its formulas, and without
 * what the page says beside it, where there is any of that in it.
 * @param {ClipboardEvent} event
 */
export function copyWithSources(event) {
  const selection = getSelection();
  if (!selection || selection.isCollapsed || selection.rangeCount === 0 || !event.clipboardData) return;
  const range = selection.getRangeAt(0);
  const within = elementOf(range.commonAncestorContainer);
  const inside = within?.closest("[data-source]");
  const fragment = range.cloneContents();
  const shown = fragment.querySelectorAll("[data-source]");
  const beside = within?.closest(BESIDE) ? [] : fragment.querySelectorAll(BESIDE);
  if (!within || (shown.length + beside.length === 0 && !inside)) return;
  for (const each of beside) each.remove();
  for (const each of shown) if (each instanceof HTMLElement) each.replaceWith(sourceOf(each));
  if (inside instanceof HTMLElement) fragment.replaceChildren(sourceOf(inside));
  for (const part of fragment.querySelectorAll(".part")) part.replaceWith(...part.childNodes); // its lines have ends
  const copied = el("div", { class: "copied" }, fragment);
  within.closest("pre, .prose, .bubble, .log")?.append(copied); // where it is laid out, its lines are as shown
  event.clipboardData.setData("text/plain", copied.innerText);
  event.clipboardData.setData("text/html", copied.innerHTML);
  copied.remove();
  event.preventDefault();
}

/**
 * The text of code, with what stands in it for something else as that.
 * @param {Element} code
 */
export function sourcesOf(code) {
  const copy = /** @type {Element} */ (code.cloneNode(true));
  for (const each of copy.querySelectorAll("[data-source]")) if (each instanceof HTMLElement) each.replaceWith(sourceOf(each));
  return copy.textContent;
}

/** @param {HTMLElement} shown a placeholder, a formula or a sign */
function sourceOf({ localName, dataset: { source = "" } }) {
  return localName === "div" ? el("div", { class: "as-is" }, source) : source;
}

/** @param {Node} node */
function elementOf(node) {
  return node instanceof Element ? node : node.parentElement;
}
