// The page: what stands where, and what a click or a key does.

import { foldedText, stackNames, tsvText } from "./copy.js";
import { choiceOf, el, isDark, selectOf } from "./dom.js";
import { Figures } from "./figures.js";
import { FILTER_NAMES } from "./filter.js";
import { FlameView } from "./flame.js";
import { Outline } from "./outline.js";
import { Profile, Sections } from "./profile.js";
import { patternOf } from "./search.js";
import { firstState, stateOf, stateText } from "./state.js";
import { Table } from "./table.js";
import { baseName, countText, percentText, shortName } from "./text.js";
import { Timeline } from "./timeline.js";
import { KINDS } from "./tree.js";

const KEYS = [
  ["1 … 6", "views: flame graph, in order of time, functions, callers and callees, tree, lines"],
  ["arrows", "in the flame graph: to callers, callees and neighbours; on the time line: move the choice (Shift: make it longer)"],
  ["Enter", "zoom to the frame, or open the row"],
  ["Escape", "one step out: zoom, then search, then time"],
  ["s", "callers and callees of the frame"],
  ["i", "turn stacks round: leaves first"],
  ["f", "roots at the bottom, or at the top"],
  ["/", "search; Enter the next that matches, Shift+Enter the one before, Alt+Enter only stacks that match"],
  ["c", "copy"],
  ["t", "dark or light"],
  ["u", "undo, as Back does"],
  ["?", "these keys"],
];

/** @typedef {import("./state.js").State} State */

