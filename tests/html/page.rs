//! Use of the page: from a file, by keyboard, without JavaScript, saved, and sent on.

use serde_json::{Value, json};

use super::browser::{Browser, DOWN, ENTER, ESCAPE, TAB};
use crate::support::{Here, c, c_with, needs, well_formed};

const VIEWS: [&str; 6] = ["flame", "time", "table", "sandwich", "tree", "lines"];

pub(super) fn page(here: &Here) {
    here.record("-g -F 999", &c("threads.c"), "0.2");
    here.rprof("html").ok().says("wrote profile.html");
}

#[test]
fn a_page_asks_nobody_and_breaks_no_rule_in_any_view() {
    needs!(PerfEvents, Tool("chromium"), Tool("chromedriver"));
    let here = Here::new();
    page(&here);
    let browser = Browser::start(&here, 1300, 800);
    browser.open(&here.path("profile.html"));
    through_every_view(&browser);
    let file = format!("file://{}", here.path("profile.html").display());
    let requests = browser.requests();
    assert!(!requests.is_empty());
    for address in requests {
        let is_own = address.split('#').next() == Some(&file);
        // An empty data URL as icon, and the blank page in between.
        let is_inside = address.starts_with("data:,") || address == "about:blank";
        assert!(is_own || is_inside, "{address}");
    }
    // Markup from text, and an external image, are violations.
    let refused = browser.run(
        "try { document.body.innerHTML = '<p>x'; return 'made' } catch (error) { return error.name }",
    );
    assert_eq!(refused, "TypeError");
    browser.run("const image = new Image(); image.src = 'http://127.0.0.1:9/x.png'; document.body.append(image)");
    crate::support::wait_until("a report of the policy", || {
        let log = browser.log("browser");
        let is_report = |entry: &Value| {
            entry["message"]
                .as_str()
                .is_some_and(|text| text.contains("Content Security Policy"))
        };
        log.iter().any(is_report)
    });
}

/// Shows every view, every kind of time line, every dialog and both themes. None may report an
/// error.
pub(super) fn through_every_view(browser: &Browser) {
    for view in VIEWS {
        for lanes in ["thread", "process", "cpu", "heat"] {
            let script = "rprof.change({view: arguments[0], lanes: arguments[1], fn: rprof.figures.sorted()[0]});
                for (const inverted of [true, false]) rprof.change({inverted});
                return document.querySelector('.main').childNodes.length";
            let parts = browser.run_with(script, &[view.into(), lanes.into()]);
            assert!(parts.as_u64() > Some(0), "{view} is empty");
        }
    }
    browser.run("rprof.change({view: 'flame', color: 'object', flames: true, search: 'work|burn'}); rprof.copy(); rprof.help(); rprof.theme()");
    browser.is_content();
}

#[test]
fn a_state_is_whole_in_the_address_and_back_goes_back() {
    needs!(PerfEvents, Tool("chromium"), Tool("chromedriver"));
    let here = Here::new();
    page(&here);
    let browser = Browser::start(&here, 1300, 800);
    browser.open(&here.path("profile.html"));
    let all = browser.functions();
    browser.run(
        "const row = rprof.profile.rows.task[0];
        rprof.change({filters: [{kind: 'tid', id: rprof.profile.tasks.tid[row]}], search: 'w|b', sort: 'total', lanes: 'name'})",
    );
    let few = browser.functions();
    assert_ne!(few, all);
    let address = browser.run("return location.href");
    browser.post_refresh();
    assert_eq!(browser.functions(), few);
    browser.go("about:blank");
    browser.go(address.as_str().expect("an address"));
    browser.wait_ready();
    assert_eq!(browser.functions(), few);
    browser.open(&here.path("profile.html"));
    browser.run("rprof.change({inverted: true}); rprof.change({view: 'table'})");
    browser.keys("u");
    crate::support::wait_until("the view before", || {
        browser.run("return rprof.state.view") == "flame"
    });
    assert_eq!(browser.run("return rprof.state.inverted"), true);
    browser.is_content();
}

#[test]
fn a_page_that_was_saved_from_the_browser_shows_the_same() {
    needs!(PerfEvents, Tool("chromium"), Tool("chromedriver"));
    let here = Here::new();
    page(&here);
    let browser = Browser::start(&here, 1300, 800);
    browser.open(&here.path("profile.html"));
    let functions = browser.functions();
    let elements = "return document.querySelectorAll('#app *').length";
    let count = browser.run(elements);
    // Like "save page as".
    let saved = browser.run("return '<!doctype html>\\n' + document.documentElement.outerHTML");
    std::fs::write(here.path("saved.html"), saved.as_str().expect("markup")).expect("written");
    browser.open(&here.path("saved.html"));
    assert_eq!(browser.functions(), functions);
    assert_eq!(browser.run(elements), count);
    browser.is_content();
}

