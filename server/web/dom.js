// The few DOM calls that all of the page uses. Nothing here parses HTML.

/**
 * An element with attributes and children.
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag
 * @param {Record<string, string>} [attributes]
 * @param {...(Node | string)} children
 * @returns {HTMLElementTagNameMap[T]}
 */
export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/**
 * One of the icons of index.html.
 * @param {string} name
 * @returns {SVGSVGElement}
 */
export function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
  use.setAttribute("href", `#icon-${name}`);
  svg.setAttribute("aria-hidden", "true");
  svg.append(use);
  return svg;
}

/**
 * A button that does one thing.
 * @param {Record<string, string>} attributes
 * @param {(Node | string)[]} children
 * @param {() => void} act
 */
export function button(attributes, children, act) {
  const element = el("button", { type: "button", ...attributes }, ...children);
  element.addEventListener("click", act);
  return element;
}

/**
 * The element of index.html with this id.
 * @template {HTMLElement} [T=HTMLElement]
 * @param {string} id
 * @returns {T}
 */
export function byId(id) {
  const element = document.getElementById(id);
  if (!element) throw new Error(`index.html has no element #${id}`);
  return /** @type {T} */ (element);
}

/** Close whatever asks something, as if it were answered with no. */
export function closeDialogs() {
  for (const dialog of document.querySelectorAll("dialog")) if (dialog.open) dialog.close("");
}

/**
 * Put text on the clipboard, also where the page is not a secure context and has no clipboard API.
 * @param {string} text
 */
export async function copyText(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = el("textarea", { class: "unseen" });
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}
