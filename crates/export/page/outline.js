// The call tree as a `treegrid` with expandable rows.

import { el } from "./dom.js";
import { countText } from "./text.js";

const MAX_CHILDREN = 200;

/**
 * @typedef {object} OutlineShown
 * @property {import("./tree.js").Tree} tree
 * @property {Float64Array} own
 * @property {Float64Array} total
 * @property {Float64Array | null} base
 * @property {number} whole
 * @property {number} root
 * @property {(node: number) => string} nameOf
 * @property {(weight: number) => string} share
 * @property {(node: number) => void} choose
 */

/** Expandable rows of a tree. */
export class Outline {
  constructor() {
    this.root = el("div", { class: "table outline" });
    /** @type {Set<number>} */
    this.open = new Set();
    this.at = 0;
    this.root.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => this.key(event));
  }

  /** @param {OutlineShown} shown */
  show(shown) {
    if (!this.shown || this.shown.tree !== shown.tree || this.shown.root !== shown.root) {
      this.open.clear();
      this.at = 0;
      this.shown = shown;
      this.expand(shown.root);
    }
    this.shown = shown;
    this.draw();
  }

  /**
   * Expands a node, and its heaviest child as long as that dominates.
   * @param {number} node
   */
  expand(node) {
    for (;;) {
      this.open.add(node);
      const children = this.children(node);
      if (children.length === 0) return;
      const { total } = /** @type {OutlineShown} */ (this.shown);
      if (children.length > 1 && total[children[0]] < 0.9 * total[node]) return;
      if (this.open.has(children[0])) return;
      node = children[0];
    }
  }

  /** @param {number} node */
  children(node) {
    const { tree, total, base } = /** @type {OutlineShown} */ (this.shown);
    const children = [];
    for (let i = node + 1; i < tree.end[node]; i = tree.end[i]) if (total[i] > 0 || (base && base[i] > 0)) children.push(i);
    return children.sort((a, b) => total[b] - total[a] || a - b);
  }

  draw() {
    const shown = /** @type {OutlineShown} */ (this.shown);
    const { tree } = shown;
    /** @type {number[]} */
    const nodes = [];
    const pile = [shown.root];
    for (let node = pile.pop(); node !== undefined && nodes.length < 2000; node = pile.pop()) {
      nodes.push(node);
      if (this.open.has(node)) pile.push(...this.children(node).slice(0, MAX_CHILDREN).reverse());
    }
    this.nodes = nodes;
    this.at = Math.min(this.at, nodes.length - 1);
    const rows = nodes.map((node, i) => {
      const level = tree.depth[node] - tree.depth[shown.root];
      const has = this.children(node).length > 0;
      const mark = has ? (this.open.has(node) ? "▾ " : "▸ ") : "\u2003";
      const attributes = {
        role: "row",
        "aria-level": level + 1,
        tabindex: i === this.at ? 0 : -1,
        click: () => {
          this.at = i;
          this.toggle(node);
        },
        dblclick: () => shown.choose(node),
      };
      if (has) /** @type {any} */ (attributes)["aria-expanded"] = String(this.open.has(node));
      const share = shown.whole > 0 ? shown.total[node] / shown.whole : 0;
      return el(
        "tr",
        attributes,
        el("td", { role: "gridcell", class: `number share b${Math.round(Math.min(1, share) * 20)}` }, shown.share(shown.total[node])),
        el("td", { role: "gridcell", class: "number" }, shown.share(shown.own[node])),
        el("td", { role: "gridcell", class: `name d${Math.min(40, level)}` }, `${level > 40 ? `${level} ` : ""}${mark}${shown.nameOf(node)}`),
      );
    });
    this.root.replaceChildren(
      el(
        "table",
        { role: "treegrid", "aria-label": "Call tree" },
        el("caption", {}, `Call tree (${countText(tree.n - 1)} calls; Enter opens, → ← too, s shows callers and callees)`),
        el("thead", {}, el("tr", { role: "row" }, el("th", { class: "number" }, "total"), el("th", { class: "number" }, "self"), el("th", {}, "function"))),
        el("tbody", {}, ...rows),
      ),
    );
  }

  /** @param {number} node */
  toggle(node) {
    if (this.open.has(node)) this.open.delete(node);
    else this.expand(node);
    this.redraw();
  }

  redraw() {
    this.draw();
    /** @type {HTMLElement | null} */ (this.root.querySelector('tr[tabindex="0"]'))?.focus();
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const node = this.nodes?.[this.at];
    if (node === undefined || event.ctrlKey || event.altKey) return;
    switch (event.key) {
      case "ArrowDown":
        this.at = Math.min(this.at + 1, (this.nodes?.length ?? 1) - 1);
        break;
      case "ArrowUp":
        this.at = Math.max(0, this.at - 1);
        break;
      case "ArrowRight":
        this.expand(node);
        break;
      case "ArrowLeft":
        if (this.open.has(node)) this.open.delete(node);
        else this.at = Math.max(0, this.nodes?.indexOf(this.shown?.tree.parent[node] ?? 0) ?? 0);
        break;
      case "Enter":
        if (this.open.has(node)) this.open.delete(node);
        else this.expand(node);
        break;
      case "s":
        this.shown?.choose(node);
        return;
      default:
        return;
    }
    event.preventDefault();
    this.redraw();
  }
}
