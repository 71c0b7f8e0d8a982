// Stacks of one thread in time order, as a tree. Adjacent samples share their common calls.

import { GAP, NO_FUNCTION, treeOf } from "./tree.js";

/**
 * Builds the tree. Time is divided into `columns` parts, and each part keeps only its last sample.
 * @param {import("./tree.js").Tree} tree
 * @param {ArrayLike<number>} nodes node by leaf
 * @param {import("./model.js").Rows} rows
 * @param {number[]} chosen numbers of one thread's rows, in order
 * @param {[number, number]} time first tick, and the first tick after the end
 * @param {number} columns
 * @param {number} longest maximum ticks that a sample represents
 * @param {(row: number) => number} [reach] known ticks before it that a row represents
 * @returns {{tree: import("./tree.js").Tree, size: Float64Array, own: Float64Array}} sizes in ticks
 */
export function chronicle(tree, nodes, rows, chosen, time, columns, longest, reach = () => 0) {
  const fn = [NO_FUNCTION];
  const kind = [0];
  const depth = [0];
  const size = [0];
  const own = [0];
  /** Tree nodes on the path to the last sample, and their copies. @type {number[]} */
  let path = [];
  /** @type {number[]} */
  let open = [];
  let until = time[0];
  const put = (/** @type {number} */ f, /** @type {number} */ k, /** @type {number} */ d) => {
    fn.push(f);
    kind.push(k);
    depth.push(d);
    size.push(0);
    own.push(0);
    return fn.length - 1;
  };
  const gap = (/** @type {number} */ to) => {
    const id = put(GAP, 0, 1);
    size[id] = own[id] = to - until;
    size[0] += to - until;
    [path, open] = [[], []];
    until = to;
  };
  const scale = columns / Math.max(1, time[1] - time[0]);
  for (let at = 0; at < chosen.length; at++) {
    const row = chosen[at];
    const now = rows.time[row] + 1;
    const after = at + 1 < chosen.length ? rows.time[chosen[at + 1]] + 1 : Infinity;
    if (Math.floor((now - time[0]) * scale) === Math.floor((after - time[0]) * scale)) continue;
    const begin = Math.max(until, now - Math.max(longest, reach(row), 1 / scale));
    if (begin > until) gap(begin);
    const span = now - until;
    if (span <= 0) continue;
    until = now;
    const next = [];
    for (let node = nodes[rows.leaf[row]]; node !== 0; node = tree.parent[node]) next.push(node);
    next.reverse();
    let same = 0;
    while (same < path.length && same < next.length && path[same] === next[same]) same++;
    open.length = same;
    for (let d = same; d < next.length; d++) open.push(put(tree.fn[next[d]], tree.kind[next[d]], d + 1));
    path = next;
    for (const id of open) size[id] += span;
    size[0] += span;
    own[open.length ? open[open.length - 1] : 0] += span;
  }
  if (until < time[1]) gap(time[1]);
  const made = treeOf(fn.length, Int32Array.from(fn), Uint8Array.from(kind), Int32Array.from(depth));
  return { tree: made, size: Float64Array.from(size), own: Float64Array.from(own) };
}
