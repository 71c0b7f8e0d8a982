// Decoding of data sections: deflated text or columns in base64. Columns store numbers byte by
// byte.

/**
 * @typedef {{name: string, width: number, value: number}} ColumnEntry
 * @typedef {{name: string, raw: number, rows: number, columns: ColumnEntry[]}} SectionEntry
 * @typedef {Uint8Array | Uint32Array | Float64Array} Column
 */

/**
 * Decodes base64.
 * @param {string} text
 * @returns {Uint8Array}
 */
export function bytesOfBase64(text) {
  const own = /** @type {any} */ (Uint8Array).fromBase64;
  if (own) return own.call(Uint8Array, text);
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

/**
 * Inflates bytes. Fails unless the result has exactly `length` bytes.
 * @param {Uint8Array} deflated
 * @param {number} length
 * @returns {Promise<Uint8Array>}
 */
export async function inflate(deflated, length) {
  const stream = new DecompressionStream("deflate-raw");
  const writer = stream.writable.getWriter();
  writer.write(/** @type {BufferSource} */ (deflated)).catch(() => {});
  writer.close().catch(() => {});
  const reader = stream.readable.getReader();
  const bytes = new Uint8Array(length);
  let filled = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    if (filled + value.length > length) throw new Error("a section is longer than it says");
    bytes.set(value, filled);
    filled += value.length;
  }
  if (filled !== length) throw new Error("a section is shorter than it says");
  return bytes;
}

/**
 * Decodes the columns of a section into typed arrays.
 * @param {Uint8Array} bytes
 * @param {SectionEntry} entry
 * @returns {Record<string, Column>}
 */
export function columnsOf(bytes, entry) {
  /** @type {Record<string, Column>} */
  const columns = {};
  const rows = entry.rows;
  let at = 0;
  for (const { name, width, value } of entry.columns) {
    if (width === 0) {
      columns[name] = value < 2 ** 32 ? new Uint32Array(rows).fill(value) : new Float64Array(rows).fill(value);
      continue;
    }
    if (at + rows * width > bytes.length) throw new Error("a column is cut off");
    if (width === 1) {
      columns[name] = bytes.subarray(at, at + rows);
      at += rows;
      continue;
    }
    const numbers = width <= 4 ? new Uint32Array(rows) : new Float64Array(rows);
    for (let byte = 0, unit = 1; byte < width; byte++, unit *= 256) {
      for (let i = 0; i < rows; i++) numbers[i] += bytes[at + i] * unit;
      at += rows;
    }
    columns[name] = numbers;
  }
  return columns;
}
