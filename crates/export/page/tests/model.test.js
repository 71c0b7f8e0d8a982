import assert from "node:assert/strict";
import test from "node:test";
import { chronicle } from "../chronicle.js";
import { cpuMask, leafMask, taskMask } from "../filter.js";
import { growCallees, growCallers, leafPlaces, placesOf } from "../groups.js";
import { layout, narrowBelow, NARROW, squeezed } from "../layout.js";
import { byFunction, byLeaf, joinMemory, rowAt } from "../model.js";
import { calledOf, underProcesses } from "../processes.js";
import { matched } from "../search.js";
import { transformed } from "../transform.js";
import { cellsOf, inUse, sumsOf } from "../lanes.js";
import { GAP, KINDS, nodeAt, outermost, totalsOf, TreeBuilder, treeOf } from "../tree.js";
import { forest, pathsOf, randomOf, sumsBy } from "./forest.js";

const SEEDS = Array.from({ length: 60 }, (_, i) => 1 + i * 7919);
const map = (/** @type {Float64Array} */ sums) => new Map([...sums].map((sum, i) => /** @type {[number, number]} */ ([i, sum])).filter(([, sum]) => sum > 0));

test("a tree has the stacks that it was made of", () => {
  for (const seed of SEEDS) {
    const { stacks, tree, own } = forest(seed);
    const expected = sumsBy(stacks, (frames) => [frames.join(" ")]);
    const paths = pathsOf(tree, own);
    assert.equal(paths.size, expected.size);
    for (const [path, weight] of expected) assert.equal(paths.get(String(path)), weight);
  }
});

test("a tree that grows keeps calls of each kind apart", () => {
  const builder = new TreeBuilder();
  const nodes = [0, 1].flatMap((fn) => KINDS.map((_, kind) => builder.child(0, fn, kind)));
  assert.deepEqual(nodes, nodes.map((_, i) => i + 1));
});

test("self and total by function are those of the stacks, recursion counted once", () => {
  for (const seed of SEEDS) {
    const { stacks, tree, own, functions } = forest(seed);
    const sums = byFunction(tree, { own, total: totalsOf(tree, own) }, outermost(tree, functions), functions);
    assert.deepEqual(map(sums.total), new Map([...sumsBy(stacks, (frames) => frames)].sort((a, b) => Number(a[0]) - Number(b[0]))));
    const leaves = sumsBy(stacks, (frames) => [frames[frames.length - 1]]);
    assert.deepEqual(map(sums.own), new Map([...leaves].sort((a, b) => Number(a[0]) - Number(b[0]))));
  }
});

test("the tree turned round has all weight, and of each function its self", () => {
  for (const seed of SEEDS) {
    const { stacks, tree, own, functions } = forest(seed);
    const weights = { own, total: totalsOf(tree, own) };
    const grown = growCallers(tree, leafPlaces(tree, weights, null), functions, 0);
    assert.equal(grown.total[0], weights.total[0]);
    const expected = sumsBy(stacks, (frames) => [frames.slice().reverse().join(" ")]);
    const paths = pathsOf(grown.tree, grown.own);
    assert.equal(paths.size, expected.size);
    for (const [path, weight] of expected) assert.equal(paths.get(String(path)), weight);
    // Zooming to a path does not change the subtree.
    const path = stacks[0].frames.slice().reverse().slice(0, 2);
    const zoomed = pathsOf(...pair(growCallers(tree, leafPlaces(tree, weights, null), functions, 1e9, path)));
    for (const [key, weight] of expected) if (String(key).startsWith(`${path.join(" ")} `)) assert.equal(zoomed.get(String(key)), weight);
  }
});

/** @param {import("../groups.js").Grown} grown @returns {[import("../tree.js").Tree, Float64Array]} */
function pair(grown) {
  return [grown.tree, grown.own];
}

