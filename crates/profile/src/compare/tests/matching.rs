//! Matching of functions of two builds.

use super::*;

#[test]
fn functions_match_over_builds() {
    let build = |object: &str, names: [&str; 4]| {
        let stacks = names.map(|name| (format!("main;{name}"), 100));
        in_object(&stacks, object)
    };
    let old = build(
        "/a/target/app-0123456789abcdef",
        [
            "run::{closure#1}",
            "parse.cold",
            "h::h0123456789abcdef",
            "x<u8>",
        ],
    );
    let new = build(
        "/b/app-v2",
        [
            "run::{closure#4}",
            "parse.isra.0",
            "h::hfedcba9876543210",
            "x<u16>",
        ],
    );
    let sides = [[old], [new]];
    let diff = compare(&sides[0], &sides[1], &CompareOptions::default()).unwrap();
    let left: Vec<_> = (diff.functions.iter())
        .filter(|row| row.presence != Presence::Both)
        .filter_map(|row| row.name.as_deref())
        .collect();
    assert_eq!(left, ["x<u16>", "x<u8>"]);
    assert!((diff.old.matched - 0.75).abs() < 1e-9);
    assert_eq!(diff.cautions, [Caution::Unmatched { share: 0.75 }]);
    let folded = CompareOptions {
        fold_generics: true,
        ..CompareOptions::default()
    };
    let diff = compare(&sides[0], &sides[1], &folded).unwrap();
    assert!(
        diff.functions
            .iter()
            .all(|row| row.presence == Presence::Both)
    );
    assert_eq!((diff.new.matched, diff.cautions.len()), (1.0, 0));
}

#[test]
fn a_closure_among_arguments_may_be_written_in_another_function() {
    let side = |names: &[&str]| {
        let stacks: Vec<_> = names
            .iter()
            .map(|name| (format!("main;{name}"), 100))
            .collect();
        [in_object(&stacks, "app")]
    };
    let left = |old: &[&str], new: &[&str]| {
        let diff = compare(&side(old), &side(new), &CompareOptions::default()).unwrap();
        let left = diff
            .functions
            .iter()
            .filter(|row| row.presence != Presence::Both);
        left.count()
    };
    let old = "run<app::read::{closure#0}::{closure_env#1}, alloc::vec::Vec<u8>>";
    let new = "run<app::read_all::{closure#2}::{closure_env#0}, alloc::vec::Vec<u8>>";
    assert_eq!(left(&[old], &[new]), 0);
    assert_eq!(
        left(
            &[old],
            &["run<app::read_all::{closure#2}, alloc::vec::Vec<u16>>"]
        ),
        2
    );
    let other = "run<app::write::{closure#0}, alloc::vec::Vec<u8>>";
    assert_eq!(left(&[old], &[new, other]), 3);
    // The enclosing function of closures is part of their names.
    assert_eq!(
        left(&["app::read::{closure#0}"], &["app::read_all::{closure#0}"]),
        2
    );
}

#[test]
fn a_name_in_several_objects_is_told_apart_by_them() {
    let two = |first: &str, second: &str| {
        let mut builder = ProfileBuilder::new();
        let event = builder.add_event("cycles", WeightUnit::Named("cycles".into()));
        let thread = builder.intern_thread_name("t");
        for (object, samples) in [(first, 100), (second, 200)] {
            let object = builder.intern_object(object);
            let main = builder.intern_function(Ok("main"), object);
            let stack = builder.intern_stack(&[main]);
            builder.add_samples(event, thread, stack, samples, samples);
        }
        [builder.finish()]
    };
    let diff = compare(
        &two("/old/cc", "ld-2.1"),
        &two("/new/cc", "/ld-2.2"),
        &CompareOptions::default(),
    );
    let rows: Vec<_> = (diff.unwrap().functions.iter())
        .map(|row| (row.object.to_string(), row.own.old, row.own.new))
        .collect();
    assert_eq!(
        rows,
        [
            ("cc".to_owned(), 100.0, 100.0),
            ("ld".to_owned(), 200.0, 200.0)
        ]
    );
}

