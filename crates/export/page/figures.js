// Figures computed from profile and state. Each is cached until its inputs change.

import { chronicle } from "./chronicle.js";
import { cpuMask, leafMask, taskMask } from "./filter.js";
import { growCallees, growCallers, leafPlaces, placesOf } from "./groups.js";
import { byFunction, byLeaf, eachRow, weightsOf } from "./model.js";
import { underProcesses } from "./processes.js";
import { matched, matches, patternOf } from "./search.js";
import { transformed } from "./transform.js";
import { KIND_WAITING, KINDS, outermost } from "./tree.js";

/** @typedef {import("./model.js").Weights} Weights */

/** Maximum number of wait reasons in the legend. */
const MAX_WAITS = 12;

/** Figures of a profile in a state. */
export class Figures {
  /** @param {import("./profile.js").Profile} profile */
  constructor(profile) {
    this.profile = profile;
    /** Number of functions, and pseudo functions for objects. */
    this.count = profile.functions + profile.meta.objects.length;
    /** @type {Map<string, {key: string, value: any}>} */
    this.kept = new Map();
    /** @type {import("./state.js").State} */
    this.state = /** @type {any} */ (null);
  }

  /**
   * @template T
   * @param {string} name
   * @param {unknown} depends
   * @param {(old: T | null) => T} make gets the outdated value and may reuse its memory: views use
   *   weights only until the next show
   * @returns {T}
   */
  keep(name, depends, make) {
    const key = JSON.stringify(depends);
    const known = this.kept.get(name);
    if (known && known.key === key) return known.value;
    const value = make(known?.value ?? null);
    this.kept.set(name, { key, value });
    return value;
  }

  /** @param {import("./state.js").State} state */
  set(state) {
    this.state = state;
    this.event = state.event >= 0 && state.event < this.profile.meta.events.length ? state.event : this.profile.meta.event;
    /** Common inputs of all sums. */
    this.chosen = [state.filters, state.bySamples, this.event];
  }

  /** True if there is a comparison. */
  get isDiff() {
    return this.profile.oldRows !== null || this.state.base !== null;
  }

  /** Masks of filters. */
  masks() {
    const { profile, state } = this;
    return this.keep("masks", state.filters, () => ({
      task: taskMask(state.filters, profile.tasks),
      cpu: cpuMask(state.filters, profile.cpus),
      leaf: leafMask(state.filters, profile.tree, profile.leaves.node, profile.objectOf, profile.inlined),
    }));
  }

  /**
   * @param {[number, number] | null} time
   * @returns {import("./model.js").Choice}
   */
  choice(time) {
    return { event: this.event ?? 0, bySamples: this.state.bySamples, time, ...this.masks() };
  }

  /**
   * Selects all samples of the event.
   * @param {boolean} bySamples
   * @returns {import("./model.js").Choice}
   */
  everything(bySamples) {
    return { event: this.event ?? 0, bySamples, time: null, task: null, cpu: null, leaf: null };
  }

  /** Tree after transforms, with the node of each leaf. */
  shape() {
    const { profile, state } = this;
    return this.keep("shape", [state.transforms, this.event], () => {
      if (state.transforms.length === 0) return { tree: profile.tree, node: profile.leaves.node, outer: profile.outer };
      const own = weightsOf(profile.tree, byLeaf(profile.rows, profile.leaves.n, this.everything(false)), profile.leaves.node).own;
      const names = { functions: profile.functions, objectOf: profile.objectOf, isEntry: profile.isEntry };
      const { tree, place } = transformed(profile.tree, own, state.transforms, names);
      const node = Int32Array.from(profile.leaves.node, (at) => (place ? place[at] : at));
      return { tree, node, outer: outermost(tree, this.count) };
    });
  }

  /** Selected weights by leaf. */
  leaves() {
    const { profile, state } = this;
    return this.keep("leaves", [this.chosen, state.time], (/** @type {Float64Array | null} */ old) =>
      byLeaf(profile.rows, profile.leaves.n, this.choice(state.time), old),
    );
  }

  /** Baseline weights by leaf. */
  baseLeaves() {
    const { profile, state } = this;
    if (!this.isDiff) return null;
    return this.keep("baseLeaves", [this.chosen, state.base], () =>
      state.base
        ? byLeaf(profile.rows, profile.leaves.n, this.choice(state.base))
        : byLeaf(/** @type {import("./model.js").Rows} */ (profile.oldRows), profile.leaves.n, this.choice(null)),
    );
  }

