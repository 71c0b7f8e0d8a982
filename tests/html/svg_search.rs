//! The search in the SVG of `rprof flamegraph`, in a real browser.

use serde_json::Value;

use super::browser::Browser;
use crate::support::{Here, needs, wait_until};

/// Names with regular expression syntax.
const STACKS: &str = "\
main;(anonymous namespace)::anon;operator() 30
main;std::map<int, long>::find;[unknown] 20
main;Vec::push 40
main;[off CPU] 10
";

/// Opens an SVG with a search in its URL. Returns the displayed result.
fn search(browser: &Browser, here: &Here, file: &str, term: &str) -> String {
    browser.go("about:blank");
    let encoded: String = (term.bytes()).map(|byte| format!("%{byte:02x}")).collect();
    browser.go(&format!("file://{}?s={encoded}", here.path(file).display()));
    let text = "return document.getElementById('matched').textContent.trim()";
    wait_until("the search is done", || browser.run(text) != "");
    browser.run(text).as_str().expect("a text").to_owned()
}

fn draw(here: &Here, options: &str) {
    std::fs::write(here.path("x.folded"), STACKS).expect("written");
    here.rprof("flamegraph -q -o x.svg")
        .words(options)
        .arg("x.folded")
        .ok();
}

#[test]
fn the_search_takes_names_as_they_are_shown() {
    needs!(Tool("chromium"), Tool("chromedriver"));
    let here = Here::new();
    draw(&here, "");
    let browser = Browser::start(&here, 1300, 800);
    for (term, said) in [
        ("(anonymous namespace)::anon", "Matched: 30.0%"),
        ("operator(", "Matched: 30.0%"),
        ("[unknown", "Matched: 20.0%"),
        ("std::map<int, long>::find", "Matched: 20.0%"),
        // A shortened name, as in boxes that are too narrow.
        ("..map<\u{2026}>::find", "Matched: 20.0%"),
        ("main", "Matched: 100%"),
        ("vec::push", "Matched: 40.0%"),
        ("VEC::push", "No match"),
        ("^main$", "No match"),
        ("/^main$/", "Matched: 100%"),
        ("/(find|push)$/", "Matched: 60.0%"),
        ("sample", "No match"),
    ] {
        assert_eq!(search(&browser, &here, "x.svg", term), said, "{term}");
    }
    let refused = search(&browser, &here, "x.svg", "/a(/");
    assert_eq!(refused, "/a(/ is not a regular expression");
    assert!(
        browser.complaints().is_empty(),
        "an expression that is none"
    );
    search(&browser, &here, "x.svg", "main");
    browser.run("search_prompt()");
    let left = browser.run(
        "return [document.querySelectorAll('.found').length, matchedtxt.textContent, location.search]",
    );
    assert_eq!(left, serde_json::json!([0, "", ""]));
}

#[test]
fn what_is_found_is_told_from_the_rest_and_stands_at_the_root() {
    needs!(Tool("chromium"), Tool("chromedriver"));
    let here = Here::new();
    let browser = Browser::start(&here, 1300, 800);
    for (options, is_at_the_top) in [
        ("", true),
        ("--colors hot", true),
        ("--no-inverted", false),
        ("--width 900", true),
    ] {
        draw(&here, options);
        search(&browser, &here, "x.svg", "push");
        let state = browser.run(
            "const root = Array.from(frames.children).find(e => name_of(e) === 'all').querySelector('rect');
            const found = document.querySelector('.found');
            const fills = new Set(Array.from(document.querySelectorAll('#frames g:not(.found) > rect')).map(r => r.getAttribute('fill')));
            return {
                found: document.querySelectorAll('.found').length,
                isOwn: !fills.has(found.querySelector('rect').getAttribute('fill')),
                text: getComputedStyle(found.querySelector('text')).fill,
                distance: parseFloat(root.getAttribute('y')) - parseFloat(matchedtxt.getAttribute('y')),
                button: getComputedStyle(searchbtn).opacity,
                right: matchedtxt.getBoundingClientRect().right,
            }",
        );
        assert_eq!(state["found"], 1, "{state}");
        assert_eq!(state["isOwn"], true, "{state}");
        assert_eq!(state["text"], "rgb(255, 255, 255)", "{state}");
        assert_eq!(state["button"], "1", "{state}");
        let distance = state["distance"].as_f64().expect("a number");
        assert!((0.0..40.0).contains(&distance.abs()), "{options}: {state}");
        assert_eq!(distance > 0.0, is_at_the_top, "{options}: {state}");
        assert!(
            state["right"].as_f64() <= Some(1300.0),
            "{options}: {state}"
        );
    }
    assert_eq!(browser.complaints(), Vec::<Value>::new());
}
