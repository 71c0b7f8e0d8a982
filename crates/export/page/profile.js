// The profile, decoded from the page's data blocks.

import { bytesOfBase64, columnsOf, inflate } from "./decode.js";
import { joinMemory } from "./model.js";
import { calledOf } from "./processes.js";
import { baseName, percentText, weightText } from "./text.js";
import { outermost, treeOfSection } from "./tree.js";

/** Sections of a page, decoded on demand. */
export class Sections {
  /** @param {(name: string) => string | null} textOf text of a data block, by name */
  constructor(textOf) {
    this.textOf = textOf;
    const index = JSON.parse(textOf("index") ?? "{}");
    if (index.version !== 1) throw new Error("the versions of this page's data and script differ");
    /** @type {Map<string, import("./decode.js").SectionEntry>} */
    this.entries = new Map(index.sections.map((/** @type {any} */ entry) => [entry.name, entry]));
  }

  /** @param {string} name */
  async bytes(name) {
    const entry = this.entries.get(name);
    const text = this.textOf(name);
    if (!entry || text === null) throw new Error(`the page has no section ${name}`);
    return { entry, bytes: await inflate(bytesOfBase64(text), entry.raw) };
  }

  /**
   * Text of a section.
   * @param {string} name
   */
  async text(name) {
    const { bytes } = await this.bytes(name);
    return new TextDecoder().decode(bytes);
  }

  /**
   * Columns of a section.
   * @param {string} name
   */
  async columns(name) {
    const { entry, bytes } = await this.bytes(name);
    return columnsOf(bytes, entry);
  }

  /**
   * Samples of a section; `null` if the section is missing.
   * @param {string} name
   * @returns {Promise<import("./model.js").Rows | null>}
   */
  async rows(name) {
    if (!this.entries.has(name)) return null;
    const { since, task, cpu, leaf, event, weight, samples } = await this.columns(name);
    const n = since.length;
    const time = new Float64Array(n);
    let now = 0;
    for (let i = 0; i < n; i++) time[i] = now += since[i];
    return { n, time, task, cpu, leaf, event, weight, samples };
  }
}

/** @typedef {Record<string, import("./decode.js").Column>} Columns */

/** Profile of a page. */
export class Profile {
  /**
   * @param {object} parts
   * @param {any} parts.meta description
   * @param {string} parts.names
   * @param {Columns} parts.functions
   * @param {Columns} parts.tree
   * @param {Columns} parts.leaves
   * @param {Columns} parts.tasks
   * @param {import("./model.js").Rows} parts.rows
   * @param {import("./model.js").Rows | null} parts.oldRows
   * @param {Sections} parts.sections sections to read later
   */
  constructor({ sections, meta, names, functions, tree, leaves, tasks, rows, oldRows }) {
    this.meta = meta;
    this.sections = sections;
    this.names = names.split("\n");
    this.functions = this.names.length;
    this.objectOf = functions.object;
    this.reasonOf = functions.reason;
    /** By node: 1 if the call was inlined. */
    this.inlined = new Uint8Array(tree.inlined.length + 1);
    for (let i = 0; i < tree.inlined.length; i++) this.inlined[i + 1] = tree.inlined[i];
    this.tree = treeOfSection(tree.up, tree.function, tree.inlined, functions.kind);
    this.outer = outermost(this.tree, this.functions);
    this.leaves = { n: leaves.node.length, node: leaves.node, file: leaves.file, line: leaves.line };
    this.tasks = {
      n: tasks.pid.length,
      // -1 if unknown.
      pid: Float64Array.from(tasks.pid, (id) => id - 1),
      tid: Float64Array.from(tasks.tid, (id) => id - 1),
      comm: tasks.comm,
      process: Float64Array.from(tasks.process, (name) => name - 1),
    };
    this.rows = rows;
    this.oldRows = oldRows;
    for (const side of [rows, oldRows]) if (side) joinMemory(side, meta.events);
    /** Display names of threads and processes. */
    this.called = calledOf(this.tasks, oldRows ? [rows, oldRows] : [rows]);
    /** Distinct process names, and their index by task. */
    this.processes = [...new Set(this.called.processName)];
    const places = new Map(this.processes.map((name, i) => [name, i]));
    this.processOf = this.called.processName.map((name) => places.get(name) ?? 0);
    /** Marks outermost functions of threads. */
    this.isEntry = new Uint8Array(this.functions);
    for (const fn of meta.entries) this.isEntry[fn] = 1;
    /** Largest CPU number plus 1. */
    this.cpus = 0;
    for (let i = 0; i < rows.n; i++) if (rows.cpu[i] > this.cpus) this.cpus = rows.cpu[i];
  }

