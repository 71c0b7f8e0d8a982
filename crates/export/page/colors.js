// Colours. Kinds are distinguishable with a colour deficiency and have marks as well. Text on each
// colour has a contrast of at least 4.5.

/** By kind, in the order of `KINDS`, three shades each; for light and dark. */
export const KIND_COLORS = {
  light: [
    ["#d6d6d6", "#d0d0d0", "#dcdcdc"],
    ["#f4b25e", "#f0a84e", "#f7bd74"],
    ["#f8dca0", "#f5d48e", "#fae3b2"],
    ["#8fbce6", "#82b3e2", "#9cc5ea"],
    ["#7fcfae", "#71c9a4", "#8fd6b9"],
    ["#bdb6c8", "#b4acc0", "#c6c0d0"],
    ["#f8bfec", "#f5b2e7", "#fbcdf1"],
    ["#b6f7b6", "#aaf2aa", "#c3f9c3"],
    ["#e846b4", "#e53eb0", "#ea50b8"],
    ["#74d5d8", "#69cfd3", "#80dbde"],
    ["#e6dc5a", "#e0d54e", "#ebe269"],
    ["#f49a78", "#f19070", "#f7a584"],
  ],
  dark: [
    ["#4a4a4a", "#444444", "#505050"],
    ["#8a5410", "#7f4c0c", "#945c18"],
    ["#6e5a20", "#66531b", "#766227"],
    ["#2a5c8c", "#255481", "#316597"],
    ["#1e6b4e", "#1a6247", "#247557"],
    ["#57506a", "#504962", "#5f5873"],
    ["#7409aa", "#6c089e", "#7d1ab3"],
    ["#3f5b12", "#3a5410", "#476617"],
    ["#cb0bab", "#c50aa6", "#cd0fae"],
    ["#0f6a70", "#0d6268", "#127379"],
    ["#6b6400", "#625c00", "#746d07"],
    ["#8f3d1c", "#863819", "#984421"],
  ],
};

/**
 * By reason of a wait, for light and dark: lock, disk, data from others, time, other. The colours
 * are similar because the kind is the same.
 */
export const WAIT_COLORS = {
  light: ["#f5a3c0", "#e3a6f0", "#cdb8f7", "#f8bfec", "#e9cbdc"],
  dark: ["#8a1f4d", "#7409aa", "#5130b0", "#86247d", "#633f5a"],
};

/** Wait reasons, by index of their colour. */
const WAIT_CLASSES = [
  ["[futex]", "[kernel lock]"],
  ["[disk]", "[page fault]"],
  ["[socket]", "[pipe]", "[poll]", "[terminal]", "[message]", "[io_uring]"],
  ["[sleep]"],
];

/**
 * Colour of a wait.
 * @param {string} reason reason as shown
 * @param {boolean} isDark
 */
export function waitColor(reason, isDark) {
  const place = WAIT_CLASSES.findIndex((reasons) => reasons.includes(reason));
  return (isDark ? WAIT_COLORS.dark : WAIT_COLORS.light)[place < 0 ? WAIT_CLASSES.length : place];
}

/** By object, for light and dark. */
export const OBJECT_COLORS = {
  light: ["#f4b25e", "#8fbce6", "#7fcfae", "#e8a2b8", "#c9b6e8", "#d8cf6a", "#9fd3d8", "#e6b89c", "#b7d488", "#b8c0d8"],
  dark: ["#8a5410", "#2a5c8c", "#1e6b4e", "#853a54", "#5d4690", "#665f10", "#1d666d", "#7d4a2a", "#4b6620", "#4a5578"],
};

/** Colours of text, background, matches, the current box, and narrow boxes. */
export const THEMES = {
  light: { text: "#111111", back: "#ffffff", match: "#a3007f", mark: "#0b3d91", narrow: "#c8c8c8", line: "#5b6470", bar: "#6b7a8c", chosen: "#d2691e" },
  dark: { text: "#f5f5f5", back: "#16181c", match: "#ff7ad9", mark: "#9cc5ff", narrow: "#3a3d44", line: "#a9b2bd", bar: "#7d8b9c", chosen: "#e08a3c" },
};

/**
 * Colour of a difference from -1 to 1: from white (or dark grey) to red or blue.
 * @param {number} delta
 * @param {boolean} isDark
 */
export function deltaColor(delta, isDark) {
  const part = Math.min(1, Math.abs(delta)) ** 0.6;
  const from = isDark ? [70, 72, 78] : [226, 228, 232];
  const to = delta > 0 ? (isDark ? [158, 36, 36] : [255, 120, 100]) : isDark ? [28, 84, 160] : [110, 170, 250];
  const mix = from.map((c, i) => Math.round(c + (to[i] - c) * part));
  return `rgb(${mix.join(",")})`;
}

/**
 * Colour of a self share from 0 to 1.
 * @param {number} share
 * @param {boolean} isDark
 */
export function ownColor(share, isDark) {
  const part = Math.min(1, Math.max(0, share)) ** 0.5;
  const from = isDark ? [64, 66, 72] : [236, 232, 214];
  const to = isDark ? [170, 60, 10] : [250, 140, 50];
  return `rgb(${from.map((c, i) => Math.round(c + (to[i] - c) * part)).join(",")})`;
}