  /** Weights by node of the tree after transforms. */
  weights() {
    const { state } = this;
    /** @type {(old: {now: Weights, base: Weights | null} | null) => {now: Weights, base: Weights | null}} */
    const make = (old) => {
      const { tree, node } = this.shape();
      const base = this.baseLeaves();
      return { now: weightsOf(tree, this.leaves(), node, old && old.now), base: base && weightsOf(tree, base, node, old && old.base) };
    };
    return this.keep("weights", [this.chosen, state.time, state.base, state.transforms], make);
  }

  /** Selected weight. */
  get whole() {
    return this.weights().now.total[0];
  }

  /** Baseline weight. */
  get baseWhole() {
    return this.weights().base?.total[0] ?? 0;
  }

  /** Weight of all samples of the event. */
  get all() {
    const { profile, state } = this;
    return this.keep("all", [state.bySamples, this.event], () => {
      return byLeaf(profile.rows, profile.leaves.n, this.everything(state.bySamples)).reduce((sum, weight) => sum + weight, 0);
    });
  }

  /** Weights by function. */
  functions() {
    const { state } = this;
    return this.keep("functions", [this.chosen, state.time, state.base, state.transforms], () => {
      const { tree, outer } = this.shape();
      const { now, base } = this.weights();
      return { now: byFunction(tree, now, outer, this.count), base: base && byFunction(tree, base, outer, this.count) };
    });
  }

  /** Sort column of the tables. Comparisons sort by difference by default. */
  get sortedBy() {
    return this.state.sort || (this.isDiff ? "delta" : "own");
  }

  /** Functions with weight, in table order. */
  sorted() {
    const { state, profile } = this;
    return this.keep("sorted", [this.chosen, state.time, state.base, state.transforms, state.sort, state.search], () => {
      const { now, base } = this.functions();
      const marks = this.marks();
      const rows = [];
      for (let fn = 0; fn < this.count; fn++) {
        if (now.total[fn] === 0 && (!base || base.total[fn] === 0)) continue;
        if (marks && !marks[fn]) continue;
        rows.push(fn);
      }
      const delta = (/** @type {number} */ fn) => Math.abs(this.delta(now.own[fn], base ? base.own[fn] : 0));
      const by = {
        own: (/** @type {number} */ a, /** @type {number} */ b) => now.own[b] - now.own[a] || now.total[b] - now.total[a],
        total: (/** @type {number} */ a, /** @type {number} */ b) => now.total[b] - now.total[a] || now.own[b] - now.own[a],
        old: (/** @type {number} */ a, /** @type {number} */ b) => (base ? base.own[b] - base.own[a] : 0),
        delta: (/** @type {number} */ a, /** @type {number} */ b) => delta(b) - delta(a),
        name: (/** @type {number} */ a, /** @type {number} */ b) => (profile.nameOf(a) < profile.nameOf(b) ? -1 : 1),
        object: (/** @type {number} */ a, /** @type {number} */ b) =>
          profile.objectName(profile.objectNumber(a)) < profile.objectName(profile.objectNumber(b)) ? -1 : 1,
      };
      const order = /** @type {Record<string, (a: number, b: number) => number>} */ (by)[this.sortedBy] ?? by.own;
      return rows.sort((a, b) => order(a, b) || a - b);
    });
  }

  /**
   * Difference of shares.
   * @param {number} now
   * @param {number} base
   */
  delta(now, base) {
    return now / (this.whole || 1) - base / (this.baseWhole || 1);
  }

  /** Functions that match the search; `null` without a search. */
  marks() {
    const { state, profile } = this;
    if (state.search === "") return null;
    return this.keep("marks", state.search, () => {
      const pattern = patternOf(state.search);
      if (typeof pattern === "string") return null;
      return matches(pattern, this.count, (fn) => `${profile.nameOf(fn)} ${profile.objectName(profile.objectNumber(fn))}`);
    });
  }

  /**
   * Widths of nodes: selection, baseline, or both by share.
   * @param {Float64Array} total
   * @param {Float64Array | null} base
   */
  sizes(total, base) {
    if (!base || this.state.width === "new") return total;
    if (this.state.width === "old") return base;
    const [now, old] = [this.whole || 1, this.baseWhole || 1];
    return total.map((weight, i) => weight / now + base[i] / old);
  }

