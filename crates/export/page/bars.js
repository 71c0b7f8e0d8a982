// Bars above the view: selectors, filters, tools.

import { choiceOf, el, selectOf } from "./dom.js";
import { FILTER_NAMES } from "./filter.js";
import { firstState, stateText } from "./state.js";
import { baseName } from "./text.js";
import { KINDS } from "./tree.js";
import { copy } from "./dialogs.js";
import { amountText, graphsOf, savePicture } from "./picture.js";

const HINT = "drag over the time line to select a range, Ctrl+drag for a range to compare with; click a name to show it alone";
const MEMORY_HINT = "memory in use over time; drag to select a range: the graph shows memory that was added in it and not given back in it; click a name to show it alone";

/** @typedef {import("./main.js").Page} Page */
/** @typedef {import("./state.js").State} State */

/** @param {Page} page */
export function showBar(page) {
  const { state, figures, meta, profile } = page;
  /** @type {[string, string][]} */
  const views = [["flame", "Flame graph"]];
  if (page.timeline) views.push(["time", "In order of time"]);
  views.push(["table", "Functions"], ["sandwich", "Callers and callees"], ["tree", "Tree"], ["lines", "Lines"]);
  const flip = (/** @type {string} */ text, /** @type {boolean} */ is, /** @type {() => void} */ click, /** @type {string} */ title) =>
    el("button", { type: "button", "aria-pressed": String(is), click, title }, text);
  /** @type {[string, string][]} */
  const colors = [
    ["kind", "kind of code"],
    ["object", "object (file)"],
    ["own", "self"],
  ];
  if (figures.isDiff) colors.push(["diff", "difference"]);
  const parts = [
    choiceOf("View", views, state.view, (view) => page.change({ view })),
    flip(
      "inverted",
      state.inverted,
      () => page.change({ inverted: !state.inverted, zoom: [] }),
      "Leaves first: the sampled functions, each with its callers (i)",
    ),
    ...(profile.processes.length > 1
      ? [flip("processes", !state.noProcesses, () => page.change({ noProcesses: !state.noProcesses, zoom: [] }), "Draw the stacks of each process separately")]
      : []),
    flip("roots at the bottom", state.flames, () => page.change({ flames: !state.flames }), "Draw stacks from the bottom up, as flames (f)"),
    selectOf("colour by", colors, page.color(), (color) => page.change({ color }, false)),
  ];
  if (figures.isDiff) {
    parts.push(
      selectOf(
        "width",
        [
          ["new", "now"],
          ["old", "before"],
          ["both", "both"],
        ],
        state.width,
        (width) => page.change({ width }, false),
      ),
    );
  }
  /** @type {[string, string][]} */
  const events = meta.events.map((/** @type {any} */ event, /** @type {number} */ i) => [event.samples > 0 ? String(i) : "", event.name]);
  if (events.filter(([i]) => i !== "").length > 1) {
    parts.push(selectOf("event", events.filter(([i]) => i !== ""), String(figures.event), (event) => page.change({ event: Number(event) })));
  }
  const unit = profile.unit({ event: figures.event ?? 0, bySamples: false });
  if (unit !== "samples") {
    parts.push(
      selectOf(
        "weight",
        [
          ["", unit === "ns" ? "time" : unit],
          ["samples", "samples"],
        ],
        state.bySamples ? "samples" : "",
        (by) => page.change({ bySamples: by === "samples" }, false),
      ),
    );
  }
  page.bar.replaceChildren(...parts);
  if (page.timeline) {
    page.lanes.replaceChildren(
      selectOf(
        "time line by",
        [
          ["thread", "thread"],
          ["name", "thread name, without numbers"],
          ["process", "process"],
          ["cpu", "CPU"],
          ["heat", "second (heat map)"],
        ],
        state.lanes,
        (lanes) => page.change({ lanes }, false),
      ),
      ...timeInputs(page),
      el("span", { class: "hint" }, profile.rows.memory === figures.event ? MEMORY_HINT : HINT),
    );
  }
}

/**
 * Inputs for the selected time range.
 * @param {Page} page
 */
