// Timeline: one lane per thread, name, process or CPU, or a heat map with one column per second.

import { THEMES } from "./colors.js";
import { el, fitCanvas, isDark } from "./dom.js";
import { cellsOf, inUse, lanesOf, sumsOf } from "./lanes.js";
import { countText, percentText, weightText } from "./text.js";

/** Heights of a lane, of a lane of memory if there are few, and of the time axis. */
const LANE = 22;
const HIGH_LANE = 66;
const AXIS = 16;
const MAX_LANES = 10;
const HEAT_ROWS = 50;

export class Timeline {
  /**
   * @param {import("./profile.js").Profile} profile
   * @param {object} events
   * @param {(time: [number, number] | null, isBase: boolean) => void} events.select
   * @param {(filters: import("./filter.js").Filter[], isMore: boolean) => void} events.lane
   */
  constructor(profile, events) {
    this.profile = profile;
    this.events = events;
    const rows = profile.rows;
    this.span = rows.n ? rows.time[rows.n - 1] + 1 : 1;
    this.canvas = el("canvas", { tabindex: 0, role: "img", class: "lanes" });
    this.names = el("div", { class: "lane-names" });
    this.space = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    this.space.setAttribute("width", "1");
    this.area = el("div", { class: "lane-area" }, this.space, this.canvas);
    this.said = el("p", { class: "unseen", "aria-live": "polite" });
    this.root = el("div", { class: "timeline" }, el("div", { class: "timeline-row" }, this.names, this.area), this.said);
    this.isAll = false;
    /** @type {{from: number, to: number, isBase: boolean} | null} */
    this.drag = null;
    /** @type {any} */
    this.shown = null;
    /** Inputs of the lanes. */
    this.madeFor = "";
    /** @type {ReturnType<typeof lanesOf> | null} */
    this.made = null;
    /** Number of shown lanes, and rows of names. */
    this.count = 0;
    this.lines = 1;
    this.lane = LANE;
    this.width = 0;
    this.height = 0;
    /** Inputs of the cells. */
    this.cellsFor = "";
    this.cells = new Int32Array(0);
    this.columns = 1;
    /** Sums by cell: all samples, and the selected ones. */
    this.all = new Float64Array(0);
    this.chosen = this.all;
    this.listen();
  }

