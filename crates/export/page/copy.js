// Exports of the view as text.

/**
 * Names on a call path, from the root.
 * @param {import("./tree.js").Tree} tree
 * @param {number} node
 * @param {(fn: number) => string} nameOf
 * @returns {string[]}
 */
export function stackNames(tree, node, nameOf) {
  const names = [];
  for (let i = node; i !== 0; i = tree.parent[i]) names.push(nameOf(tree.fn[i]));
  return names.reverse();
}

/**
 * Folded stacks of a subtree. Paths start at the tree's root.
 * @param {import("./tree.js").Tree} tree
 * @param {Float64Array} own
 * @param {number} root
 * @param {(fn: number) => string} nameOf
 */
export function foldedText(tree, own, root, nameOf) {
  const path = stackNames(tree, root, nameOf).map(frameText);
  const above = tree.depth[root];
  const lines = [];
  for (let i = root; i < tree.end[root]; i++) {
    if (i !== root) {
      path.length = above + (tree.depth[i] - above) - 1;
      path.push(frameText(tree.fn[i] < 0 ? "[idle]" : nameOf(tree.fn[i])));
    }
    if (own[i] > 0 && i !== 0) lines.push(`${path.join(";")} ${own[i]}`);
  }
  return `${lines.join("\n")}\n`;
}

/** @param {string} name */
function frameText(name) {
  return name.replaceAll(";", ":").replaceAll("\n", " ");
}

/**
 * Tab-separated values.
 * @param {string[][]} rows
 */
export function tsvText(rows) {
  return `${rows.map((row) => row.map((cell) => cell.replace(/[\t\n]/g, " ")).join("\t")).join("\n")}\n`;
}
