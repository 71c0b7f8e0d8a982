// Filters of samples. Filters of the same kind are alternatives; filters of different kinds all
// apply.

/**
 * Filter of a kind with a number:
 * - `tid`, `pid`: ids; `comm`, `process`: index of a thread or process name; `cpu`: CPU number
 * - `leaf`: leaf function, or caller that it is inlined into; `dso`: object of the leaf
 * - `kind`: kind of the leaf function
 * - `has`, `not`: function that must, or must not, be in the stack
 * - `in`, `out`: number of a search that keeps or removes stacks
 * @typedef {{kind: string, id: number}} Filter
 */

/** Kinds of filters, with display names. */
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
 * Tasks that pass the filters; `null` for all.
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
 * CPUs that pass the filters, by number plus 1; `null` for all.
 * @param {Filter[]} filters
 * @param {number} most largest CPU number plus 1
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
 * Leaves that pass the filters; `null` for all.
 * @param {Filter[]} filters
 * @param {import("./tree.js").Tree} tree
 * @param {ArrayLike<number>} nodes node by leaf
 * @param {ArrayLike<number>} objectOf object by function
 * @param {ArrayLike<number>} inlined true if the call of a node was inlined
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
 * Marks nodes with one of these functions in their stack.
 * @param {import("./tree.js").Tree} tree
 * @param {Set<number>} functions
 * @param {number} count number of all functions
 */
export function below(tree, functions, count) {
  const marked = new Uint8Array(tree.n);
  const { n, fn, parent } = tree;
  // With a `Set`, a million look-ups take ten times as long.
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
