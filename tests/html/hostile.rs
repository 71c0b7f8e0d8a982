//! Hostile names in every view of a page.

use serde_json::Value;

use super::browser::Browser;
use crate::support::{Here, needs, well_formed};

/// Names with a visible effect if they were executed.
fn names() -> Vec<String> {
    let long: String = "<b>".repeat(28 << 10).chars().take(28 << 10).collect();
    [
        "</script><script>window.pwned=1</script>",
        "<img src=x onerror=window.pwned=2>",
        "</title></style></main><svg onload=window.pwned=3>",
        "<!--<script>",
        "]]>${window.pwned=4}`\\",
        "\u{202e}txt\u{2028}line\u{2029}\u{feff}zero\u{200b}",
        "nul\0byte\u{1}\u{7f}\u{9b}31m",
        "\"onmouseover=\"window.pwned=5\" '",
        "javascript:window.pwned=6",
        "&lt b &amp &#60",
        "__proto__",
        "constructor",
        &long,
    ]
    .map(str::to_owned)
    .to_vec()
}

#[test]
fn hostile_names_are_text_in_every_view() {
    needs!(Tool("chromium"), Tool("chromedriver"));
    let here = Here::new();
    hostile_names(&here, &Browser::start(&here, 1300, 800));
}

/// Compares a page of hostile names with harmless ones, in every view.
pub(super) fn hostile_names(here: &Here, browser: &Browser) {
    let names = names();
    let mut folded = String::new();
    for (at, name) in names.iter().enumerate() {
        folded.push_str(&format!("{name};{name};mid;{name} {}\n", at + 1));
    }
    let harmless: String = (1..=names.len())
        .map(|at| format!("a{at};a{at};mid;a{at} {at}\n"))
        .collect();
    std::fs::write(here.path("hostile.folded"), folded).expect("written");
    std::fs::write(here.path("harmless.folded"), harmless).expect("written");
    let title = names[1].clone();
    for name in ["hostile", "harmless"] {
        let shell = here.rprof(&format!("html -q {name}.folded -o {name}.html --title"));
        shell.arg(&title).ok();
    }
    let markup = std::fs::read_to_string(here.path("hostile.html")).expect("a page");
    let is_hostile =
        |c: char| c.is_control() && c != '\n' || ('\u{2028}'..='\u{202e}').contains(&c);
    assert!(!markup.contains(is_hostile));
    // `<svg` alone occurs in the script, which writes SVG files.
    assert!(!markup.contains("<img") && !markup.contains("<svg onload"));

    let tags = "return [...document.querySelectorAll('*')].map(element => element.tagName).filter(tag => /^(IMG|SCRIPT|IFRAME|B|STYLE|LINK|TITLE|OBJECT)$/.test(tag)).sort().join()";
    // `<wbr>` lets a long name wrap after `::`.
    let count = "return document.querySelectorAll('*:not(wbr)').length";
    let mut counts: Vec<Vec<Value>> = Vec::new();
    for page in ["harmless.html", "hostile.html"] {
        browser.open(&here.path(page));
        let mut seen = Vec::new();
        for view in ["flame", "table", "sandwich", "tree", "lines"] {
            for search in ["", "e", "<"] {
                let script = "for (const fn of rprof.figures.sorted().slice(0, 20)) rprof.change({view: arguments[0], fn, search: '', inverted: fn % 2 === 0, zoom: []});
                    const boxes = rprof.flame.boxes;
                    for (let i = 0; boxes && i < boxes.n; i++) { rprof.flame.hover = i; rprof.flame.drawOver(5, 5); rprof.tell(boxes.node[i] > 0 ? boxes.node[i] : 0); }
                    rprof.change({search: arguments[1], inverted: false, fn: 0})";
                browser.run_with(script, &[view.into(), search.into()]);
                let picture = browser.run("return rprof.picture()");
                well_formed(picture.as_str().expect("a picture"));
                seen.push(browser.run(tags));
            }
            seen.push(browser.run(&format!("rprof.change({{search: '', fn: 0}}); {count}")));
        }
        browser.run("rprof.copy(); rprof.help()");
        seen.push(browser.run(count));
        counts.push(seen);
        assert_eq!(browser.run("return typeof window.pwned"), "undefined");
        browser.is_content();
    }
    assert_eq!(counts[0], counts[1]);
    let read = browser.run("return [...rprof.profile.names]");
    let read: Vec<&str> = read
        .as_array()
        .expect("names")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    for name in &names {
        let clean = rprof_export_clean(name);
        assert!(read.contains(&clean.as_str()), "{clean:?} in {read:?}");
    }
}

/// Returns a name as shown: characters that hide or reorder text are replaced.
fn rprof_export_clean(name: &str) -> String {
    let hidden = |c: char| {
        c.is_control()
            || matches!(
                c,
                '\u{2028}' | '\u{2029}' | '\u{202e}' | '\u{feff}' | '\u{200b}'
            )
    };
    name.replace(hidden, "\u{fffd}")
}
