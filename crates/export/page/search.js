// Search by regular expression. Each name is matched once; frames look up their function.

/**
 * Compiles a search text. Case matters if it has a capital letter. Returns the message of a syntax
 * error.
 * @param {string} text
 * @returns {RegExp | string}
 */
export function patternOf(text) {
  try {
    return new RegExp(text, /\p{Lu}/u.test(text.replace(/\\./g, "")) ? "" : "i");
  } catch (error) {
    return error instanceof Error ? error.message : "no regular expression";
  }
}

/**
 * Marks functions with a matching name or object.
 * @param {RegExp} pattern
 * @param {number} functions
 * @param {(fn: number) => string} nameOf
 * @returns {Uint8Array}
 */
export function matches(pattern, functions, nameOf) {
  const marks = new Uint8Array(functions);
  for (let fn = 0; fn < functions; fn++) if (pattern.test(nameOf(fn))) marks[fn] = 1;
  return marks;
}

/**
 * Weight of stacks that contain a marked function, and of stacks with a marked leaf.
 * @param {import("./tree.js").Tree} tree
 * @param {import("./model.js").Weights} weights
 * @param {Uint8Array} marks by function
 * @param {number} [root] start node
 * @returns {{total: number, own: number}}
 */
export function matched(tree, weights, marks, root = 0) {
  const sums = { total: 0, own: 0 };
  // A match above the root covers the whole subtree.
  for (let up = root; up !== 0; up = tree.parent[up]) if (marks[tree.fn[up]]) sums.total = weights.total[root];
  const isAbove = sums.total > 0;
  let behind = 0;
  for (let i = root === 0 ? 1 : root; i < tree.end[root]; i++) {
    if (tree.fn[i] < 0 || !marks[tree.fn[i]]) continue;
    sums.own += weights.own[i];
    if (isAbove || i < behind) continue;
    sums.total += weights.total[i];
    behind = tree.end[i];
  }
  return sums;
}
