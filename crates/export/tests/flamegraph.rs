//! Flame graphs of handmade profiles: title, position and colour of each frame.

use std::collections::BTreeMap;

use rprof_export::svg::{self, SvgError, SvgOptions};
use rprof_export::threads::ThreadMerging;
use rprof_profile::{
    Frame, Function, FunctionId, Object, ObjectKind, Profile, ProfileBuilder, Reason,
    StackPosition, WeighBy, WeightUnit,
};

#[derive(Clone, Debug, PartialEq)]
struct Drawn {
    title: String,
    y: u32,
    fill: String,
    text: String,
}

fn draw(profile: &Profile, options: &SvgOptions) -> String {
    let mut out = Vec::new();
    svg::write(profile, 0, options, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn between<'t>(text: &'t str, from: &str, to: &str) -> &'t str {
    let at = text
        .find(from)
        .unwrap_or_else(|| panic!("no {from} in {text}"))
        + from.len();
    let end = text[at..].find(to).unwrap();
    &text[at..at + end]
}

fn frames(svg: &str) -> Vec<Drawn> {
    let frames = svg.split("<g><title>").skip(1);
    let drawn = frames.map(|frame| Drawn {
        title: frame.split("</title>").next().unwrap().to_owned(),
        y: between(frame, " y=\"", "\"").parse().unwrap(),
        fill: between(frame, "fill=\"", "\"").to_owned(),
        text: between(between(frame, "<text", "/text"), ">", "<").to_owned(),
    });
    drawn.collect()
}

fn frame<'d>(drawn: &'d [Drawn], name: &str) -> &'d Drawn {
    let mut named = drawn.iter().filter(|d| {
        let rest = d.title.strip_prefix(name);
        rest.is_some_and(|rest| rest.starts_with(" ("))
    });
    let one = named
        .next()
        .unwrap_or_else(|| panic!("{name} is not in {drawn:#?}"));
    assert_eq!(named.next(), None, "{name} twice");
    one
}

struct Made {
    builder: ProfileBuilder,
    event: usize,
}

impl Made {
    fn new(event: &str, unit: WeightUnit) -> Made {
        let mut builder = ProfileBuilder::with_inlined();
        let event = builder.add_event(event, unit);
        Made { builder, event }
    }

    fn function(&mut self, name: Result<&str, Reason>, kind: ObjectKind) -> FunctionId {
        let object = self.builder.add_object(Object {
            name: format!("{kind:?}").into(),
            kind,
            build_id: None,
            runtime: None,
        });
        self.builder.add_function(Function {
            name: name.map(Into::into),
            object,
            position: StackPosition::Inner,
            line: None,
            located: None,
            source: None,
        })
    }

    /// Adds samples of 1.001001 ms each; functions with `true` are inlined.
    fn add(&mut self, thread: &str, samples: u64, stack: &[(FunctionId, bool)]) {
        let frames = stack.iter().map(|(function, inlined)| Frame {
            inline_depth: u32::from(*inlined),
            ..Frame::of(*function)
        });
        let frames: Vec<_> = frames.collect();
        let frames: Vec<_> = frames
            .into_iter()
            .map(|f| self.builder.intern_frame(f))
            .collect();
        let stack = self.builder.intern_stack(&frames);
        let thread = self.builder.intern_thread_name(thread);
        (self.builder).add_samples(self.event, thread, stack, samples, samples * 1_001_001);
    }
}

fn all_kinds() -> Profile {
    let mut made = Made::new("cpu-clock", WeightUnit::Nanoseconds);
    let main = made.function(Ok("main"), ObjectKind::File);
    let step = made.function(Ok("step"), ObjectKind::File);
    let copy = made.function(Ok("copy_page"), ObjectKind::Kernel);
    let jitted = made.function(Ok("LazyCompile:~f /x/pp.js:4:95"), ObjectKind::Jit);
    let unnamed = made.function(Err(Reason::Stripped), ObjectKind::File);
    made.add("app", 1, &[(main, false), (step, true)]);
    made.add("app", 3, &[(main, false), (copy, false)]);
    made.add("app", 1000, &[(main, false), (jitted, false)]);
    made.add("app", 20, &[(main, false), (unnamed, false)]);
    made.builder.finish()
}

