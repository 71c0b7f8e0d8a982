// Transforms of the tree that remove or merge frames. The total weight stays the same.

import { TreeBuilder } from "./tree.js";

/**
 * Transform in the state.
 * - `fold`: merges recursive calls of a function into one frame
 * - `drop`: removes frames of a function; callers inherit the weight
 * - `cut`: removes everything below a function; the function inherits the weight
 * - `root`: starts stacks at a function's outermost frame; other stacks stay
 * - `object`: merges adjacent frames of an object into one, named after it
 * - `start`: removes frames outside of a thread's first own function (`main`)
 * @typedef {{op: "fold" | "drop" | "cut" | "root" | "object" | "start", id: number}} Transform
 */

/**
 * Applies transforms in order.
 * @param {import("./tree.js").Tree} tree
 * @param {Float64Array} own self weights of all samples by node, for sorting children
 * @param {Transform[]} transforms
 * @param {{functions: number, objectOf: ArrayLike<number>, isEntry: Uint8Array}} names
 * @returns {{tree: import("./tree.js").Tree, place: Int32Array | null}} the tree, and the node of each node of the first
 */
export function transformed(tree, own, transforms, names) {
  /** @type {Int32Array | null} */
  let place = null;
  let weights = own;
  for (const transform of transforms) {
    const step = apply(tree, weights, transform, names);
    const moved = new Float64Array(step.tree.n);
    for (let i = 0; i < tree.n; i++) moved[step.place[i]] += weights[i];
    if (place) for (let i = 0; i < place.length; i++) place[i] = step.place[place[i]];
    else place = step.place;
    tree = step.tree;
    weights = moved;
  }
  return { tree, place };
}

/**
 * @param {import("./tree.js").Tree} tree
 * @param {Float64Array} own
 * @param {Transform} transform
 * @param {{functions: number, objectOf: ArrayLike<number>, isEntry: Uint8Array}} names
 */
function apply(tree, own, { op, id }, names) {
  const builder = new TreeBuilder();
  const { n, fn, kind, parent } = tree;
  const image = new Int32Array(n);
  const objectOf = (/** @type {number} */ f) => (f < names.functions ? names.objectOf[f] : f - names.functions);
  // For `root` and `start`: nodes at or below the new start of a stack.
  const isBelow = new Uint8Array(n);
  const holdsEntry = op === "start" ? holding(tree, names.isEntry) : null;
  for (let i = 1; i < n; i++) {
    const up = image[parent[i]];
    const f = fn[i];
    switch (op) {
      case "fold": {
        let same = up;
        while (same !== 0 && builder.fn[same] !== f) same = builder.parent[same];
        image[i] = same !== 0 ? same : builder.child(up, f, kind[i]);
        break;
      }
      case "drop":
        image[i] = f === id ? up : builder.child(up, f, kind[i]);
        break;
      case "cut":
        image[i] = up !== 0 && builder.fn[up] === id ? up : builder.child(up, f, kind[i]);
        break;
      case "root":
        isBelow[i] = isBelow[parent[i]] | (f === id ? 1 : 0);
        image[i] = builder.child(f === id && !isBelow[parent[i]] ? 0 : up, f, kind[i]);
        break;
      case "object": {
        const whole = names.functions + id;
        if (objectOf(f) !== id) image[i] = builder.child(up, f, kind[i]);
        else image[i] = up !== 0 && builder.fn[up] === whole ? up : builder.child(up, whole, kind[i]);
        break;
      }
      case "start": {
        const isRuntime = !isBelow[parent[i]] && f < names.functions && names.isEntry[f] !== 0;
        // A stack without such a function begins in the middle, and stays.
        isBelow[i] = isRuntime || (holdsEntry !== null && holdsEntry[i] && !isBelow[parent[i]]) ? 0 : 1;
        image[i] = isBelow[i] ? builder.child(up, f, kind[i]) : up;
        break;
      }
    }
  }
  const sums = new Float64Array(builder.fn.length);
  for (let i = 0; i < n; i++) sums[image[i]] += own[i];
  const { tree: made, place } = builder.finish(sums);
  for (let i = 0; i < n; i++) image[i] = place[image[i]];
  return { tree: made, place: image };
}

/**
 * Marks nodes that have a marked function at or below them.
 * @param {import("./tree.js").Tree} tree
 * @param {Uint8Array} marks by function
 */
function holding(tree, marks) {
  const is = new Uint8Array(tree.n);
  for (let i = tree.n - 1; i > 0; i--) {
    if (marks[tree.fn[i]]) is[i] = 1;
    if (is[i]) is[tree.parent[i]] = 1;
  }
  return is;
}
