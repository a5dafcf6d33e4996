// Makes DOM look as plain objects say, with DOM calls only, keeping what is right already: a selection or the focus
// in it survives.

/** @typedef {string | Shape} Child */
/**
 * An element as it is wanted. One that makes its own content (`made`) is left alone as long as its `key` stays.
 * @typedef {{tag: string, attributes?: Record<string, string>, children: Child[],
 *   made?: {key: string, make: (element: Element) => void}}} Shape
 */

/** What elements were made to look like: to read it from the DOM would cost more. @type {WeakMap<Element, Shape>} */
const shown = new WeakMap();

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
  if (!(element instanceof Element) || element.localName !== wanted.tag || shown.get(element)?.made?.key !== wanted.made?.key) {
    element = replaceAt(parent, found, document.createElement(wanted.tag));
    wanted.made?.make(/** @type {Element} */ (element));
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
function patch(element, wanted) {
  const { attributes = {}, children, made } = wanted;
  const before = shown.get(element);
  shown.set(element, wanted);
  for (const name of element.getAttributeNames()) if (!(name in attributes)) element.removeAttribute(name);
  for (const [name, value] of Object.entries(attributes)) {
    if (element.getAttribute(name) !== value) element.setAttribute(name, value);
  }
  if (made) return;
  children.forEach((child, i) => {
    const last = before?.children[i];
    if (last === undefined || !isSame(last, child)) patchAt(element, i, child);
  });
  trim(element, children.length);
}

/**
 * @param {Child} one
 * @param {Child} other
 * @returns {boolean}
 */
function isSame(one, other) {
  if (typeof one === "string" || typeof other === "string") return one === other;
  if (one.tag !== other.tag || one.made?.key !== other.made?.key) return false;
  if (one.children.length !== other.children.length) return false;
  const [attributes = {}, others = {}] = [one.attributes, other.attributes];
  const names = Object.keys(attributes);
  if (names.length !== Object.keys(others).length) return false;
  if (names.some((name) => attributes[name] !== others[name])) return false;
  return one.children.every((child, i) => isSame(child, /** @type {Child} */ (other.children[i])));
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