/** The page. */
class Page {
  /** @param {Profile} profile */
  constructor(profile) {
    this.profile = profile;
    this.figures = new Figures(profile);
    this.meta = profile.meta;
    /** @type {State} */
    this.state = firstState();
    this.node = 0;
    /** Times at which the address was written. @type {number[]} */
    this.writes = [];
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.writing = undefined;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.typing = undefined;
    /** What the address has. @type {string | undefined} */
    this.written = undefined;
    /** Tree that is shown. @type {import("./groups.js").Grown | null} */
    this.grown = null;
    /** Milliseconds that loading and the last change took. */
    this.loaded = 0;
    this.took = 0;
    /** Rows that the table beside has, and what the time line shows. @type {number[] | null} */
    this.sideOf = null;
    this.timelineOf = "";
    const events = {
      zoom: (/** @type {number} */ node) => this.zoom(node),
      current: (/** @type {number} */ node) => this.tell(node),
      open: (/** @type {number} */ node) => this.openNode(node),
      lines: (/** @type {number} */ node) => this.linesOf(node),
    };
    this.flame = new FlameView(events);
    const from = (/** @type {FlameView} */ view) => ({
      zoom: (/** @type {number} */ node) => this.openOther(view, node),
      current: () => {},
      open: (/** @type {number} */ node) => this.openOther(view, node),
      lines: (/** @type {number} */ node) => this.linesIn(view, node),
    });
    this.callers = new FlameView(/** @type {any} */ ({}));
    this.callers.events = from(this.callers);
    this.callees = new FlameView(/** @type {any} */ ({}));
    this.callees.events = from(this.callees);
    this.table = new Table();
    this.side = new Table();
    this.callersTable = new Table();
    this.calleesTable = new Table();
    this.lines = new Table();
    this.outline = new Outline();
    this.timeline =
      this.meta.hasTimes && profile.rows.n > 0
        ? new Timeline(profile, {
            select: (time, isBase) => this.change(isBase ? { base: time, color: time ? "diff" : "" } : { time }),
            lane: (filters, isMore) => this.chooseLane(filters, isMore),
          })
        : null;
    this.build();
    addEventListener("hashchange", () => this.read());
    addEventListener("keydown", (event) => this.key(event));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.show());
    this.read();
  }

  build() {
    // A page that was saved has what was shown then.
    document.getElementById("app")?.remove();
    const meta = this.meta;
    const facts = [el("p", { class: "facts" }, meta.subtitle)];
    const bad = /** @type {string[]} */ (meta.verdict).filter((line) => !/^all stacks|100(\.0)?% of/.test(line));
    const list = (/** @type {string[]} */ lines) => el("ul", {}, ...lines.map((line) => el("li", {}, line)));
    if (meta.verdict.length === 1) facts.push(el("p", { class: "facts" }, meta.verdict[0]));
    else if (meta.verdict.length) facts.push(el("details", { class: "verdict", open: bad.length > 0 && bad.length < 4 }, el("summary", {}, meta.verdict[0]), list(meta.verdict.slice(1))));
    if (meta.coarser.length) facts.push(el("p", { class: "told" }, `To keep this page small: ${meta.coarser.join("; ")}. (--max-size)`));
    if (meta.header.length) {
      const rows = /** @type {[string, string][]} */ (meta.header).map(([name, fact]) => el("tr", {}, el("th", { scope: "row" }, name), el("td", {}, fact)));
      facts.push(el("details", { class: "verdict" }, el("summary", {}, "how it was recorded"), el("table", {}, el("tbody", {}, ...rows))));
    }
    if (meta.oldTitle) facts.push(el("p", { class: "facts" }, `compared with ${meta.oldTitle}`));
    const theme = el("button", { type: "button", click: () => this.theme(), title: "dark or light (t)" }, "◐");
    theme.setAttribute("aria-label", "dark or light");
    const help = el("button", { type: "button", click: () => this.help(), title: "keys (?)" }, "?");
    help.setAttribute("aria-label", "keys");
    const header = el("header", {}, el("div", { class: "top" }, el("h1", {}, meta.title), el("span", { class: "right" }, theme, help)), ...facts);
    this.bar = el("div", { class: "bar", role: "toolbar", "aria-label": "View" });
    this.search = el("input", {
      type: "search",
      id: "search",
      placeholder: "search (regular expression)",
      "aria-label": "Search functions by regular expression",
      input: () => this.typed(),
      keydown: (/** @type {KeyboardEvent} */ event) => this.searchKey(event),
    });
    this.found = el("span", { class: "found", role: "status" });
    this.pills = el("span", { class: "pills", role: "group", "aria-label": "Filters" });
    this.tools = el("span", { class: "choice", role: "group", "aria-label": "Tools" });
    this.lanes = el("div", { class: "bar" });
    this.main = el("div", { class: "main" });
    this.told = el("section", { class: "told-of", "aria-label": "Frame", "aria-live": "polite" });
    this.aside = el("aside", { "aria-label": "Frame and functions" }, this.told, this.side.root);
    const parts = [header];
    if (this.timeline) parts.push(el("section", { "aria-label": "Time line", class: "time" }, this.lanes, this.timeline.root));
    parts.push(
      this.bar,
      el("div", { class: "bar" }, el("span", { role: "search", class: "choice" }, this.search, this.found), this.pills, this.tools),
      el("div", { class: "work" }, this.main, this.aside),
      el("footer", {}, `rprof ${meta.version}. This page asks nobody for anything: all of it is in this file.`),
    );
    document.body.append(el("div", { id: "app" }, ...parts));
    const fixed = document.getElementById("static");
    if (fixed) fixed.hidden = true;
  }

  /** Reads the state out of the address. */
  read() {
    const text = location.hash;
    if (this.written !== undefined && text.replace(/^#/, "") === this.written) return;
    this.state = stateOf(text);
    this.written = text.replace(/^#/, "");
    this.show();
  }

  /**
   * Changes the state, and the address with it.
   * @param {Partial<State>} change
   * @param {boolean} [isStep] whether Back undoes it
   */
  change(change, isStep = true) {
    const next = { ...this.state, ...change };
    const keepsTree = !("filters" in change || "time" in change || "inverted" in change || "transforms" in change || "zoom" in change);
    if (!keepsTree && !("zoom" in change) && ("inverted" in change || "transforms" in change)) next.zoom = [];
    this.state = next;
    this.write(isStep);
    this.show();
  }

  /**
   * Writes the state into the address: at once, or, where that would be too often for a browser, after a while.
   * @param {boolean} isStep
   */
  write(isStep) {
    clearTimeout(this.writing);
    const now = performance.now();
    this.writes = this.writes.filter((time) => now - time < 10_000);
    if (this.writes.length >= 60) {
      this.writing = setTimeout(() => this.write(isStep), 1000);
      return;
    }
    this.writes.push(now);
    const text = stateText(this.state);
    this.written = text;
    try {
      if (isStep) location.hash = text;
      else location.replace(`#${text}`);
      this.written = location.hash.replace(/^#/, "");
    } catch {
      // A frame without an origin: the state is that of this page only.
    }
  }

  /** Shows the state. */
  show() {
    const { state, figures, profile } = this;
    figures.set(state);
    const begin = performance.now();
    if (this.search.value !== state.search) this.search.value = state.search;
    this.showBar();
    this.showTools();
    this.showPills();
    this.showTimeline();
    this.node = 0;
    this.main.className = `main view-${state.view}`;
    const view = state.view === "time" && !this.timeline ? "flame" : state.view;
    if (view === "flame") this.showFlame();
    else if (view === "time") this.showChronicle();
    else if (view === "table") this.showTable();
    else if (view === "sandwich") this.showSandwich();
    else if (view === "tree") this.showTree();
    else this.showLines();
    this.showSide(view);
    this.showFound();
    if (view !== "flame" && view !== "time") this.tell(0);
    this.took = performance.now() - begin;
    document.title = state.fn >= 0 && view === "sandwich" ? `${profile.nameOf(state.fn)} · ${this.meta.title}` : this.meta.title;
  }

  showBar() {
    const { state, figures, meta, profile } = this;
    /** @type {[string, string][]} */
    const views = [["flame", "Flame graph"]];
    if (this.timeline) views.push(["time", "In order of time"]);
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
      choiceOf("View", views, state.view, (view) => this.change({ view })),
      flip("leaves first", state.inverted, () => this.change({ inverted: !state.inverted, zoom: [] }), "turn stacks round (i)"),
      flip("flames", state.flames, () => this.change({ flames: !state.flames }), "roots at the bottom (f)"),
      selectOf("colour", colors, this.color(), (color) => this.change({ color }, false)),
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
          (width) => this.change({ width }, false),
        ),
      );
    }
    /** @type {[string, string][]} */
    const events = meta.events.map((/** @type {any} */ event, /** @type {number} */ i) => [event.samples > 0 ? String(i) : "", event.name]);
    if (events.filter(([i]) => i !== "").length > 1) {
      parts.push(selectOf("event", events.filter(([i]) => i !== ""), String(figures.event), (event) => this.change({ event: Number(event) })));
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
          (by) => this.change({ bySamples: by === "samples" }, false),
        ),
      );
    }
    this.bar.replaceChildren(...parts);
    if (this.timeline) {
      this.lanes.replaceChildren(
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
          (lanes) => this.change({ lanes }, false),
        ),
        ...this.timeInputs(),
        el("span", { class: "hint" }, "drag: choose a time · Ctrl and drag: a time to compare with · click on a name: only that thread"),
      );
    }
  }

  /** Fields for the time that is chosen. */
  timeInputs() {
    const { state, profile } = this;
    const span = this.timeline?.span ?? 1;
    const [from, to] = state.time ?? [0, span];
    const ticks = (/** @type {string} */ text) => Math.max(0, Math.min(span, Math.round((Number(text) * 1e9) / this.meta.tick)));
    const field = (/** @type {string} */ label, /** @type {number} */ value, /** @type {(at: number) => [number, number]} */ range) =>
      el("input", {
        type: "number",
        step: "any",
        min: 0,
        value: profile.seconds(value).toFixed(3),
        "aria-label": label,
        change: (/** @type {Event} */ event) => {
          const time = range(ticks(/** @type {HTMLInputElement} */ (event.target).value));
          if (time[0] < time[1]) this.change({ time });
        },
      });
    return [
      el("label", { class: "hint" }, "from ", field("from, in seconds", from, (at) => [at, to])),
      el("label", { class: "hint" }, "to ", field("to, in seconds", to, (at) => [from, at])),
    ];
  }

  /** The colour that is chosen, or the one that fits. */
  color() {
    if (this.state.color === "diff" && !this.figures.isDiff) return "kind";
    return this.state.color || (this.profile.oldRows ? "diff" : "kind");
  }

  /** Transforms of the whole, and copies. */
  showTools() {
    const { state } = this;
    const add = (/** @type {any} */ op) => () => this.change({ transforms: [...state.transforms, { op, id: 0 }], zoom: [] });
    const item = (/** @type {string} */ text, /** @type {() => void} */ click) => el("button", { type: "button", click }, text);
    this.tools.replaceChildren(
      item("fold recursion", add("fold")),
      item("without runtime", add("start")),
      item("copy…", () => this.copy()),
      item("reset", () => this.change({ ...firstState(), lanes: state.lanes })),
    );
  }

  showPills() {
    const { state, profile } = this;
    const pills = [];
    const pill = (/** @type {string} */ text, /** @type {Partial<State>} */ without) => {
      const close = el("button", { type: "button", click: () => this.change(without) }, "×");
      close.setAttribute("aria-label", `remove: ${text}`);
      pills.push(el("span", { class: "pill" }, text.length > 120 ? `${text.slice(0, 119)}…` : text, close));
    };
    const range = (/** @type {[number, number]} */ time) => `${profile.seconds(time[0]).toFixed(3)} to ${profile.seconds(time[1]).toFixed(3)} s`;
    if (state.time) pill(`time: ${range(state.time)}`, { time: null });
    if (state.base) pill(`compared with: ${range(state.base)}`, { base: null, color: "" });
    state.filters.forEach((filter, i) => {
      pill(`${FILTER_NAMES.get(filter.kind)}: ${this.filterText(filter)}`, { filters: state.filters.filter((_, at) => at !== i) });
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
    const { figures } = this;
    pills.unshift(el("span", { class: "amount", id: "amount" }, profile.amount(figures.whole, figures.all, this.by())));
    this.pills.replaceChildren(...pills);
  }

  /** @param {import("./filter.js").Filter} filter */
  filterText({ kind, id }) {
    const { profile, meta } = this;
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

  showTimeline() {
    const { state, figures } = this;
    const of = JSON.stringify([figures.chosen, state.time, state.base, state.lanes, state.search, isDark()]);
    if (this.timelineOf === of) return;
    this.timelineOf = of;
    this.timeline?.show({
      lanes: state.lanes,
      event: figures.event ?? 0,
      time: state.time,
      base: state.base,
      filters: state.filters,
      isChosen: figures.rowTest(),
    });
  }

  /** How amounts are weighed. */
  by() {
    return { event: this.figures.event ?? 0, bySamples: this.state.bySamples };
  }

  /**
   * What flame graphs have in common.
   * @param {import("./groups.js").Grown} grown
   * @param {Partial<import("./flame.js").Shown>} more
   * @returns {import("./flame.js").Shown}
   */
  shown(grown, more) {
    const { figures, profile, state } = this;
    return {
      tree: grown.tree,
      size: figures.sizes(grown.total, grown.baseTotal),
      own: grown.own,
      total: grown.total,
      base: grown.baseTotal,
      whole: figures.whole,
      baseWhole: figures.baseWhole,
      root: 0,
      skip: 0,
      flames: state.flames,
      color: this.color(),
      marks: figures.marks(),
      nameOf: (fn) => profile.nameOf(fn),
      objectOf: (fn) => profile.objectNumber(fn),
      label: "",
      ...more,
    };
  }

  showFlame() {
    const { figures, state } = this;
    const grown = figures.flame();
    this.grown = grown;
    const root = this.nodeAt(grown.tree, grown.total, state.zoom);
    const label = `Flame graph${state.inverted ? ", leaves first" : ""}, of ${this.profile.amount(figures.whole, figures.all, this.by())}. Arrows move, Enter zooms. The table beside it has the same functions.`;
    if (this.main.firstChild !== this.flame.root) this.main.replaceChildren(this.flame.root);
    this.flame.show(this.shown(grown, { root, label }));
    this.tell(this.flame.current >= 0 ? this.flame.current : root);
  }

  showChronicle() {
    const { figures, profile, state } = this;
    const columns = Math.max(300, Math.round(2 * this.main.getBoundingClientRect().width));
    const made = figures.chronicle(columns);
    const base = null;
    this.grown = { tree: made.tree, own: made.own, total: made.size, baseOwn: base, baseTotal: base };
    const name = `${profile.taskName(made.task)}${made.others > 0 ? `, the heaviest of ${countText(made.others + 1)} threads; choose others on the time line` : ""}`;
    const text = el("p", { class: "hint" }, `${name}. From left to right: time, from ${profile.seconds(state.time?.[0] ?? 0).toFixed(3)} s on. Choose a shorter time above to see more.`);
    this.main.replaceChildren(text, this.flame.root);
    const color = this.color() === "diff" || this.color() === "own" ? "kind" : this.color();
    this.flame.show({ ...this.shown(this.grown, { root: 0, label: `Stacks in order of time of ${name}` }), size: made.size, whole: made.size[0], color });
    this.tell(0);
  }

  showTable() {
    const { figures, profile, state } = this;
    const { now, base } = figures.functions();
    const rows = figures.sorted();
    const { whole, baseWhole } = figures;
    /** @type {import("./table.js").Heading[]} */
    const headings = [
      { key: "own", text: "self", number: true, sort: true },
      { key: "total", text: "total", number: true, sort: true },
    ];
    if (base) headings.push({ key: "old", text: "self before", number: true, sort: true }, { key: "delta", text: "difference", number: true, sort: true });
    headings.push({ key: "name", text: "function", sort: true }, { key: "object", text: "object", sort: true });
    this.table.show({
      caption: state.search ? "Functions that match" : "Functions",
      headings,
      count: rows.length,
      share: (i) => now.own[rows[i]] / (whole || 1),
      cells: (i) => {
        const fn = rows[i];
        const cells = [percentText(now.own[fn], whole), percentText(now.total[fn], whole)];
        if (base) cells.push(percentText(base.own[fn], baseWhole), signed(figures.delta(now.own[fn], base.own[fn])));
        return [...cells, this.nameButton(fn), baseName(profile.objectName(profile.objectNumber(fn)))];
      },
      sort: state.sort,
      sortBy: (sort) => this.change({ sort }, false),
    });
    this.main.replaceChildren(this.table.root);
  }

  /**
   * @param {number} fn
   * @param {boolean} [isShort] without generic arguments and parameters
   */
  nameButton(fn, isShort = false) {
    const { profile } = this;
    const name = profile.nameOf(fn);
    const text = isShort ? shortName(name) : name;
    return el(
      "button",
      { type: "button", class: "link", title: `${name.slice(0, 1000)}: callers and callees`, "aria-label": name.slice(0, 300), click: () => this.change({ view: "sandwich", fn }) },
      ...breakable(text.length > 300 ? `${text.slice(0, 299)}…` : text),
    );
  }

  showSandwich() {
    const { figures, profile, state } = this;
    if (state.fn < 0 || state.fn >= figures.count) {
      this.main.replaceChildren(el("p", { class: "hint" }, "Choose a function: in the table beside, or with s or a double click in the flame graph."));
      return;
    }
    const { callers, callees } = figures.sandwich();
    const { now, base } = figures.functions();
    const name = profile.nameOf(state.fn);
    const of = `total ${profile.amount(now.total[state.fn], figures.whole, this.by())}; self ${profile.amount(now.own[state.fn], figures.whole, this.by())}`;
    const before = base ? `; before: total ${percentText(base.total[state.fn], figures.baseWhole)}, self ${percentText(base.own[state.fn], figures.baseWhole)}` : "";
    const tables = el("div", { class: "pair" }, this.callersTable.root, this.calleesTable.root);
    this.main.replaceChildren(el("h2", {}, name), el("p", { class: "hint" }, of + before), this.callers.root, this.callees.root, tables, this.actions(state.fn));
    this.callers.show(this.shown(callers, { skip: 1, flames: true, label: `Callers of ${name}, in a table below` }));
    this.callees.show(this.shown(callees, { skip: 1, flames: false, label: `Callees of ${name}, in a table below` }));
    this.direct(this.callersTable, "Callers", callers);
    this.direct(this.calleesTable, "Callees", callees);
  }

  /**
   * Shows the functions of the second level of a tree.
   * @param {Table} table
   * @param {string} caption
   * @param {import("./groups.js").Grown} grown
   */
  direct(table, caption, grown) {
    const { tree, total } = grown;
    /** @type {number[]} */
    const nodes = [];
    if (tree.n > 1) for (let i = 2; i < tree.end[1]; i = tree.end[i]) nodes.push(i);
    const whole = tree.n > 1 ? total[1] : 1;
    table.show({
      caption,
      headings: [
        { key: "share", text: "share", number: true },
        { key: "all", text: "of all", number: true },
        { key: "name", text: "function" },
      ],
      count: nodes.length,
      share: (i) => total[nodes[i]] / (whole || 1),
      cells: (i) => [percentText(total[nodes[i]], whole), percentText(total[nodes[i]], this.figures.whole), this.nameButton(tree.fn[nodes[i]])],
      sort: "",
    });
  }

  showTree() {
    const { figures, profile, state } = this;
    const grown = figures.flame();
    this.grown = grown;
    const root = this.nodeAt(grown.tree, grown.total, state.zoom);
    this.main.replaceChildren(this.outline.root);
    this.outline.show({
      tree: grown.tree,
      own: grown.own,
      total: grown.total,
      base: grown.baseTotal,
      whole: figures.whole,
      root,
      nameOf: (node) => profile.nameOf(grown.tree.fn[node]),
      share: (weight) => percentText(weight, figures.whole),
      choose: (node) => this.change({ view: "sandwich", fn: Math.max(0, grown.tree.fn[node]) }),
    });
  }

  showLines() {
    const { figures, profile, state, meta } = this;
    const lines = figures.lines();
    const isDiff = figures.isDiff;
    /** @type {import("./table.js").Heading[]} */
    const headings = [{ key: "own", text: "self", number: true }];
    if (isDiff) headings.push({ key: "old", text: "before", number: true });
    headings.push({ key: "line", text: "line" }, { key: "name", text: "function" });
    const name = state.fn >= 0 ? profile.nameOf(state.fn) : "";
    this.lines.show({
      caption: name ? `Lines of ${name.length > 100 ? `${name.slice(0, 99)}…` : name}` : "Lines",
      headings,
      count: lines.length,
      share: (i) => lines[i].now / (figures.whole || 1),
      cells: (i) => {
        const { file, line, now, base, fn } = lines[i];
        const place = file >= 0 ? `${meta.files[file]}:${line}` : "unknown";
        return [percentText(now, figures.whole), ...(isDiff ? [percentText(base, figures.baseWhole)] : []), place, this.nameButton(fn)];
      },
      sort: "own",
    });
    const parts = [this.lines.root];
    if (state.fn >= 0) parts.unshift(el("p", {}, el("button", { type: "button", click: () => this.change({ fn: -1 }) }, "lines of all functions")));
    this.main.replaceChildren(...parts);
  }

  /**
   * The table beside the canvas: functions below the frame that is shown.
   * @param {string} view
   */
  showSide(view) {
    const { figures, profile } = this;
    const isBeside = view === "flame" || view === "sandwich" || view === "time" || view === "tree";
    this.aside.classList.toggle("only-told", !isBeside);
    this.side.root.hidden = !isBeside;
    if (!isBeside) return;
    const { now, base } = figures.functions();
    const rows = figures.sorted();
    // Not for each zoom.
    if (this.sideOf === rows) return;
    this.sideOf = rows;
    this.side.show({
      caption: this.state.search ? "Functions that match" : "Functions",
      headings: [
        { key: "own", text: "self", number: true },
        ...(base ? [{ key: "delta", text: "±", number: true }] : []),
        { key: "total", text: "total", number: true },
        { key: "name", text: "function" },
      ],
      count: rows.length,
      share: (i) => now.own[rows[i]] / (figures.whole || 1),
      cells: (i) => {
        const fn = rows[i];
        const delta = base ? [signed(figures.delta(now.own[fn], base.own[fn]))] : [];
        return [percentText(now.own[fn], figures.whole), ...delta, percentText(now.total[fn], figures.whole), this.nameButton(fn, true)];
      },
      sort: this.state.sort,
    });
  }

  /**
   * Node at a path of functions; as far as there is one.
   * @param {import("./tree.js").Tree} tree
   * @param {Float64Array} total
   * @param {number[]} path
   */
  nodeAt(tree, total, path) {
    let node = 0;
    for (const fn of path) {
      let best = -1;
      for (let i = node + 1; i < tree.end[node]; i = tree.end[i]) if (tree.fn[i] === fn && (best < 0 || total[i] > total[best])) best = i;
      if (best < 0) break;
      node = best;
    }
    return node;
  }

  /** @param {number} node */
  zoom(node) {
    if (!this.grown || this.state.view !== "flame") return;
    const { tree } = this.grown;
    const path = [];
    for (let i = node; i !== 0; i = tree.parent[i]) path.push(tree.fn[i]);
    path.reverse();
    if (path.join(".") === this.state.zoom.join(".")) return;
    this.change({ zoom: path });
    const at = this.nodeAt(this.grown.tree, this.grown.total, path);
    this.flame.select(at);
  }

  /** @param {number} node */
  openNode(node) {
    const fn = this.grown?.tree.fn[node] ?? -1;
    if (fn >= 0) this.change({ view: "sandwich", fn });
  }

  /**
   * @param {FlameView} view
   * @param {number} node
   */
  openOther(view, node) {
    const fn = view.shown?.tree.fn[node] ?? -1;
    if (fn >= 0 && fn !== this.state.fn) this.change({ fn });
  }

  /**
   * @param {number} node
   * @returns {string[]}
   */
  linesOf(node) {
    return this.linesIn(this.flame, node);
  }

  /**
   * What is told of a node, in lines.
   * @param {FlameView} view
   * @param {number} node
   * @returns {string[]}
   */
  linesIn(view, node) {
    const { figures, profile, state } = this;
    const shown = view.shown;
    if (!shown) return [];
    const fn = shown.tree.fn[node];
    const lines = [node === 0 ? "all" : profile.nameOf(fn)];
    if (fn >= 0) {
      const object = baseName(profile.objectName(profile.objectNumber(fn)));
      lines.push([object, KINDS[shown.tree.kind[node]], profile.reason(fn)].filter(Boolean).join(" · "));
    }
    if (state.view === "time") {
      lines.push(`${profile.seconds(shown.total[node]).toFixed(4)} s`);
      return lines;
    }
    lines.push(`total ${profile.amount(shown.total[node], figures.whole, this.by())}`);
    lines.push(`self ${profile.amount(shown.own[node], figures.whole, this.by())}`);
    if (shown.base) lines.push(`before ${percentText(shown.base[node], figures.baseWhole)}: ${signed(figures.delta(shown.total[node], shown.base[node]))} of all`);
    return lines;
  }

  /**
   * Tells of a node beside the graph.
   * @param {number} node
   */
  tell(node) {
    this.node = node;
    const fn = this.grown && (this.state.view === "flame" || this.state.view === "time") ? this.grown.tree.fn[node] : -1;
    if (fn < 0) {
      this.told.replaceChildren(el("p", { class: "hint" }, this.state.view === "flame" ? "Click a frame to zoom, again on one above to go back; double click for its callers and callees." : ""));
      return;
    }
    const [name, ...lines] = this.linesIn(this.flame, node);
    const text = name.length > 2000 ? `${name.slice(0, 1999)}…` : name;
    this.told.replaceChildren(el("h2", {}, text), ...lines.map((line) => el("p", {}, line)), this.actions(fn));
  }

  /**
   * Buttons for what can be done with a function.
   * @param {number} fn
   */
  actions(fn) {
    const { state, profile } = this;
    const button = (/** @type {string} */ text, /** @type {Partial<State>} */ change) =>
      el("button", { type: "button", click: () => this.change(change) }, text);
    const filter = (/** @type {string} */ kind, /** @type {number} */ id) => ({ filters: [...state.filters, { kind, id }] });
    const transform = (/** @type {any} */ op, /** @type {number} */ id) => ({ transforms: [...state.transforms, { op, id }], zoom: [] });
    const buttons = [button("callers and callees", { view: "sandwich", fn }), button("lines", { view: "lines", fn })];
    if (fn < profile.functions) {
      buttons.push(button("only stacks with it", filter("has", fn)), button("only without it", filter("not", fn)), button("only taken in it", filter("leaf", fn)));
    }
    buttons.push(button("remove frame", transform("drop", fn)), button("nothing below it", transform("cut", fn)), button("begin at it", transform("root", fn)));
    const object = profile.objectNumber(fn);
    if (fn < profile.functions && profile.objectName(object)) {
      buttons.push(button(`one frame for ${baseName(profile.objectName(object)).slice(0, 40)}`, transform("object", object)), button("only taken in its object", filter("dso", object)));
    }
    return el("div", { class: "actions" }, ...buttons);
  }

  /**
   * Chooses a lane in place of others, or beside them; one that is chosen already is let go.
   * @param {import("./filter.js").Filter[]} lane
   * @param {boolean} isMore
   */
  chooseLane(lane, isMore) {
    const { state } = this;
    const isOf = (/** @type {import("./filter.js").Filter} */ other) => lane.some(({ kind, id }) => other.kind === kind && other.id === id);
    const isThere = state.filters.some(isOf);
    const isLane = (/** @type {import("./filter.js").Filter} */ other) => ["tid", "pid", "comm", "cpu"].includes(other.kind);
    const others = state.filters.filter((other) => !isOf(other) && (isMore || isThere || !isLane(other)));
    this.change({ filters: isThere ? others : [...others, ...lane] });
  }

  typed() {
    clearTimeout(this.typing);
    this.typing = setTimeout(() => this.change({ search: this.search.value }, false), 120);
  }

  /** @param {KeyboardEvent} event */
  searchKey(event) {
    if (event.key === "Escape") {
      this.search.value = "";
      this.change({ search: "" });
      this.flame.canvas.focus();
      event.stopPropagation();
    }
    if (event.key !== "Enter") return;
    clearTimeout(this.typing);
    if (this.state.search !== this.search.value) this.change({ search: this.search.value });
    const marks = this.figures.marks();
    if (!marks) return;
    if (event.altKey) {
      const { total } = this.figures.functions().now;
      /** @type {import("./filter.js").Filter[]} */
      const filters = [];
      for (let fn = 0; fn < this.profile.functions && filters.length < 150; fn++) if (marks[fn] && total[fn] > 0) filters.push({ kind: "has", id: fn });
      this.change({ filters: [...this.state.filters.filter(({ kind }) => kind !== "has"), ...filters], search: "" });
      return;
    }
    const boxes = this.flame.boxes;
    const tree = this.flame.shown?.tree;
    if (!boxes || !tree || this.state.view !== "flame") return;
    const hits = [];
    for (let i = 0; i < boxes.n; i++) if (boxes.node[i] > 0 && marks[tree.fn[boxes.node[i]]]) hits.push(boxes.node[i]);
    if (hits.length === 0) return;
    const at = hits.indexOf(this.flame.current);
    const next = event.shiftKey ? (at <= 0 ? hits.length - 1 : at - 1) : (at + 1) % hits.length;
    this.flame.select(hits[next]);
  }

  showFound() {
    const { figures, state } = this;
    if (state.search === "") {
      this.found.textContent = "";
      return;
    }
    const pattern = patternOf(state.search);
    if (typeof pattern === "string") {
      this.found.textContent = pattern;
      return;
    }
    const found = figures.found(0);
    if (!found) return;
    const parts = [
      `${countText(found.functions)} ${found.functions === 1 ? "function" : "functions"}`,
      `${percentText(found.total, figures.whole)} of the selection`,
      `${percentText(found.total, figures.all)} of all`,
      `self ${percentText(found.own, figures.whole)}`,
    ];
    if (state.zoom.length && !state.inverted && state.view === "flame" && this.grown) {
      const root = this.nodeAt(this.grown.tree, this.grown.total, state.zoom);
      const part = figures.found(root);
      if (part) parts.push(`${percentText(part.total, this.grown.total[root])} of what is shown`);
    }
    this.found.textContent = parts.join(" · ");
  }

  theme() {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    this.show();
  }

  /**
   * Opens a dialog, which goes when it is closed.
   * @param {string} label
   * @param {Node[]} parts
   */
  dialog(label, ...parts) {
    const close = el("button", { type: "button", click: () => dialog.close() }, "close");
    const dialog = el("dialog", { "aria-label": label, close: () => dialog.remove() }, el("h2", {}, label), ...parts, close);
    document.getElementById("app")?.append(dialog);
    dialog.showModal();
    return dialog;
  }

  help() {
    const rows = KEYS.map(([key, what]) => el("tr", {}, el("th", { scope: "row" }, key), el("td", {}, what)));
    this.dialog("Keys", el("table", {}, el("tbody", {}, ...rows)));
  }

  copy() {
    const { figures, profile, state } = this;
    const area = el("textarea", { rows: 14, readonly: true, "aria-label": "Text to copy" });
    const said = el("span", { role: "status" });
    const nameOf = (/** @type {number} */ fn) => profile.nameOf(fn);
    const texts = {
      stack: () => {
        const tree = this.grown?.tree;
        return tree ? stackNames(tree, this.node, nameOf).join("\n") : "";
      },
      folded: () => {
        const { tree } = figures.shape();
        return foldedText(tree, figures.weights().now.own, state.inverted ? 0 : this.nodeAt(tree, figures.weights().now.total, state.zoom), nameOf);
      },
      table: () => this.tsv(),
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
    this.dialog("Copy", el("p", { class: "choice" }, button("stack", "stack"), button("folded stacks", "folded"), button("functions (TSV)", "table"), button("link", "link"), said), area);
  }

  /** Functions that are shown, between tabs. */
  tsv() {
    const { figures, profile } = this;
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

  /** @param {KeyboardEvent} event */
  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    const target = /** @type {HTMLElement} */ (event.target);
    if (/^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName)) return;
    const { state } = this;
    const views = ["flame", "time", "table", "sandwich", "tree", "lines"];
    const number = Number(event.key);
    if (number >= 1 && number <= 6) this.change({ view: views[number - 1] });
    else if (event.key === "/") this.search.focus();
    else if (event.key === "i") this.change({ inverted: !state.inverted, zoom: [] });
    else if (event.key === "f") this.change({ flames: !state.flames });
    else if (event.key === "c") this.copy();
    else if (event.key === "t") this.theme();
    else if (event.key === "u") history.back();
    else if (event.key === "?") this.help();
    else if (event.key === "Escape") {
      if (state.zoom.length) this.change({ zoom: state.zoom.slice(0, -1) });
      else if (state.search) this.change({ search: "" });
      else if (state.time) this.change({ time: null });
      else return;
    } else return;
    event.preventDefault();
  }
}

/**
 * A name that may be broken behind its `::`.
 * @param {string} name
 * @returns {(Node | string)[]}
 */
function breakable(name) {
  return name.split(/(?<=::|\/)/).flatMap((part, i) => (i > 0 ? [el("wbr"), part] : [part]));
}

/**
 * A difference of shares, with its sign.
 * @param {number} delta
 */
function signed(delta) {
  const points = (100 * delta).toFixed(2);
  return points === "-0.00" || points === "0.00" ? "0" : `${delta > 0 ? "+" : "−"}${points.replace("-", "")} %`;
}

if (typeof document !== "undefined") {
  const begin = performance.now();
  const text = (/** @type {string} */ name) => document.getElementById(`d-${name}`)?.textContent ?? null;
  // What is behind this script, if the page was saved, is not there before the document is.
  const whole = new Promise((done) => {
    if (document.readyState === "loading") addEventListener("DOMContentLoaded", done);
    else done(null);
  });
  const read = async () => {
    const profile = await Profile.read(new Sections(text));
    await whole;
    return profile;
  };
  read().then(
    (profile) => {
      const page = new Page(profile);
      // For scripts of whoever has the file open.
      /** @type {any} */ (globalThis).rprof = page;
      page.loaded = performance.now() - begin;
      document.documentElement.dataset.ready = "1";
    },
    (error) => {
      document.body.append(el("p", { class: "told", role: "alert" }, `This page cannot show its data: ${error instanceof Error ? error.message : error}`));
      document.documentElement.dataset.ready = "failed";
    },
  );
}
