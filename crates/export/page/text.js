// Formatting of numbers and names.

/**
 * Formats a percentage: `12.3 %`.
 * @param {number} part
 * @param {number} whole
 */
export function percentText(part, whole) {
  if (!(whole > 0)) return "0 %";
  const share = (100 * part) / whole;
  return `${share.toFixed(Math.abs(share) < 10 && share !== 0 ? 2 : 1)} %`;
}

/**
 * Formats a number with thousands separators.
 * @param {number} number
 */
export function countText(number) {
  const digits = Math.abs(Math.round(number)).toString();
  const grouped = digits.replace(/\B(?=(\d{3})+$)/g, "\u202f");
  return number < 0 ? `−${grouped}` : grouped;
}

/**
 * Formats nanoseconds: `1.0 ms`, `2.50 s`.
 * @param {number} ns
 */
export function timeText(ns) {
  const size = Math.abs(ns);
  const sign = ns < 0 ? "−" : "";
  if (size < 1e3) return `${sign}${Math.round(size)} ns`;
  if (size < 999_950) return `${sign}${(size / 1e3).toFixed(1)} µs`;
  if (size < 999_950_000) return `${sign}${(size / 1e6).toFixed(1)} ms`;
  if (size < 99.995e9) return `${sign}${(size / 1e9).toFixed(2)} s`;
  return `${sign}${Math.floor(size / 60e9)} min ${Math.round((size % 60e9) / 1e9)} s`;
}

/**
 * Formats bytes with a binary unit: `1.50 KiB`, `64.2 MiB`.
 * @param {number} bytes
 */
export function bytesText(bytes) {
  const sign = bytes < 0 ? "−" : "";
  let size = Math.abs(bytes);
  if (size < 1024) return `${sign}${Math.round(size)} B`;
  const units = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
  size /= 1024;
  let unit = 0;
  for (; size >= 999.5 && unit + 1 < units.length; unit++) size /= 1024;
  const digits = size < 9.995 ? 2 : size < 99.95 ? 1 : 0;
  return `${sign}${size.toFixed(digits)} ${units[unit]}`;
}

/**
 * Formats a weight with its unit.
 * @param {number} weight
 * @param {string} unit
 */
export function weightText(weight, unit) {
  if (unit === "ns") return timeText(weight);
  if (unit === "bytes") return bytesText(weight);
  if (unit === "samples") return `${countText(weight)} ${weight === 1 ? "sample" : "samples"}`;
  return `${countText(weight)} ${unit}`;
}

/**
 * Removes generic arguments and parameters from a name, if its brackets pair.
 * @param {string} name
 */
export function shortName(name) {
  if (name.length < 8 || !/[<(]/.test(name)) return name;
  let out = "";
  let depth = 0;
  for (let i = 0; i < name.length; i++) {
    const c = name[i];
    const before = name[i - 1] ?? "";
    if (c === "<" && /[\w:>]/.test(before) && !out.endsWith("operator") && !out.endsWith("operator<")) {
      if (depth++ === 0) out += "<…";
    } else if (c === ">" && depth > 0 && before !== "-" && before !== "=") {
      if (--depth === 0) out += ">";
    } else if (c === "(" && depth === 0 && out !== "" && /[\w>]/.test(before) && !out.includes("::{")) {
      return out;
    } else if (depth === 0) {
      out += c;
    }
  }
  return depth === 0 ? out : name;
}

/**
 * Shortens a name to `most` characters: removes generic arguments, then the path, then the end.
 * @param {string} name
 * @param {number} most
 */
export function fitName(name, most) {
  if (name.length <= most) return name;
  const short = shortName(name);
  if (short.length <= most) return short;
  const last = lastPart(short);
  if (last.length <= most) return last;
  if (most < 3) return "";
  return `${last.slice(0, most - 1)}…`;
}

/**
 * Part of a name after its last `::` outside of brackets.
 * @param {string} name
 */
export function lastPart(name) {
  let depth = 0;
  for (let i = name.length - 1; i > 1; i--) {
    const c = name[i];
    if (c === ">" || c === ")" || c === "}") depth++;
    else if (c === "<" || c === "(" || c === "{") depth--;
    else if (c === ":" && name[i - 1] === ":" && depth === 0 && i + 1 < name.length) return name.slice(i + 1);
  }
  return name;
}

/**
 * File name of a path.
 * @param {string} path
 */
export function baseName(path) {
  return path.slice(path.lastIndexOf("/") + 1) || path;
}

/**
 * Stable hash of a name, for its colour (FNV-1a).
 * @param {string} name
 */
export function hashOf(name) {
  let hash = 0x811c9dc5;
  for (let i = 0; i < name.length; i++) hash = Math.imul(hash ^ name.charCodeAt(i), 0x01000193);
  return hash >>> 0;
}
