//! Snapshot tests: scripts of keys and the resulting screens.
//!
//! After an intended change, run `INSTA_UPDATE=always cargo test -p rprof-tui`.

use std::sync::Arc;

use proptest::prelude::*;
use ratatui::style::Color;
use rprof_export::rows::percent;
use rprof_profile::{
    Frame, Keys, Object, ObjectKind, ProfileBuilder, TopFunctions, WeighBy, WeightUnit,
};

use crate::event::Effect;
use crate::keys::KEYS;
use crate::testing::{folded, keys, press, recorded, screen, source, styles, text};
use crate::{InputEvent, Key, State, Theme};

fn shown(script: &str, width: u16, height: u16) -> State {
    let mut state = State::new(source(recorded()), width, height);
    press(&mut state, script);
    state
}

/// Scripts by view. A view has one snapshot.
const SCRIPTS: &[(&str, &[(&str, &str)])] = &[
    (
        "functions",
        &[
            ("functions", ""),
            ("functions_by_total", "s<Down>"),
            ("search", "/mem<Enter>n"),
            ("typing", "/malloc|ht_"),
            ("wrong_expression", "/a("),
            ("focus", "/walk<Enter>f"),
            ("without", "/parse<Enter>x"),
            ("removed", "/ht_<Enter>X2E"),
            ("weights", "%oV"),
        ],
    ),
    (
        "tree",
        &[
            ("tree", "2<Enter>"),
            ("tree_open", "2E"),
            ("tree_inverted", "2i<Enter>"),
            ("tree_search_in_closed", "2/fault<Enter>"),
            ("limit", "2EL5<Enter>"),
        ],
    ),
    (
        "flame",
        &[
            ("flame", "3<Down><Down>"),
            ("flame_zoomed", "3<Down><Down><Down><Enter>"),
            ("flame_inverted", "3i"),
        ],
    ),
    (
        "threads",
        &[
            ("calls", "/memcpy<Enter><Enter>"),
            ("threads", "5"),
            ("pick_thread", "t"),
            ("one_thread", "t<Down><Enter>"),
            ("one_object", "<Down>d"),
        ],
    ),
    (
        "time",
        &[
            ("time", "6<Right><Right>"),
            ("time_range", "6<Right><Enter><PgDn><Enter>1"),
        ],
    ),
    ("text", &[("verdict", "7"), ("help", "?")]),
];

fn all_scripts() -> impl Iterator<Item = &'static (&'static str, &'static str)> {
    SCRIPTS.iter().flat_map(|(_, scripts)| *scripts)
}

#[test]
fn scripts_lead_to_the_reviewed_screens() {
    for (view, scripts) in SCRIPTS {
        let screens = scripts.iter().flat_map(|(name, script)| {
            [(80, 24), (200, 60)].map(|(width, height)| {
                let state = shown(script, width, height);
                let text = text(&screen(&state, Theme::default()));
                format!("{name}\n====\n{text}")
            })
        });
        insta::assert_snapshot!(*view, screens.collect::<Vec<_>>().join("\n"));
    }
}

#[test]
fn waits_for_a_cpu_have_a_colour_of_their_own_in_the_flame_graph() {
    let mut builder = ProfileBuilder::new();
    let event = builder.add_event("wall-clock", WeightUnit::Nanoseconds);
    let app = builder.intern_object("/usr/bin/app");
    let waits = builder.add_object(Object {
        name: "[off-cpu]".into(),
        kind: ObjectKind::Waiting,
        build_id: None,
        runtime: None,
    });
    let thread = builder.intern_thread_name("app");
    let main = builder.intern_function(Ok("main"), app);
    let reasons = ["[futex]", "[sleep]", "[waiting for a CPU]"];
    for name in reasons {
        let wait = builder.intern_function(Ok(name), waits);
        let frames = [main, wait].map(|function| builder.intern_frame(Frame::of(function)));
        let stack = builder.intern_stack(&frames);
        builder.add_samples(event, thread, stack, 10, 10_000_000);
    }
    let mut state = State::new(source(builder.finish()), 90, 24);
    press(&mut state, "3");
    let buffer = screen(&state, Theme::default());
    let color = |name: &str| {
        let (y, x) = (text(&buffer).lines().enumerate())
            .find_map(|(y, line)| {
                let column = line.find(name)?;
                Some((y, line[..column].chars().count()))
            })
            .unwrap();
        buffer[(x as u16, y as u16)].bg
    };
    let blue = [Color::Blue, Color::LightBlue];
    let [futex, sleep, cpu] = reasons.map(color);
    assert!(blue.contains(&futex) && blue.contains(&sleep));
    assert_eq!(cpu, Color::LightMagenta);
}