  /**
   * Reads a profile from the sections of a page.
   * @param {Sections} sections
   */
  static async read(sections) {
    const rows = await sections.rows("rows");
    if (!rows) throw new Error("the page has no samples");
    return new Profile({
      sections,
      meta: JSON.parse(await sections.text("meta")),
      names: await sections.text("names"),
      functions: await sections.columns("functions"),
      tree: await sections.columns("tree"),
      leaves: await sections.columns("leaves"),
      tasks: await sections.columns("tasks"),
      rows,
      oldRows: await sections.rows("oldrows"),
    });
  }

  /** Pseudo function of the first process. It follows the pseudo functions of objects. */
  get firstProcess() {
    return this.functions + this.meta.objects.length;
  }

  /**
   * Name of a function; for pseudo functions, of the object or process.
   * @param {number} fn
   * @returns {string}
   */
  nameOf(fn) {
    if (fn < 0) return "all";
    if (fn >= this.firstProcess) return String(this.meta.comms[this.processes[fn - this.firstProcess]] ?? "");
    if (fn >= this.functions) return `(${baseName(this.objectName(fn - this.functions))})`;
    if (this.names[fn] !== "") return this.names[fn];
    const object = this.objectName(this.objectOf[fn]);
    return object === "" || object === "[unknown]" ? "[unknown]" : `[${baseName(object)}]`;
  }

  /**
   * Name in the command line's reports.
   * @param {number} fn
   */
  reportName(fn) {
    return this.names[fn] === "" ? "[unknown]" : this.names[fn];
  }

  /**
   * Object of a function.
   * @param {number} fn
   */
  objectNumber(fn) {
    return fn >= this.functions ? fn - this.functions : this.objectOf[fn];
  }

  /** @param {number} object */
  objectName(object) {
    return /** @type {string} */ (this.meta.objects[object] ?? "");
  }

  /**
   * Reason for a missing name; empty if there is a name.
   * @param {number} fn
   */
  reason(fn) {
    return fn < this.functions && this.reasonOf[fn] > 0 ? String(this.meta.reasons[this.reasonOf[fn] - 1]) : "";
  }

  /**
   * Name and id of a thread: the name with the most samples.
   * @param {number} task
   */
  taskName(task) {
    const name = String(this.meta.comms[this.called.threadName[this.called.thread[task]]] ?? "");
    return this.tasks.tid[task] >= 0 ? `${name} ${this.tasks.tid[task]}` : name;
  }

  /**
   * Name and id of a thread's process.
   * @param {number} task
   */
  processName(task) {
    const name = String(this.meta.comms[this.called.processName[task]] ?? "");
    return this.tasks.pid[task] >= 0 ? `${name} ${this.tasks.pid[task]}` : name;
  }

  /**
   * Unit of the weights.
   * @param {{event: number, bySamples: boolean}} choice
   * @returns {string}
   */
  unit(choice) {
    return choice.bySamples ? "samples" : String(this.meta.events[choice.event]?.unit ?? "events");
  }

  /**
   * Formats a weight with unit and share.
   * @param {number} weight
   * @param {number} whole
   * @param {{event: number, bySamples: boolean}} choice
   */
  amount(weight, whole, choice) {
    const scaled = choice.bySamples ? weight : weight * 2 ** this.meta.shift;
    return `${weightText(scaled, this.unit(choice))}, ${percentText(weight, whole)}`;
  }

  /**
   * Seconds since the first sample.
   * @param {number} ticks
   */
  seconds(ticks) {
    return (ticks * this.meta.tick) / 1e9;
  }
}
