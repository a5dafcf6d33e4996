// Makes DOM look as plain objects say, with DOM calls only, keeping what is right already: a selection or the focus
// in it survives.

/** @typedef {string | Shape} Child */
/**
 * An element as it is wanted. One that makes its own content (`made`) is left alone as long as its `key` stays.
 * @typedef {{tag: string, attributes?: Record<string, string>, children: Child[],
 *   made?: {key: string, make: (element: Element) => void}}} Shape
 */

/** @type {WeakMap<Element, string>} */
const keys = new WeakMap();

/**
 * Make the child at `index` look like `wanted`.
 * @param {Element} parent
 * @param {number} index
 * @param {Child} wanted
 */
export function patchAt(parent, index, wanted) {
  const found = parent.childNodes[index];
  if (typeof wanted === "string") {
    if (found instanceof Text) patchText(found, wanted);
    else replaceAt(parent, found, document.createTextNode(wanted));
    return;
  }
  let element = found;
  if (!(element instanceof Element) || element.localName !== wanted.tag || keys.get(element) !== wanted.made?.key) {
    element = replaceAt(parent, found, document.createElement(wanted.tag));
    if (wanted.made) make(/** @type {Element} */ (element), wanted.made);
  }
  patch(/** @type {Element} */ (element), wanted);
}

/**
 * Keep the first children alone.
 * @param {Element} parent
 * @param {number} count
 */
export function trim(parent, count) {
  while (parent.childNodes.length > count) parent.lastChild?.remove();
}

/**
 * @param {Element} element
 * @param {Shape} wanted
 */
function patch(element, { attributes = {}, children, made }) {
  for (const name of element.getAttributeNames()) if (!(name in attributes)) element.removeAttribute(name);
  for (const [name, value] of Object.entries(attributes)) {
    if (element.getAttribute(name) !== value) element.setAttribute(name, value);
  }
  if (made) return;
  children.forEach((child, i) => patchAt(element, i, child));
  trim(element, children.length);
}

/**
 * @param {Element} element
 * @param {NonNullable<Shape["made"]>} made
 */
function make(element, { key, make: fill }) {
  keys.set(element, key);
  fill(element);
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