#[test]
fn styles_are_the_reviewed_ones() {
    let mut reviewed = Vec::new();
    for (name, script) in all_scripts() {
        if !["functions", "search", "flame", "time_range", "tree_open"].contains(name) {
            continue;
        }
        let state = shown(script, 80, 24);
        let text = styles(&screen(&state, Theme::default()));
        reviewed.push(format!("{name}\n====\n{text}"));
        let plain = Theme {
            colors: false,
            ascii: true,
        };
        let buffer = screen(&state, plain);
        let reset = Some(Color::Reset);
        assert!(
            buffer
                .content
                .iter()
                .all(|c| c.style().fg == reset && c.style().bg == reset)
        );
        let is_ascii = |symbol: &str| symbol.is_ascii() || symbol == "…" || "↓↑–›".contains(symbol);
        for cell in &buffer.content {
            assert!(is_ascii(cell.symbol()), "{:?}", cell.symbol());
        }
    }
    insta::assert_snapshot!("styles", reviewed.join("\n"));
}

/// Self, total and samples on the screen equal the table of `report --format json`.
#[test]
fn numbers_are_those_of_the_report() {
    use rprof_profile::{Keys, TopFunctions, WeighBy};
    let profile = recorded();
    let top = TopFunctions::of(&profile, 0, WeighBy::Period, Keys::FUNCTIONS);
    let screen = text(&screen(&shown("", 160, 80), Theme::default()));
    let mut found = 0;
    for row in &top.rows {
        let function = profile.function(row.key.function.unwrap());
        let name = function.name.as_deref().unwrap_or("[unknown]");
        let line = screen
            .lines()
            .find(|line| line.split_whitespace().nth(3) == name.split(' ').next());
        let words: Vec<&str> = line
            .unwrap_or_else(|| panic!("{name}"))
            .split_whitespace()
            .collect();
        let shares = [row.self_weight, row.total_weight]
            .map(|w| format!("{:.2}%", percent(w, top.weight_total)));
        assert_eq!(words[..2], shares, "{name}");
        assert_eq!(words[2], row.self_samples.to_string(), "{name}");
        found += 1;
    }
    assert!(found > 45);
}

#[test]
fn filters_weigh_again() {
    let mut state = shown("", 80, 24);
    let whole = state.model.samples;
    press(&mut state, "5<Down><Enter>");
    let label = state.filters[0].label.clone();
    assert!(label.starts_with("pid "), "{label}");
    let of_process = state.model.samples;
    assert!(of_process < whole && of_process > 0);
    let own: u64 = state.model.rows.iter().map(|row| row.self_weight).sum();
    assert_eq!(own, state.model.whole);
    press(&mut state, "1u<Enter>");
    assert_eq!(state.filters.len(), 2);
    assert!(state.model.samples < of_process);
    let text = text(&screen(&state, Theme::default()));
    assert!(
        text.contains(&format!("rprof report --tui --pid {} --cpu", &label[4..])),
        "{text}"
    );
    press(&mut state, "<Esc><Esc>");
    assert_eq!(state.model.samples, whole);
    // The same key sets and removes a filter.
    press(&mut state, "dd");
    assert_eq!((state.filters.len(), state.model.samples), (0, whole));
}

/// Removing a function's frames gives the same sums as stacks without it: callers inherit its
/// weight.
#[test]
fn removed_frames_leave_their_weight_to_callers() {
    let mut state = State::new(
        source(folded("a;w;b 3\na;w 2\nw;w;c 1\na;b;w;b 4\nw 5\n")),
        80,
        24,
    );
    let sums = |state: &State| {
        let row = |row: &rprof_profile::TopRow| {
            let name = state.model.name(row.key.function?);
            Some((name, row.self_weight, row.total_weight))
        };
        state
            .model
            .by_name
            .iter()
            .filter_map(row)
            .collect::<Vec<_>>()
    };
    let before = sums(&state);
    press(&mut state, "2E/w<Enter>X");
    let never = State::new(source(folded("a;b 3\na 2\nc 1\na;b;b 4\n")), 80, 24);
    assert_eq!(sums(&state), sums(&never));
    // Samples without remaining frames still count.
    assert_eq!((state.model.whole, never.model.whole), (15, 10));
    let tree = |state: &mut State| {
        press(state, "CE");
        let tree = state.tree.as_ref().unwrap();
        let node = |row: usize| {
            let node = tree.node(row)?;
            let name = state.model.name(tree.calls.function(node));
            Some((name, tree.calls.depth(node), tree.calls.total(node)))
        };
        (0..tree.rows.len()).filter_map(node).collect::<Vec<_>>()
    };
    let mut other = never.clone();
    press(&mut other, "2");
    assert_eq!(tree(&mut state), tree(&mut other));
    assert!(text(&screen(&state, Theme::default())).contains("removed /w/"));
    press(&mut state, "<Esc>");
    assert_eq!(sums(&state), before);
}

