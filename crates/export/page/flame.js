// Flame graph: a canvas of the size of the viewport. Rows scroll through it.

import { deltaColor, KIND_COLORS, OBJECT_COLORS, ownColor, THEMES, waitColor } from "./colors.js";
import { el, fitCanvas, isDark } from "./dom.js";
import { boxAt, layout, NARROW } from "./layout.js";
import { fitName, hashOf } from "./text.js";
import { KIND_WAITING } from "./tree.js";

/** Height of a row, in pixels. */
export const ROW = 18;
const FONT = "12px ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace";

/**
 * Content of the view.
 * @typedef {object} Shown
 * @property {import("./tree.js").Tree} tree
 * @property {Float64Array} size width of nodes
 * @property {Float64Array} own
 * @property {Float64Array} total
 * @property {Float64Array | null} base baseline total
 * @property {number} whole base of the shares
 * @property {number} baseWhole
 * @property {number} root node at full width
 * @property {number} skip number of hidden outermost rows
 * @property {boolean} flames roots at the bottom
 * @property {string} color
 * @property {Uint8Array | null} marks functions that match the search
 * @property {(fn: number) => string} nameOf
 * @property {(fn: number) => number} objectPlace colour index of a function's object
 * @property {string} label accessible label
 */

/** View of a tree. */
export class FlameView {
  /**
   * @param {object} events
   * @param {(node: number) => void} events.zoom
   * @param {(node: number) => void} events.current
   * @param {(node: number) => void} events.open
   * @param {(node: number) => string[]} events.lines description of a node
   */
  constructor(events) {
    this.events = events;
    this.canvas = el("canvas", { tabindex: 0, role: "img", class: "boxes" });
    this.over = el("canvas", { class: "over", "aria-hidden": "true" });
    this.space = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    this.space.setAttribute("width", "1");
    this.scroll = el("div", { class: "scroll" }, el("div", { class: "stage" }, this.canvas, this.over), this.space);
    this.cut = el("p", { class: "cut" });
    this.root = el("div", { class: "flame" }, this.scroll, this.cut);
    /** Size for printing. @type {{width: number, rows: number} | null} */
    this.paper = null;
    /** @type {Shown | null} */
    this.shown = null;
    /** @type {import("./layout.js").Boxes | null} */
    this.boxes = null;
    this.current = -1;
    this.hover = -1;
    this.frame = 0;
    this.width = 0;
    this.height = 0;
    /** Height of all rows, and the scroll offset, in pixels. */
    this.rows = 0;
    this.scrolled = 0;
    /** Names by function. @type {Map<number, string>} */
    this.names = new Map();
    /** Character width, once measured. */
    this.letter = 0;
    /** Shades by function. @type {Map<number, number>} */
    this.shades = new Map();
    /** @type {number[]} milliseconds of the last frames */
    this.times = [];
    this.listen();
  }

