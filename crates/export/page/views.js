// The views of the figures.

import { codeOf } from "./code.js";
import { el } from "./dom.js";
import { narrowBelow, squeezed } from "./layout.js";
import { legendOf } from "./legend.js";
import { amountText, showsAdded } from "./picture.js";
import { baseName, countText, percentText, shortName } from "./text.js";
import { KINDS, nodeAt } from "./tree.js";

/** @typedef {import("./main.js").Page} Page */
/** @typedef {import("./state.js").State} State */
/** @typedef {import("./flame.js").FlameView} FlameView */
/** @typedef {import("./table.js").Table} Table */

/**
 * Common settings of flame graphs.
 * @param {Page} page
 * @param {import("./groups.js").Grown} grown
 * @param {Partial<import("./flame.js").Shown>} more
 * @returns {import("./flame.js").Shown}
 */
export function shown(page, grown, more) {
  const { figures, profile, state } = page;
  const color = page.color();
  const ranks = color === "object" ? figures.objects().ranks : null;
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
    color,
    marks: figures.marks(),
    nameOf: (fn) => profile.nameOf(fn),
    objectPlace: (fn) => (ranks ? (ranks[profile.objectNumber(fn)] ?? 0) : 0),
    label: "",
    ...more,
  };
}

/**
 * Shows elements in the view area, unless they are already there. Reinserting a graph resets its
 * scroll position.
 * @param {Page} page
 * @param {Element[]} parts
 */
function put(page, ...parts) {
  const { children } = page.main;
  if (children.length === parts.length && parts.every((part, i) => children[i] === part)) return;
  page.main.replaceChildren(...parts);
  page.flame.scrolled = 0;
}

/** @param {Page} page */
export function showFlame(page) {
  const { figures, state } = page;
  const grown = figures.flame();
  page.grown = grown;
  const root = nodeAt(grown.tree, grown.total, state.zoom);
  const label = `Flame graph${state.inverted ? ", leaves first" : ""}, ${showsAdded(page) ? amountText(page) : `of ${page.profile.amount(figures.whole, figures.all, page.by())}`}. Arrows move, Enter zooms. The table beside it has the same functions.`;
  page.legend.replaceChildren(...legendOf(page, page.color()));
  put(page, page.legend, page.flame.root);
  const parts = shown(page, grown, { root, label });
  page.flame.show({ ...parts, size: squeezed(parts.tree, parts.size, root) });
  page.tell(page.flame.current >= 0 ? page.flame.current : root);
}

/** @param {Page} page */
export function showChronicle(page) {
  const { figures, profile, state } = page;
  const columns = Math.max(300, Math.round(2 * page.main.getBoundingClientRect().width));
  const made = figures.chronicle(columns);
  const base = null;
  page.grown = { tree: made.tree, own: made.own, total: made.size, baseOwn: base, baseTotal: base };
  const name = `${profile.taskName(made.task)}${made.others > 0 ? `, the heaviest of ${countText(made.others + 1)} threads; select others on the time line` : ""}`;
  page.note.textContent = `${name}. From left to right: time, from ${profile.seconds(state.time?.[0] ?? 0).toFixed(3)} s on. Select a shorter range above to see more.`;
  const color = page.color() === "diff" || page.color() === "own" ? "kind" : page.color();
  page.legend.replaceChildren(...legendOf(page, color));
  put(page, page.note, page.legend, page.flame.root);
  page.flame.show({ ...shown(page, page.grown, { root: 0, label: `Stacks in order of time of ${name}` }), size: made.size, whole: made.size[0], color });
  page.tell(0);
}