#[test]
fn names_cannot_speak_to_the_terminal() {
    let profile = folded("a\u{1b}[2J\u{7};b\u{202e}c\r;\u{9b}31m 5\n");
    let mut state = State::new(source(profile), 60, 20);
    for view in '1'..='7' {
        press(&mut state, &view.to_string());
        let buffer = screen(&state, Theme::default());
        for cell in &buffer.content {
            let is_safe = |c: char| !c.is_control() && c != '\u{202e}';
            assert!(cell.symbol().chars().all(is_safe), "{:?}", cell.symbol());
        }
    }
    let effects = state.update(InputEvent::Key(Key::Char('1')));
    assert_eq!(effects, []);
    let copied = state.update(InputEvent::Key(Key::Char('y')));
    assert_eq!(copied, [Effect::Copy("\u{fffd}31m".to_owned())]);
}

#[test]
fn every_size_has_a_screen() {
    for (width, height) in [(0, 0), (1, 1), (2, 2), (10, 3), (10, 4), (20, 6), (500, 9)] {
        let mut state = shown("", 80, 24);
        state.update(InputEvent::Resize(width, height));
        for (_, script) in all_scripts() {
            press(&mut state, script);
            screen(&state, Theme::default());
            press(&mut state, "<Esc><Esc><Esc><Esc>");
        }
    }
}

#[test]
fn deep_recursion_and_odd_profiles_are_shown() {
    let deep = format!("{} 3\nb 1\n", vec!["a"; 50_000].join(";"));
    for text in [&*deep, "a 1\n", ";;; 1\n"] {
        let mut state = State::new(source(folded(text)), 80, 24);
        for script in [
            "2E<End>",
            "3<Down><Down><PgDn><PgDn>",
            "3i",
            "4E",
            "5",
            "6<Enter><Enter>",
            "7",
        ] {
            press(&mut state, script);
            screen(&state, Theme::default());
        }
    }
}

#[test]
fn the_mouse_selects_sorts_and_zooms() {
    let mut state = shown("", 80, 24);
    state.update(InputEvent::Click(5, 5));
    assert_eq!(state.place().selected, 2);
    state.update(InputEvent::Click(12, 2));
    assert_eq!(state.look.sort, crate::state::Sort::Total);
    // Name of the third view.
    state.update(InputEvent::Click(22, 1));
    assert_eq!(state.look.view, crate::view::View::Flame);
    state.update(InputEvent::Click(0, 4));
    let selected = state.look.flame_node;
    assert!(selected.is_some());
    state.update(InputEvent::Click(0, 4));
    assert_eq!(state.look.zoom, selected);
    state.update(InputEvent::Scroll(3));
}

