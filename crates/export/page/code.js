// Annotated code: source lines and instructions of a function, read on demand.

import { el } from "./dom.js";
import { Table } from "./table.js";
import { baseName, percentText } from "./text.js";

/** Maximum number of visible instructions. */
const INSTRUCTIONS = 1500;

/**
 * Source place of an instruction. The last of several is the innermost inlined call.
 * @typedef {{symbol: string, file?: string, line?: number}} Place
 * @typedef {{address: number, text: string, target?: number, target_symbol?: string, self: number, total: number, places: Place[]}} Instruction
 * @typedef {{file: string, line: number, self: number, total: number, text?: string}} Line
 */

/**
 * Creates an element for the code of a function. It is filled asynchronously.
 * @param {import("./main.js").Page} page
 * @param {number} at number of the annotation
 * @returns {HTMLElement}
 */
export function codeOf(page, at) {
  const box = el("div", { class: "code" }, el("p", { class: "hint" }, "reading the code"));
  page.profile.sections.text(`annotate-${at}`).then(
    (text) => box.replaceChildren(...tablesOf(JSON.parse(text))),
    (error) => box.replaceChildren(el("p", { class: "told" }, String(error))),
  );
  return box;
}

/**
 * @param {{weight_total: number, skid: string, functions: {notes: string[], lines: Line[], parts: {symbol: string, instructions: Instruction[], loops: any[]}[]}[]}} report
 * @returns {Node[]}
 */
function tablesOf({ weight_total: whole, skid, functions }) {
  const parts = [el("p", { class: "hint" }, `Of the whole recording, whatever the filters are. ${skid}`)];
  for (const code of functions) {
    for (const note of code.notes) parts.push(el("p", { class: "hint" }, note));
    const lines = code.lines.filter((line) => line.total > 0 || line.text !== undefined);
    if (lines.length) {
      parts.push(
        tableOf({
          caption: "Source",
          headings: [
            { key: "self", text: "self", number: true },
            { key: "total", text: "total", number: true },
            { key: "line", text: "line", number: true },
            { key: "text", text: lines.some((line) => line.text !== undefined) ? "source" : "file" },
          ],
          count: lines.length,
          share: (i) => lines[i].self / whole,
          cells: (i) => {
            const { self, total, line, file, text } = lines[i];
            return [amount(self, whole), amount(total, whole), String(line), el("code", {}, text ?? baseName(file))];
          },
          sort: "line",
        }),
      );
    }
    for (const part of code.parts) {
      const rows = part.instructions;
      for (const loop of part.loops.slice(0, 3)) {
        parts.push(el("p", { class: "hint" }, `loop ${hex(loop.start)} to ${hex(loop.end)}: ${loop.instructions} instructions, ${percentText(loop.self, whole)}`));
      }
      parts.push(
        tableOf({
          caption: `Instructions of ${part.symbol.slice(0, 200)}`,
          headings: [
            { key: "self", text: "self", number: true },
            { key: "total", text: "total", number: true },
            { key: "address", text: "address", number: true },
            { key: "text", text: "instruction" },
            { key: "line", text: "line" },
          ],
          count: rows.length,
          share: (i) => rows[i].self / whole,
          cells: (i) => {
            const { self, total, address, text, target_symbol: target, places } = rows[i];
            return [amount(self, whole), amount(total, whole), hex(address), el("code", {}, target ? `${text}  → ${target.slice(0, 120)}` : text), placeText(places)];
          },
          sort: "address",
        }),
      );
    }
  }
  return parts;
}

/** @param {import("./table.js").TableShown} shown */
function tableOf(shown) {
  const table = new Table();
  table.caption = shown.caption;
  table.most = INSTRUCTIONS;
  table.show(shown);
  return table.root;
}

/**
 * @param {number} weight
 * @param {number} whole
 */
function amount(weight, whole) {
  return weight > 0 ? percentText(weight, whole) : "";
}

/** @param {number} address */
function hex(address) {
  return address.toString(16);
}

/** @param {Place[]} places */
function placeText(places) {
  const last = places[places.length - 1];
  if (!last) return "";
  const line = last.file === undefined ? "" : `${baseName(last.file)}:${last.line}`;
  return places.length > 1 ? `${line}  inlined: ${last.symbol.slice(0, 80)}` : line;
}