  listen() {
    this.scroll.addEventListener("scroll", () => {
      this.scrolled = this.scroll.scrollTop;
      this.later();
    });
    new ResizeObserver(() => {
      const before = this.scrolled;
      this.scrolled = this.scroll.scrollTop;
      if (this.measure()) this.place();
      else if (before !== this.scrolled) this.later();
    }).observe(this.scroll);
    this.canvas.addEventListener("mousemove", (/** @type {MouseEvent} */ event) => {
      this.hover = this.at(event);
      this.canvas.classList.toggle("link", this.hover >= 0);
      this.drawOver(event.offsetX, event.offsetY);
    });
    this.canvas.addEventListener("mouseleave", () => {
      this.hover = -1;
      this.drawOver(0, 0);
    });
    this.canvas.addEventListener("click", (/** @type {MouseEvent} */ event) => {
      const box = this.at(event);
      if (box < 0 || !this.boxes) return;
      this.select(this.boxes.node[box]);
      if (event.detail < 2) this.events.zoom(this.current);
    });
    this.canvas.addEventListener("dblclick", (/** @type {MouseEvent} */ event) => {
      const box = this.at(event);
      if (box >= 0 && this.boxes) this.events.open(this.boxes.node[box]);
    });
    this.canvas.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => this.key(event));
    this.canvas.addEventListener("focus", () => this.drawOver(0, 0));
    this.canvas.addEventListener("blur", () => this.drawOver(0, 0));
  }

  /** @param {Shown} shown */
  show(shown) {
    const isOther = !this.shown || this.shown.tree !== shown.tree;
    this.shown = shown;
    if (isOther || this.current >= shown.tree.n) this.current = -1;
    this.canvas.setAttribute("aria-label", shown.label);
    // The resize observer reports later changes. Measuring here would force a layout.
    if (this.width === 0) this.measure();
    this.place();
    if (shown.flames) this.scrollTo(this.rows);
  }

  /**
   * Sets the size for paper, or resets it to the screen.
   * @param {{width: number, rows: number} | null} paper
   */
  setPaper(paper) {
    this.paper = paper;
    this.width = paper ? paper.width : 0;
    // A canvas as high as all rows would add a scroll bar and falsify the measurement.
    if (!paper) this.canvas.height = this.over.height = 1;
  }

  /** Measures the size. Returns true if it changed. */
  measure() {
    if (this.paper) return false;
    const [width, height] = [this.scroll.clientWidth, this.scroll.clientHeight];
    if (width === 0 || (width === this.width && height === this.height)) return false;
    this.width = width;
    this.height = height;
    return true;
  }

  /** Computes the layout and draws it. */
  place() {
    if (!this.shown || this.width === 0) return;
    const { tree, size, root, skip } = this.shown;
    this.boxes = layout(tree, size, root, this.width, skip);
    const rows = Math.max(1, this.boxes.rows * ROW);
    // Every change forces a layout.
    if (rows !== this.rows) this.space.setAttribute("height", String((this.rows = rows)));
    if (this.paper) {
      this.height = Math.min(rows, this.paper.rows * ROW);
      this.scrolled = this.shown.flames ? rows - this.height : 0;
      this.cut.textContent = this.height < rows ? `the outermost ${this.paper.rows} of ${this.boxes.rows} rows` : "";
    } else this.scrolled = Math.max(0, Math.min(this.scrolled, rows - this.height));
    this.draw();
  }

  /**
   * Scrolls to a position, within the limits, and redraws.
   * @param {number} top in pixels
   */
  scrollTo(top) {
    const scrolled = Math.max(0, Math.min(top, this.rows - this.height));
    if (scrolled === this.scrolled) return;
    this.scrolled = this.scroll.scrollTop = scrolled;
    this.draw();
  }

  later() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.draw();
    });
  }

  /**
   * Top of a row, in canvas pixels.
   * @param {number} row
   */
  top(row) {
    const { boxes, shown } = this;
    if (!boxes || !shown) return 0;
    const all = Math.max(boxes.rows * ROW, shown.flames ? this.height : 0);
    return (shown.flames ? all - (row + 1) * ROW : row * ROW) - this.scrolled;
  }

  draw() {
    const { shown, boxes } = this;
    if (!shown || !boxes) return;
    const begin = performance.now();
    const dark = isDark();
    const theme = dark ? THEMES.dark : THEMES.light;
    const ratio = this.paper ? 2 : window.devicePixelRatio || 1;
    const context = fitCanvas(this.canvas, this.width, this.height, ratio);
    const snap = (/** @type {number} */ v) => Math.round(v * ratio) / ratio;
    context.fillStyle = theme.back;
    context.fillRect(0, 0, this.width, this.height);
    context.font = FONT;
    context.textBaseline = "middle";
    if (this.letter === 0) this.letter = context.measureText("mmmmmmmmmm").width / 10;
    const { tree } = shown;
    let color = "";
    /** @type {number[]} */
    const texts = [];
    for (let i = 0; i < boxes.n; i++) {
      const y = this.top(boxes.row[i]);
      if (y < -ROW || y > this.height) continue;
      const left = snap(boxes.x[i]);
      const right = Math.max(left + 1 / ratio, snap(boxes.x[i] + boxes.w[i]) - (boxes.w[i] > 3 ? 1 : 0));
      const node = boxes.node[i];
      const fill = node === NARROW ? theme.narrow : this.color(node, dark);
      if (fill !== color) context.fillStyle = color = fill;
      context.fillRect(left, y, right - left, ROW - 1);
      if (node === NARROW) continue;
      if (boxes.w[i] > 6) {
        // Kinds have marks in addition to colours.
        const kind = tree.kind[node];
        if (kind === 2) {
          context.fillStyle = color = theme.line;
          for (let x = left; x < right; x += 6) context.fillRect(x, y + ROW - 2, Math.min(3, right - x), 1);
        } else if (kind === 3) {
          context.fillStyle = color = theme.line;
          context.fillRect(left, y, 2, ROW - 1);
        } else if (kind === 4) {
          context.fillStyle = color = theme.line;
          context.fillRect(left, y, right - left, 1);
        }
      }
      if (shown.marks && tree.fn[node] >= 0 && shown.marks[tree.fn[node]]) {
        context.strokeStyle = theme.match;
        context.lineWidth = 2;
        context.strokeRect(left + 1, y + 1, Math.max(1, right - left - 2), ROW - 3);
      }
      if (boxes.w[i] > 24) texts.push(i);
    }
    context.fillStyle = theme.text;
    for (const i of texts) {
      const most = Math.floor((boxes.w[i] - 8) / this.letter);
      const text = fitName(this.name(boxes.node[i]), most);
      if (text) context.fillText(text, Math.max(0, boxes.x[i]) + 5, this.top(boxes.row[i]) + ROW / 2);
    }
    this.times.push(performance.now() - begin);
    if (this.times.length > 1000) this.times.shift();
    this.drawOver(0, 0);
  }

  /** @param {number} node */
  name(node) {
    const shown = /** @type {Shown} */ (this.shown);
    if (node === 0) return "all";
    const fn = shown.tree.fn[node];
    let name = this.names.get(fn);
    if (name === undefined) this.names.set(fn, (name = shown.nameOf(fn)));
    return name;
  }

  /**
   * @param {number} node
   * @param {boolean} dark
   */
  color(node, dark) {
    const shown = /** @type {Shown} */ (this.shown);
    const { tree } = shown;
    const fn = tree.fn[node];
    if (shown.color === "diff") {
      if (!shown.base || node === 0) return deltaColor(0, dark);
      const delta = shown.total[node] / (shown.whole || 1) - shown.base[node] / (shown.baseWhole || 1);
      return deltaColor(delta * 5, dark);
    }
    if (shown.color === "own") return ownColor(shown.own[node] / (shown.whole || 1), dark);
    if (shown.color === "object" && node !== 0) {
      const palette = dark ? OBJECT_COLORS.dark : OBJECT_COLORS.light;
      return palette[Math.min(shown.objectPlace(fn), palette.length - 1)];
    }
    if (node !== 0 && tree.kind[node] === KIND_WAITING) return waitColor(this.name(node), dark);
    let shade = this.shades.get(fn);
    if (shade === undefined) this.shades.set(fn, (shade = hashOf(this.name(node)) % 3));
    return (dark ? KIND_COLORS.dark : KIND_COLORS.light)[node === 0 ? 0 : tree.kind[node]][shade];
  }

  /** @param {MouseEvent} event */
  at(event) {
    if (!this.boxes || !this.shown) return -1;
    const all = this.shown.flames ? Math.max(this.boxes.rows * ROW, this.height) : 0;
    const y = event.offsetY + this.scrolled;
    const row = this.shown.flames ? Math.floor((all - y) / ROW) : Math.floor(y / ROW);
    const box = boxAt(this.boxes, event.offsetX, row);
    return box >= 0 && this.boxes.node[box] !== NARROW ? box : -1;
  }

  /**
   * Draws the overlay: tooltip of the box under the pointer, and outline of the current box.
   * @param {number} px
   * @param {number} py
   */
  drawOver(px, py) {
    const { boxes, shown } = this;
    if (!boxes || !shown) return;
    const theme = isDark() ? THEMES.dark : THEMES.light;
    const context = fitCanvas(this.over, this.width, this.height);
    context.clearRect(0, 0, this.width, this.height);
    const outline = (/** @type {number} */ box, /** @type {number} */ thick) => {
      context.strokeStyle = theme.mark;
      context.lineWidth = thick;
      context.strokeRect(boxes.x[box] + 1, this.top(boxes.row[box]), Math.max(2, boxes.w[box] - 2), ROW - 1);
    };
    if (this.current >= 0) {
      const box = boxes.node.subarray(0, boxes.n).indexOf(this.current);
      if (box >= 0) outline(box, document.activeElement === this.canvas ? 3 : 2);
    }
    if (this.hover < 0 || this.hover >= boxes.n) return;
    outline(this.hover, 1);
    const lines = this.events.lines(boxes.node[this.hover]);
    context.font = FONT;
    context.textBaseline = "middle";
    const letter = this.letter || 7;
    const most = Math.max(8, Math.floor((this.width - 24) / letter));
    const texts = lines.map((line) => (line.length > most ? `${line.slice(0, most - 1)}…` : line));
    const wide = Math.max(...texts.map((text) => context.measureText(text).width)) + 16;
    const high = texts.length * 16 + 10;
    const x = Math.max(2, Math.min(px + 12, this.width - wide - 4));
    const y = py + 20 + high > this.height ? Math.max(0, py - high - 8) : py + 20;
    context.fillStyle = theme.back;
    context.fillRect(x, y, wide, high);
    context.strokeStyle = theme.line;
    context.lineWidth = 1;
    context.strokeRect(x + 0.5, y + 0.5, wide, high);
    context.fillStyle = theme.text;
    texts.forEach((text, i) => context.fillText(text, x + 8, y + 13 + i * 16));
  }

  /** @param {number} node */
  select(node) {
    this.current = node;
    this.events.current(node);
    const boxes = this.boxes;
    if (!boxes) return;
    const box = boxes.node.subarray(0, boxes.n).indexOf(node);
    if (box >= 0) {
      const y = this.top(boxes.row[box]);
      if (y < 0) this.scrollTo(this.scrolled + y);
      else if (y + ROW > this.height) this.scrollTo(this.scrolled + y + ROW - this.height);
    }
    this.drawOver(0, 0);
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const { shown } = this;
    if (!shown || event.ctrlKey || event.metaKey || event.altKey) return;
    const { tree, size } = shown;
    const from = this.current >= 0 ? this.current : shown.root;
    let to = from;
    const isWide = (/** @type {number} */ i) => size[i] > 0 && tree.fn[i] >= -1;
    const sibling = (/** @type {number} */ way) => {
      const up = tree.parent[from];
      let before = -1;
      for (let i = up + 1; i < tree.end[up]; i = tree.end[i]) {
        if (way < 0 && i === from) return before < 0 ? from : before;
        if (way > 0 && i > from && isWide(i)) return i;
        if (isWide(i)) before = i;
      }
      return from;
    };
    const child = () => {
      let best = from;
      for (let i = from + 1; i < tree.end[from]; i = tree.end[i]) if (isWide(i) && (best === from || size[i] > size[best])) best = i;
      return best;
    };
    const inward = shown.flames ? "ArrowUp" : "ArrowDown";
    const outward = shown.flames ? "ArrowDown" : "ArrowUp";
    switch (event.key) {
      case inward:
        to = child();
        break;
      case outward:
        to = tree.parent[from];
        break;
      case "ArrowLeft":
        to = from === 0 ? from : sibling(-1);
        break;
      case "ArrowRight":
        to = from === 0 ? from : sibling(1);
        break;
      case "Home":
        to = 0;
        break;
      case "Enter":
        this.events.zoom(from);
        break;
      case " ":
      case "s":
        if (from !== 0) this.events.open(from);
        break;
      default:
        return;
    }
    event.preventDefault();
    this.select(to);
  }
}