  listen() {
    const { canvas } = this;
    canvas.addEventListener("pointerdown", (/** @type {PointerEvent} */ event) => {
      if (event.button !== 0) return;
      canvas.setPointerCapture(event.pointerId);
      const at = this.tickAt(event);
      this.drag = { from: at, to: at, isBase: event.ctrlKey || event.metaKey };
    });
    canvas.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => {
      if (!this.drag) {
        const tick = this.tickAt(event);
        canvas.title = [this.laneAt(event)?.name, `${this.profile.seconds(tick).toFixed(3)} s`, this.inUseAt(event, tick)].filter(Boolean).join(", ");
        return;
      }
      this.drag.to = this.tickAt(event);
      this.paint();
    });
    canvas.addEventListener("pointerup", (/** @type {PointerEvent} */ event) => {
      const drag = this.drag;
      this.drag = null;
      if (!drag) return;
      const [from, to] = [Math.min(drag.from, drag.to), Math.max(drag.from, drag.to)];
      const isClick = to - from < this.tickWidth() * 3;
      if (isClick) {
        const lane = this.laneAt(event);
        if (lane && !drag.isBase) this.events.lane(lane.filters, event.shiftKey);
        else this.events.select(null, drag.isBase);
      } else this.events.select([from, Math.max(from + 1, to)], drag.isBase);
      this.paint();
    });
    canvas.addEventListener("dblclick", () => this.events.select(null, false));
    canvas.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => this.key(event));
    new ResizeObserver(() => {
      const width = Math.floor(this.area.clientWidth);
      if (width === this.width) return;
      this.width = width;
      this.later();
    }).observe(this.area);
  }

  later() {
    cancelAnimationFrame(this.frame ?? 0);
    this.frame = requestAnimationFrame(() => this.draw());
  }

  /**
   * Ticks per column.
   */
  tickWidth() {
    return this.shown?.lanes === "heat" ? this.heat().cell : this.span / Math.max(1, this.width);
  }

  /** Seconds per column of the heat map, and ticks per cell. */
  heat() {
    const second = 1e9 / this.profile.meta.tick;
    const columns = Math.max(1, Math.floor((this.width) / 4));
    // Short recordings have shorter columns.
    const isShort = this.span < 20 * second;
    let seconds = 1;
    for (const step of isShort ? [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1] : [1, 2, 5, 10, 20, 60, 120, 300, 600, 1800, 3600]) {
      seconds = step;
      if (this.span / (second * step) <= (isShort ? 40 : columns)) break;
    }
    return { cell: (second * seconds) / HEAT_ROWS, seconds, columns: Math.max(1, Math.ceil(this.span / (second * seconds))) };
  }

  /** @param {PointerEvent} event */
  tickAt(event) {
    const x = Math.max(0, Math.min(event.offsetX, this.width));
    if (this.shown?.lanes === "heat") {
      const { cell, columns } = this.heat();
      const column = Math.min(columns - 1, Math.floor((x / Math.max(1, this.width)) * columns));
      const row = Math.max(0, Math.min(HEAT_ROWS - 1, Math.floor((event.offsetY / Math.max(1, this.height)) * HEAT_ROWS)));
      return Math.round((column * HEAT_ROWS + row) * cell);
    }
    return Math.round((x / Math.max(1, this.width)) * this.span);
  }

  /** @param {PointerEvent} event */
  laneAt(event) {
    if (!this.shown || this.shown.lanes === "heat" || !this.made) return null;
    const lane = Math.floor(event.offsetY / this.lane);
    return lane < this.count ? this.made.lanes[lane] : null;
  }

  /** True if the lanes show memory in use. */
  get isMemory() {
    return this.profile.rows.memory !== undefined && this.shown?.event === this.profile.rows.memory;
  }

  /**
   * Memory in use at a time in the lane under the pointer; empty for other events.
   * @param {PointerEvent} event
   * @param {number} tick
   */
  inUseAt(event, tick) {
    const lane = Math.floor(event.offsetY / this.lane);
    if (!this.isMemory || this.shown.lanes === "heat" || lane >= this.count) return "";
    const column = Math.min(this.columns - 1, Math.floor((tick / this.span) * this.columns));
    return `${this.bytes(Math.max(0, this.chosen[lane * this.columns + column]))} in use`;
  }

  /** @param {number} weight */
  bytes(weight) {
    return weightText(weight * 2 ** this.profile.meta.shift, "bytes");
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const step = this.span / 50;
    const [from, to] = this.shown?.time ?? [0, this.span];
    const move = event.key === "ArrowLeft" ? -step : event.key === "ArrowRight" ? step : 0;
    if (event.key === "Escape" || event.key === "Backspace") this.events.select(null, event.ctrlKey);
    else if (event.key === "Enter" && !this.shown?.time) this.events.select([0, Math.round(step)], false);
    else if (move === 0) return;
    else if (event.shiftKey) this.events.select(this.clip(from, Math.max(from + step, to + move)), false);
    else this.events.select(this.clip(from + move, to + move), false);
    event.preventDefault();
  }

  /**
   * @param {number} from
   * @param {number} to
   * @returns {[number, number]}
   */
  clip(from, to) {
    const wide = Math.min(this.span, Math.round(to - from));
    const low = Math.max(0, Math.min(Math.round(from), this.span - wide));
    return [low, Math.max(low + 1, low + wide)];
  }

  /**
   * @param {object} shown
   * @param {string} shown.lanes
   * @param {number} shown.event
   * @param {[number, number] | null} shown.time
   * @param {[number, number] | null} shown.base
   * @param {import("./filter.js").Filter[]} shown.filters
   * @param {{task: Uint8Array | null, cpu: Uint8Array | null, leaf: Uint8Array | null}} shown.masks
   */
  show(shown) {
    this.shown = shown;
    if (shown.lanes !== "heat") {
      const key = `${shown.lanes} ${shown.event}`;
      if (this.madeFor !== key) this.made = lanesOf(this.profile, this.profile.rows, shown.lanes, shown.event);
      this.madeFor = key;
      const all = this.made?.lanes ?? [];
      this.count = this.isAll ? Math.min(all.length, 300) : Math.min(all.length, MAX_LANES);
      const chosen = (/** @type {import("./lanes.js").Lane} */ lane) =>
        lane.filters.every(({ kind, id }) => shown.filters.some((filter) => filter.kind === kind && filter.id === id));
      const whole = all.reduce((sum, lane) => sum + lane.weight, 0);
      const buttons = all.slice(0, this.count).map((lane) =>
        el(
          "button",
          {
            type: "button",
            "aria-pressed": String(chosen(lane)),
            title: `${lane.name}: click to show it alone, Ctrl+click to add it`,
            click: (/** @type {MouseEvent} */ event) => this.events.lane(lane.filters, event.ctrlKey || event.shiftKey || event.metaKey),
          },
          el("span", { class: "lane-name" }, lane.name),
          el("span", { class: "lane-share" }, this.isMemory ? `max. ${this.bytes(lane.weight)}` : percentText(lane.weight, whole)),
        ),
      );
      const more = all.length - this.count;
      if (more > 0) {
        const open = () => {
          this.isAll = true;
          this.show(/** @type {any} */ (this.shown));
        };
        buttons.push(el("button", { type: "button", click: open }, `${countText(more)} more`));
      }
      this.lines = buttons.length;
      this.lane = this.isMemory && this.lines <= 3 ? HIGH_LANE : LANE;
      this.names.classList.toggle("high", this.lane === HIGH_LANE);
      this.names.replaceChildren(...buttons);
    } else {
      this.lines = 5;
      this.lane = LANE;
      this.names.replaceChildren(el("p", { class: "hint" }, `each column is ${this.heat().seconds} s, from top to bottom`));
    }
    this.space.setAttribute("height", String(this.lines * this.lane + AXIS));
    this.draw();
  }

  draw() {
    if (!this.shown) return;
    // Measured only once. Later measurements would force a layout; the resize observer reports
    // changes.
    if (this.width < 2) this.width = Math.floor(this.area.clientWidth);
    if (this.width < 2) return;
    this.height = this.lines * this.lane;
    const { rows } = this.profile;
    const { event, lanes } = this.shown;
    let [columns, rowsOfCells, cell] = [1, 1, this.span];
    if (lanes === "heat") {
      const heat = this.heat();
      [columns, cell] = [heat.columns * HEAT_ROWS, heat.cell];
    } else {
      // Several samples per column, to show density.
      columns = Math.max(1, Math.min(this.width, 2000, Math.max(60, rows.n >> 1)));
      [rowsOfCells, cell] = [this.count + 1, this.span / columns];
    }
    // Cells and sums of all samples do not depend on the selection.
    const key = [lanes, event, columns, this.count].join(" ");
    if (this.cellsFor !== key) {
      this.cellsFor = key;
      this.cells = cellsOf(rows, event, columns, cell, lanes === "heat" ? null : this.made, this.count);
      this.all = this.sums(columns, rowsOfCells, { task: null, cpu: null, leaf: null });
    }
    const { task, cpu, leaf } = this.shown.masks;
    this.chosen = task || cpu || leaf ? this.sums(columns, rowsOfCells, this.shown.masks) : this.all;
    this.columns = columns;
    this.paint();
  }

  /**
   * Sums by cell; memory in use for the event of memory over time.
   * @param {number} columns
   * @param {number} lanes
   * @param {{task: Uint8Array | null, cpu: Uint8Array | null, leaf: Uint8Array | null}} masks
   * @returns {Float64Array<ArrayBuffer>}
   */
  sums(columns, lanes, masks) {
    const sums = sumsOf(this.profile.rows, this.cells, columns * lanes, masks);
    return this.isMemory ? inUse(sums, columns) : sums;
  }

  paint() {
    if (!this.shown || !this.width) return;
    const dark = isDark();
    const theme = dark ? THEMES.dark : THEMES.light;
    const [width, height] = [this.width, this.height];
    const context = fitCanvas(this.canvas, width, height + AXIS);
    context.fillStyle = theme.back;
    context.fillRect(0, 0, width, height + AXIS);
    this.paintAxis(context, theme);
    if (this.shown.lanes === "heat") this.paintHeat(context, width, height, dark);
    else this.paintLanes(context, width, height, theme);
    const band = (/** @type {number} */ from, /** @type {number} */ to, /** @type {string} */ color, /** @type {boolean} */ isBase) => {
      if (this.shown.lanes === "heat") return;
      const [x, end] = [(from / this.span) * width, (to / this.span) * width];
      context.globalAlpha = 0.16;
      context.fillStyle = color;
      context.fillRect(x, 0, Math.max(2, end - x), height);
      context.globalAlpha = 1;
      context.strokeStyle = color;
      context.setLineDash(isBase ? [4, 3] : []);
      context.lineWidth = 1.5;
      context.strokeRect(x, 1, Math.max(2, end - x), height - 2);
      context.setLineDash([]);
    };
    if (this.shown.time) band(this.shown.time[0], this.shown.time[1], theme.mark, false);
    if (this.shown.base) band(this.shown.base[0], this.shown.base[1], theme.match, true);
    if (this.drag) {
      const { from, to, isBase } = this.drag;
      band(Math.min(from, to), Math.max(from, to), isBase ? theme.match : theme.mark, isBase);
    }
    const text = (/** @type {[number, number]} */ time) =>
      `${this.profile.seconds(time[0]).toFixed(3)} to ${this.profile.seconds(time[1]).toFixed(3)} s`;
    const parts = [`${this.profile.seconds(this.span).toFixed(3)} s`];
    if (this.shown.time) parts.push(`chosen: ${text(this.shown.time)}`);
    if (this.shown.base) parts.push(`compared with: ${text(this.shown.base)}`);
    this.said.textContent = parts.join(" · ");
    this.canvas.setAttribute("aria-label", `Time line, ${parts.join(", ")}. Arrows move the selection, Shift+arrows extend it, Escape clears it.`);
  }

  /**
   * Writes the time axis below the lanes.
   * @param {CanvasRenderingContext2D} context
   * @param {typeof THEMES.light} theme
   */
  paintAxis(context, theme) {
    const { width, height } = this;
    // The heat map ends with a whole column. Each column begins at its top.
    const ticks = this.shown.lanes === "heat" ? this.heat().columns * this.heat().cell * HEAT_ROWS : this.span;
    const seconds = this.profile.seconds(ticks);
    if (!(seconds > 0)) return;
    const most = Math.max(1, width / 90);
    let step = 10 ** Math.floor(Math.log10(seconds / most));
    for (const times of [2, 2.5, 2]) if (seconds / step > most) step *= times;
    const digits = Math.max(0, Math.ceil(-Math.log10(step) - 1e-9));
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    for (let i = 0; i * step <= seconds; i++) {
      const x = Math.round(((i * step) / seconds) * width);
      const text = `${(i * step).toFixed(digits)}${i === 0 ? " s" : ""}`;
      context.fillStyle = theme.line;
      context.fillRect(x, height, 1, 4);
      if (x + context.measureText(text).width + 4 < width) context.fillText(text, x + 3, height + AXIS / 2 + 1);
    }
  }

  /**
   * @param {CanvasRenderingContext2D} context
   * @param {number} width
   * @param {number} height
   * @param {typeof THEMES.light} theme
   */
  paintLanes(context, width, height, theme) {
    const { columns } = this;
    if (!this.made) return;
    const lanes = this.count + (this.made.lanes.length > this.count ? 1 : 0);
    const wide = width / columns;
    const mostOf = (/** @type {Float64Array} */ values) => values.reduce((most, value) => Math.max(most, value), 0);
    const most = mostOf(this.all.subarray(0, this.count * columns));
    for (let lane = 0; lane < lanes; lane++) {
      const all = this.all.subarray(lane * columns, (lane + 1) * columns);
      const chosen = this.chosen.subarray(lane * columns, (lane + 1) * columns);
      const highest = lane === this.count ? mostOf(all) : most;
      if (highest === 0) continue;
      const base = (lane + 1) * this.lane - 1;
      for (const [values, color] of /** @type {[Float64Array, string][]} */ ([
        [all, theme.narrow],
        [chosen, theme.bar],
      ])) {
        // One path per lane: thousands of separate boxes would double the drawing time.
        context.fillStyle = color;
        context.beginPath();
        context.moveTo(0, base);
        let last = 0;
        for (let i = 0; i <= columns; i++) {
          const value = i < columns ? values[i] : 0;
          const high = value > 0 ? Math.max(1, (value / highest) * (this.lane - 4)) : 0;
          if (high === last) continue;
          context.lineTo(i * wide, base - last);
          context.lineTo(i * wide, base - high);
          last = high;
        }
        context.fill();
      }
      context.fillStyle = theme.narrow;
      context.fillRect(0, base, width, 1);
    }
  }

  /**
   * @param {CanvasRenderingContext2D} context
   * @param {number} width
   * @param {number} height
   * @param {boolean} dark
   */
  paintHeat(context, width, height, dark) {
    const cells = this.all;
    const { columns, cell } = this.heat();
    const [wide, high] = [width / columns, height / HEAT_ROWS];
    let most = 0;
    for (const value of cells) if (value > most) most = value;
    const { time, base } = this.shown;
    for (let i = 0; i < cells.length; i++) {
      const x = Math.floor(i / HEAT_ROWS) * wide;
      const y = (i % HEAT_ROWS) * high;
      const inside = (/** @type {[number, number] | null} */ range) => range && i * cell < range[1] && (i + 1) * cell > range[0];
      if (cells[i] > 0) {
        const part = Math.sqrt(this.chosen[i] / most);
        const faint = 0.12 * Math.sqrt(cells[i] / most);
        context.globalAlpha = Math.max(faint, part);
        context.fillStyle = dark ? "#ff9d57" : "#b3400a";
        context.fillRect(x, y, Math.max(1, wide - 0.5), high);
        context.globalAlpha = 1;
      }
      if (inside(time) || inside(base)) {
        context.globalAlpha = 0.3;
        context.fillStyle = inside(time) ? THEMES[dark ? "dark" : "light"].mark : THEMES[dark ? "dark" : "light"].match;
        context.fillRect(x, y, wide, high);
        context.globalAlpha = 1;
      }
    }
  }
}