test("callers and callees of a function are those of its outermost calls", () => {
  for (const seed of SEEDS) {
    const { stacks, tree, own, functions } = forest(seed);
    const weights = { own, total: totalsOf(tree, own) };
    const outer = outermost(tree, functions);
    for (let fn = 0; fn < functions; fn++) {
      const places = placesOf(tree, fn, outer, weights, null);
      const with_ = stacks.filter(({ frames }) => frames.includes(fn));
      const callers = pathsOf(...pair(growCallers(tree, places, functions, 0)));
      const callees = pathsOf(...pair(growCallees(tree, places, functions, 0, weights, null)));
      const up = sumsBy(with_, (frames) => [frames.slice(0, frames.indexOf(fn) + 1).reverse().join(" ")]);
      const down = sumsBy(with_, (frames) => [frames.slice(frames.indexOf(fn)).join(" ")]);
      assert.deepEqual([...callers].sort(), [...up].sort());
      assert.deepEqual([...callees].sort(), [...down].sort());
    }
  }
});

test("transforms change stacks as they say, and no weight", () => {
  const rules = {
    drop: (/** @type {number[]} */ frames) => frames.filter((fn) => fn !== 2),
    cut: (/** @type {number[]} */ frames) => (frames.includes(2) ? frames.slice(0, frames.indexOf(2) + 1) : frames),
    root: (/** @type {number[]} */ frames) => (frames.includes(2) ? frames.slice(frames.indexOf(2)) : frames),
    fold: (/** @type {number[]} */ frames) => {
      /** @type {number[]} */
      const out = [];
      for (const fn of frames) out.includes(fn) ? (out.length = out.indexOf(fn) + 1) : out.push(fn);
      return out;
    },
    // Functions 0, 1 and 2 belong to object 0, which becomes function 6.
    object: (/** @type {number[]} */ frames) => frames.map((fn) => (fn < 3 ? 6 : fn)).filter((fn, i, all) => fn !== 6 || all[i - 1] !== 6),
  };
  const names = { functions: 6, objectOf: [0, 0, 0, 1, 1, 1], isEntry: new Uint8Array(6) };
  for (const seed of SEEDS) {
    const { stacks, tree, own } = forest(seed);
    for (const [op, rule] of Object.entries(rules)) {
      const id = op === "object" ? 0 : 2;
      const made = transformed(tree, own, [{ op: /** @type {any} */ (op), id }], names);
      const moved = new Float64Array(made.tree.n);
      own.forEach((weight, node) => (moved[made.place ? made.place[node] : node] += weight));
      const expected = sumsBy(stacks, (frames) => [rule(frames).join(" ")]);
      assert.deepEqual([...pathsOf(made.tree, moved)].sort(), [...expected].sort(), op);
    }
  }
});

test("without runtime, stacks begin at the first function that is no entry", () => {
  const { stacks, tree, own } = forest(5);
  const names = { functions: 6, objectOf: new Uint8Array(6), isEntry: Uint8Array.of(1, 1, 0, 0, 0, 0) };
  const made = transformed(tree, own, [{ op: "start", id: 0 }], names);
  const total = own.reduce((sum, weight) => sum + weight, 0);
  const moved = new Float64Array(made.tree.n);
  own.forEach((weight, node) => (moved[/** @type {Int32Array} */ (made.place)[node]] += weight));
  assert.equal(moved.reduce((sum, weight) => sum + weight, 0), total);
  assert.ok(stacks.length > 0);
  for (let i = 1; i < made.tree.end[0]; i = made.tree.end[i]) assert.ok(made.tree.fn[i] > 1);
});

test("idle threads take a tenth of the width until they are opened", () => {
  // all: idle (90) with two places, and work (9).
  const tree = treeOf(5, Int32Array.of(-1, 0, 1, 2, 3), Uint8Array.of(0, 7, 1, 1, 1), Int32Array.of(0, 1, 2, 2, 1));
  const total = Float64Array.of(99, 90, 60, 30, 9);
  const widths = (/** @type {number} */ root) => {
    const boxes = layout(tree, squeezed(tree, total, root), root, 300);
    return Array.from(boxes.node.subarray(0, boxes.n), (node, i) => [node, Math.round(boxes.w[i])]);
  };
  assert.deepEqual(widths(0), [[0, 300], [1, 30], [2, 20], [3, 10], [4, 270]]);
  assert.deepEqual(widths(1), [[0, 300], [1, 300], [2, 200], [3, 100]]);
  total[0] = 90;
  total[4] = 0;
  assert.equal(squeezed(tree, total, 0), total);
});

