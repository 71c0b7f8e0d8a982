// Random stacks and their trees, with sums computed without a tree.

import { TreeBuilder } from "../tree.js";

/**
 * Pseudo-random numbers below a limit (xorshift), equal on every machine.
 * @param {number} seed
 */
export function randomOf(seed) {
  let x = seed | 1;
  return (/** @type {number} */ limit) => {
    x ^= x << 13;
    x ^= x >>> 17;
    x ^= x << 5;
    return (x >>> 0) % limit;
  };
}

/**
 * Random stacks with weights, and their tree.
 * @param {number} seed
 * @param {number} functions
 */
export function forest(seed, functions = 6) {
  const random = randomOf(seed);
  const stacks = Array.from({ length: 1 + random(40) }, () => ({
    frames: Array.from({ length: 1 + random(7) }, () => random(functions)),
    weight: 1 + random(9),
  }));
  const builder = new TreeBuilder();
  const leaves = stacks.map(({ frames }) => frames.reduce((node, fn) => builder.child(node, fn, 1), 0));
  const own = new Float64Array(builder.fn.length);
  leaves.forEach((leaf, i) => (own[leaf] += stacks[i].weight));
  const { tree, place } = builder.finish(own);
  const weights = new Float64Array(tree.n);
  own.forEach((weight, node) => (weights[place[node]] += weight));
  return { stacks, tree, own: weights, functions };
}

/**
 * Weight of stacks by key.
 * @param {{frames: number[], weight: number}[]} stacks
 * @param {(frames: number[]) => Iterable<string | number>} keys
 */
export function sumsBy(stacks, keys) {
  /** @type {Map<string | number, number>} */
  const sums = new Map();
  for (const { frames, weight } of stacks) for (const key of new Set(keys(frames))) sums.set(key, (sums.get(key) ?? 0) + weight);
  return sums;
}

/**
 * Folded stacks of a tree: path and self weight.
 * @param {import("../tree.js").Tree} tree
 * @param {Float64Array} own
 */
export function pathsOf(tree, own) {
  /** @type {Map<string, number>} */
  const paths = new Map();
  /** @type {number[]} */
  const path = [];
  for (let i = 0; i < tree.n; i++) {
    path.length = Math.max(0, tree.depth[i] - 1);
    if (i > 0) path.push(tree.fn[i]);
    if (own[i] !== 0) paths.set(path.join(" "), (paths.get(path.join(" ")) ?? 0) + own[i]);
  }
  return paths;
}
