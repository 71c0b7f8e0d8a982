// Derived trees, computed on demand: callers, callees, and the inverted tree.

import { NO_FUNCTION, treeOf } from "./tree.js";

/**
 * Nodes of a tree with the weights that count there.
 * @typedef {object} Places
 * @property {Int32Array} node
 * @property {Float64Array} weight
 * @property {Float64Array | null} base baseline weight
 */

/**
 * Tree with weights.
 * @typedef {object} Grown
 * @property {import("./tree.js").Tree} tree
 * @property {Float64Array} own
 * @property {Float64Array} total
 * @property {Float64Array | null} baseOwn
 * @property {Float64Array | null} baseTotal
 */

/**
 * All leaves: the start of the inverted tree.
 * @param {import("./tree.js").Tree} tree
 * @param {import("./model.js").Weights} weights
 * @param {import("./model.js").Weights | null} base
 * @returns {Places}
 */
export function leafPlaces(tree, weights, base) {
  return places(tree, (i) => weights.own[i] !== 0 || (base !== null && base.own[i] !== 0), weights.own, base && base.own);
}

/**
 * Outermost nodes of a function.
 * @param {import("./tree.js").Tree} tree
 * @param {number} fn
 * @param {Uint8Array} outer
 * @param {import("./model.js").Weights} weights
 * @param {import("./model.js").Weights | null} base
 * @returns {Places}
 */
export function placesOf(tree, fn, outer, weights, base) {
  const is = (/** @type {number} */ i) => tree.fn[i] === fn && outer[i] === 1;
  return places(tree, is, weights.total, base && base.total);
}

/**
 * @param {import("./tree.js").Tree} tree
 * @param {(node: number) => boolean} is
 * @param {Float64Array} weight
 * @param {Float64Array | null} base
 * @returns {Places}
 */
function places(tree, is, weight, base) {
  let count = 0;
  for (let i = 1; i < tree.n; i++) if (is(i)) count++;
  const node = new Int32Array(count);
  const own = new Float64Array(count);
  const old = base ? new Float64Array(count) : null;
  count = 0;
  for (let i = 1; i < tree.n; i++) {
    if (!is(i)) continue;
    node[count] = i;
    own[count] = weight[i];
    if (old && base) old[count] = base[i];
    count++;
  }
  return { node, weight: own, base: old };
}

/**
 * Builds the tree of callers: the functions of the places, and below them their callers. Nodes
 * below `least` (in both weights) have no children. With a path, only its nodes are expanded, and
 * the subtree at its end down to 1/3000 of its weight.
 * @param {import("./tree.js").Tree} tree
 * @param {Places} from
 * @param {number} functions number of functions
 * @param {number} least
 * @param {number[]} [path]
 * @returns {Grown}
 */
export function growCallers(tree, from, functions, least, path = []) {
  const step = (/** @type {number} */ node, /** @type {(node: number) => void} */ each) => {
    const up = tree.parent[node];
    if (up !== 0) each(up);
  };
  return grow(tree, from, functions, least, path, step, null, null);
}

/**
 * Builds the tree of callees: the functions of the places, and below them their callees.
 * @param {import("./tree.js").Tree} tree
 * @param {Places} from
 * @param {number} functions number of functions
 * @param {number} least
 * @param {import("./model.js").Weights} weights
 * @param {import("./model.js").Weights | null} base
 * @returns {Grown}
 */
export function growCallees(tree, from, functions, least, weights, base) {
  const step = (/** @type {number} */ node, /** @type {(node: number) => void} */ each) => {
    const end = tree.end[node];
    for (let child = node + 1; child < end; child = tree.end[child]) each(child);
  };
  return grow(tree, from, functions, least, [], step, weights.total, base && base.total);
}

/**
 * @param {import("./tree.js").Tree} tree
 * @param {Places} from
 * @param {number} functions
 * @param {number} least
 * @param {number[]} path
 * @param {(node: number, each: (node: number) => void) => void} step
 * @param {Float64Array | null} totals weights by node; `null` if a place keeps its weight on the
 *   way up
 * @param {Float64Array | null} baseTotals
 * @returns {Grown}
 */
function grow(tree, from, functions, least, path, step, totals, baseTotals) {
  /** @type {{fn: number[], kind: number[], depth: number[], total: number[], base: number[]}} */
  const out = { fn: [NO_FUNCTION], kind: [0], depth: [0], total: [0], base: [0] };
  // Pending groups of places with the same function, next on top.
  /** @type {{fn: number, kind: number, depth: number, node: number[], item: number[], total: number, base: number, isOnPath: boolean}[]} */
  const pile = [];
  const slot = new Int32Array(functions).fill(-1);
  /** @type {typeof pile} */
  let groups = [];
  let depth = 1;
  let isOnPath = true;
  const add = (/** @type {number} */ node, /** @type {number} */ item) => {
    const weight = totals ? totals[node] : from.weight[item];
    const base = totals ? (baseTotals ? baseTotals[node] : 0) : from.base ? from.base[item] : 0;
    if (weight === 0 && base === 0) return;
    const fn = tree.fn[node];
    let at = slot[fn];
    if (at < 0) {
      at = slot[fn] = groups.length;
      groups.push({ fn, kind: tree.kind[node], depth, node: [], item: [], total: 0, base: 0, isOnPath: isOnPath && path[depth - 1] === fn });
    }
    const group = groups[at];
    if (tree.kind[node] < group.kind) group.kind = tree.kind[node];
    group.node.push(node);
    group.item.push(item);
    group.total += weight;
    group.base += base;
  };
  const put = () => {
    for (const group of groups) slot[group.fn] = -1;
    groups.sort((a, b) => a.total + a.base - b.total - b.base || b.fn - a.fn);
    for (const group of groups) pile.push(group);
    groups = [];
  };
  for (let i = 0; i < from.node.length; i++) {
    // The function of the place itself is the first level.
    const node = from.node[i];
    const kept = totals;
    totals = null;
    add(node, i);
    totals = kept;
  }
  put();
  for (let group = pile.pop(); group; group = pile.pop()) {
    out.fn.push(group.fn);
    out.kind.push(group.kind);
    out.depth.push(group.depth);
    out.total.push(group.total);
    out.base.push(group.base);
    if (group.depth === 1) {
      out.total[0] += group.total;
      out.base[0] += group.base;
    }
    if (group.depth <= path.length) {
      if (!group.isOnPath) continue;
      least = Math.max(group.total, group.base) / 3000;
    } else if (group.total < least && group.base < least) continue;
    depth = group.depth + 1;
    isOnPath = group.isOnPath;
    for (let i = 0; i < group.node.length; i++) {
      const item = group.item[i];
      step(group.node[i], (next) => add(next, item));
    }
    put();
  }
  const n = out.fn.length;
  const grown = treeOf(n, Int32Array.from(out.fn), Uint8Array.from(out.kind), Int32Array.from(out.depth));
  const total = Float64Array.from(out.total);
  const baseTotal = from.base ? Float64Array.from(out.base) : null;
  return { tree: grown, own: ownOf(grown, total), total, baseOwn: baseTotal && ownOf(grown, baseTotal), baseTotal };
}

/**
 * Self weights from totals.
 * @param {import("./tree.js").Tree} tree
 * @param {Float64Array} total
 */
function ownOf(tree, total) {
  const own = total.slice();
  for (let i = 1; i < tree.n; i++) own[tree.parent[i]] -= total[i];
  return own;
}
