import assert from "node:assert/strict";
import { deflateRawSync } from "node:zlib";
import test from "node:test";
import { KIND_COLORS, OBJECT_COLORS, THEMES, WAIT_COLORS, deltaColor, ownColor } from "../colors.js";
import { foldedText, stackNames, tsvText } from "../copy.js";
import { bytesOfBase64, columnsOf, inflate } from "../decode.js";
import { patternOf } from "../search.js";
import { firstState, stateOf, stateText } from "../state.js";
import { countText, fitName, lastPart, percentText, shortName, timeText } from "../text.js";
import { forest, pathsOf, randomOf } from "./forest.js";
import { KIND_WAITING_FOR_CPU, KINDS } from "../tree.js";

const deflates = (() => {
  try {
    return Boolean(new DecompressionStream("deflate-raw"));
  } catch {
    return false;
  }
})();

// Node.js before 20.12 lacks this stream. Browsers have it.
test("sections are inflated to the length that they state, and no further", { skip: !deflates }, async () => {
  const bytes = new Uint8Array(100_000).map((_, i) => i * i);
  const deflated = deflateRawSync(bytes);
  const text = deflated.toString("base64");
  assert.deepEqual(await inflate(bytesOfBase64(text), bytes.length), bytes);
  await assert.rejects(inflate(bytesOfBase64(text), bytes.length - 1), /longer/);
  await assert.rejects(inflate(bytesOfBase64(text), bytes.length + 1), /shorter/);
  await assert.rejects(inflate(bytesOfBase64(deflated.subarray(0, 50).toString("base64")), bytes.length));
});

test("columns are read byte by byte", () => {
  const entry = { name: "x", raw: 0, rows: 2, columns: [{ name: "a", width: 2, value: 0 }, { name: "b", width: 0, value: 7 }, { name: "c", width: 5, value: 0 }] };
  const bytes = Uint8Array.of(1, 3, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 2, 1);
  const columns = columnsOf(bytes, entry);
  assert.deepEqual([...columns.a], [1, 0x203]);
  assert.deepEqual([...columns.b], [7, 7]);
  assert.deepEqual([...columns.c], [1 + 2 * 2 ** 32, 2 ** 32]);
  assert.throws(() => columnsOf(bytes.subarray(1), entry), /cut off/);
});

test("a state is what was written, whatever it is", () => {
  const random = randomOf(9);
  const one = (/** @type {any[]} */ list) => list[random(list.length)];
  for (let round = 0; round < 200; round++) {
    const state = {
      ...firstState(),
      view: one(["flame", "time", "table", "sandwich", "tree", "lines"]),
      inverted: random(2) === 1,
      flames: random(2) === 1,
      noProcesses: random(2) === 1,
      zoom: Array.from({ length: random(5) }, () => random(1000)),
      fn: random(3) - 1,
      search: one(["", "a&b=c#%", "ä|\u{1f600}", "</script>"]),
      color: one(["", "object", "diff"]),
      bySamples: random(2) === 1,
      time: random(2) ? [random(5), 10 + random(1000)] : null,
      base: random(2) ? [random(5), 10 + random(1000)] : null,
      width: one(["new", "old", "both"]),
      lanes: one(["thread", "heat", "cpu"]),
      filters: Array.from({ length: random(4) }, () => ({ kind: one(["tid", "has", "cpu"]), id: random(100) })),
      transforms: Array.from({ length: random(3) }, () => ({ op: one(["fold", "drop"]), id: random(100) })),
      sort: one(["own", "total", "name"]),
    };
    assert.deepEqual(stateOf(`#${stateText(/** @type {any} */ (state))}`), state);
  }
});

test("nonsense in the address is passed over", () => {
  const texts = ["#view=x&zoom=a.-1.1e99&fn=-3&time=5-3&filters=a.1_tid.x&search=%E0%A4%A", "#=&&==&view", "#zoom=" + "9.".repeat(9999), "#__proto__=1&filters=__proto__.1"];
  for (const text of texts) {
    const state = stateOf(text);
    assert.equal(state.view, "flame");
    assert.deepEqual(state.filters, []);
    assert.equal(state.fn, -1);
    assert.equal(state.time, null);
  }
});

test("names are shortened where it tells most", () => {
  for (const [name, short] of [
    ["main", "main"],
    ["std::vector<int, std::allocator<int>>::push_back(int const&)", "std::vector<…>::push_back"],
    ["<alloc::vec::Vec<T> as Clone>::clone", "<alloc::vec::Vec<…> as Clone>::clone"],
    ["a::operator<", "a::operator<"],
    ["func(a<b, c)", "func"],
    ["xyz->y<zzz>", "xyz->y<…>"],
  ]) assert.equal(shortName(name), short);
  assert.equal(lastPart("a::b<c::d>::e"), "e");
  assert.equal(fitName("std::vector<int, std::allocator<int>>::push_back(int)", 10), "push_back");
  assert.equal(fitName("abcdefgh", 4), "abc…");
  assert.equal(fitName("abcdefgh", 1), "");
});

