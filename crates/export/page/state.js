// State of the page. All of it is in the address after `#`.

/**
 * @typedef {object} State
 * @property {string} view `flame`, `time`, `table`, `sandwich`, `tree`, `lines`
 * @property {boolean} inverted leaves first
 * @property {boolean} flames roots at the bottom
 * @property {boolean} noProcesses merge the stacks of all processes
 * @property {number[]} zoom functions from the root to the zoomed node
 * @property {number} fn function for callers, callees and lines; -1 for none
 * @property {string} search
 * @property {string} color `kind`, `object`, `own`, `diff`
 * @property {boolean} bySamples
 * @property {number} event -1 for the first event with samples
 * @property {[number, number] | null} time in ticks
 * @property {[number, number] | null} base time range of the baseline, in ticks
 * @property {string} width width mode of a comparison: `new`, `old`, `both`
 * @property {string} lanes `thread`, `name`, `process`, `cpu`, `heat`
 * @property {import("./filter.js").Filter[]} filters
 * @property {import("./transform.js").Transform[]} transforms
 * @property {string} sort sort column; empty for the default
 */

/** @returns {State} */
export function firstState() {
  return {
    view: "flame",
    inverted: false,
    flames: false,
    noProcesses: false,
    zoom: [],
    fn: -1,
    search: "",
    color: "",
    bySamples: false,
    event: -1,
    time: null,
    base: null,
    width: "new",
    lanes: "thread",
    filters: [],
    transforms: [],
    sort: "",
  };
}

const VIEWS = ["flame", "time", "table", "sandwich", "tree", "lines"];
const COLORS = ["kind", "object", "own", "diff"];
const LANES = ["thread", "name", "process", "cpu", "heat"];
const WIDTHS = ["new", "old", "both"];
const OPS = ["fold", "drop", "cut", "root", "object", "start"];
const FILTERS = ["pid", "tid", "comm", "process", "cpu", "leaf", "dso", "kind", "has", "not"];
const SORTS = ["own", "total", "name", "object", "old", "delta"];

/**
 * Encodes a state. Omits default values.
 * @param {State} state
 * @returns {string}
 */
export function stateText(state) {
  const first = firstState();
  /** @type {string[]} */
  const parts = [];
  const put = (/** @type {string} */ key, /** @type {string} */ value) => parts.push(`${key}=${encodeURIComponent(value)}`);
  if (state.view !== first.view) put("view", state.view);
  if (state.inverted) put("inverted", "1");
  if (state.flames) put("flames", "1");
  if (state.noProcesses) put("processes", "0");
  if (state.zoom.length) put("zoom", state.zoom.join("."));
  if (state.fn >= 0) put("fn", String(state.fn));
  if (state.search) put("search", state.search);
  if (state.color) put("color", state.color);
  if (state.bySamples) put("by", "samples");
  if (state.event >= 0) put("event", String(state.event));
  if (state.time) put("time", state.time.join("-"));
  if (state.base) put("base", state.base.join("-"));
  if (state.width !== first.width) put("width", state.width);
  if (state.lanes !== first.lanes) put("lanes", state.lanes);
  if (state.filters.length) put("filters", state.filters.map(({ kind, id }) => `${kind}.${id}`).join("_"));
  if (state.transforms.length) put("transforms", state.transforms.map(({ op, id }) => `${op}.${id}`).join("_"));
  if (state.sort !== first.sort) put("sort", state.sort);
  return parts.join("&");
}

/**
 * Decodes a state. Ignores invalid values.
 * @param {string} text
 * @returns {State}
 */
export function stateOf(text) {
  const state = firstState();
  for (const part of text.replace(/^#/, "").split("&")) {
    const at = part.indexOf("=");
    if (at < 0) continue;
    const key = part.slice(0, at);
    let value = "";
    try {
      value = decodeURIComponent(part.slice(at + 1));
    } catch {
      continue;
    }
    switch (key) {
      case "view":
        state.view = oneOf(VIEWS, value, state.view);
        break;
      case "inverted":
        state.inverted = value === "1";
        break;
      case "flames":
        state.flames = value === "1";
        break;
      case "processes":
        state.noProcesses = value === "0";
        break;
      case "zoom":
        state.zoom = value.split(".").map(Number).filter(isNumber);
        break;
      case "fn":
        state.fn = isNumber(Number(value)) ? Number(value) : -1;
        break;
      case "search":
        state.search = value.slice(0, 1000);
        break;
      case "color":
        state.color = oneOf(COLORS, value, "");
        break;
      case "by":
        state.bySamples = value === "samples";
        break;
      case "event":
        state.event = isNumber(Number(value)) ? Number(value) : -1;
        break;
      case "time":
        state.time = range(value);
        break;
      case "base":
        state.base = range(value);
        break;
      case "width":
        state.width = oneOf(WIDTHS, value, state.width);
        break;
      case "lanes":
        state.lanes = oneOf(LANES, value, state.lanes);
        break;
      case "filters":
        state.filters = pairs(value, FILTERS).map(([kind, id]) => ({ kind, id }));
        break;
      case "transforms":
        state.transforms = pairs(value, OPS).map(([op, id]) => ({ op: /** @type {any} */ (op), id }));
        break;
      case "sort":
        state.sort = oneOf(SORTS, value, state.sort);
        break;
    }
  }
  return state;
}

/** @param {number} number */
function isNumber(number) {
  return Number.isSafeInteger(number) && number >= 0;
}

/**
 * @param {string[]} known
 * @param {string} value
 * @param {string} other
 */
function oneOf(known, value, other) {
  return known.includes(value) ? value : other;
}

/**
 * @param {string} text
 * @returns {[number, number] | null}
 */
function range(text) {
  const [from, to] = text.split("-").map(Number);
  return isNumber(from) && isNumber(to) && from < to ? [from, to] : null;
}

/**
 * @param {string} text
 * @param {string[]} known
 * @returns {[string, number][]}
 */
function pairs(text, known) {
  const words = text.split("_").map((word) => word.split("."));
  const read = words.map((word) => /** @type {[string, number]} */ ([word[0], Number(word[1])]));
  return read.filter(([name, id]) => known.includes(name) && isNumber(id)).slice(0, 200);
}
