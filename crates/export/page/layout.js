// Layout of the boxes that are wide enough to see.

import { GAP, KIND_IDLE } from "./tree.js";

/** Node of a box that represents adjacent boxes too narrow to draw separately. */
export const NARROW = -1;

/**
 * Boxes, in preorder.
 * @typedef {object} Boxes
 * @property {number} n
 * @property {Int32Array} node or NARROW
 * @property {Float64Array} x left edge, in pixels
 * @property {Float64Array} w width, in pixels
 * @property {Int32Array} row 0 for the outermost
 * @property {number} rows number of rows
 */

/**
 * Shrinks the block of idle threads to at most a tenth of the width if the whole tree is shown. At
 * its true width, it would leave no room.
 * @param {import("./tree.js").Tree} tree
 * @param {Float64Array} size by node
 * @param {number} root shown node
 */
export function squeezed(tree, size, root) {
  if (root !== 0) return size;
  let idle = 1;
  while (idle < tree.end[0] && tree.kind[idle] !== KIND_IDLE) idle = tree.end[idle];
  if (idle >= tree.end[0]) return size;
  const rest = size[0] - size[idle];
  const wide = rest / 9;
  if (!(rest > 0) || size[idle] <= wide) return size;
  const sizes = size.slice();
  for (let i = idle; i < tree.end[idle]; i++) sizes[i] *= wide / size[idle];
  sizes[0] = rest + wide;
  return sizes;
}

/**
 * Lays out a subtree and its ancestors at full width. Skips nodes narrower than half a pixel with
 * their descendants. Adjacent narrow nodes become one box if they are half a pixel wide together.
 * @param {import("./tree.js").Tree} tree
 * @param {Float64Array} size by node; at least the sum of the children
 * @param {number} root node at full width
 * @param {number} width in pixels
 * @param {number} [skip] number of hidden outermost rows
 * @returns {Boxes}
 */
export function layout(tree, size, root, width, skip = 0) {
  const { fn, parent, depth, end } = tree;
  let room = 1024;
  let node = new Int32Array(room);
  let x = new Float64Array(room);
  let w = new Float64Array(room);
  let row = new Int32Array(room);
  let n = 0;
  let rows = 0;
  const put = (/** @type {number} */ i, /** @type {number} */ left, /** @type {number} */ wide, /** @type {number} */ level) => {
    const at = level - skip;
    if (at < 0) return;
    if (n === room) {
      room *= 2;
      const grown = [new Int32Array(room), new Float64Array(room), new Float64Array(room), new Int32Array(room)];
      grown[0].set(node);
      grown[1].set(x);
      grown[2].set(w);
      grown[3].set(row);
      [node, x, w, row] = /** @type {[Int32Array<ArrayBuffer>, Float64Array<ArrayBuffer>, Float64Array<ArrayBuffer>, Int32Array<ArrayBuffer>]} */ (grown);
    }
    node[n] = i;
    x[n] = left;
    w[n] = wide;
    row[n] = at;
    n++;
    if (at >= rows) rows = at + 1;
  };
  /** @type {number[]} */
  const above = [];
  for (let up = root; up !== 0; up = parent[up]) above.push(up);
  above.push(0);
  for (const up of above.reverse()) put(up, 0, width, depth[up]);
  const scale = size[root] > 0 ? width / size[root] : 0;
  // By depth: left edge of the next child, and start of the pending narrow neighbours.
  const next = new Float64Array(tree.deepest + 2);
  const from = new Float64Array(tree.deepest + 2);
  next[depth[root] + 1] = from[depth[root] + 1] = 0;
  const stop = end[root];
  let last = depth[root];
  // Emits the boxes of pending narrow neighbours at all completed depths.
  const close = (/** @type {number} */ down, /** @type {number} */ to) => {
    for (let d = down; d >= to; d--) {
      if (next[d] - from[d] >= 0.5) put(NARROW, from[d], next[d] - from[d], d);
      from[d] = next[d];
    }
  };
  for (let i = root + 1; i < stop; ) {
    const d = depth[i];
    if (last >= d) close(last + 1, d + 1);
    const wide = size[i] * scale;
    const left = next[d];
    next[d] = left + wide;
    if (wide < 0.5) {
      i = end[i];
      last = d;
      continue;
    }
    if (left - from[d] >= 0.5) put(NARROW, from[d], left - from[d], d);
    from[d] = next[d];
    if (fn[i] !== GAP) put(i, left, wide, d);
    next[d + 1] = from[d + 1] = left;
    last = d;
    i++;
  }
  close(last + 1, depth[root] + 1);
  return { n, node, x, w, row, rows };
}

/**
 * Children that are too narrow to draw: number and total weight.
 * @param {import("./tree.js").Tree} tree
 * @param {Float64Array} size by node
 * @param {Float64Array} total weight by node
 * @param {number} node
 * @param {number} root node at full width
 * @param {number} width in pixels
 */
export function narrowBelow(tree, size, total, node, root, width) {
  const narrow = { count: 0, weight: 0 };
  if (node < root || node >= tree.end[root] || !(size[root] > 0)) return narrow;
  for (let i = node + 1; i < tree.end[node]; i = tree.end[i]) {
    if (!(size[i] > 0) || (size[i] * width) / size[root] >= 0.5) continue;
    narrow.count++;
    narrow.weight += total[i];
  }
  return narrow;
}

/**
 * Index of the box at a position; -1 if there is none.
 * @param {Boxes} boxes
 * @param {number} px
 * @param {number} row
 */
export function boxAt(boxes, px, row) {
  for (let i = 0; i < boxes.n; i++) {
    if (boxes.row[i] === row && px >= boxes.x[i] && px < boxes.x[i] + boxes.w[i]) return i;
  }
  return -1;
}
