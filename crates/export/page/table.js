// Tables of functions and lines.

import { el } from "./dom.js";
import { countText } from "./text.js";

/** Initial number of rows, and step for more. */
const ROWS = 100;

/**
 * @typedef {{key: string, text: string, number?: boolean, sort?: boolean}} Heading
 * @typedef {object} TableShown
 * @property {string} caption
 * @property {Heading[]} headings
 * @property {number} count
 * @property {(row: number) => (string | Node)[]} cells
 * @property {(row: number) => number} share from 0 to 1, drawn as bar in the first cell
 * @property {string} sort
 * @property {(key: string) => void} [sortBy]
 */

/** Table that shows some rows, and more on request. */
export class Table {
  constructor() {
    this.root = el("div", { class: "table" });
    this.most = ROWS;
    this.caption = "";
  }

  /** @param {TableShown} shown */
  show(shown) {
    if (this.caption !== shown.caption) this.most = ROWS;
    this.caption = shown.caption;
    const head = shown.headings.map((heading) => {
      const label = heading.sort
        ? el("button", { type: "button", click: () => shown.sortBy?.(heading.key) }, heading.text)
        : heading.text;
      const sorted = shown.sort === heading.key ? (heading.key === "name" || heading.key === "object" ? "ascending" : "descending") : "none";
      return el("th", { scope: "col", class: heading.number ? "number" : "", "aria-sort": sorted }, label);
    });
    const rows = [];
    const count = Math.min(shown.count, this.most);
    for (let i = 0; i < count; i++) {
      const bar = Math.round(Math.max(0, Math.min(1, shown.share(i))) * 20);
      const cells = shown.cells(i).map((cell, at) =>
        el("td", { class: `${shown.headings[at].number ? "number" : ""}${at === 0 ? ` share b${bar}` : ""}` }, cell),
      );
      rows.push(el("tr", {}, ...cells));
    }
    const table = el(
      "table",
      {},
      el("caption", {}, `${shown.caption} (${countText(shown.count)})`),
      el("thead", {}, el("tr", {}, ...head)),
      el("tbody", {}, ...rows),
    );
    const parts = [table];
    if (shown.count > count) {
      const more = (/** @type {number} */ by) => () => {
        this.most += by;
        this.show(shown);
      };
      parts.push(
        el("p", { class: "more" }, `${countText(shown.count - count)} more `, el("button", { type: "button", click: more(1000) }, "show 1,000 more")),
      );
    }
    this.root.replaceChildren(...parts);
  }
}
