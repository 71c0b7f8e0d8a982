// The page: its parts, and the actions of clicks and keys.

import { showBar, showPills, showTools } from "./bars.js";
import { copy, help, tsv } from "./dialogs.js";
import { el, isDark } from "./dom.js";
import { Figures } from "./figures.js";
import { FlameView } from "./flame.js";
import { Outline } from "./outline.js";
import { printable } from "./paper.js";
import { Profile, Sections } from "./profile.js";
import { pictureOf, savePicture, showsAdded } from "./picture.js";
import { patternOf } from "./search.js";
import { firstState, stateOf, stateText } from "./state.js";
import { Table } from "./table.js";
import { countText, percentText } from "./text.js";
import { Timeline } from "./timeline.js";
import { nodeAt } from "./tree.js";
import { actions, linesIn, showChronicle, showFlame, showLines, showSandwich, showSide, showTable, showTree } from "./views.js";

/** @typedef {import("./state.js").State} State */

/** Controller of the page. */
export class Page {
  /** @param {Profile} profile */
  constructor(profile) {
    this.profile = profile;
    this.figures = new Figures(profile);
    this.meta = profile.meta;
    /** @type {State} */
    this.state = firstState();
    this.node = 0;
    /** Times of recent address updates. @type {number[]} */
    this.writes = [];
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.writing = undefined;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.typing = undefined;
    /** Last written address. @type {string | undefined} */
    this.written = undefined;
    /** Shown tree. @type {import("./groups.js").Grown | null} */
    this.grown = null;
    /** Milliseconds for loading and for the last change. */
    this.loaded = 0;
    this.took = 0;
    /** Shown rows of the side table, and inputs of the timeline. @type {number[] | null} */
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
      lines: (/** @type {number} */ node) => linesIn(this, view, node),
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
    printable(this);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.show());
    this.read();
  }

  build() {
    // A saved page contains the rendered elements.
    document.getElementById("app")?.remove();
    const meta = this.meta;
    const facts = [el("p", { class: "facts" }, meta.subtitle)];
    const bad = /** @type {string[]} */ (meta.verdict).filter((line) => !/\b100\.0%|^idle:/.test(line));
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
    const keys = el("button", { type: "button", click: () => this.help(), title: "what the keys do (?)" }, "keys");
    const header = el("header", {}, el("div", { class: "top" }, el("h1", {}, meta.title), el("span", { class: "right" }, theme, keys)), el("div", { class: "notes" }, ...facts));
    this.bar = el("div", { class: "bar", role: "toolbar", "aria-label": "View" });
    this.search = el("input", {
      type: "search",
      id: "search",
      placeholder: "search functions",
      title: "Words or a regular expression; a capital letter makes it case-sensitive (/)",
      "aria-label": "Search functions by regular expression",
      input: () => this.typed(),
      keydown: (/** @type {KeyboardEvent} */ event) => this.searchKey(event),
    });
    this.found = el("span", { class: "found", role: "status" });
    this.pills = el("span", { class: "pills", role: "group", "aria-label": "Filters" });
    this.tools = el("span", { class: "choice", role: "group", "aria-label": "Tools" });
    this.lanes = el("div", { class: "bar" });
    this.main = el("div", { class: "main" });
    this.note = el("p", { class: "hint" });
    this.legend = el("div", { class: "legend", role: "group", "aria-label": "Colours" });
    this.told = el("section", { class: "told-of", "aria-label": "Frame", "aria-live": "polite" });
    this.aside = el("aside", { "aria-label": "Frame and functions" }, this.told, this.side.root);
    const parts = [header];
    if (this.timeline) parts.push(el("section", { "aria-label": "Time line", class: "time" }, this.lanes, this.timeline.root));
    parts.push(
      this.bar,
      el("div", { class: "bar" }, el("span", { role: "search", class: "choice" }, this.search, this.found), this.pills, this.tools),
      el("div", { class: "work" }, this.main, this.aside),
      el("footer", {}, `rprof ${meta.version}. This page makes no network requests: everything is in this file.`),
    );
    document.body.append(el("div", { id: "app" }, ...parts));
    const fixed = document.getElementById("static");
    if (fixed) fixed.hidden = true;
  }

  /** Reads the state from the address. */
  read() {
    const text = location.hash;
    if (this.written !== undefined && text.replace(/^#/, "") === this.written) return;
    this.state = stateOf(text);
    // Memory belongs to processes.
    if (this.profile.rows.memory !== undefined && !text.includes("lanes=")) this.state.lanes = "process";
    this.written = text.replace(/^#/, "");
    this.show();
  }

  /**
   * Changes the state and the address.
   * @param {Partial<State>} change
   * @param {boolean} [isStep] true if Back undoes it
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
   * Writes the state into the address. Delays the update if browsers would reject it as too
   * frequent.
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
      // In a frame without an origin, the state exists only in memory.
    }
  }

  /** Renders the state. */
  show() {
    const { state, figures, profile } = this;
    figures.set(state);
    const begin = performance.now();
    if (this.search.value !== state.search) this.search.value = state.search;
    showBar(this);
    showTools(this);
    showPills(this);
    this.showTimeline();
    this.node = 0;
    this.main.className = `main view-${state.view}`;
    const view = state.view === "time" && !this.timeline ? "flame" : state.view;
    if (view === "flame") showFlame(this);
    else if (view === "time") showChronicle(this);
    else if (view === "table") showTable(this);
    else if (view === "sandwich") showSandwich(this);
    else if (view === "tree") showTree(this);
    else showLines(this);
    showSide(this, view);
    this.showFound();
    if (view !== "flame" && view !== "time") this.tell(0);
    this.took = performance.now() - begin;
    document.title = state.fn >= 0 && view === "sandwich" ? `${profile.nameOf(state.fn)} · ${this.meta.title}` : this.meta.title;
  }

  /** Selected or default colour mode. */
  color() {
    if (this.state.color === "diff" && !this.figures.isDiff) return "kind";
    return this.state.color || (this.profile.oldRows ? "diff" : "kind");
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
      masks: figures.rowMasks(),
    });
  }

  /** Selected weighting. */
  by() {
    return { event: this.figures.event ?? 0, bySamples: this.state.bySamples };
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
    const at = nodeAt(this.grown.tree, this.grown.total, path);
    this.flame.select(at);
  }

  /** @param {number} node */
  openNode(node) {
    const fn = this.grown?.tree.fn[node] ?? -1;
    if (fn >= 0 && fn < this.profile.firstProcess) this.change({ view: "sandwich", fn });
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
    return linesIn(this, this.flame, node);
  }

  /**
   * Describes a node beside the graph.
   * @param {number} node
   */
  tell(node) {
    this.node = node;
    const fn = this.grown && (this.state.view === "flame" || this.state.view === "time") ? this.grown.tree.fn[node] : -1;
    if (fn < 0) {
      this.told.replaceChildren(el("p", { class: "hint" }, this.state.view === "flame" ? "Click a frame to zoom in, or a frame above it to zoom out; double click for its callers and callees." : ""));
      return;
    }
    const [name, ...lines] = linesIn(this, this.flame, node);
    const text = name.length > 2000 ? `${name.slice(0, 1999)}…` : name;
    this.told.replaceChildren(el("h2", {}, text), ...lines.map((line) => el("p", {}, line)), actions(this, fn));
  }

  /**
   * Selects a lane, or adds it to the selection; deselects it if it is selected.
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
    const found = figures.found();
    if (!found) return;
    const parts = [
      `${countText(found.functions)} ${found.functions === 1 ? "function" : "functions"}`,
      `${percentText(found.total, figures.whole)} of the selection`,
      ...(showsAdded(this) ? [] : [`${percentText(found.total, figures.all)} of all`]),
      `self ${percentText(found.own, figures.whole)}`,
    ];
    if (state.zoom.length && !state.inverted && state.view === "flame" && this.grown) {
      const root = nodeAt(this.grown.tree, this.grown.total, state.zoom);
      const part = figures.foundBelow(this.grown, root);
      if (part) parts.push(`${percentText(part.total, this.grown.total[root])} of what is shown`);
    }
    this.found.textContent = parts.join(" · ");
  }

  theme() {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    this.show();
  }

  /** Opens the copy dialog. */
  copy() {
    copy(this);
  }

  /** The shown graph as SVG. */
  picture() {
    return pictureOf(this);
  }

  /** Opens the help dialog. */
  help() {
    help(this);
  }

  /** Shown functions as tab-separated values. */
  tsv() {
    return tsv(this);
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
    else if (event.key === "p") savePicture(this);
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

if (typeof document !== "undefined") {
  const begin = performance.now();
  const text = (/** @type {string} */ name) => document.getElementById(`d-${name}`)?.textContent ?? null;
  // In a saved page, elements follow this script. Wait until they exist.
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
      // Scripting access for people who open the file.
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
