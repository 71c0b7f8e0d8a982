//! Printing the page.

use serde_json::{Value, json};

use super::browser::Browser;
use super::page::page;
use crate::support::{Here, needs, wait_until};

#[test]
fn on_paper_a_graph_is_whole_and_light_and_the_screen_is_as_it_was_afterwards() {
    needs!(PerfEvents, Tool("chromium"), Tool("chromedriver"));
    let here = Here::new();
    page(&here);
    let browser = Browser::start(&here, 1300, 800);
    browser.open(&here.path("profile.html"));
    browser.run("rprof.change({flames: true}); if (document.documentElement.dataset.theme !== 'dark') rprof.theme()");
    let shown = || {
        browser.run(
            "const {flame} = rprof, {theme} = document.documentElement.dataset;
            return {theme, width: flame.width, height: flame.canvas.height, scrolled: flame.scrolled, rows: flame.boxes.rows, cut: flame.cut.textContent}",
        )
    };
    let before = shown();
    assert_eq!(before["theme"], "dark");
    browser.run("dispatchEvent(new Event('beforeprint'))");
    let paper = shown();
    let rows = paper["rows"].as_u64().expect("rows");
    assert!((5..=50).contains(&rows), "{paper}");
    assert_eq!(
        [
            &paper["theme"],
            &paper["height"],
            &paper["scrolled"],
            &paper["cut"]
        ],
        [
            &json!("light"),
            &json!(rows * 18 * 2),
            &json!(0),
            &json!("")
        ]
    );
    assert_ne!(paper["width"], before["width"]);
    browser.run("dispatchEvent(new Event('afterprint'))");
    // A resize observer reports the size after layout.
    wait_until("the screen is as before", || shown() == before);
    let pdf = browser.devtools("Page.printToPDF", &json!({ "printBackground": true }));
    assert!(pdf["data"].as_str().is_some_and(|data| data.len() > 1000));
    wait_until("the screen is as before", || shown() == before);
    assert_eq!(browser.run("return rprof.flame.paper"), Value::Null);
    browser.is_content();
}