test("a layout has all that is wide enough, in its place", () => {
  for (const seed of SEEDS) {
    const { tree, own } = forest(seed);
    const total = totalsOf(tree, own);
    for (const width of [300, 20, 3]) {
      const boxes = layout(tree, total, 0, width);
      const seen = new Map();
      for (let i = 0; i < boxes.n; i++) {
        assert.ok(boxes.x[i] >= -1e-9 && boxes.x[i] + boxes.w[i] <= width + 1e-6);
        assert.ok(boxes.w[i] >= 0.5);
        if (boxes.node[i] !== NARROW) seen.set(boxes.node[i], boxes.w[i]);
      }
      for (let node = 0; node < tree.n; node++) {
        const wide = (total[node] / total[0]) * width;
        if (wide > 0.500001) assert.ok(Math.abs(seen.get(node) - wide) < 1e-6, `${node} of ${wide}`);
        if (wide < 0.499999) assert.equal(seen.get(node), undefined);
      }
      // Boxes of a row do not overlap.
      for (let row = 0; row < boxes.rows; row++) {
        const of = [...Array(boxes.n).keys()].filter((i) => boxes.row[i] === row).sort((a, b) => boxes.x[a] - boxes.x[b]);
        for (let i = 1; i < of.length; i++) assert.ok(boxes.x[of[i]] >= boxes.x[of[i - 1]] + boxes.w[of[i - 1]] - 1e-6);
      }
    }
  }
});

test("frames too narrow to be drawn are counted below their caller", () => {
  const builder = new TreeBuilder();
  const main = builder.child(0, 0, 1);
  for (let fn = 1; fn <= 1000; fn++) builder.child(main, fn, 1);
  const wide = builder.child(main, 1001, 1);
  const own = new Float64Array(builder.fn.length).fill(1);
  [own[0], own[main], own[wide]] = [0, 0, 1000];
  const { tree } = builder.finish(own);
  const total = totalsOf(tree, Float64Array.from({ length: tree.n }, (_, i) => (i < 2 ? 0 : i === 2 ? 1000 : 1)));
  assert.deepEqual(narrowBelow(tree, total, total, 1, 0, 800), { count: 1000, weight: 1000 });
  assert.deepEqual(narrowBelow(tree, total, total, 1, 0, 4000), { count: 0, weight: 0 });
  assert.deepEqual(narrowBelow(tree, total, total, 2, 0, 800), { count: 0, weight: 0 });
});

test("deep trees need no stack", () => {
  const n = 200_000;
  const frames = Int32Array.from({ length: n }, (_, i) => i - 1);
  const depth = Int32Array.from({ length: n }, (_, i) => i);
  return import("../tree.js").then(({ treeOf }) => {
    const tree = treeOf(n, frames, new Uint8Array(n), depth);
    const own = new Float64Array(n);
    own[n - 1] = 1;
    const total = totalsOf(tree, own);
    assert.equal(total[0], 1);
    assert.equal(layout(tree, total, 0, 100).rows, n);
    const grown = growCallers(tree, leafPlaces(tree, { own, total }, null), n, 0);
    assert.equal(grown.tree.n, n);
  });
});

