// Export of the shown graph as an SVG picture with all rows and tooltips.

import { THEMES } from "./colors.js";
import { el, isDark } from "./dom.js";
import { ROW } from "./flame.js";
import { NARROW } from "./layout.js";
import { fitName, weightText } from "./text.js";

const MARGIN = 8;
const HEAD = 20;
const FONTS = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace";

/**
 * Escapes text for XML.
 * @param {string} text
 */
export function escaped(text) {
  const named = /** @type {Record<string, string>} */ ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" });
  return text.replace(/[&<>"]/g, (c) => named[c]);
}

/**
 * Graphs on the screen.
 * @param {import("./main.js").Page} page
 */
export function graphsOf(page) {
  const { view } = page.state;
  if (view === "sandwich") return page.state.fn >= 0 ? [page.callers, page.callees] : [];
  return view === "flame" || view === "time" ? [page.flame] : [];
}

/**
 * True if the graph shows memory that was added in a selected time. It is no share of the memory in use.
 * @param {import("./main.js").Page} page
 */
export function showsAdded({ figures, profile, state }) {
  return profile.rows.memory === figures.event && state.time !== null && !state.bySamples;
}

/**
 * The amount of the graph, with its share of all.
 * @param {import("./main.js").Page} page
 */
export function amountText(page) {
  const { figures, profile } = page;
  return showsAdded(page)
    ? `added in this time: ${weightText(figures.whole * 2 ** profile.meta.shift, "bytes")}`
    : `shown: ${profile.amount(figures.whole, figures.all, page.by())} of all`;
}

/**
 * The graphs on the screen and their description, as SVG.
 * @param {import("./main.js").Page} page
 */
export function pictureOf(page) {
  const { meta, profile, state } = page;
  const pills = [...page.pills.querySelectorAll(".pill > :first-child")].map((pill) => pill.textContent ?? "");
  const lines = [meta.title, meta.subtitle, [amountText(page), ...pills].join(" · ")];
  if (state.view === "sandwich") lines.push(`callers and callees of ${profile.nameOf(state.fn)}`);
  return svgText(lines, graphsOf(page));
}

/**
 * Saves the picture as a file with the name of the page.
 * @param {import("./main.js").Page} page
 */
export function savePicture(page) {
  if (graphsOf(page).length === 0) return;
  const name = (location.pathname.split("/").pop() ?? "").replace(/\.html?$/, "") || "profile";
  const address = URL.createObjectURL(new Blob([pictureOf(page)], { type: "image/svg+xml" }));
  el("a", { href: address, download: `${name}.svg` }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

/**
 * Draws several views below each other, with lines of text above.
 * @param {string[]} lines
 * @param {import("./flame.js").FlameView[]} views
 * @returns {string}
 */
export function svgText(lines, views) {
  const dark = isDark();
  const theme = dark ? THEMES.dark : THEMES.light;
  const width = Math.max(200, ...views.map((view) => view.width)) + 2 * MARGIN;
  const most = Math.max(1, Math.floor((width - 2 * MARGIN) / (views[0]?.letter || 7)));
  /** @type {string[]} */
  const parts = [];
  let y = MARGIN;
  lines.forEach((line, i) => {
    y += HEAD;
    const cut = line.length > most ? `${line.slice(0, most - 1)}…` : line;
    parts.push(`<text x="${MARGIN}" y="${y - 6}"${i === 0 ? ' font-weight="bold"' : ""}>${escaped(cut)}</text>`);
  });
  for (const view of views) {
    y += MARGIN;
    parts.push(`<g transform="translate(${MARGIN},${y})">`, ...boxesOf(view, dark), "</g>");
    y += (view.boxes?.rows ?? 0) * ROW;
  }
  y += MARGIN;
  const size = `width="${Math.ceil(width)}" height="${y}" viewBox="0 0 ${Math.ceil(width)} ${y}"`;
  return [
    `<?xml version="1.0" encoding="UTF-8"?>`,
    `<svg xmlns="http://www.w3.org/2000/svg" ${size} font-family="${FONTS}" font-size="12" fill="${theme.text}">`,
    `<rect width="100%" height="100%" fill="${theme.back}"/>`,
    ...parts,
    "</svg>",
    "",
  ].join("\n");
}

/**
 * Draws the boxes of a view.
 * @param {import("./flame.js").FlameView} view
 * @param {boolean} dark
 * @returns {string[]}
 */
function boxesOf(view, dark) {
  const { boxes, shown } = view;
  if (!boxes || !shown) return [];
  const theme = dark ? THEMES.dark : THEMES.light;
  const parts = [];
  const short = (/** @type {number} */ number) => String(Math.round(number * 100) / 100);
  for (let i = 0; i < boxes.n; i++) {
    const row = shown.flames ? boxes.rows - 1 - boxes.row[i] : boxes.row[i];
    const [x, y, wide] = [boxes.x[i], row * ROW, Math.max(0.5, boxes.w[i] - (boxes.w[i] > 3 ? 1 : 0))];
    const node = boxes.node[i];
    const rect = (/** @type {string} */ fill, /** @type {string} */ more) =>
      `<rect x="${short(x)}" y="${y}" width="${short(wide)}" height="${ROW - 1}" fill="${fill}"${more}/>`;
    if (node === NARROW) {
      parts.push(rect(theme.narrow, ""));
      continue;
    }
    const fn = shown.tree.fn[node];
    const isMatch = shown.marks && fn >= 0 && shown.marks[fn];
    const frame = isMatch ? ` stroke="${theme.match}" stroke-width="2"` : "";
    const name = boxes.w[i] > 24 ? fitName(view.name(node), Math.floor((boxes.w[i] - 8) / view.letter)) : "";
    const text = name ? `<text x="${short(x + 4)}" y="${y + 13}">${escaped(name)}</text>` : "";
    const told = view.events.lines(node).map((line) => (line.length > 2000 ? `${line.slice(0, 1999)}…` : line));
    parts.push(`<g><title>${escaped(told.join("\n"))}</title>${rect(view.color(node, dark), frame)}${text}</g>`);
  }
  return parts;
}