/** @param {Page} page */
export function showTable(page) {
  const { figures, profile, state } = page;
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
  page.table.show({
    caption: state.search ? "Functions that match" : "Functions",
    headings,
    count: rows.length,
    share: (i) => now.own[rows[i]] / (whole || 1),
    cells: (i) => {
      const fn = rows[i];
      const cells = [percentText(now.own[fn], whole), percentText(now.total[fn], whole)];
      if (base) cells.push(percentText(base.own[fn], baseWhole), signed(figures.delta(now.own[fn], base.own[fn])));
      return [...cells, nameButton(page, fn), baseName(profile.objectName(profile.objectNumber(fn)))];
    },
    sort: figures.sortedBy,
    sortBy: (sort) => page.change({ sort }, false),
  });
  page.main.replaceChildren(page.table.root);
}

/**
 * @param {Page} page
 * @param {number} fn
 * @param {boolean} [isShort] without generic arguments and parameters
 */
export function nameButton(page, fn, isShort = false) {
  const { profile } = page;
  const name = profile.nameOf(fn);
  const text = isShort ? shortName(name) : name;
  return el(
    "button",
    { type: "button", class: "link", title: `${name.slice(0, 1000)}: callers and callees`, "aria-label": name.slice(0, 300), click: () => page.change({ view: "sandwich", fn }) },
    ...breakable(text.length > 300 ? `${text.slice(0, 299)}…` : text),
  );
}

/** @param {Page} page */
export function showSandwich(page) {
  const { figures, profile, state } = page;
  if (state.fn < 0 || state.fn >= figures.count) {
    page.main.replaceChildren(el("p", { class: "hint" }, "Select a function in the table beside, or in the flame graph with s or a double click."));
    return;
  }
  const { callers, callees } = figures.sandwich();
  const { now, base } = figures.functions();
  const name = profile.nameOf(state.fn);
  const of = `total ${profile.amount(now.total[state.fn], figures.whole, page.by())}; self ${profile.amount(now.own[state.fn], figures.whole, page.by())}`;
  const before = base ? `; before: total ${percentText(base.total[state.fn], figures.baseWhole)}, self ${percentText(base.own[state.fn], figures.baseWhole)}` : "";
  const tables = el("div", { class: "pair" }, page.callersTable.root, page.calleesTable.root);
  page.legend.replaceChildren(...legendOf(page, page.color()));
  page.main.replaceChildren(el("h2", {}, name), el("p", { class: "hint" }, of + before), page.legend, page.callers.root, page.callees.root, tables, actions(page, state.fn));
  page.callers.show(shown(page, callers, { skip: 1, flames: true, label: `Callers of ${name}, in a table below` }));
  page.callees.show(shown(page, callees, { skip: 1, flames: false, label: `Callees of ${name}, in a table below` }));
  direct(page, page.callersTable, "Callers", callers);
  direct(page, page.calleesTable, "Callees", callees);
}

/**
 * Shows the functions on the second level of a tree.
 * @param {Page} page
 * @param {Table} table
 * @param {string} caption
 * @param {import("./groups.js").Grown} grown
 */
export function direct(page, table, caption, grown) {
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
    cells: (i) => [percentText(total[nodes[i]], whole), percentText(total[nodes[i]], page.figures.whole), nameButton(page, tree.fn[nodes[i]])],
    sort: "",
  });
}

/** @param {Page} page */
export function showTree(page) {
  const { figures, profile, state } = page;
  const grown = figures.flame();
  page.grown = grown;
  const root = nodeAt(grown.tree, grown.total, state.zoom);
  page.main.replaceChildren(page.outline.root);
  page.outline.show({
    tree: grown.tree,
    own: grown.own,
    total: grown.total,
    base: grown.baseTotal,
    whole: figures.whole,
    root,
    nameOf: (node) => profile.nameOf(grown.tree.fn[node]),
    share: (weight) => percentText(weight, figures.whole),
    choose: (node) => page.openNode(node),
  });
}

