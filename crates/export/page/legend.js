// Legend of the colours, with shares. A click filters by an entry.

import { deltaColor, KIND_COLORS, OBJECT_COLORS, ownColor, waitColor } from "./colors.js";
import { el, isDark } from "./dom.js";
import { baseName, percentText } from "./text.js";
import { KIND_IDLE, KIND_WAITING, KIND_WAITING_FOR_CPU, KINDS } from "./tree.js";

/** Descriptions of the kinds. */
const KIND_TEXTS = [
  "threads and other frames that are not functions",
  "code of programs and libraries",
  "inlined calls: the compiler merged the function into its caller (dashed below)",
  "kernel code (a bar on the left)",
  "code generated at run time (a line on top)",
  "code without a name",
  "why threads waited: no code ran",
  "idle threads, which waited in one place the whole time; drawn narrower than their weight: click the block to open it",
  "threads that were ready to run but waited for a CPU: no code ran",
  "Python functions, with the interpreter's work for them",
  "JavaScript functions, with the engine's work for them",
  "Java methods, with the virtual machine's work for them",
];

/** Kinds in legend order. The waits are adjacent. */
const LEGEND_ORDER = [0, 9, 10, 11, 1, 2, 3, 4, 5, KIND_WAITING, KIND_WAITING_FOR_CPU, KIND_IDLE];

/**
 * Colour swatch. It does not use a style, because the policy forbids styles in saved pages.
 * @param {string} color
 */
function swatch(color) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const rect = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  for (const [name, value] of [["width", "12"], ["height", "12"], ["aria-hidden", "true"]]) svg.setAttribute(name, value);
  for (const [name, value] of [["width", "12"], ["height", "12"], ["rx", "2"], ["fill", color]]) rect.setAttribute(name, value);
  svg.append(rect);
  return svg;
}

/**
 * Creates the legend of a colour mode.
 * @param {import("./main.js").Page} page
 * @param {string} color
 * @returns {Node[]}
 */
export function legendOf(page, color) {
  const { figures, profile, state } = page;
  const dark = isDark();
  const palette = dark ? OBJECT_COLORS.dark : OBJECT_COLORS.light;
  const kinds = dark ? KIND_COLORS.dark : KIND_COLORS.light;
  const entry = (/** @type {string} */ fill, /** @type {string} */ text) => el("span", { class: "key" }, swatch(fill), text);
  /** @type {(fill: string, name: string, weight: number, kind: string, id: number, title: string) => Node} */
  const filter = (fill, name, weight, kind, id, title) => {
    const isOn = state.filters.some((other) => other.kind === kind && other.id === id);
    const others = state.filters.filter((other) => other.kind !== kind);
    return el(
      "button",
      {
        type: "button",
        class: "key",
        title: `${title}: keep only samples taken in it`,
        "aria-pressed": String(isOn),
        click: () => page.change({ filters: isOn ? others : [...others, { kind, id }] }),
      },
      swatch(fill),
      `${name.length > 28 ? `${name.slice(0, 27)}…` : name} ${percentText(weight, figures.whole)}`,
    );
  };
  if (color === "diff") return [-0.2, -0.05, 0, 0.05, 0.2].map((delta, i) => entry(deltaColor(delta * 5, dark), ["20 % of all less", "5 %", "as before", "5 %", "20 % more"][i]));
  if (color === "own") return [0, 0.01, 0.1, 0.5].map((share) => entry(ownColor(share, dark), `self ${100 * share} %`));
  if (color === "object") {
    const { ranks, order } = figures.objects();
    const sums = figures.ownByObject();
    const named = order.filter((object) => ranks[object] < palette.length - 1 && sums[object] > 0);
    const rest = order.filter((object) => ranks[object] >= palette.length - 1).reduce((sum, object) => sum + sums[object], 0);
    const parts = named.map((object) => {
      const name = profile.objectName(object);
      return filter(palette[ranks[object]], baseName(name) || "no object", sums[object], "dso", object, name);
    });
    if (rest > 0) parts.push(entry(palette[palette.length - 1], `others ${percentText(rest, figures.whole)}`));
    return parts;
  }
  const { own, isThere } = figures.byKind();
  // Waits are distinguished by reason.
  const waits = figures.waits().map(([fn, weight]) => {
    const reason = profile.nameOf(fn);
    return filter(waitColor(reason, dark), reason, weight, "leaf", fn, `waits for ${reason}`);
  });
  return LEGEND_ORDER.flatMap((kind) => (kind === KIND_WAITING && waits.length ? waits : isThere[kind] ? [filter(kinds[kind][0], KINDS[kind], own[kind], "kind", kind, KIND_TEXTS[kind])] : []));
}
