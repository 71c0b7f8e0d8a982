// Weights of the selected samples, by node and by function.

import { totalsOf } from "./tree.js";

/**
 * Samples of one side in time order, as columns.
 * @typedef {object} Rows
 * @property {number} n
 * @property {Float64Array} time in ticks from the first sample
 * @property {ArrayLike<number>} task
 * @property {ArrayLike<number>} cpu CPU number plus 1; 0 if unknown
 * @property {ArrayLike<number>} leaf
 * @property {ArrayLike<number>} event
 * @property {ArrayLike<number>} weight
 * @property {ArrayLike<number>} samples
 * @property {number} [memory] event of memory over time, whose weights are negative where memory was given back
 */

/**
 * Selection of samples. `null` selects all.
 * @typedef {object} Choice
 * @property {number} event
 * @property {boolean} bySamples weigh each sample as 1
 * @property {[number, number] | null} time first tick, and the first tick after the end
 * @property {Uint8Array | null} task by task
 * @property {Uint8Array | null} cpu by number plus 1
 * @property {Uint8Array | null} leaf by leaf
 */

/**
 * Joins the two events of memory over time: gains and releases become one event with signed weights.
 * @param {Rows} rows
 * @param {{name: string}[]} events
 */
export function joinMemory(rows, events) {
  const release = events.findIndex(({ name }) => name === "memory-release");
  const memory = events.findIndex(({ name }) => name === "resident-memory" || name === "heap-memory");
  if (memory < 0 || !Array.prototype.includes.call(rows.event, release)) return;
  const weight = Float64Array.from(rows.weight);
  const event = Uint32Array.from(rows.event);
  const samples = Uint32Array.from(rows.samples);
  for (let i = 0; i < rows.n; i++) {
    if (event[i] !== release) continue;
    [event[i], weight[i], samples[i]] = [memory, -weight[i], 0];
  }
  Object.assign(rows, { weight, event, samples, memory });
}

/**
 * First row at or after a time.
 * @param {Rows} rows
 * @param {number} time
 */
export function rowAt(rows, time) {
  let low = 0;
  let high = rows.n;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (rows.time[middle] < time) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * Calls `each` with the number of every selected row.
 * @param {Rows} rows
 * @param {Choice} choice
 * @param {(row: number) => void} each
 */
export function eachRow(rows, choice, each) {
  const { task, cpu, leaf, event } = choice;
  const from = choice.time ? rowAt(rows, choice.time[0]) : 0;
  const to = choice.time ? rowAt(rows, choice.time[1]) : rows.n;
  for (let i = from; i < to; i++) {
    if (rows.event[i] !== event) continue;
    if (task && !task[rows.task[i]]) continue;
    if (cpu && !cpu[rows.cpu[i]]) continue;
    if (leaf && !leaf[rows.leaf[i]]) continue;
    each(i);
  }
}

/**
 * Sums up the weights of the selected samples by leaf.
 * @param {Rows} rows
 * @param {number} leaves number of leaves
 * @param {Choice} choice
 * @param {Float64Array | null} [into] unused sums to overwrite, because allocating costs more than
 *   summing
 * @returns {Float64Array}
 */
export function byLeaf(rows, leaves, choice, into = null) {
  const sums = into && into.length === leaves ? into.fill(0) : new Float64Array(leaves);
  const amount = choice.bySamples ? rows.samples : rows.weight;
  const { task, cpu, leaf, event } = choice;
  const from = choice.time ? rowAt(rows, choice.time[0]) : 0;
  const to = choice.time ? rowAt(rows, choice.time[1]) : rows.n;
  // Performance-critical: every filter change runs this loop.
  for (let i = from; i < to; i++) {
    if (rows.event[i] !== event) continue;
    if (task !== null && task[rows.task[i]] === 0) continue;
    if (cpu !== null && cpu[rows.cpu[i]] === 0) continue;
    sums[rows.leaf[i]] += amount[i];
  }
  // A stack that gave back more than it gained in the range added nothing.
  if (event === rows.memory) for (let i = 0; i < leaves; i++) if (sums[i] < 0) sums[i] = 0;
  if (leaf) for (let i = 0; i < leaves; i++) if (!leaf[i]) sums[i] = 0;
  return sums;
}

/**
 * Sums by node.
 * @typedef {object} Weights
 * @property {Float64Array} own
 * @property {Float64Array} total
 */

/**
 * Sums up leaf weights by node.
 * @param {import("./tree.js").Tree} tree
 * @param {Float64Array} leaves weights by leaf
 * @param {ArrayLike<number>} nodes node by leaf
 * @param {Weights | null} [into] unused weights to overwrite
 * @returns {Weights}
 */
export function weightsOf(tree, leaves, nodes, into = null) {
  const own = into && into.own.length === tree.n ? into.own.fill(0) : new Float64Array(tree.n);
  for (let i = 0; i < leaves.length; i++) own[nodes[i]] += leaves[i];
  return { own, total: totalsOf(tree, own, into && into.total) };
}

/**
 * Sums up weights by function. Each sample counts once per function, even if the function recurs.
 * @param {import("./tree.js").Tree} tree
 * @param {Weights} weights
 * @param {Uint8Array} outer marks outermost nodes of their function
 * @param {number} functions number of functions
 * @returns {Weights}
 */
export function byFunction(tree, weights, outer, functions) {
  const own = new Float64Array(functions);
  const total = new Float64Array(functions);
  const fn = tree.fn;
  for (let i = 1; i < tree.n; i++) {
    own[fn[i]] += weights.own[i];
    if (outer[i]) total[fn[i]] += weights.total[i];
  }
  return { own, total };
}
