// Dialogs: help and copy.

import { foldedText, stackNames, tsvText } from "./copy.js";
import { el } from "./dom.js";
import { nodeAt } from "./tree.js";

/** @typedef {import("./main.js").Page} Page */

const KEYS = [
  ["1 … 6", "views: flame graph, in order of time, functions, callers and callees, tree, lines"],
  ["arrows", "in the flame graph: to callers, callees and neighbours; on the time line: move the choice (Shift: make it longer)"],
  ["Enter", "zoom to the frame, or open the row"],
  ["Escape", "one step out: zoom, then search, then time"],
  ["s", "callers and callees of the frame"],
  ["i", "turn stacks round (inverted): leaves first"],
  ["f", "roots at the bottom, or at the top"],
  ["/", "search; Enter the next that matches, Shift+Enter the one before, Alt+Enter only stacks that match"],
  ["c", "copy"],
  ["p", "save the graph as a picture (SVG)"],
  ["t", "dark or light"],
  ["u", "undo, as Back does"],
  ["?", "these keys"],
];

/**
 * Opens a dialog. Closing removes it.
 * @param {Page} page
 * @param {string} label
 * @param {Node[]} parts
 */
export function dialog(page, label, ...parts) {
  const close = el("button", { type: "button", click: () => dialog.close() }, "close");
  const dialog = el("dialog", { "aria-label": label, close: () => dialog.remove() }, el("h2", {}, label), ...parts, close);
  document.getElementById("app")?.append(dialog);
  dialog.showModal();
  return dialog;
}

/** @param {Page} page */
export function help(page) {
  const rows = KEYS.map(([key, what]) => el("tr", {}, el("th", { scope: "row" }, key), el("td", {}, what)));
  dialog(page, "Keys", el("table", {}, el("tbody", {}, ...rows)));
}

/** @param {Page} page */
export function copy(page) {
  const { figures, profile, state } = page;
  const area = el("textarea", { rows: 14, readonly: true, "aria-label": "Text to copy" });
  const said = el("span", { role: "status" });
  const nameOf = (/** @type {number} */ fn) => profile.nameOf(fn);
  const texts = {
    stack: () => {
      const tree = page.grown?.tree;
      return tree ? stackNames(tree, page.node, nameOf).join("\n") : "";
    },
    folded: () => {
      if (figures.hasProcesses) {
        const { tree, own, total } = figures.flame();
        return foldedText(tree, own, nodeAt(tree, total, state.zoom), nameOf);
      }
      const { tree } = figures.shape();
      return foldedText(tree, figures.weights().now.own, state.inverted ? 0 : nodeAt(tree, figures.weights().now.total, state.zoom), nameOf);
    },
    table: () => tsv(page),
    link: () => location.href,
  };
  const put = (/** @type {keyof typeof texts} */ what) => () => {
    area.value = texts[what]();
    area.select();
    const done = (/** @type {boolean} */ is) => (said.textContent = is ? "copied" : "press Ctrl+C");
    const written = navigator.clipboard?.writeText(area.value);
    if (written) written.then(() => done(true), () => done(document.execCommand("copy")));
    else done(document.execCommand("copy"));
  };
  const button = (/** @type {string} */ text, /** @type {keyof typeof texts} */ what) => el("button", { type: "button", click: put(what) }, text);
  dialog(page, "Copy", el("p", { class: "choice" }, button("stack", "stack"), button("folded stacks", "folded"), button("functions (TSV)", "table"), button("link", "link"), said), area);
}

/**
 * Shown functions as tab-separated values.
 * @param {Page} page
 */
export function tsv(page) {
  const { figures, profile } = page;
  const { now, base } = figures.functions();
  const rows = figures.sorted().map((fn) => [
    String(now.own[fn]),
    String(now.total[fn]),
    ...(base ? [String(base.own[fn]), String(base.total[fn])] : []),
    profile.reportName(fn),
    profile.objectName(profile.objectNumber(fn)),
  ]);
  return tsvText([["self", "total", ...(base ? ["self before", "total before"] : []), "function", "object"], ...rows]);
}
