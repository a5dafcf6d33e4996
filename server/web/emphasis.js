// Which * _ and ~ belong together, and what is left over as text. Pure.

/** @typedef {string | Element} Node */
/** @typedef {{tag: string, children: Node[], href?: string}} Element */
/** @typedef {{symbol: string, count: number, opens: boolean, closes: boolean, alone: boolean}} Run */
/** @typedef {{image: boolean}} Bracket */
/** @typedef {Node | Run | Bracket} Piece */

// How far a closing mark looks back for its opening one: hostile text must not cost quadratic time.
const RUNS_MAX = 64;
const PIECES_MAX = 2048;
// Elements in one another; deeper ones are left out, their text is not. What walks a tree may use the stack.
export const DEPTH_MAX = 24;
/** @type {WeakMap<Element, number>} */
const depths = new WeakMap();

/**
 * Pair the runs of * _ and ~ (CommonMark's "process emphasis"), and turn what is left over into text.
 * @param {Piece[]} pieces
 * @param {boolean} growing
 * @returns {Node[]}
 */
export function settle(pieces, growing) {
  /** @type {Piece[]} */
  const done = [];
  for (const piece of pieces) {
    if (isRun(piece) && piece.closes) closeRun(done, piece);
    else done.push(piece);
  }
  if (growing) closeGrowing(done);
  return merge(done);
}

/**
 * @param {Piece[]} done
 * @param {Run} closer
 */
function closeRun(done, closer) {
  let left = closer.count;
  while (left > 0) {
    const from = openerOf(done, closer);
    if (from < 0) break;
    const opener = /** @type {Run} */ (done[from]);
    const used = opener.count >= 2 && left >= 2 ? 2 : 1;
    const children = merge(done.splice(from + 1));
    opener.count -= used;
    left -= used;
    if (opener.count === 0) done.pop();
    const element = { tag: closer.symbol === "~" ? "del" : used === 2 ? "strong" : "em", children };
    if (depthOf(element) <= DEPTH_MAX) done.push(element);
    else for (const child of children) done.push(child);
  }
  if (left > 0) done.push({ ...closer, count: left });
}

/**
 * @param {Piece[]} done
 * @param {Run} closer
 */
function openerOf(done, closer) {
  const lowest = Math.max(0, done.length - PIECES_MAX);
  for (let i = done.length - 1, runs = 0; i >= lowest && runs < RUNS_MAX; i--) {
    const piece = done[i];
    if (!isRun(piece)) continue;
    runs++;
    if (piece.symbol !== closer.symbol || !piece.opens) continue;
    const odd = (piece.closes || closer.opens) && (piece.count + closer.count) % 3 === 0;
    if (!odd || (piece.count % 3 === 0 && closer.count % 3 === 0)) return i;
  }
  return -1;
}

/**
 * A ** at the start of a word that nothing closed yet: show it as bold while the text grows.
 * @param {Piece[]} done
 */
function closeGrowing(done) {
  const from = done.findIndex((piece) => isRun(piece) && piece.count === 2 && piece.opens && piece.alone);
  const last = done[done.length - 1];
  if (isRun(last) && !last.opens) done.pop(); // the first half of the closing mark
  if (from < 0 || from === done.length - 1) return;
  const run = /** @type {Run} */ (done[from]);
  const children = merge(done.splice(from).slice(1));
  done.push({ tag: run.symbol === "~" ? "del" : "strong", children });
}

/**
 * How many elements are in one another at most, from this one on.
 * @param {Node} node
 * @returns {number}
 */
export function depthOf(node) {
  if (typeof node === "string") return 0;
  let depth = depths.get(node);
  if (depth === undefined) {
    depth = 1 + node.children.reduce((deepest, child) => Math.max(deepest, depthOf(child)), 0);
    depths.set(node, depth);
  }
  return depth;
}

/**
 * Leftover runs and brackets become text, neighbouring texts one.
 * @param {Piece[]} pieces
 * @returns {Node[]}
 */
export function merge(pieces) {
  /** @type {Node[]} */
  const nodes = [];
  for (const piece of pieces) {
    let node = /** @type {Node} */ (piece);
    if (isRun(piece)) node = piece.symbol.repeat(piece.count);
    else if (isBracket(piece)) node = piece.image ? "![" : "[";
    const last = nodes[nodes.length - 1];
    if (typeof node === "string" && typeof last === "string") nodes[nodes.length - 1] = last + node;
    else if (node !== "") nodes.push(node);
  }
  return nodes;
}

/**
 * @param {Piece | undefined} piece
 * @returns {piece is Run}
 */
export function isRun(piece) {
  return typeof piece === "object" && "symbol" in piece;
}

/**
 * @param {Piece | undefined} piece
 * @returns {piece is Bracket}
 */
export function isBracket(piece) {
  return typeof piece === "object" && "image" in piece;
}