  /** Tree of the flame graph. */
  flame() {
    const { state } = this;
    if (this.hasProcesses) return this.underProcesses();
    if (!state.inverted) {
      const { tree } = this.shape();
      const { now, base } = this.weights();
      return { tree, own: now.own, total: now.total, baseOwn: base?.own ?? null, baseTotal: base?.total ?? null };
    }
    return this.keep("inverted", [this.chosen, state.time, state.base, state.transforms, state.zoom], () => {
      const { tree } = this.shape();
      const { now, base } = this.weights();
      return growCallers(tree, leafPlaces(tree, now, base), this.count, Math.max(this.whole, this.baseWhole) / 3000, state.zoom);
    });
  }

  /** True if the flame graph has a level of processes. */
  get hasProcesses() {
    return this.profile.processes.length > 1 && !this.state.inverted && !this.state.noProcesses;
  }

  /** Tree of the flame graph with processes. */
  underProcesses() {
    const { profile, state } = this;
    return this.keep("processes", [this.chosen, state.time, state.base, state.transforms], () => {
      const { tree, node } = this.shape();
      const sides = [{ rows: profile.rows, choice: this.choice(state.time) }];
      if (state.base) sides.push({ rows: profile.rows, choice: this.choice(state.base) });
      else if (profile.oldRows) sides.push({ rows: profile.oldRows, choice: this.choice(null) });
      return underProcesses(tree, node, sides, profile.processOf, profile.processes.length, profile.firstProcess);
    });
  }

  /** Callers and callees of the selected function. */
  sandwich() {
    const { state } = this;
    return this.keep("sandwich", [this.chosen, state.time, state.base, state.transforms, state.fn], () => {
      const { tree, outer } = this.shape();
      const { now, base } = this.weights();
      const places = placesOf(tree, state.fn, outer, now, base);
      const weight = places.weight.reduce((sum, one) => sum + one, 0);
      const least = weight / 2000;
      return {
        callers: growCallers(tree, places, this.count, least),
        callees: growCallees(tree, places, this.count, least, now, base),
      };
    });
  }

  /**
   * Stacks in time order, of the thread with the largest selected weight.
   * @param {number} columns
   */
  chronicle(columns) {
    const { profile, state } = this;
    return this.keep("chronicle", [this.chosen, state.time, state.transforms, columns], () => {
      const { rows } = profile;
      const choice = this.choice(state.time);
      // Merges the names of a renamed thread.
      const { thread, threadName } = profile.called;
      const weights = new Float64Array(threadName.length);
      eachRow(rows, choice, (row) => (weights[thread[rows.task[row]]] += rows.weight[row]));
      let heaviest = 0;
      for (let i = 0; i < weights.length; i++) if (weights[i] > weights[heaviest]) heaviest = i;
      const task = Math.max(0, thread.indexOf(heaviest));
      /** @type {number[]} */
      const chosen = [];
      eachRow(rows, choice, (row) => {
        if (thread[rows.task[row]] === heaviest) chosen.push(row);
      });
      /** @type {[number, number]} */
      const time = state.time ?? [0, rows.n ? rows.time[rows.n - 1] + 1 : 1];
      const gaps = chosen.slice(1, 2000).map((row, i) => rows.time[row] - rows.time[chosen[i]]);
      const usual = gaps.sort((a, b) => a - b)[gaps.length >> 1] ?? 1000;
      const { tree, node } = this.shape();
      const { events, tick, shift } = profile.meta;
      const perTick = events[this.event ?? 0]?.unit === "ns" ? 2 ** shift / tick : 0;
      const reach = (/** @type {number} */ row) => rows.weight[row] * perTick;
      return { task, others: weights.filter((weight) => weight > 0).length - 1, ...chronicle(tree, node, rows, chosen, time, columns, usual * 2.5, reach) };
    });
  }

  /** Source lines of the selected function, or of all functions, with weights. */
  lines() {
    const { profile, state } = this;
    return this.keep("lines", [this.chosen, state.time, state.base, state.fn], () => {
      const now = this.leaves();
      const base = this.baseLeaves();
      const { node, file, line, n } = profile.leaves;
      /** @type {Map<string, {fn: number, file: number, line: number, now: number, base: number}>} */
      const lines = new Map();
      for (let i = 0; i < n; i++) {
        const fn = profile.tree.fn[node[i]];
        if (node[i] === 0 || (state.fn >= 0 && fn !== state.fn) || (now[i] === 0 && !(base && base[i]))) continue;
        const key = `${fn}.${file[i]}.${line[i]}`;
        let entry = lines.get(key);
        if (!entry) lines.set(key, (entry = { fn, file: file[i] - 1, line: line[i], now: 0, base: 0 }));
        entry.now += now[i];
        entry.base += base ? base[i] : 0;
      }
      return [...lines.values()].sort((a, b) => b.now - a.now || b.base - a.base || a.line - b.line);
    });
  }