export function timeInputs(page) {
  const { state, profile } = page;
  const span = page.timeline?.span ?? 1;
  const [from, to] = state.time ?? [0, span];
  const ticks = (/** @type {string} */ text) => Math.max(0, Math.min(span, Math.round((Number(text) * 1e9) / page.meta.tick)));
  const field = (/** @type {string} */ label, /** @type {number} */ value, /** @type {(at: number) => [number, number]} */ range) =>
    el("input", {
      type: "number",
      step: "any",
      min: 0,
      value: profile.seconds(value).toFixed(3),
      "aria-label": label,
      change: (/** @type {Event} */ event) => {
        const time = range(ticks(/** @type {HTMLInputElement} */ (event.target).value));
        if (time[0] < time[1]) page.change({ time });
      },
    });
  return [
    el("label", { class: "hint" }, "from ", field("from, in seconds", from, (at) => [at, to])),
    el("label", { class: "hint" }, "to ", field("to, in seconds", to, (at) => [from, at])),
  ];
}

/**
 * Transforms of the whole tree, and the copy dialog.
 * @param {Page} page
 */
export function showTools(page) {
  const { state } = page;
  const add = (/** @type {any} */ op) => () => page.change({ transforms: [...state.transforms, { op, id: 0 }], zoom: [] });
  const item = (/** @type {string} */ text, /** @type {string} */ title, /** @type {() => void} */ click) => el("button", { type: "button", title, click }, text);
  const parts = [
    item("fold recursion", "Merge recursive calls of a function into one frame", add("fold")),
    item("without runtime", "Remove the frames before main, or before a thread's first own function", add("start")),
    item("copy…", "Copy the stack, folded stacks, the table or a link to this view (c)", () => copy(page)),
  ];
  if (graphsOf(page).length) parts.push(item("save as SVG", "Save the graph as a picture (p)", () => savePicture(page)));
  const isChanged = stateText({ ...state, view: "flame", lanes: "thread", fn: -1 }) !== "";
  if (isChanged) parts.push(item("reset", "Remove all filters, zooms and changes", () => page.change({ ...firstState(), view: state.view, fn: state.fn, lanes: state.lanes })));
  page.tools.replaceChildren(...parts);
}

/** @param {Page} page */
export function showPills(page) {
  const { state, profile } = page;
  const pills = [];
  const pill = (/** @type {string} */ text, /** @type {Partial<State>} */ without) => {
    const close = el("button", { type: "button", click: () => page.change(without) }, "×");
    close.setAttribute("aria-label", `remove: ${text}`);
    pills.push(el("span", { class: "pill" }, el("span", {}, text.length > 120 ? `${text.slice(0, 119)}…` : text), close));
  };
  const range = (/** @type {[number, number]} */ time) => `${profile.seconds(time[0]).toFixed(3)} to ${profile.seconds(time[1]).toFixed(3)} s`;
  if (state.time) pill(`time: ${range(state.time)}`, { time: null });
  if (state.base) pill(`compared with: ${range(state.base)}`, { base: null, color: "" });
  state.filters.forEach((filter, i) => {
    pill(`${FILTER_NAMES.get(filter.kind)}: ${filterText(page, filter)}`, { filters: state.filters.filter((_, at) => at !== i) });
  });
  state.transforms.forEach((transform, i) => {
    const { op, id } = transform;
    const name = op === "object" ? baseName(profile.objectName(id)) : profile.nameOf(id);
    const text = {
      fold: "recursion folded",
      start: "without runtime",
      drop: `removed: ${name}`,
      cut: `nothing below: ${name}`,
      root: `begins at: ${name}`,
      object: `one frame: ${name}`,
    }[op];
    pill(text, { transforms: state.transforms.filter((_, at) => at !== i), zoom: [] });
  });
  pills.unshift(el("span", { class: "amount", id: "amount" }, amountText(page)));
  page.pills.replaceChildren(...pills);
}

/**
 * @param {Page} page
 * @param {import("./filter.js").Filter} filter
 */
export function filterText(page, { kind, id }) {
  const { profile, meta } = page;
  if (kind === "comm" || kind === "process") return String(meta.comms[id] ?? id);
  if (kind === "dso") return profile.objectName(id);
  if (kind === "kind") return KINDS[id] ?? "";
  if (kind === "leaf" || kind === "has" || kind === "not") return profile.nameOf(id);
  if (kind === "tid" || kind === "pid") {
    const at = profile.tasks[kind].indexOf(id);
    if (at < 0) return String(id);
    return kind === "tid" ? profile.taskName(at) : profile.processName(at);
  }
  return String(id);
}