#[test]
fn a_program_that_is_called_otherwise_keeps_what_others_have_too() {
    // The loader has a function of the same name.
    let side = |program: &str| {
        let mut builder = ProfileBuilder::new();
        let event = builder.add_event("cycles", WeightUnit::Named("cycles".into()));
        let thread = builder.intern_thread_name("t");
        for (object, names, samples) in [
            (program, ["_start", "main", "run::{closure#2}"], 1000),
            ("ld-linux.so.2", ["_start", "_dl_start", "init"], 100),
        ] {
            let object = builder.intern_object(object);
            let frames: Vec<_> = (names.into_iter())
                .map(|name| builder.intern_function(Ok(name), object))
                .collect();
            let stack = builder.intern_stack(&frames);
            builder.add_samples(event, thread, stack, samples, samples);
        }
        [builder.finish()]
    };
    let diff = compare(
        &side("/a/old-app"),
        &side("/b/newer"),
        &CompareOptions::default(),
    )
    .unwrap();
    let alone = diff.functions.iter();
    let alone: Vec<_> = alone.filter(|row| row.presence != Presence::Both).collect();
    assert_eq!(alone, Vec::<&FunctionDiff>::new());
    assert_eq!((diff.old.matched, diff.outcome), (1.0, Outcome::Same));
    assert!(diff.functions.iter().any(|row| &*row.object == "newer"));
}

#[test]
fn where_one_side_lacks_inlined_calls_both_are_shown_without() {
    let build = |inlined: bool| {
        let mut builder = ProfileBuilder::with_inlined();
        let event = builder.add_event("cpu-clock", WeightUnit::Nanoseconds);
        let object = builder.intern_object("app");
        let thread = builder.intern_thread_name("t");
        let main: Frame = Frame::of(builder.intern_function(Ok("main"), object));
        let main = builder.intern_frame(main);
        for name in ["a", "b", "c"] {
            let function = builder.intern_function(Ok(name), object);
            let call = builder.intern_frame(Frame {
                inline_depth: 1,
                ..Frame::of(function)
            });
            let frames = if inlined {
                vec![main, call]
            } else {
                vec![main]
            };
            let stack = builder.intern_stack(&frames);
            builder.add_samples(event, thread, stack, 50, 50);
        }
        [builder.finish()]
    };
    let diff = compare(&build(true), &build(false), &CompareOptions::default()).unwrap();
    let rows: Vec<_> = diff
        .functions
        .iter()
        .filter_map(|row| row.name.as_deref())
        .collect();
    assert_eq!((rows, diff.outcome), (vec!["main"], Outcome::Same));
    assert_eq!(diff.cautions, [Caution::WithoutInlined(Side::New)]);
    let both = compare(&build(true), &build(true), &CompareOptions::default()).unwrap();
    assert_eq!((both.functions.len(), both.cautions.len()), (4, 0));
}

#[test]
fn a_new_name_in_the_same_place_is_guessed_and_not_judged() {
    let with = |name: &str, samples| {
        [of(&[
            (&*format!("main;run;{name};leaf"), samples),
            (&*format!("main;run;{name}"), 900),
            ("main;run;other", 5000),
        ])]
    };
    let diff = compare(
        &with("before", 300),
        &with("after", 310),
        &CompareOptions::default(),
    )
    .unwrap();
    let [rename] = diff.renames[..] else {
        panic!("{:?}", diff.renames);
    };
    let name = |index: usize| diff.functions[index].name.as_deref();
    assert_eq!(
        (name(rename.old), name(rename.new)),
        (Some("before"), Some("after"))
    );
    assert_eq!(row(&diff, "before").presence, Presence::OnlyOld);
    let far = compare(
        &with("before", 300),
        &with("after", 3000),
        &CompareOptions::default(),
    );
    assert!(far.unwrap().renames.is_empty());
}