  /** Self by kind, and the kinds that exist. */
  byKind() {
    const { profile, state } = this;
    const { tree } = profile;
    const isThere = this.keep("kinds", "", () => {
      const is = new Uint8Array(KINDS.length);
      for (let i = 1; i < tree.n; i++) is[tree.kind[i]] = 1;
      return is;
    });
    const own = this.keep("ownByKind", [this.chosen, state.time], () => {
      const sums = new Float64Array(KINDS.length);
      const leaves = this.leaves();
      const { node, n } = profile.leaves;
      for (let i = 0; i < n; i++) if (node[i] !== 0) sums[tree.kind[node[i]]] += leaves[i];
      return sums;
    });
    return { own, isThere };
  }

  /**
   * Functions that represent wait reasons, with weights, heaviest first.
   * @returns {[number, number][]}
   */
  waits() {
    const { profile, state } = this;
    const { tree } = profile;
    return this.keep("waits", [this.chosen, state.time], () => {
      /** @type {Map<number, number>} */
      const sums = new Map();
      const leaves = this.leaves();
      const { node, n } = profile.leaves;
      for (let i = 0; i < n; i++) {
        if (node[i] === 0 || tree.kind[node[i]] !== KIND_WAITING) continue;
        const fn = tree.fn[node[i]];
        sums.set(fn, (sums.get(fn) ?? 0) + leaves[i]);
      }
      return [...sums].sort((a, b) => b[1] - a[1] || a[0] - b[0]).slice(0, MAX_WAITS);
    });
  }

  /** Objects sorted by self of all samples, and their ranks. Filters do not change the colours. */
  objects() {
    return this.keep("objects", this.event, () => {
      const { profile } = this;
      const sums = this.sumsByObject(byLeaf(profile.rows, profile.leaves.n, this.everything(false)));
      const order = Array.from(sums.keys()).sort((a, b) => sums[b] - sums[a] || a - b);
      const ranks = new Int32Array(sums.length);
      order.forEach((object, i) => (ranks[object] = i));
      return { order, ranks };
    });
  }

  /** Selected self by object. */
  ownByObject() {
    return this.keep("ownByObject", [this.chosen, this.state.time], () => this.sumsByObject(this.leaves()));
  }

  /** @param {Float64Array} leaves weights by leaf */
  sumsByObject(leaves) {
    const { profile } = this;
    const { node, n } = profile.leaves;
    const sums = new Float64Array(profile.meta.objects.length);
    for (let i = 0; i < n; i++) if (node[i] !== 0) sums[profile.objectOf[profile.tree.fn[node[i]]]] += leaves[i];
    return sums;
  }

  /** Totals of the search. */
  found() {
    const marks = this.marks();
    if (!marks) return null;
    const { tree } = this.shape();
    const { now } = this.weights();
    let functions = 0;
    const { total } = this.functions().now;
    for (let fn = 0; fn < marks.length; fn++) if (marks[fn] && total[fn] > 0) functions++;
    return { functions, ...matched(tree, now, marks) };
  }

  /**
   * Search totals below a node.
   * @param {import("./groups.js").Grown} grown
   * @param {number} root
   */
  foundBelow(grown, root) {
    const marks = this.marks();
    return marks && matched(grown.tree, grown, marks, root);
  }

  /** Masks of filters and search, without the time range. */
  rowMasks() {
    const { profile } = this;
    const { task, cpu, leaf } = this.masks();
    const marks = this.marks();
    /** @type {Uint8Array | null} */
    let hits = leaf;
    if (marks) {
      hits = this.keep("hits", [this.state.search, this.state.filters], () => {
        const marked = new Uint8Array(profile.tree.n);
        const { fn, parent, n } = profile.tree;
        for (let i = 1; i < n; i++) marked[i] = marked[parent[i]] | marks[fn[i]];
        const { n: leaves, node } = profile.leaves;
        const found = new Uint8Array(leaves);
        for (let i = 0; i < leaves; i++) found[i] = leaf && !leaf[i] ? 0 : marked[node[i]];
        return found;
      });
    }
    return { task, cpu, leaf: hits };
  }
}
