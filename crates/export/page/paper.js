// Printing: light colours, and graphs with all rows.

/** Maximum number of rows of a graph on paper: about one page. */
const MAX_ROWS = 50;

/** Width of a graph on paper, in pixels: about A4. The browser scales it to the page. */
const WIDTH = 720;

/**
 * Adapts a page while it is printed.
 * @param {import("./main.js").Page} page
 */
export function printable(page) {
  const { dataset } = document.documentElement;
  /** @type {string | undefined} */
  let theme;
  const show = (/** @type {boolean} */ isPaper) => {
    for (const view of [page.flame, page.callers, page.callees]) view.setPaper(isPaper ? { width: WIDTH, rows: MAX_ROWS } : null);
    page.show();
  };
  addEventListener("beforeprint", () => {
    theme = dataset.theme;
    dataset.theme = "light";
    show(true);
  });
  addEventListener("afterprint", () => {
    if (theme === undefined) delete dataset.theme;
    else dataset.theme = theme;
    show(false);
  });
}
