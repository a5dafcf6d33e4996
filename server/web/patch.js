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
 * Make the child behind `before` look like `wanted`. By nodes: a browser counts its way to a child with a number.
 * @param {Element} parent
 * @param {ChildNode | null} before null: the first child
 * @param {Child} wanted
 * @returns {ChildNode} the child
 */
export function patchAfter(parent, before, wanted) {
  const found = before ? before.nextSibling : parent.firstChild;
  if (typeof wanted === "string") {
    if (!(found instanceof Text)) return putAt(parent, found, document.createTextNode(wanted));
    patchText(found, wanted);
    return found;
  }
  if (found instanceof Element && found.localName === wanted.tag && shown.get(found)?.made?.key === wanted.made?.key) {
    patch(found, wanted);
    return found;
  }
  const made = putAt(parent, found, document.createElement(wanted.tag));
  wanted.made?.make(made);
  patch(made, wanted);
  return made;
}

/**
 * Remove the children behind one.
 * @param {Element} parent
 * @param {ChildNode | null} last that stays; null: none does
 */
export function trim(parent, last) {
  while (parent.lastChild && parent.lastChild !== last) parent.lastChild.remove();
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
  /** @type {ChildNode | null} */
  let last = null;
  for (const [i, child] of children.entries()) {
    const old = before?.children[i];
    /** @type {ChildNode | null} */
    const next = last ? last.nextSibling : element.firstChild;
    last = next && old !== undefined && isSame(old, child) ? next : patchAfter(element, last, child);
  }
  trim(element, last);
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
 * @template {ChildNode} T
 * @param {Element} parent
 * @param {ChildNode | null} found what it replaces
 * @param {T} node
 * @returns {T}
 */
function putAt(parent, found, node) {
  if (found) parent.replaceChild(node, found);
  else parent.append(node);
  return node;
}
