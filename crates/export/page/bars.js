// Bars above the view: choices, filters, tools.

import { choiceOf, el, selectOf } from "./dom.js";
import { FILTER_NAMES } from "./filter.js";
import { firstState } from "./state.js";
import { baseName } from "./text.js";
import { KINDS, nodeAt } from "./tree.js";
import { copy } from "./dialogs.js";

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
    ["kind", "kind"],
    ["object", "object"],
    ["own", "self"],
  ];
  if (figures.isDiff) colors.push(["diff", "difference"]);
  const parts = [
    choiceOf("View", views, state.view, (view) => page.change({ view })),
    flip("leaves first", state.inverted, () => page.change({ inverted: !state.inverted, zoom: [] }), "turn stacks round (i)"),
    flip("flames", state.flames, () => page.change({ flames: !state.flames }), "roots at the bottom (f)"),
    selectOf("colour", colors, page.color(), (color) => page.change({ color }, false)),
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
  if (profile.unit({ event: figures.event ?? 0, bySamples: false }) !== "samples") {
    parts.push(
      selectOf(
        "weigh by",
        [
          ["", profile.unit({ event: figures.event ?? 0, bySamples: false })],
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
          ["name", "thread name, numbers as one"],
          ["process", "process"],
          ["cpu", "CPU"],
          ["heat", "second (heat map)"],
        ],
        state.lanes,
        (lanes) => page.change({ lanes }, false),
      ),
      ...timeInputs(page),
      el("span", { class: "hint" }, "drag: choose a time · Ctrl and drag: a time to compare with · click on a name: only that thread"),
    );
  }
}

/**
 * Fields for the time that is chosen.
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
 * Transforms of the whole, and copies.
 * @param {Page} page
 */
export function showTools(page) {
  const { state } = page;
  const add = (/** @type {any} */ op) => () => page.change({ transforms: [...state.transforms, { op, id: 0 }], zoom: [] });
  const item = (/** @type {string} */ text, /** @type {() => void} */ click) => el("button", { type: "button", click }, text);
  page.tools.replaceChildren(
    item("fold recursion", add("fold")),
    item("without runtime", add("start")),
    item("copy…", () => copy(page)),
    item("reset", () => page.change({ ...firstState(), lanes: state.lanes })),
  );
}

/** @param {Page} page */
export function showPills(page) {
  const { state, profile } = page;
  const pills = [];
  const pill = (/** @type {string} */ text, /** @type {Partial<State>} */ without) => {
    const close = el("button", { type: "button", click: () => page.change(without) }, "×");
    close.setAttribute("aria-label", `remove: ${text}`);
    pills.push(el("span", { class: "pill" }, text.length > 120 ? `${text.slice(0, 119)}…` : text, close));
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
  const { figures } = page;
  pills.unshift(el("span", { class: "amount", id: "amount" }, profile.amount(figures.whole, figures.all, page.by())));
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
    return at < 0 ? String(id) : `${meta.comms[profile.tasks.comm[at]]} ${id}`;
  }
  return String(id);
}
