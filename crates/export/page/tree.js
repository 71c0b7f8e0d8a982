// Call trees in preorder, as typed arrays. Node 0 is the root, which is no call.

/** Kinds of frames by number, as in `frame_kind.rs`. */
export const KINDS = ["thread", "user", "inlined", "kernel", "JIT", "unnamed", "waiting", "idle", "waiting for a CPU", "Python", "JavaScript", "Java"];
export const KIND_USER = 1;
export const KIND_INLINED = 2;
export const KIND_WAITING = 6;
export const KIND_IDLE = 7;
export const KIND_WAITING_FOR_CPU = 8;

/** Function of the root and of a gap in time. */
export const NO_FUNCTION = -1;
export const GAP = -2;

/**
 * @typedef {object} Tree
 * @property {number} n number of nodes
 * @property {Int32Array} fn function by node
 * @property {Uint8Array} kind kind by node
 * @property {Int32Array} parent parent by node
 * @property {Int32Array} depth depth by node; 0 for the root
 * @property {number} deepest largest depth
 * @property {Int32Array} end first node after the subtree, by node
 */

/**
 * Creates a tree from nodes in preorder.
 * @param {number} n number of nodes, including the root
 * @param {Int32Array} fn
 * @param {Uint8Array} kind
 * @param {Int32Array} depth
 * @returns {Tree}
 */
export function treeOf(n, fn, kind, depth) {
  const parent = new Int32Array(n);
  const end = new Int32Array(n);
  let deepest = 0;
  for (let i = 0; i < n; i++) if (depth[i] > deepest) deepest = depth[i];
  const path = new Int32Array(deepest + 2);
  let above = 0;
  for (let i = 1; i < n; i++) {
    const d = depth[i];
    for (; above >= d; above--) end[path[above]] = i;
    parent[i] = path[d - 1];
    path[d] = i;
    above = d;
  }
  for (; above >= 0; above--) end[path[above]] = n;
  return { n, fn, kind, parent, depth, end, deepest };
}

/**
 * Creates the tree from a page's section.
 * @param {ArrayLike<number>} ups
 * @param {ArrayLike<number>} functions
 * @param {ArrayLike<number>} inlined
 * @param {ArrayLike<number>} kinds by function
 * @returns {Tree}
 */
export function treeOfSection(ups, functions, inlined, kinds) {
  const n = ups.length + 1;
  const fn = new Int32Array(n);
  const kind = new Uint8Array(n);
  const depth = new Int32Array(n);
  fn[0] = NO_FUNCTION;
  for (let i = 1; i < n; i++) {
    depth[i] = depth[i - 1] + 1 - ups[i - 1];
    if (depth[i] < 1) throw new Error("the tree is damaged");
    fn[i] = functions[i - 1];
    const own = kinds[fn[i]];
    kind[i] = own === KIND_USER && inlined[i - 1] ? KIND_INLINED : own;
  }
  return treeOf(n, fn, kind, depth);
}

/**
 * Marks nodes without an ancestor of the same function.
 * @param {Tree} tree
 * @param {number} functions number of functions
 * @returns {Uint8Array}
 */
export function outermost(tree, functions) {
  const { n, fn, parent, depth } = tree;
  const open = new Int32Array(functions);
  const is = new Uint8Array(n);
  let last = 0;
  for (let i = 1; i < n; i++) {
    for (let up = last; depth[up] >= depth[i]; up = parent[up]) open[fn[up]]--;
    if (open[fn[i]]++ === 0) is[i] = 1;
    last = i;
  }
  return is;
}

/**
 * Computes total weights from self weights.
 * @param {Tree} tree
 * @param {Float64Array} own
 * @param {Float64Array | null} [into] unused totals to overwrite
 * @returns {Float64Array}
 */
export function totalsOf(tree, own, into = null) {
  const total = into && into.length === tree.n ? into : new Float64Array(tree.n);
  total.set(own);
  const parent = tree.parent;
  for (let i = tree.n - 1; i > 0; i--) total[parent[i]] += total[i];
  return total;
}

/** Tree builder. Calls may be added in any order. */
export class TreeBuilder {
  constructor() {
    /** @type {Map<number, number>} */
    this.children = new Map();
    /** @type {number[]} */
    this.fn = [NO_FUNCTION];
    /** @type {number[]} */
    this.kind = [0];
    /** @type {number[]} */
    this.parent = [0];
  }

  /**
   * Returns the child of a node for a call. Creates it if necessary.
   * @param {number} parent
   * @param {number} fn
   * @param {number} kind
   */
  child(parent, fn, kind) {
    const key = (parent * 0x800000 + fn) * 16 + kind;
    const known = this.children.get(key);
    if (known !== undefined) return known;
    const id = this.fn.length;
    this.children.set(key, id);
    this.fn.push(fn);
    this.kind.push(kind);
    this.parent.push(parent);
    return id;
  }

  /**
   * Sorts the nodes in preorder, heaviest children first.
   * @param {Float64Array} own weights by node
   * @returns {{tree: Tree, place: Int32Array}} the tree, and the new number of each node
   */
  finish(own) {
    const n = this.fn.length;
    const total = new Float64Array(n);
    total.set(own.subarray(0, n));
    for (let i = n - 1; i > 0; i--) total[this.parent[i]] += total[i];
    const order = new Int32Array(n);
    for (let i = 0; i < n; i++) order[i] = i;
    const sorted = Array.from(order.subarray(1));
    // Lightest first: each is inserted before its siblings.
    sorted.sort((a, b) => total[a] - total[b] || this.fn[b] - this.fn[a] || b - a);
    const first = new Int32Array(n).fill(-1);
    const next = new Int32Array(n).fill(-1);
    for (const node of sorted) {
      next[node] = first[this.parent[node]];
      first[this.parent[node]] = node;
    }
    const fn = new Int32Array(n);
    const kind = new Uint8Array(n);
    const depth = new Int32Array(n);
    const place = new Int32Array(n);
    fn[0] = NO_FUNCTION;
    let count = 0;
    let node = 0;
    let level = 0;
    for (;;) {
      place[node] = count;
      fn[count] = this.fn[node];
      kind[count] = this.kind[node];
      depth[count] = level;
      count++;
      if (first[node] >= 0) {
        node = first[node];
        level++;
        continue;
      }
      while (node !== 0 && next[node] < 0) {
        node = this.parent[node];
        level--;
      }
      if (node === 0) break;
      node = next[node];
    }
    return { tree: treeOf(n, fn, kind, depth), place };
  }
}

/**
 * Node at a path of functions, as far as it exists.
 * @param {Tree} tree
 * @param {Float64Array} total
 * @param {number[]} path
 */
export function nodeAt(tree, total, path) {
  let node = 0;
  for (const fn of path) {
    let best = -1;
    for (let i = node + 1; i < tree.end[node]; i = tree.end[i]) if (tree.fn[i] === fn && (best < 0 || total[i] > total[best])) best = i;
    if (best < 0) break;
    node = best;
  }
  return node;
}