/** @param {Page} page */
export function showLines(page) {
  const { figures, profile, state, meta } = page;
  const lines = figures.lines();
  const isDiff = figures.isDiff;
  /** @type {import("./table.js").Heading[]} */
  const headings = [{ key: "own", text: "self", number: true }];
  if (isDiff) headings.push({ key: "old", text: "before", number: true });
  headings.push({ key: "line", text: "line" }, { key: "name", text: "function" });
  const name = state.fn >= 0 ? profile.nameOf(state.fn) : "";
  page.lines.show({
    caption: name ? `Lines of ${name.length > 100 ? `${name.slice(0, 99)}…` : name}` : "Lines",
    headings,
    count: lines.length,
    share: (i) => lines[i].now / (figures.whole || 1),
    cells: (i) => {
      const { file, line, now, base, fn } = lines[i];
      const place = file >= 0 ? `${meta.files[file]}:${line}` : "unknown";
      return [percentText(now, figures.whole), ...(isDiff ? [percentText(base, figures.baseWhole)] : []), place, nameButton(page, fn)];
    },
    sort: "own",
  });
  const parts = [page.lines.root];
  const code = /** @type {{fn: number, name: string}[]} */ (meta.annotations);
  const at = state.fn < 0 ? -1 : code.findIndex(({ fn }) => fn === state.fn);
  if (at >= 0) parts.push(codeOf(page, at));
  else if (code.length) {
    const buttons = code.map(({ fn, name }) => el("button", { type: "button", click: () => page.change({ view: "lines", fn }) }, name.slice(0, 80)));
    parts.unshift(el("p", { class: "actions" }, "instructions of ", ...buttons));
  }
  if (state.fn >= 0) parts.unshift(el("p", {}, el("button", { type: "button", click: () => page.change({ fn: -1 }) }, "lines of all functions")));
  page.main.replaceChildren(...parts);
}

/**
 * Side table: functions below the shown frame.
 * @param {Page} page
 * @param {string} view
 */
export function showSide(page, view) {
  const { figures, profile } = page;
  const isBeside = view === "flame" || view === "sandwich" || view === "time" || view === "tree";
  page.aside.classList.toggle("only-told", !isBeside);
  page.side.root.hidden = !isBeside;
  if (!isBeside) return;
  const { now, base } = figures.functions();
  const rows = figures.sorted();
  // Zooming does not change it.
  if (page.sideOf === rows) return;
  page.sideOf = rows;
  page.side.show({
    caption: page.state.search ? "Functions that match" : "Functions",
    headings: [
      { key: "own", text: "self", number: true, sort: true },
      ...(base ? [{ key: "delta", text: "change", number: true, sort: true }] : []),
      { key: "total", text: "total", number: true, sort: true },
      { key: "name", text: "function", sort: true },
    ],
    count: rows.length,
    share: (i) => now.own[rows[i]] / (figures.whole || 1),
    cells: (i) => {
      const fn = rows[i];
      const delta = base ? [signed(figures.delta(now.own[fn], base.own[fn]))] : [];
      return [percentText(now.own[fn], figures.whole), ...delta, percentText(now.total[fn], figures.whole), nameButton(page, fn, true)];
    },
    sort: figures.sortedBy,
    sortBy: (sort) => page.change({ sort }, false),
  });
}

/**
 * Describes a node, in lines.
 * @param {Page} page
 * @param {FlameView} view
 * @param {number} node
 * @returns {string[]}
 */
export function linesIn(page, view, node) {
  const { figures, profile, state } = page;
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
  lines.push(`total ${profile.amount(shown.total[node], figures.whole, page.by())}`);
  lines.push(`self ${profile.amount(shown.own[node], figures.whole, page.by())}`);
  const narrow = narrowBelow(shown.tree, shown.size, shown.total, node, shown.root, view.width);
  if (narrow.count > 0) {
    const frames = narrow.count === 1 ? "1 frame below it is" : `${countText(narrow.count)} frames below it are`;
    lines.push(`${frames} too narrow to be drawn: ${percentText(narrow.weight, figures.whole)}`);
  }
  if (shown.base) lines.push(`before ${percentText(shown.base[node], figures.baseWhole)}: ${signed(figures.delta(shown.total[node], shown.base[node]))} of all`);
  return lines;
}