#[test]
fn frames_tell_time_samples_and_share() {
    let profile = all_kinds();
    let drawn = frames(&draw(&profile, &SvgOptions::default()));
    for title in [
        "step (1.0 ms, 1 sample, 0.10%)",
        "copy_page (3.0 ms, 3 samples, 0.29%)",
        "main (1.03 s, 1,024 samples, 100.00%)",
        "all (1.03 s, 1,024 samples, 100%)",
    ] {
        assert!(
            drawn.iter().any(|d| d.title == title),
            "{title} is not among {drawn:#?}"
        );
    }
    let by_samples = SvgOptions {
        weight: WeighBy::Samples,
        ..SvgOptions::default()
    };
    let drawn = frames(&draw(&profile, &by_samples));
    assert_eq!(frame(&drawn, "step").title, "step (1 sample, 0.10%)");
}

#[test]
fn counts_of_events_have_their_name() {
    let mut made = Made::new("page-faults", WeightUnit::of_event("page-faults"));
    let main = made.function(Ok("main"), ObjectKind::File);
    made.add("app", 2, &[(main, false)]);
    let drawn = frames(&draw(&made.builder.finish(), &SvgOptions::default()));
    let title = "main (2,002,002 page-faults, 2 samples, 100.00%)";
    assert_eq!(frame(&drawn, "main").title, title);
}

#[test]
fn kinds_have_colours_and_a_legend() {
    let svg = draw(&all_kinds(), &SvgOptions::default());
    let drawn = frames(&svg);
    let names = [
        "all",
        "main",
        "step",
        "copy_page",
        "LazyCompile:~f /x/pp.js:4:95",
        "[File]",
    ];
    let fills: Vec<&str> = names.map(|name| frame(&drawn, name).fill.as_str()).to_vec();
    let mut distinct = fills.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), fills.len(), "{fills:?}");
    let legend = between(&svg, "id=\"legend\"", "</text>");
    for kind in ["user", "inlined", "kernel", "JIT", "unnamed"] {
        assert!(legend.contains(kind), "{kind} is not in {legend}");
    }
    // A palette has no legend.
    let mut made = Made::new("cpu-clock", WeightUnit::Nanoseconds);
    let main = made.function(Ok("main"), ObjectKind::File);
    made.add("app", 1, &[(main, false)]);
    let profile = made.builder.finish();
    let svg = draw(&profile, &SvgOptions::default());
    let legend = between(&svg, "id=\"legend\"", "</text>");
    assert!(
        legend.contains("user") && !legend.contains("kernel"),
        "{legend}"
    );
    let hot = SvgOptions {
        colors: "hot".parse().unwrap(),
        ..SvgOptions::default()
    };
    let svg = draw(&profile, &hot);
    assert!(!between(&svg, "id=\"legend\"", "</text>").contains("user"));
}

#[test]
fn waits_for_a_cpu_have_a_colour_apart_from_other_waits() {
    let mut made = Made::new("wall-clock", WeightUnit::Nanoseconds);
    let main = made.function(Ok("main"), ObjectKind::File);
    let waits = ["[futex]", "[sleep]", "[waiting for a CPU]"];
    for name in waits {
        let wait = made.function(Ok(name), ObjectKind::Waiting);
        made.add("app", 10, &[(main, false), (wait, false)]);
    }
    let svg = draw(&made.builder.finish(), &SvgOptions::default());
    let drawn = frames(&svg);
    let pink = |name| {
        let fill = frame(&drawn, name).fill.clone();
        [1, 3, 5].map(|at| u8::from_str_radix(&fill[at..at + 2], 16).unwrap())
    };
    let [futex, sleep, cpu] = waits.map(pink);
    let apart = |a: [u8; 3], b: [u8; 3]| -> u32 {
        (a.iter().zip(b))
            .map(|(a, b)| u32::from(a.abs_diff(b)))
            .sum()
    };
    assert!(
        apart(futex, sleep) < 60 && apart(futex, cpu) > 90 && apart(sleep, cpu) > 90,
        "{futex:?} {sleep:?} {cpu:?}"
    );
    let legend = between(&svg, "id=\"legend\"", "</text>");
    let words = ["user", "\u{a0}waiting\u{a0}", "waiting for a CPU"];
    let places = words.map(|word| legend.find(word));
    assert!(places.is_sorted() && places[0].is_some(), "{legend}");
}