test("rows are chosen by time, task, CPU and leaf", () => {
  const random = randomOf(3);
  const n = 500;
  const time = new Float64Array(n);
  for (let i = 1; i < n; i++) time[i] = time[i - 1] + random(3);
  const of = (/** @type {number} */ limit) => Uint32Array.from({ length: n }, () => random(limit));
  const rows = { n, time, task: of(4), cpu: of(3), leaf: of(10), event: of(2), weight: of(100), samples: new Uint32Array(n).fill(1) };
  for (let round = 0; round < 50; round++) {
    const from = random(300);
    const choice = {
      event: random(2),
      bySamples: random(2) === 1,
      time: /** @type {[number, number] | null} */ (random(2) ? [from, from + 1 + random(200)] : null),
      task: random(2) ? Uint8Array.from({ length: 4 }, () => random(2)) : null,
      cpu: random(2) ? Uint8Array.from({ length: 3 }, () => random(2)) : null,
      leaf: random(2) ? Uint8Array.from({ length: 10 }, () => random(2)) : null,
    };
    const expected = new Float64Array(10);
    for (let i = 0; i < n; i++) {
      if (rows.event[i] !== choice.event) continue;
      if (choice.time && (time[i] < choice.time[0] || time[i] >= choice.time[1])) continue;
      if ((choice.task && !choice.task[rows.task[i]]) || (choice.cpu && !choice.cpu[rows.cpu[i]]) || (choice.leaf && !choice.leaf[rows.leaf[i]])) continue;
      expected[rows.leaf[i]] += choice.bySamples ? 1 : rows.weight[i];
    }
    assert.deepEqual(byLeaf(rows, 10, choice), expected);
  }
  assert.equal(rowAt(rows, -1), 0);
  assert.equal(rowAt(rows, Infinity), n);
});

test("filters of one kind are alternatives, those of several all hold", () => {
  const tasks = { n: 4, pid: [1, 1, 2, -1], tid: [1, 5, 2, -1], comm: [0, 1, 1, 1], process: [0, 0, 1, -1] };
  const mask = (/** @type {[string, number][]} */ ...filters) => [...(taskMask(filters.map(([kind, id]) => ({ kind, id })), tasks) ?? [9])];
  assert.deepEqual(mask(), [9]);
  assert.deepEqual(mask(["tid", 5], ["tid", 2]), [0, 1, 1, 0]);
  assert.deepEqual(mask(["pid", 1], ["comm", 1]), [0, 1, 0, 0]);
  assert.deepEqual([...(cpuMask([{ kind: "cpu", id: 0 }], 2) ?? [])], [0, 1, 0]);
});

test("leaves are filtered by what their stacks have", () => {
  const { stacks, tree, own } = forest(11);
  const nodes = Array.from({ length: tree.n }, (_, i) => i);
  const inlined = new Uint8Array(tree.n);
  const weightOf = (/** @type {[string, number][]} */ ...filters) => {
    const mask = leafMask(filters.map(([kind, id]) => ({ kind, id })), tree, nodes, [0, 0, 0, 1, 1, 1], inlined);
    return own.reduce((sum, weight, i) => sum + (mask && mask[i] ? weight : 0), 0);
  };
  const sum = (/** @type {(frames: number[]) => boolean} */ is) => stacks.filter(({ frames }) => is(frames)).reduce((all, { weight }) => all + weight, 0);
  assert.equal(weightOf(["has", 1], ["has", 2]), sum((frames) => frames.includes(1) || frames.includes(2)));
  assert.equal(weightOf(["has", 1], ["not", 2]), sum((frames) => frames.includes(1) && !frames.includes(2)));
  assert.equal(weightOf(["leaf", 3]), sum((frames) => frames.at(-1) === 3));
  assert.equal(weightOf(["dso", 1]), sum((frames) => (frames.at(-1) ?? 0) > 2));
});

test("a search tells what share of the stacks it found", () => {
  for (const seed of SEEDS) {
    const { stacks, tree, own } = forest(seed);
    const weights = { own, total: totalsOf(tree, own) };
    const marks = Uint8Array.of(0, 1, 0, 1, 0, 0);
    const is = (/** @type {number} */ fn) => fn === 1 || fn === 3;
    const found = matched(tree, weights, marks);
    assert.equal(found.total, stacks.filter(({ frames }) => frames.some(is)).reduce((all, { weight }) => all + weight, 0));
    assert.equal(found.own, stacks.filter(({ frames }) => is(frames.at(-1) ?? 0)).reduce((all, { weight }) => all + weight, 0));
  }
});

