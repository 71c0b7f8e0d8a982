// Display names of renamed threads and processes, and the process level above the stacks.

import { eachRow } from "./model.js";
import { KIND_IDLE, NO_FUNCTION, totalsOf, treeOf } from "./tree.js";

/** Kind of a pseudo frame. */
const KIND_THREAD = 0;

/**
 * Threads by name, as columns. A renamed thread occurs once per name.
 * @typedef {{n: number, pid: ArrayLike<number>, tid: ArrayLike<number>, comm: ArrayLike<number>, process: ArrayLike<number>}} Tasks
 */

/**
 * Display names of threads and processes: the names with the most samples.
 * @typedef {object} Called
 * @property {Int32Array} thread thread number, by task
 * @property {number[]} threadName name by thread
 * @property {Int32Array} processName process name, by task
 */

/**
 * @param {Tasks} tasks
 * @param {import("./model.js").Rows[]} sides
 * @returns {Called}
 */
export function calledOf(tasks, sides) {
  const samples = new Float64Array(tasks.n);
  for (const rows of sides) for (let i = 0; i < rows.n; i++) samples[rows.task[i]] += rows.samples[i];
  /** @type {Map<string, number>} */
  const numbers = new Map();
  const thread = new Int32Array(tasks.n);
  const names = new Heaviest();
  const processes = new Heaviest();
  for (let i = 0; i < tasks.n; i++) {
    const [pid, tid] = [tasks.pid[i], tasks.tid[i]];
    // Without a tid, each name is a separate thread.
    const key = tid < 0 ? `c${tasks.comm[i]}.${pid}` : `${pid}.${tid}`;
    const number = numbers.get(key) ?? numbers.size;
    numbers.set(key, number);
    thread[i] = number;
    names.add(number, tasks.comm[i], samples[i]);
    // Prefers the names of the main thread, then the last name of the process, then other threads.
    if (pid < 0) continue;
    const rank = tid === pid && samples[i] > 0 ? 2 : tasks.process[i] >= 0 ? 1 : 0;
    processes.add(pid, rank === 1 ? tasks.process[i] : tasks.comm[i], samples[i], rank);
  }
  const processName = Int32Array.from({ length: tasks.n }, (_, i) => (tasks.pid[i] < 0 ? tasks.comm[i] : processes.of(tasks.pid[i])));
  return { thread, threadName: Array.from({ length: numbers.size }, (_, number) => names.of(number)), processName };
}

/** Heaviest name of each thing. */
class Heaviest {
  constructor() {
    /** @type {Map<number, Map<number, [number, number]>>} */
    this.sums = new Map();
  }

  /**
   * @param {number} thing
   * @param {number} name
   * @param {number} weight
   * @param {number} [rank] names of higher rank win, whatever their weight
   */
  add(thing, name, weight, rank = 0) {
    const names = this.sums.get(thing) ?? new Map();
    const [old, sum] = names.get(name) ?? [0, 0];
    names.set(name, rank > old ? [rank, weight] : [old, rank === old ? sum + weight : sum]);
    this.sums.set(thing, names);
  }

  /** @param {number} thing */
  of(thing) {
    const names = [...(this.sums.get(thing) ?? [])];
    names.sort(([a, [rankA, sumA]], [b, [rankB, sumB]]) => rankB - rankA || sumB - sumA || a - b);
    return names.length ? names[0][0] : 0;
  }
}

/**
 * One side of the view: rows and selection.
 * @typedef {{rows: import("./model.js").Rows, choice: import("./model.js").Choice}} Side
 */

/**
 * Puts stacks below their processes, heaviest first. Idle threads stay one common block.
 * @param {import("./tree.js").Tree} tree
 * @param {ArrayLike<number>} nodeOf node by leaf
 * @param {Side[]} sides selection and baseline
 * @param {Int32Array} groupOf process by task
 * @param {number} groups number of processes
 * @param {number} first pseudo function of the first process
 * @returns {import("./groups.js").Grown}
 */
export function underProcesses(tree, nodeOf, sides, groupOf, groups, first) {
  const isIdle = new Uint8Array(tree.n);
  for (let i = 1; i < tree.n; i = tree.end[i]) if (tree.kind[i] === KIND_IDLE) isIdle.fill(1, i, tree.end[i]);
  // Rows by process, with idle threads last.
  const parts = sides.map(({ rows, choice }) => {
    const group = (/** @type {number} */ row) => (isIdle[nodeOf[rows.leaf[row]]] ? groups : groupOf[rows.task[row]]);
    const starts = new Int32Array(groups + 2);
    eachRow(rows, choice, (row) => starts[group(row) + 1]++);
    for (let i = 1; i < starts.length; i++) starts[i] += starts[i - 1];
    const order = new Int32Array(starts[groups + 1]);
    const next = starts.slice();
    const totals = new Float64Array(groups + 1);
    const amount = choice.bySamples ? rows.samples : rows.weight;
    eachRow(rows, choice, (row) => {
      const at = group(row);
      order[next[at]++] = row;
      totals[at] += amount[row];
    });
    return { rows, amount, starts, order, totals };
  });
  const total = (/** @type {number} */ group) => parts.reduce((sum, { totals }) => sum + totals[group], 0);
  const order = Array.from({ length: groups + 1 }, (_, group) => group).filter((group) => total(group) > 0);
  order.sort((a, b) => total(b) - total(a) || a - b);
  /** @type {{fn: number[], kind: number[], depth: number[], own: number[][]}} */
  const out = { fn: [NO_FUNCTION], kind: [KIND_THREAD], depth: [0], own: sides.map(() => [0]) };
  const seen = new Int32Array(tree.n).fill(-1);
  const sums = sides.map(() => new Float64Array(tree.n));
  for (const group of order) {
    /** @type {number[]} */
    const nodes = [];
    parts.forEach(({ rows, amount, starts, order }, side) => {
      for (let i = starts[group]; i < starts[group + 1]; i++) {
        const node = nodeOf[rows.leaf[order[i]]];
        sums[side][node] += amount[order[i]];
        for (let up = node; up !== 0 && seen[up] !== group; up = tree.parent[up]) {
          seen[up] = group;
          nodes.push(up);
        }
      }
    });
    const level = group < groups ? 1 : 0;
    if (level) {
      out.fn.push(first + group);
      out.kind.push(KIND_THREAD);
      out.depth.push(1);
      // Samples without a stack.
      sums.forEach((sum, side) => out.own[side].push(Math.max(0, sum[0])));
    }
    // Node numbers are in preorder.
    for (const node of Int32Array.from(nodes).sort()) {
      out.fn.push(tree.fn[node]);
      out.kind.push(tree.kind[node]);
      out.depth.push(tree.depth[node] + level);
      sums.forEach((sum, side) => out.own[side].push(Math.max(0, sum[node])));
    }
    for (const sum of sums) {
      sum[0] = 0;
      for (const node of nodes) sum[node] = 0;
    }
  }
  const made = treeOf(out.fn.length, Int32Array.from(out.fn), Uint8Array.from(out.kind), Int32Array.from(out.depth));
  const [own, baseOwn] = out.own.map((list) => Float64Array.from(list));
  return { tree: made, own, total: totalsOf(made, own), baseOwn: baseOwn ?? null, baseTotal: baseOwn ? totalsOf(made, baseOwn) : null };
}