test("numbers are words for people", () => {
  assert.equal(percentText(1, 8), "12.5 %");
  assert.equal(percentText(1, 0), "0 %");
  assert.equal(countText(1234567), "1\u202f234\u202f567");
  assert.deepEqual([0, 1500, 1_001_001, 12_345_678_901, 1e11].map(timeText), ["0 ns", "1.5 µs", "1.0 ms", "12.35 s", "1 min 40 s"]);
});

test("a search that is no expression says so, and case matters with capitals", () => {
  assert.equal(typeof patternOf("("), "string");
  const is = (/** @type {string} */ pattern, /** @type {string} */ name) => /** @type {RegExp} */ (patternOf(pattern)).test(name);
  assert.ok(is("main", "Main") && !is("Main", "main") && is("\\Wmain", "::MAIN"));
});

test("copies are stacks and tables as other tools read them", () => {
  const { tree, own } = forest(4);
  const text = foldedText(tree, own, 0, (fn) => `f;${fn}`);
  const lines = text.trim().split("\n").map((line) => line.split(" "));
  assert.deepEqual(new Map(lines.map(([stack, weight]) => [stack.replaceAll("f:", "").replaceAll(";", " "), Number(weight)])), pathsOf(tree, own));
  assert.equal(stackNames(tree, 1, String).length, 1);
  assert.equal(tsvText([["a\tb", "c\n"]]), "a b\tc \n");
});

test("waits for a CPU have a colour of their own, for all eyes", () => {
  // As in svg/colors.rs: linear light as perceived without one type of cones (Machado, Oliveira and
  // Fernandes, 2009).
  const eyes = [
    [1, 0, 0, 0, 1, 0, 0, 0, 1],
    [0.152286, 1.052583, -0.204868, 0.114503, 0.786281, 0.099216, -0.003882, -0.048116, 1.051998],
    [0.367322, 0.860646, -0.227968, 0.280085, 0.672501, 0.047413, -0.01182, 0.04294, 0.968881],
    [1.255528, -0.076749, -0.178779, -0.078411, 0.930809, 0.147602, 0.004733, 0.691367, 0.3039],
  ];
  const lab = (/** @type {string} */ color, /** @type {number[]} */ eye) => {
    const light = [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16) / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    const [r, g, b] = [0, 3, 6].map((row) => Math.min(1, Math.max(0, eye[row] * light[0] + eye[row + 1] * light[1] + eye[row + 2] * light[2])));
    const xyz = [(0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505, 0.2126 * r + 0.7152 * g + 0.0722 * b, (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.089];
    const [x, y, z] = xyz.map((t) => (t > 0.008856 ? Math.cbrt(t) : 7.787 * t + 16 / 116));
    return [116 * y - 16, 500 * (x - y), 200 * (y - z)];
  };
  for (const theme of /** @type {("light" | "dark")[]} */ (["light", "dark"])) {
    const others = [...KIND_COLORS[theme].slice(0, KIND_WAITING_FOR_CPU).map((shades) => shades[0]), ...WAIT_COLORS[theme], THEMES[theme].back, THEMES[theme].narrow];
    for (const eye of eyes) {
      for (const own of KIND_COLORS[theme][KIND_WAITING_FOR_CPU]) {
        for (const other of others) {
          const [a, b] = [lab(own, eye), lab(other, eye)];
          const apart = Math.hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]);
          assert.ok(apart > 12, `${theme}: ${own} and ${other} are ${apart} apart for ${eye}`);
        }
      }
    }
    assert.equal(KIND_COLORS[theme].length, KINDS.length);
  }
});

test("text on every colour has a contrast of 4.5", () => {
  const channels = (/** @type {string} */ color) =>
    color.startsWith("#") ? [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16)) : (color.match(/\d+/g) ?? []).map(Number);
  const light = (/** @type {string} */ color) => {
    const [r, g, b] = channels(color).map((c) => (c / 255 <= 0.03928 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (/** @type {string} */ a, /** @type {string} */ b) => {
    const [high, low] = [light(a), light(b)].sort((x, y) => y - x);
    return (high + 0.05) / (low + 0.05);
  };
  for (const theme of /** @type {("light" | "dark")[]} */ (["light", "dark"])) {
    const { text, back, mark, match } = THEMES[theme];
    const deltas = [-1, -0.5, -0.1, 0, 0.1, 0.5, 1].map((delta) => deltaColor(delta, theme === "dark"));
    const shares = [0, 0.2, 1].map((share) => ownColor(share, theme === "dark"));
    for (const color of [...KIND_COLORS[theme].flat(), ...WAIT_COLORS[theme], ...OBJECT_COLORS[theme], ...deltas, ...shares, back]) {
      assert.ok(contrast(text, color) >= 4.5, `${theme}: ${text} on ${color} is ${contrast(text, color)}`);
    }
    for (const color of [mark, match]) assert.ok(contrast(color, back) >= 4.5, `${theme}: ${color}`);
  }
});