fn any_key() -> impl Strategy<Value = Key> {
    let bound: Vec<Key> = KEYS
        .iter()
        .flat_map(|binding| binding.keys)
        .map(|(key, _)| *key)
        .collect();
    let typed = "amh_.*(5".chars().map(Key::Char).collect::<Vec<_>>();
    prop_oneof![4 => prop::sample::select(bound), 1 => prop::sample::select(typed)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// After any keys, Esc eventually restores the first screen.
    #[test]
    fn escape_leads_back_to_the_first_screen(script in prop::collection::vec(any_key(), 0..40)) {
        let first = shown("", 90, 26);
        let mut state = first.clone();
        for key in script {
            state.update(InputEvent::Key(key));
            screen(&state, Theme::default());
        }
        let look = |state: &State| {
            let buffer = screen(state, Theme::default());
            text(&buffer) + &styles(&buffer)
        };
        // One step may be invisible, such as removing a filter whose name does not fit.
        for _ in 0..60 {
            press(&mut state, "<Esc>");
        }
        prop_assert_eq!(text(&screen(&state, Theme::default())), text(&screen(&first, Theme::default())));
        prop_assert_eq!(look(&state), look(&first));
    }
}

#[test]
fn scripts_are_read_as_they_are_written() {
    assert_eq!(
        keys("a<Enter><"),
        [Key::Char('a'), Key::Enter, Key::Char('<')]
    );
}

/// The documentation contains the table of keys. `INSTA_UPDATE=always` updates it.
#[test]
fn documentation_has_the_table_of_keys() {
    for (name, is_live) in [("tui.md", false), ("top.md", true)] {
        let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        let path = docs.join(name);
        let page = std::fs::read_to_string(&path).unwrap();
        let (before, rest) = page.split_once("<!-- keys -->\n").unwrap();
        let (_, after) = rest.split_once("<!-- /keys -->").unwrap();
        let made = format!(
            "{before}<!-- keys -->\n{}<!-- /keys -->{after}",
            crate::keys::markdown(is_live)
        );
        if std::env::var_os("INSTA_UPDATE").is_some_and(|value| value == "always") {
            std::fs::write(&path, &made).unwrap();
            continue;
        }
        assert!(made == page, "docs/{name} has other keys than the views");
    }
}

fn live_source(samples: u64) -> crate::Source {
    let text = format!("app;main;hot {samples}\napp;main;cold 10\n");
    let profile = folded(&text);
    let event = profile.main_event().unwrap();
    let top = TopFunctions::of(&profile, event, WeighBy::Period, Keys::FUNCTIONS);
    crate::Source {
        title: "top  whole system".to_owned(),
        about: "window 10 s  lost 0".to_owned(),
        live: Some(crate::LiveFacts {
            corner: "rprof 1.2% CPU".to_owned(),
            since_start: [crate::SinceStart::new(&top, WeighBy::Period)].into(),
        }),
        ..source(profile)
    }
}

#[test]
fn live_screens_are_the_reviewed_ones() {
    let screens = [60, 100].map(|width| {
        let mut state = State::new(live_source(30), width, 12);
        press(&mut state, " ");
        text(&screen(&state, Theme::default()))
    });
    insta::assert_snapshot!("live", screens.join("\n"));
}

/// Each event has its own shares. The title and the equivalent command name it.
#[test]
fn the_event_is_switched() {
    let mut builder = ProfileBuilder::new();
    let events =
        ["cycles", "page-faults", "none"].map(|name| builder.add_event(name, WeightUnit::Events));
    let (thread, object) = (builder.intern_thread_name("t"), builder.intern_object("/o"));
    for (name, event, samples) in [("spin", events[0], 9), ("touch", events[1], 4)] {
        let function = builder.intern_function(Ok(name), object);
        let stack = builder.intern_stack(&[function]);
        builder.add_samples(event, thread, stack, samples, samples);
    }
    let mut state = State::new(source(builder.finish()), 100, 12);
    let lines = |state: &State| text(&screen(state, Theme::default()));
    for (name, function, samples) in [("cycles", "spin", 9), ("page-faults", "touch", 4)] {
        let shown = lines(&state);
        assert!(
            shown.contains(&format!("app  {name}  {samples} samples")),
            "{shown}"
        );
        assert!(
            shown.contains(&format!("100.00%  100.00%         {samples}  {function}")),
            "{shown}"
        );
        press(&mut state, "v");
    }
    // Events without samples are skipped.
    assert!(lines(&state).contains("app  cycles") && lines(&state).contains("--event cycles"));
    let mut one = shown("", 100, 12);
    press(&mut one, "v");
    assert!(text(&screen(&one, Theme::default())).contains("no other event"));
}

/// Live keys are effects for the caller, and do nothing in a recording.
#[test]
fn live_keys_are_orders() {
    let orders = [
        (' ', Effect::Pause(true)),
        (' ', Effect::Pause(false)),
        ('z', Effect::Zero),
        ('w', Effect::Window),
        ('W', Effect::Write),
    ];
    let mut live = State::new(live_source(30), 100, 12);
    let mut recording = shown("", 100, 12);
    for (key, order) in orders {
        let key = InputEvent::Key(Key::Char(key));
        assert_eq!(live.update(key.clone()), [order]);
        assert_eq!(recording.update(key), []);
    }
}

/// The selection follows its function when the order changes. An empty profile works too.
#[test]
fn fresh_profiles_keep_the_selection() {
    let mut state = State::new(live_source(30), 100, 12);
    press(&mut state, "<Down>");
    let name = |state: &State| state.selected().map(|id| state.model.name(id));
    assert_eq!(name(&state).as_deref(), Some("cold"));
    state.update(InputEvent::Fresh(Box::new(live_source(2))));
    assert_eq!(name(&state).as_deref(), Some("cold"));
    let mut builder = ProfileBuilder::new();
    builder.add_event("cpu-clock", WeightUnit::Nanoseconds);
    let empty = crate::Source {
        profile: Arc::new(builder.finish()),
        generation: 1,
        ..live_source(1)
    };
    state.update(InputEvent::Fresh(Box::new(empty)));
    for view in '1'..='7' {
        press(&mut state, &view.to_string());
        assert!(!text(&screen(&state, Theme::default())).is_empty());
    }
}
