// Creation of DOM elements. Names enter the document only as text.

/**
 * Creates an element.
 * @param {string} tag
 * @param {Record<string, string | number | boolean | ((event: any) => void)>} [attributes]
 *   functions become event listeners
 * @param {(Node | string)[]} children
 * @returns {any}
 */
export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false) element.setAttribute(name, String(value));
  }
  element.append(...children);
  return element;
}

/**
 * Button group with one selected button.
 * @param {string} label
 * @param {[string, string][]} choices value and text
 * @param {string} chosen
 * @param {(value: string) => void} choose
 */
export function choiceOf(label, choices, chosen, choose) {
  const buttons = choices.map(([value, text]) =>
    el("button", { type: "button", "aria-pressed": String(value === chosen), click: () => choose(value) }, text),
  );
  return el("span", { class: "choice", role: "group", "aria-label": label }, ...buttons);
}

/**
 * Select element with a label.
 * @param {string} label
 * @param {[string, string][]} choices value and text
 * @param {string} chosen
 * @param {(value: string) => void} choose
 */
export function selectOf(label, choices, chosen, choose) {
  const options = choices.map(([value, text]) => el("option", { value, selected: value === chosen }, text));
  const select = el("select", { change: (/** @type {Event} */ event) => choose(/** @type {HTMLSelectElement} */ (event.target).value) }, ...options);
  return el("label", {}, `${label} `, select);
}

/** True if the page is dark. */
export function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

/**
 * Resizes a canvas to its box at the resolution of the screen.
 * @param {HTMLCanvasElement} canvas
 * @param {number} width
 * @param {number} height
 * @param {number} [ratio] canvas pixels per page pixel, if different from the screen
 */
export function fitCanvas(canvas, width, height, ratio = window.devicePixelRatio || 1) {
  const [w, h] = [Math.max(1, Math.round(width * ratio)), Math.max(1, Math.round(height * ratio))];
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
  }
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}