#[test]
fn without_javascript_there_is_a_table_of_the_hottest_functions() {
    needs!(PerfEvents, Tool("chromium"), Tool("chromedriver"));
    let here = Here::new();
    page(&here);
    let browser = Browser::start(&here, 1300, 800);
    browser.devtools(
        "Emulation.setScriptExecutionDisabled",
        &json!({ "value": true }),
    );
    browser.go(&format!("file://{}", here.path("profile.html").display()));
    let names = accessible(&browser, "cell");
    for name in ["work_left", "work_right", "start_thread"] {
        assert!(names.iter().any(|text| text == name), "{name}: {names:?}");
    }
}

/// Returns the names that a screen reader finds for a role.
fn accessible(browser: &Browser, role: &str) -> Vec<String> {
    let tree = browser.devtools("Accessibility.getFullAXTree", &json!({}));
    let nodes = tree["nodes"].as_array().expect("nodes");
    (nodes.iter())
        .filter(|node| node["role"]["value"] == role && node["ignored"] != true)
        .map(|node| {
            node["name"]["value"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        })
        .collect()
}

#[test]
fn a_screen_reader_finds_the_functions_in_a_table() {
    needs!(PerfEvents, Tool("chromium"), Tool("chromedriver"));
    let here = Here::new();
    page(&here);
    let browser = Browser::start(&here, 1300, 800);
    browser.open(&here.path("profile.html"));
    let tables = accessible(&browser, "table");
    assert!(
        tables.iter().any(|name| name.starts_with("Functions")),
        "{tables:?}"
    );
    let cells = accessible(&browser, "cell");
    assert!(cells.iter().any(|name| name == "work_left"), "{cells:?}");
    let pictures = accessible(&browser, "image");
    for what in ["Flame graph, of ", "Time line"] {
        let is_it = |name: &String| name.starts_with(what);
        assert!(pictures.iter().any(is_it), "{what}: {pictures:?}");
    }
    browser.run("rprof.change({view: 'tree'})");
    let rows = accessible(&browser, "row");
    assert!(rows.len() > 3, "{rows:?}");
    assert!(accessible(&browser, "treegrid").len() == 1);
    for role in ["button", "combobox", "searchbox", "spinbutton"] {
        let names = accessible(&browser, role);
        assert!(
            !names.is_empty() && names.iter().all(|name| !name.is_empty()),
            "{role}: {names:?}"
        );
    }
}

#[test]
fn a_keyboard_is_enough() {
    needs!(PerfEvents, Tool("chromium"), Tool("chromedriver"));
    let here = Here::new();
    page(&here);
    let browser = Browser::start(&here, 1300, 800);
    browser.open(&here.path("profile.html"));
    by_keyboard(&browser);
}

pub(super) fn by_keyboard(browser: &Browser) {
    let state = |what: &str| browser.run(&format!("return rprof.state.{what}"));
    let is_there = || browser.run("return document.activeElement === rprof.flame.canvas") == true;
    for _ in 0..200 {
        if is_there() {
            break;
        }
        browser.keys(&TAB.to_string());
    }
    assert!(is_there(), "Tab does not lead there");
    browser.keys(&format!("{DOWN}{DOWN}{ENTER}"));
    assert_eq!(browser.run("return rprof.state.zoom.length"), 2);
    let name = browser.run("return document.querySelector('.told-of h2').textContent");
    assert_ne!(name, "");
    browser.keys("s");
    assert_eq!(state("view"), "sandwich");
    assert_eq!(
        browser.run("return document.querySelector('.main h2').textContent"),
        name
    );
    browser.keys("1");
    browser.keys(&format!("{ESCAPE}{ESCAPE}"));
    assert_eq!(browser.run("return rprof.state.zoom.length"), 0);
    browser.keys("/work_left");
    browser.keys(&ENTER.to_string());
    assert_eq!(state("search"), "work_left");
    let found = browser.run("return document.querySelector('.found').textContent");
    assert!(
        found
            .as_str()
            .is_some_and(|text| text.starts_with("1 function · ")),
        "{found}"
    );
    browser.keys(&ESCAPE.to_string());
    assert_eq!(state("search"), "");
    browser.run("rprof.timeline.canvas.focus()");
    browser.keys(&ENTER.to_string());
    assert_ne!(state("time"), Value::Null);
    browser.keys("5");
    browser.run("document.querySelector('.outline tr[tabindex=\"0\"]').focus()");
    let rows = "return document.querySelectorAll('.outline tbody tr').length";
    let open = browser.run(rows);
    browser.keys(&ENTER.to_string());
    assert_ne!(browser.run(rows), open);
    browser.is_content();
}

#[test]
fn a_graph_is_saved_as_a_picture_that_a_browser_shows() {
    needs!(PerfEvents, Tool("chromium"), Tool("chromedriver"));
    let here = Here::new();
    page(&here);
    let browser = Browser::start(&here, 1300, 800);
    browser.devtools(
        "Browser.setDownloadBehavior",
        &json!({ "behavior": "allow", "downloadPath": here.path("") }),
    );
    browser.open(&here.path("profile.html"));
    browser.run("rprof.change({search: 'work_left'})");
    let names = browser.run(
        "const {boxes} = rprof.flame;
        return [...boxes.node.subarray(0, boxes.n)].filter(node => node >= 0).map(node => rprof.flame.name(node))",
    );
    browser.keys("p");
    let picture = here.path("profile.svg");
    crate::support::wait_until("the picture is saved", || picture.exists());
    browser.is_content();
    well_formed(&std::fs::read_to_string(&picture).expect("text"));
    browser.go(&format!("file://{}", picture.display()));
    let titles = "return [...document.querySelectorAll('g > title')].map(title => title.textContent.split('\\n')[0])";
    assert_eq!(browser.run(titles), names);
    let marked = "return document.querySelectorAll('g > rect[stroke]').length";
    assert!(browser.run(marked).as_u64() > Some(0), "no match is framed");
}

#[test]
fn a_legend_tells_colours_and_keeps_what_is_clicked() {
    needs!(PerfEvents, Tool("chromium"), Tool("chromedriver"));
    let here = Here::new();
    page(&here);
    let browser = Browser::start(&here, 1300, 800);
    browser.open(&here.path("profile.html"));
    for (color, kind) in [("kind", "kind"), ("object", "dso")] {
        browser.run_with(
            "rprof.change({color: arguments[0], filters: []}); document.querySelector('.legend button').click()",
            &[color.into()],
        );
        let filters = browser.run("return rprof.state.filters.map(filter => filter.kind)");
        assert_eq!(filters, json!([kind]));
        let told = browser.run(
            "return [...document.querySelectorAll('.legend button')].map(key => key.textContent)",
        );
        let told = told.as_array().expect("a list");
        let is_whole = |text: &Value| text.as_str().is_some_and(|text| text.ends_with(" 100.0 %"));
        assert!(told.iter().any(is_whole), "{told:?}");
    }
    browser.is_content();
}

#[test]
fn in_a_frame_without_rights_a_page_works_all_the_same() {
    needs!(PerfEvents, Tool("chromium"), Tool("chromedriver"));
    let here = Here::new();
    page(&here);
    let frame = "<!doctype html><iframe sandbox=allow-scripts src=profile.html width=900 height=600></iframe>";
    std::fs::write(here.path("frame.html"), frame).expect("written");
    let browser = Browser::start(&here, 1300, 800);
    browser.go(&format!("file://{}", here.path("frame.html").display()));
    browser.enter_frame();
    browser.wait_ready();
    browser.run("rprof.change({inverted: true}); rprof.change({view: 'table'})");
    assert_eq!(browser.run("return rprof.state.view"), "table");
    browser.is_content();
}

#[test]
fn a_page_too_large_is_coarser_and_says_so() {
    needs!(PerfEvents, Tool("chromium"), Tool("chromedriver"));
    let here = Here::new();
    here.record("-g -F 999", &c("threads.c"), "0.2");
    let run = here.rprof("html --page-size 1K").ok();
    run.says("made the page smaller for --page-size: ")
        .says("times were dropped")
        .says("the page exceeds --page-size");
    let browser = Browser::start(&here, 1300, 800);
    browser.open(&here.path("profile.html"));
    let told = browser.run("return document.querySelector('.told').textContent");
    assert!(
        told.as_str().is_some_and(|text| text.contains("below 1 %")),
        "{told}"
    );
    let whole = browser.run("return rprof.figures.whole");
    let report = here.report("");
    assert_eq!(
        whole.as_u64(),
        Some(report.only().weight),
        "no weight is lost"
    );
}

#[test]
fn code_of_the_hottest_functions_is_in_the_page_and_its_source_only_if_that_is_asked_for() {
    needs!(PerfEvents, Tool("chromium"), Tool("chromedriver"));
    let here = Here::new();
    here.record("-g -F 999", &c_with("threads.c", &["-g"]), "0.2");
    let annotated = here.rprof("annotate -q -n 1 --syntax intel --format json");
    let annotated: Value = serde_json::from_str(&annotated.ok().out()).expect("JSON");
    let function = &annotated["functions"][0];
    let instructions = function["parts"][0]["instructions"]
        .as_array()
        .expect("instructions");
    let lines = function["lines"].as_array().expect("lines");
    let source = lines.iter().filter_map(|line| line["text"].as_str());
    let source = source
        .map(str::trim)
        .max_by_key(|text| text.len())
        .expect("a line of source");

    let browser = Browser::start(&here, 1300, 800);
    for with_source in [false, true] {
        let option = if with_source { "--with-source" } else { "" };
        let told = here
            .rprof(&format!("html --annotate 1 {option}"))
            .ok()
            .err();
        assert_eq!(
            told.contains("the page embeds source lines of"),
            with_source,
            "{told}"
        );
        browser.open(&here.path("profile.html"));
        browser.run("rprof.change({view: 'lines', fn: -1}); document.querySelector('.main .actions button').click()");
        crate::support::wait_until("the code is shown", || {
            browser.run("return document.querySelector('.main .code table') !== null")
                == json!(true)
        });
        let shown = browser.run("return document.querySelector('.main .code').textContent");
        let shown = shown.as_str().expect("text");
        for instruction in instructions.iter().take(20) {
            let text = instruction["text"].as_str().expect("text");
            assert!(shown.contains(text), "{text} is not in {shown}");
        }
        assert_eq!(shown.contains(source), with_source, "{source}");
    }
}
