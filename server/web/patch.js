// Makes DOM look as plain objects say, with DOM calls only, keeping what is right already: a selection or the focus
// in it survives.

/** @typedef {string | Shape} Child */
/**
 * An element as it is wanted. One that makes its own content (`made`) is left alone as long as its `key` stays.
 * @typedef {{tag: string, attributes?: Record<string, string>, children: Child[],
 *   made?: {key: string, make: (element: Element) => void}}} Shape
 */

const STEP = 100; // elements and lines
const LINE = 16; // characters: of some scripts a browser breaks lines slowly

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
  const found = nextOf(parent, before);
  if (typeof wanted === "string") {
    if (!(found instanceof Text)) return putAt(parent, found, document.createTextNode(wanted));
    patchText(found, wanted);
    return found;
  }
  const element = elementAt(parent, found, wanted);
  patchChildren(element, wanted);
  return element;
}

/**
 * As `patchAfter`, in steps: each says how much it drew, in elements and lines.
 * @param {Element} parent
 * @param {ChildNode | null} before
 * @param {Child} wanted
 * @returns {Generator<number, ChildNode, void>}
 */
export function* patchInSteps(parent, before, wanted) {
  const found = nextOf(parent, before);
  if (found && isThere(found, wanted)) return found;
  const size = sizeOf(wanted);
  if (typeof wanted === "string" || wanted.made || size <= STEP) {
    const small = patchAfter(parent, before, wanted);
    yield size;
    return small;
  }
  const element = elementAt(parent, found, wanted);
  shown.set(element, { ...wanted, children: [] }); // of these nothing is sure until all are there
  yield* patchAllInSteps(element, null, wanted.children);
  shown.set(element, wanted);
  return element;
}

/**
 * As `patchInSteps`, of all children behind one. What was drawn before it was left is not drawn again.
 * @param {Element} parent
 * @param {ChildNode | null} before
 * @param {Child[]} wanted
 * @returns {Generator<number, void, void>}
 */
export function* patchAllInSteps(parent, before, wanted) {
  let last = before;
  for (const child of wanted) last = yield* patchInSteps(parent, last, child);
  trim(parent, last);
}

/**
 * How long it may take to lay out: elements and lines.
 * @param {Child} child
 * @returns {number}
 */
export function sizeOf(child) {
  if (typeof child === "string") return child.length / LINE + child.split("\n").length - 1;
  return child.children.reduce((sum, each) => sum + sizeOf(each), 1);
}

/**
 * Remove the children behind one.
 * @param {Element} parent
 * @param {ChildNode | null} last that stays; null: none does
 */
function trim(parent, last) {
  while (parent.lastChild && parent.lastChild !== last) parent.lastChild.remove();
}

/**
 * @param {Element} parent
 * @param {ChildNode | null} before
 */
function nextOf(parent, before) {
  return before ? before.nextSibling : parent.firstChild;
}

/**
 * The element that is found, or one in its place, with the attributes that are wanted.
 * @param {Element} parent
 * @param {ChildNode | null} found
 * @param {Shape} wanted
 */
function elementAt(parent, found, { tag, attributes = {}, made }) {
  const keeps = found instanceof Element && found.localName === tag && shown.get(found)?.made?.key === made?.key;
  const element = keeps ? found : putAt(parent, found, document.createElement(tag));
  if (!keeps) made?.make(element);
  for (const name of element.getAttributeNames()) if (!(name in attributes)) element.removeAttribute(name);
  for (const [name, value] of Object.entries(attributes)) {
    if (element.getAttribute(name) !== value) element.setAttribute(name, value);
  }
  return element;
}

/**
 * @param {Element} element
 * @param {Shape} wanted
 */
function patchChildren(element, wanted) {
  const before = shown.get(element);
  shown.set(element, wanted);
  const { children, made } = wanted;
  if (made) return;
  /** @type {ChildNode | null} */
  let last = null;
  for (const [i, child] of children.entries()) {
    const old = before?.children[i];
    const next = nextOf(element, last);
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
 * @param {ChildNode} found
 * @param {Child} wanted
 */
function isThere(found, wanted) {
  if (typeof wanted === "string") return found instanceof Text && found.data === wanted;
  const before = found instanceof Element && shown.get(found);
  return before ? isSame(before, wanted) : false;
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