test("in order of time, neighbours share their calls and gaps stay", () => {
  const { tree } = forest(21);
  const rows = /** @type {any} */ ({ n: 4, time: Float64Array.of(0, 1, 2, 50), leaf: [1, 1, 2, 1] });
  const nodes = [0, tree.n - 1, 1];
  const made = chronicle(tree, nodes, rows, [0, 1, 2, 3], [0, 60], 1000, 2);
  assert.equal(made.size[0], 60);
  const calls = [...made.tree.fn].filter((fn, i) => made.tree.depth[i] === 1);
  assert.deepEqual(calls.filter((fn) => fn === GAP).length, 2);
  assert.equal(made.own.reduce((sum, ticks) => sum + ticks, 0), 60);
});

test("in order of time, a wait reaches back as far as it is known to", () => {
  const { tree } = forest(21);
  const rows = /** @type {any} */ ({ n: 2, time: Float64Array.of(0, 50), leaf: [1, 1], weight: [1, 40] });
  const made = chronicle(tree, [0, tree.n - 1], rows, [0, 1], [0, 51], 1000, 2, (row) => rows.weight[row]);
  const gaps = [...made.tree.fn].flatMap((fn, i) => (fn === GAP ? [made.size[i]] : []));
  assert.deepEqual(gaps, [10]);
});

test("the time line sums up what is chosen, by lane and time", () => {
  const rows = /** @type {any} */ ({ n: 5, time: Float64Array.of(0, 9, 10, 25, 39), task: [0, 1, 0, 2, 0], cpu: [1, 1, 2, 2, 1], leaf: [0, 0, 1, 1, 0], event: [0, 0, 0, 0, 1], weight: [1, 2, 4, 8, 16] });
  // Task 2 has no separate lane.
  const cells = cellsOf(rows, 0, 4, 10, { of: Int32Array.of(0, 1, 2), isCpu: false }, 2);
  assert.deepEqual([...cells], [0, 4, 1, 10, -1]);
  const all = { task: null, cpu: null, leaf: null };
  assert.deepEqual([...sumsOf(rows, cells, 12, all)], [1, 4, 0, 0, 2, 0, 0, 0, 0, 0, 8, 0]);
  assert.deepEqual([...sumsOf(rows, cells, 12, { ...all, cpu: Uint8Array.of(0, 0, 1) })].filter(Boolean), [4, 8]);
  assert.deepEqual([...sumsOf(rows, cells, 12, { ...all, leaf: Uint8Array.of(1, 0) })].filter(Boolean), [1, 2]);
  assert.deepEqual([...cellsOf(rows, 0, 4, 10, null, 0)], [0, 0, 1, 2, -1]);
});

/** Rows of one event, from task, leaf and weight. */
const rowsOf = (/** @type {[number, number, number][]} */ list) =>
  /** @type {any} */ ({ n: list.length, time: list.map((_, i) => i), task: list.map(([task]) => task), cpu: list.map(() => 1), leaf: list.map(([, leaf]) => leaf), event: list.map(() => 0), weight: list.map(([, , weight]) => weight), samples: list.map(() => 1) });
const ALL = { event: 0, bySamples: false, time: null, task: null, cpu: null, leaf: null };

test("threads and processes are called by the name that had most samples", () => {
  // In process 5, thread 5 was `sh`, then `python`; thread 6 is `worker`. Process 7 ended with name
  // 4, and its main thread has no samples.
  const tasks = { n: 5, pid: [5, 5, 5, 7, -1], tid: [5, 5, 6, 8, -1], comm: [0, 1, 2, 3, 0], process: [1, 1, 1, 4, -1] };
  const rows = rowsOf([[0, 0, 1], [1, 0, 1], [1, 0, 1], [2, 0, 9], [2, 0, 9], [2, 0, 9], [3, 0, 1], [4, 0, 1]]);
  const { thread, threadName, processName } = calledOf(tasks, [rows]);
  assert.deepEqual([...thread].map((one) => threadName[one]), [1, 1, 2, 3, 0]);
  assert.equal(new Set(thread).size, 4);
  assert.deepEqual([...processName], [1, 1, 1, 4, 0]);
});

