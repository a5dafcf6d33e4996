// Formulas as MathML, by Temml, which is loaded with the first of them. Their source shows until then, and where
// Temml cannot read it. They are made a few at a time, so that the page goes on.

import { el } from "./dom.js";
import { optionsOf, refuseDefinitions, refuseTooMuch } from "./formula_limits.js";

/** @typedef {import("temml").default} Temml */
/** @typedef {{element: Element, tex: string, source: string, display: boolean}} Formula */

const TEX_MAX = 4096; // characters
const ELEMENTS_MAX = 2500;
const DEPTH_MAX = 40; // of elements: a browser takes long to lay out deeper ones
const SLICE_MS = 8;
const REST_MS = 16;

/** @type {Temml | undefined} */
let temml;
/** @type {Promise<void> | undefined} */
let loading;
/** @type {Formula[]} */
const waiting = [];
let left = SLICE_MS;
/** @type {ReturnType<typeof setTimeout> | undefined} */
let timer;
/** @type {(() => void)[]} */
const settling = [];

/**
 * Show one in an element.
 * @param {Formula} formula
 */
export function showFormula(formula) {
  formula.element.textContent = formula.source;
  if (formula.tex.length > TEX_MAX || formula.tex.trim() === "") return;
  waiting.push(formula);
  if (temml) work(temml);
  else void load();
}

/** Resolves once all that can be shown is shown. */
export async function formulasShown() {
  if (waiting.length > 0) await load();
  if (waiting.length > 0) await new Promise((resolve) => settling.push(() => resolve(undefined)));
}

function load() {
  loading ??= import("temml").then(
    (loaded) => work((temml = loaded.default)),
    () => {
      loading = undefined; // the next formula asks again
      waiting.length = 0;
    },
  );
  return loading;
}

/** @param {Temml} by */
function work(by) {
  for (let next = waiting[0]; next && left > 0; next = waiting[0]) {
    const started = performance.now();
    waiting.shift();
    draw(by, next);
    left -= performance.now() - started;
  }
  if (waiting.length === 0) for (const resolve of settling.splice(0)) resolve();
  timer ??= setTimeout(() => {
    timer = undefined;
    left = SLICE_MS;
    if (waiting.length > 0) work(by);
  }, REST_MS);
}

/**
 * @param {Temml} by
 * @param {Formula} formula
 */
function draw(by, { element, tex, source, display }) {
  const made = document.createElement("span");
  try {
    refuseDefinitions(tex);
    refuseTooMuch(by.__parse(tex, optionsOf(display)));
    by.render(tex, made, optionsOf(display));
    if (tooMuch(made)) throw new Error("it is too long, or too much in one another");
    for (const each of made.querySelectorAll("[id], [href]")) {
      each.removeAttribute("id"); // the page's own
      each.removeAttribute("href");
    }
    element.replaceChildren(...made.childNodes);
  } catch (error) {
    const said = error instanceof Error ? error.message.trim() : String(error);
    const shown = el("span", { class: "unreadable", title: `Not a formula that can be shown: ${said}` }, source);
    element.replaceChildren(shown);
  }
}

/** @param {Element} made */
function tooMuch(made) {
  const all = made.querySelectorAll("*");
  if (all.length > ELEMENTS_MAX) return true;
  const deep = ":scope".concat(" > *".repeat(DEPTH_MAX));
  return made.querySelector(deep) !== null;
}
