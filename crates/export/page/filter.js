// Filters: which samples are chosen. Those of one kind are alternatives, those of several all hold.

/**
 * Filter of a kind, with a number that tells what is wanted:
 * - `tid`, `pid`: ids; `comm`, `process`: names of threads and processes, by their number; `cpu`: a CPU
 * - `leaf`: function in which samples were taken, or into which a call was inlined that was; `dso`: its object
 * - `kind`: kind of the function in which samples were taken
 * - `has`, `not`: function that is, or is not, anywhere in the stack
 * - `in`, `out`: number of a search by which stacks are kept or left out
 * @typedef {{kind: string, id: number}} Filter
 */

/** Kinds of filters, and what they are called. */
export const FILTER_NAMES = new Map([
  ["pid", "process"],
  ["tid", "thread"],
  ["comm", "thread name"],
  ["process", "process name"],
  ["cpu", "CPU"],
  ["leaf", "taken in"],
  ["dso", "taken in object"],
  ["kind", "taken in"],
  ["has", "has"],
  ["not", "has not"],
]);

/**
 * Tasks that filters choose; `null` for all.
 * @param {Filter[]} filters
 * @param {{n: number, pid: ArrayLike<number>, tid: ArrayLike<number>, comm: ArrayLike<number>, process: ArrayLike<number>}} tasks
 * @returns {Uint8Array | null}
 */
export function taskMask(filters, tasks) {
  const columns = /** @type {[string, ArrayLike<number>][]} */ ([
    ["pid", tasks.pid],
    ["tid", tasks.tid],
    ["comm", tasks.comm],
    ["process", tasks.process],
  ]);
  /** @type {Uint8Array | null} */
  let mask = null;
  for (const [kind, column] of columns) {
    const wanted = wantedOf(filters, kind);
    if (wanted === null) continue;
    mask ??= new Uint8Array(tasks.n).fill(1);
    for (let i = 0; i < tasks.n; i++) if (!wanted.has(column[i])) mask[i] = 0;
  }
  return mask;
}

/**
 * CPUs that filters choose, by number plus 1; `null` for all.
 * @param {Filter[]} filters
 * @param {number} most the largest number plus 1
 * @returns {Uint8Array | null}
 */
export function cpuMask(filters, most) {
  const wanted = wantedOf(filters, "cpu");
  if (wanted === null) return null;
  const mask = new Uint8Array(most + 1);
  for (const cpu of wanted) if (cpu + 1 <= most) mask[cpu + 1] = 1;
  return mask;
}

/**
 * Leaves that filters choose; `null` for all.
 * @param {Filter[]} filters
 * @param {import("./tree.js").Tree} tree
 * @param {ArrayLike<number>} nodes node by leaf
 * @param {ArrayLike<number>} objectOf object by function
 * @param {ArrayLike<number>} inlined whether the call of a node was inlined
 * @returns {Uint8Array | null}
 */
export function leafMask(filters, tree, nodes, objectOf, inlined) {
  /** @type {Uint8Array | null} */
  let mask = null;
  const narrow = (/** @type {(node: number) => boolean} */ is) => {
    mask ??= new Uint8Array(nodes.length).fill(1);
    for (let i = 0; i < nodes.length; i++) if (mask[i] && !is(nodes[i])) mask[i] = 0;
  };
  const objects = wantedOf(filters, "dso");
  if (objects) narrow((node) => node !== 0 && objects.has(objectOf[tree.fn[node]]));
  const kinds = wantedOf(filters, "kind");
  if (kinds) narrow((node) => kinds.has(tree.kind[node]));
  const leaves = wantedOf(filters, "leaf");
  if (leaves) {
    narrow((node) => {
      for (let at = node; at !== 0; at = tree.parent[at]) {
        if (leaves.has(tree.fn[at])) return true;
        if (!inlined[at]) return false;
      }
      return false;
    });
  }
  const has = wantedOf(filters, "has");
  if (has) {
    const marked = below(tree, has, objectOf.length);
    narrow((node) => marked[node] === 1);
  }
  const not = wantedOf(filters, "not");
  if (not) {
    const marked = below(tree, not, objectOf.length);
    narrow((node) => marked[node] === 0);
  }
  return mask;
}

/**
 * Marks nodes whose stack has one of some functions.
 * @param {import("./tree.js").Tree} tree
 * @param {Set<number>} functions
 * @param {number} count number of all functions
 */
export function below(tree, functions, count) {
  const marked = new Uint8Array(tree.n);
  const { n, fn, parent } = tree;
  // A set that is asked for each of a million nodes takes ten times as long.
  const wanted = new Uint8Array(count);
  for (const one of functions) if (one < count) wanted[one] = 1;
  for (let i = 1; i < n; i++) marked[i] = marked[parent[i]] | wanted[fn[i]];
  return marked;
}

/**
 * @param {Filter[]} filters
 * @param {string} kind
 * @returns {Set<number> | null}
 */
function wantedOf(filters, kind) {
  const wanted = filters.filter((filter) => filter.kind === kind);
  return wanted.length ? new Set(wanted.map((filter) => filter.id)) : null;
}