#[test]
fn idle_threads_are_one_block_that_leaves_room() {
    let mut made = Made::new("wall-clock", WeightUnit::Nanoseconds);
    let idle = made.function(Ok("[idle]"), ObjectKind::Waiting);
    let [main, take] = ["main", "take"].map(|name| made.function(Ok(name), ObjectKind::File));
    made.add("server", 10, &[(main, false)]);
    for thread in ["pool", "signals"] {
        made.add(thread, 495, &[(idle, false), (take, false), (idle, false)]);
    }
    let svg = draw(&made.builder.finish(), &SvgOptions::default());
    let width = |is_it: &dyn Fn(&str) -> bool| -> f64 {
        let drawn = svg.split("<title>").find(|frame| is_it(frame)).unwrap();
        between(drawn, " width=\"", "%").parse().unwrap()
    };
    let drawn = frames(&svg);
    assert!(frame(&drawn, "pool").y > drawn.iter().map(|d| d.y).min().unwrap() + 16);
    let block = "99.00%; drawn narrower than its share";
    let widths = [
        width(&|frame| frame.starts_with("[idle]") && frame.contains(block)),
        width(&|frame| frame.starts_with("pool")),
        width(&|frame| frame.starts_with("server")),
    ];
    for (found, expected) in widths.into_iter().zip([10.0, 5.0, 90.0]) {
        assert!((found - expected).abs() < 0.01, "{widths:?}");
    }
    assert!(svg.contains("var squeezed = ["));
    assert!(between(&svg, "id=\"legend\"", "</text>").contains("idle"));
}

/// A function both called and inlined at one place is one frame, of the heavier kind.
#[test]
fn inlined_and_called_at_one_place_is_one_frame() {
    let mut fills = BTreeMap::new();
    for (called, inlined) in [(1, 0), (0, 1), (3, 2), (2, 3)] {
        let mut made = Made::new("cpu-clock", WeightUnit::Nanoseconds);
        let [main, f, g] = ["main", "f", "g"].map(|name| made.function(Ok(name), ObjectKind::File));
        for (samples, is_inlined) in [(called, false), (inlined, true)] {
            if samples > 0 {
                made.add(
                    "app",
                    samples,
                    &[(main, false), (f, is_inlined), (g, false)],
                );
            }
        }
        let drawn = frames(&draw(&made.builder.finish(), &SvgOptions::default()));
        assert_eq!(drawn.len(), 5, "{drawn:#?}");
        fills.insert((called, inlined), frame(&drawn, "f").fill.clone());
    }
    assert_ne!(fills[&(1, 0)], fills[&(0, 1)]);
    assert_eq!(fills[&(3, 2)], fills[&(1, 0)]);
    assert_eq!(fills[&(2, 3)], fills[&(0, 1)]);
}

#[test]
fn the_root_is_at_the_top_unless_flames_are_asked_for() {
    let profile = all_kinds();
    let drawn = frames(&draw(&profile, &SvgOptions::default()));
    let [all, main, step] = ["all", "main", "step"].map(|name| frame(&drawn, name).y);
    assert!(all < main && main < step);
    assert_eq!((all, main - all), (92, 32));
    let flames = SvgOptions {
        inverted: false,
        ..SvgOptions::default()
    };
    let svg = draw(&profile, &flames);
    let drawn = frames(&svg);
    let [all, main, step] = ["all", "main", "step"].map(|name| frame(&drawn, name).y);
    assert!(all > main && main > step);
    let height: u32 = between(&svg, "height=\"", "\"").parse().unwrap();
    assert!(all + 15 < height && step > 76, "{all} {step} {height}");
    assert!(svg.contains("window.scrollTo"));
}

#[test]
fn a_palette_of_javas_takes_frames_for_what_they_are() {
    let mut made = Made::new("cpu-clock", WeightUnit::Nanoseconds);
    let kernel = made.function(Ok("finish_task_switch.isra.0"), ObjectKind::Kernel);
    let native = made.function(Ok("Copy.part.0"), ObjectKind::File);
    let jitted = made.function(Ok("run"), ObjectKind::Jit);
    for function in [kernel, native, jitted] {
        made.add("app", 1, &[(function, false)]);
    }
    let profile = made.builder.finish();
    let java = SvgOptions {
        colors: "java".parse().unwrap(),
        ..SvgOptions::default()
    };
    let drawn = frames(&draw(&profile, &java));
    let main_color = |name| {
        let fill = &frame(&drawn, name).fill;
        let part = |at| u8::from_str_radix(&fill[at..at + 2], 16).unwrap();
        let [r, g, b] = [1, 3, 5].map(part);
        match (r > g, g > b) {
            (false, _) => "green",
            (true, true) if b == 0 => "orange",
            (true, _) => "red",
        }
    };
    assert_eq!(main_color("finish_task_switch.isra.0"), "orange");
    assert_eq!(main_color("Copy.part.0"), "red");
    assert_eq!(main_color("run"), "green");
}