/**
 * Action buttons of a function.
 * @param {Page} page
 * @param {number} fn
 */
export function actions(page, fn) {
  const { state, profile } = page;
  if (fn >= profile.firstProcess) return processActions(page, fn - profile.firstProcess);
  const button = (/** @type {string} */ text, /** @type {Partial<State>} */ change, /** @type {string} */ title) =>
    el("button", { type: "button", title, click: () => page.change(change) }, text);
  const filter = (/** @type {string} */ kind, /** @type {number} */ id) => ({ filters: [...state.filters, { kind, id }] });
  const transform = (/** @type {any} */ op, /** @type {number} */ id) => ({ transforms: [...state.transforms, { op, id }], zoom: [] });
  const group = (/** @type {string} */ name, /** @type {Node[]} */ ...buttons) =>
    el("div", { class: "actions", role: "group", "aria-label": name }, el("span", { class: "hint" }, `${name}:`), ...buttons);
  const object = profile.objectNumber(fn);
  const file = baseName(profile.objectName(object)).slice(0, 40);
  const isFunction = fn < profile.functions;
  const groups = [
    group(
      "show",
      button("callers and callees", { view: "sandwich", fn }, "Its callers above, its callees below (s)"),
      button("lines", { view: "lines", fn }, "Its source lines, and its instructions if the page has them"),
    ),
  ];
  if (isFunction) {
    const keep = [
      button("stacks with it", filter("has", fn), "Only samples with this function anywhere in their stack"),
      button("stacks without it", filter("not", fn), "Only samples without this function in their stack"),
      button("its self", filter("leaf", fn), "Only samples that were taken in this function itself"),
    ];
    if (file) keep.push(button(`self of ${file}`, filter("dso", object), `Only samples that were taken in ${file}`));
    groups.push(group("keep only", ...keep));
  }
  const change = [
    button("remove it", transform("drop", fn), "Remove its frames; their weight goes to their callers"),
    button("hide what it calls", transform("cut", fn), "Count everything it calls as its own weight"),
    button("begin at it", transform("root", fn), "Start stacks that contain it at this function"),
  ];
  if (isFunction && file) change.push(button(`make ${file} one frame`, transform("object", object), `Merge neighbouring frames of ${file}`));
  groups.push(group("change frames", ...change));
  return el("div", { class: "groups" }, ...groups);
}

/**
 * Action button of the processes with a name.
 * @param {Page} page
 * @param {number} process
 */
function processActions(page, process) {
  const { state, profile } = page;
  const { tasks, processOf } = profile;
  /** @type {Map<string, import("./filter.js").Filter>} */
  const filters = new Map();
  for (let i = 0; i < tasks.n && filters.size < 150; i++) {
    if (processOf[i] !== process) continue;
    const [kind, id] = tasks.pid[i] < 0 ? ["comm", tasks.comm[i]] : ["pid", tasks.pid[i]];
    filters.set(`${kind}.${id}`, { kind, id });
  }
  const others = state.filters.filter(({ kind }) => !["pid", "tid", "comm"].includes(kind));
  const click = () => page.change({ filters: [...others, ...filters.values()], zoom: [] });
  return el("div", { class: "groups" }, el("div", { class: "actions" }, el("button", { type: "button", title: "Only samples of these processes", click }, "only this")));
}

/**
 * Name with line break opportunities after `::`, `/` and `_`.
 * @param {string} name
 * @returns {(Node | string)[]}
 */
function breakable(name) {
  return name.split(/(?<=::|\/)|(?<=[^_]_)(?=[^_])/).flatMap((part, i) => (i > 0 ? [el("wbr"), part] : [part]));
}

/**
 * Formats a difference of shares with its sign.
 * @param {number} delta
 */
export function signed(delta) {
  const points = (100 * delta).toFixed(2);
  return points === "-0.00" || points === "0.00" ? "0" : `${delta > 0 ? "+" : "−"}${points.replace("-", "")} %`;
}
