// Lanes of the timeline: their samples, and sums over time.

/**
 * A lane: name, filters that select it, and weight.
 * @typedef {{name: string, filters: import("./filter.js").Filter[], weight: number}} Lane
 */

/**
 * Computes the lanes, heaviest first, and the lane of each task or CPU.
 * @param {import("./profile.js").Profile} profile
 * @param {import("./model.js").Rows} rows
 * @param {string} by `thread`, `name`, `process` or `cpu`
 * @param {number} event
 * @returns {{lanes: Lane[], of: Int32Array, isCpu: boolean}}
 */
export function lanesOf(profile, rows, by, event) {
  const { tasks, meta } = profile;
  const isCpu = by === "cpu";
  /** @type {Map<string, number>} */
  const numbers = new Map();
  /** @type {Lane[]} */
  const lanes = [];
  const count = isCpu ? profile.cpus + 1 : tasks.n;
  const of = new Int32Array(count).fill(-1);
  for (let i = isCpu ? 1 : 0; i < count; i++) {
    /** @type {[string, string, number]} */
    let [kind, name, id] = ["cpu", `CPU ${i - 1}`, i - 1];
    if (!isCpu) {
      const comm = String(meta.comms[tasks.comm[i]]);
      if (by === "thread" && tasks.tid[i] >= 0) [kind, name, id] = ["tid", profile.taskName(i), tasks.tid[i]];
      else if (by === "process" && tasks.pid[i] >= 0) [kind, name, id] = ["pid", profile.processName(i), tasks.pid[i]];
      else [kind, name, id] = ["comm", comm, tasks.comm[i]];
    }
    // Merges names that differ only in digits, such as `worker-1` and `worker-2`.
    const merged = kind === "comm" ? name.replace(/\d+/g, "N") : "";
    const key = merged || `${kind}.${id}`;
    let lane = numbers.get(key);
    if (lane === undefined) {
      numbers.set(key, (lane = lanes.length));
      lanes.push({ name, filters: [], weight: 0 });
    }
    const { filters } = lanes[lane];
    if (!filters.some((filter) => filter.kind === kind && filter.id === id)) {
      filters.push({ kind, id });
      if (filters.length > 1) lanes[lane].name = merged;
    }
    of[i] = lane;
  }
  const column = isCpu ? rows.cpu : rows.task;
  // The largest sum so far: memory may be given back.
  const sums = new Float64Array(lanes.length);
  for (let i = 0; i < rows.n; i++) {
    const lane = of[column[i]];
    if (lane >= 0 && rows.event[i] === event) lanes[lane].weight = Math.max(lanes[lane].weight, (sums[lane] += rows.weight[i]));
  }
  const order = lanes.map((_, i) => i).filter((i) => lanes[i].weight > 0);
  if (isCpu) order.sort((a, b) => lanes[a].filters[0].id - lanes[b].filters[0].id);
  else order.sort((a, b) => lanes[b].weight - lanes[a].weight || a - b);
  const place = new Int32Array(lanes.length).fill(-1);
  order.forEach((lane, i) => (place[lane] = i));
  for (let i = 0; i < count; i++) of[i] = of[i] < 0 ? -1 : place[of[i]];
  return { lanes: order.map((i) => lanes[i]), of, isCpu };
}

/**
 * Computes the cell (lane and time) of each row; -1 for rows of other events or without a lane.
 * @param {import("./model.js").Rows} rows
 * @param {number} event
 * @param {number} columns
 * @param {number} cell ticks per column
 * @param {{of: Int32Array, isCpu: boolean} | null} lanes `null` for a single lane
 * @param {number} shown number of shown lanes; all others share one more lane
 */
export function cellsOf(rows, event, columns, cell, lanes, shown) {
  const cells = new Int32Array(rows.n);
  const column = lanes ? (lanes.isCpu ? rows.cpu : rows.task) : null;
  for (let i = 0; i < rows.n; i++) {
    const lane = lanes && column ? lanes.of[column[i]] : 0;
    const at = Math.min(columns - 1, Math.floor(rows.time[i] / cell));
    cells[i] = lane < 0 || rows.event[i] !== event ? -1 : Math.min(lane, shown) * columns + at;
  }
  return cells;
}

/**
 * Sums up weights by cell, for rows that pass the masks.
 * @param {import("./model.js").Rows} rows
 * @param {Int32Array} cells
 * @param {number} count number of cells
 * @param {{task: Uint8Array | null, cpu: Uint8Array | null, leaf: Uint8Array | null}} masks
 */
export function sumsOf(rows, cells, count, { task, cpu, leaf }) {
  const sums = new Float64Array(count);
  const weight = rows.weight;
  for (let i = 0; i < rows.n; i++) {
    if (cells[i] < 0) continue;
    if (task !== null && task[rows.task[i]] === 0) continue;
    if (cpu !== null && cpu[rows.cpu[i]] === 0) continue;
    if (leaf !== null && leaf[rows.leaf[i]] === 0) continue;
    sums[cells[i]] += weight[i];
  }
  return sums;
}

/**
 * Adds to each cell the earlier cells of its lane: memory in use, from its changes.
 * @param {Float64Array<ArrayBuffer>} sums sums by cell
 * @param {number} columns cells of a lane
 */
export function inUse(sums, columns) {
  for (let i = 0; i < sums.length; i++) if (i % columns) sums[i] += sums[i - 1];
  return sums;
}