#[test]
fn numbered_threads_are_drawn_as_one() {
    let mut made = Made::new("cpu-clock", WeightUnit::Nanoseconds);
    let main = made.function(Ok("main"), ObjectKind::File);
    for thread in ["worker-0", "worker-1", "io", "app-2"] {
        made.add(thread, 1, &[(main, false)]);
    }
    let profile = made.builder.finish();
    let threads = |merging: ThreadMerging| {
        let options = SvgOptions {
            threads: merging,
            ..SvgOptions::default()
        };
        let drawn = frames(&draw(&profile, &options));
        let titles = drawn
            .into_iter()
            .map(|d| d.title.split(" (").next().unwrap().to_owned());
        let mut titles: Vec<_> = titles.filter(|t| t != "main" && t != "all").collect();
        titles.sort();
        titles
    };
    assert_eq!(
        threads(ThreadMerging::default()),
        ["app-2", "io", "worker-*"]
    );
    assert_eq!(
        threads(ThreadMerging::NONE),
        ["app-2", "io", "worker-0", "worker-1"]
    );
    let patterns = ThreadMerging {
        patterns: vec!["*o*".into()],
        ..ThreadMerging::default()
    };
    assert_eq!(threads(patterns), ["*o*", "app-2"]);
}

#[test]
fn a_callee_met_again_behind_another_name_is_one_frame() {
    // In line order, `a;b!` is between `a;b` and `a;b;c`.
    let mut made = Made::new("cpu-clock", WeightUnit::Nanoseconds);
    let [a, b, other, c] =
        ["a", "b", "b!", "c"].map(|name| made.function(Ok(name), ObjectKind::File));
    made.add("t", 1, &[(a, false), (b, false)]);
    made.add("t", 1, &[(a, false), (other, false)]);
    made.add("t", 1, &[(a, false), (b, false), (c, false)]);
    let drawn = frames(&draw(&made.builder.finish(), &SvgOptions::default()));
    assert_eq!(frame(&drawn, "b").title, "b (2.0 ms, 2 samples, 66.67%)");
}

#[test]
fn leaves_come_first_in_reverse() {
    let options = SvgOptions {
        reverse: true,
        ..SvgOptions::default()
    };
    let mut made = Made::new("cpu-clock", WeightUnit::Nanoseconds);
    let [a, b, c] = ["a", "b", "c"].map(|name| made.function(Ok(name), ObjectKind::File));
    made.add("t", 1, &[(a, false), (c, false)]);
    made.add("t", 1, &[(b, false), (c, false)]);
    let drawn = frames(&draw(&made.builder.finish(), &options));
    assert_eq!(frame(&drawn, "c").title, "c (2.0 ms, 2 samples, 100.00%)");
    assert!(frame(&drawn, "c").y < frame(&drawn, "a").y);
}

#[test]
fn the_subtitle_tells_what_was_recorded() {
    let profile = all_kinds();
    let mut options = SvgOptions {
        about: vec!["on <host>".into()],
        ..SvgOptions::default()
    };
    let facts = "1,024 samples of cpu-clock, on &lt;host&gt;";
    let svg = draw(&profile, &options);
    assert!(
        between(&svg, "id=\"subtitle\"", "</text>").contains(facts),
        "{svg}"
    );
    options.subtitle = Some("before <the> change".into());
    let svg = draw(&profile, &options);
    assert!(between(&svg, "id=\"subtitle\"", "</text>").contains("before &lt;the&gt; change"));
    assert!(between(&svg, "id=\"legend\"", "</text>").contains(facts));
}

#[test]
fn names_are_cut_where_they_matter_least() {
    let mut made = Made::new("cpu-clock", WeightUnit::Nanoseconds);
    let long = format!("std::vector<{}>::push_back", "std::string, ".repeat(20));
    let function = made.function(Ok(&long), ObjectKind::File);
    made.add("t", 1, &[(function, false)]);
    let drawn = frames(&draw(&made.builder.finish(), &SvgOptions::default()));
    assert_eq!(
        frame(&drawn, &long.replace('<', "&lt;").replace('>', "&gt;")).text,
        "std::vector&lt;…&gt;::push_back"
    );
}

#[test]
fn samples_that_weigh_nothing_are_no_picture() {
    let mut builder = ProfileBuilder::new();
    let event = builder.add_event("cycles", WeightUnit::of_event("cycles"));
    let object = builder.intern_object("a");
    let main = builder.intern_function(Ok("main"), object);
    let thread = builder.intern_thread_name("t");
    let stack = builder.intern_stack(&[main]);
    builder.add_samples(event, thread, stack, 1, 0);
    let drawn = svg::write(
        &builder.finish(),
        0,
        &SvgOptions::default(),
        &mut Vec::new(),
    );
    assert!(matches!(drawn, Err(SvgError::NoSamples)));
}
