// The page on paper: in light colours, and with graphs that are no window on their rows.

/** Most rows of a graph on paper: no more fit on a page. */
const MOST_ROWS = 50;

/** Width of a graph on paper, in pixels, before the browser fits it to the page: about that of A4. */
const WIDTH = 720;

/**
 * Shows a page as paper wants it while it is printed.
 * @param {import("./main.js").Page} page
 */
export function printable(page) {
  const { dataset } = document.documentElement;
  /** @type {string | undefined} */
  let theme;
  const show = (/** @type {boolean} */ isPaper) => {
    for (const view of [page.flame, page.callers, page.callees]) view.setPaper(isPaper ? { width: WIDTH, rows: MOST_ROWS } : null);
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