test("stacks of each process stand below it, and idle threads below none", () => {
  const random = randomOf(12);
  for (const seed of SEEDS.slice(0, 20)) {
    const { stacks, tree, own } = forest(seed);
    const idle = 1;
    tree.kind[idle] = KINDS.indexOf("idle");
    const total = totalsOf(tree, own);
    const rows = rowsOf(stacks.map(({ frames, weight }) => [random(4), nodeAt(tree, total, frames), weight]));
    const nodeOf = Int32Array.from({ length: tree.n }, (_, i) => i);
    const grown = underProcesses(tree, nodeOf, [{ rows, choice: ALL }, { rows, choice: { ...ALL, bySamples: true } }], Int32Array.of(0, 1, 1, 2), 3, 100);
    /** @type {Map<string, number>} */
    const expected = new Map();
    for (let i = 0; i < rows.n; i++) {
      const frames = stacks[i].frames;
      const isIdle = rows.leaf[i] >= idle && rows.leaf[i] < tree.end[idle];
      const key = (isIdle ? frames : [100 + [0, 1, 1, 2][rows.task[i]], ...frames]).join(" ");
      expected.set(key, (expected.get(key) ?? 0) + rows.weight[i]);
    }
    assert.deepEqual(new Map([...pathsOf(grown.tree, grown.own)].sort()), new Map([...expected].sort()));
    assert.equal(grown.total[0], totalsOf(tree, own)[0]);
    assert.equal(grown.baseTotal?.[0], rows.n);
    const top = [];
    for (let i = 1; i < grown.tree.n; i = grown.tree.end[i]) if (grown.tree.kind[i] === 0) top.push(grown.total[i] + grown.baseTotal[i]);
    assert.deepEqual(top, top.toSorted((a, b) => b - a));
  }
});

test("a path leads to its node, as far as there is one", () => {
  const { stacks, tree, own } = forest(31);
  const total = totalsOf(tree, own);
  const names = (/** @type {number} */ node) => {
    const path = [];
    for (let i = node; i !== 0; i = tree.parent[i]) path.push(tree.fn[i]);
    return path.reverse();
  };
  for (const { frames } of stacks) {
    assert.deepEqual(names(nodeAt(tree, total, frames)), frames);
    assert.deepEqual(names(nodeAt(tree, total, [...frames, 99])), frames);
  }
});

test("memory of a range is what it gained and did not give back", () => {
  // Stack 0 gains 10 and gives 4 back; stack 1 gains 5 before, and gives it back in the range.
  const rows = { n: 4, time: Float64Array.of(1, 2, 3, 4), task: [0, 0, 0, 0], cpu: [0, 0, 0, 0], leaf: [1, 0, 0, 1], event: [0, 0, 2, 2], weight: [5, 10, 4, 5], samples: [1, 1, 1, 1] };
  joinMemory(rows, [{ name: "resident-memory" }, { name: "peak-memory" }, { name: "memory-release" }]);
  const choice = { event: 0, bySamples: false, task: null, cpu: null, leaf: null };
  const of = (/** @type {[number, number] | null} */ time) => [...byLeaf(rows, 2, { ...choice, time })];
  assert.deepEqual(of(null), [6, 0]);
  assert.deepEqual(of([0, 3]), [10, 5]);
  assert.deepEqual(of([2, 5]), [6, 0]);
  const cells = cellsOf(rows, 0, 5, 1, null, 0);
  assert.deepEqual([...inUse(sumsOf(rows, cells, 5, choice), 5)], [0, 5, 15, 11, 6]);
});
