//! Functions spelled differently by compilers, mangling schemes and debug information.

use super::*;

fn builds(old: &[&str], new: &[&str]) -> ProfileDiff {
    let build = |names: &[&str]| {
        let stacks: Vec<_> = (names.iter().zip(1..))
            .map(|(name, number)| (format!("main;{name}"), 100 * number))
            .collect();
        [profile(&stacks)]
    };
    compare(&build(old), &build(new), &CompareOptions::default()).unwrap()
}

fn rows(diff: &ProfileDiff) -> Vec<(&str, u64, u64)> {
    (diff.functions.iter())
        .filter(|row| row.name.as_deref() != Some("main"))
        .map(|row| {
            let [old, new] = [row.own.old, row.own.new].map(|n| (n / MS as f64).round() as u64);
            (row.name.as_deref().unwrap(), old, new)
        })
        .collect()
}

#[test]
fn one_name_of_all_instances_stands_for_all_of_them() {
    let diff = builds(&["app::count"], &["app::count::<u8>", "app::count::<u16>"]);
    assert_eq!(rows(&diff), [("app::count", 100, 300)]);
    let diff = builds(&["app::count::<u8>", "app::count::<u16>"], &["app::count"]);
    assert_eq!(rows(&diff), [("app::count", 300, 100)]);
    assert_eq!((diff.old.matched, diff.new.matched), (1.0, 1.0));
    let diff = builds(&["app::count"], &["app::count", "app::count::<u8>"]);
    assert_eq!(rows(&diff), [("app::count", 100, 300)]);
}

#[test]
fn instances_that_both_sides_tell_apart_stay_apart() {
    let diff = builds(&["app::count::<u8>"], &["app::count::<u16>"]);
    let expected = [("app::count::<u16>", 0, 100), ("app::count::<u8>", 100, 0)];
    assert_eq!(rows(&diff), expected);
    let closures = [["app::f::{closure#0}", "app::f::{closure#1}"]; 2];
    let diff = builds(&closures[0], &closures[1]);
    assert_eq!((rows(&diff).len(), diff.outcome), (2, Outcome::Same));
}

#[test]
fn a_method_that_its_trait_defines_is_one_with_that_of_its_types() {
    let diff = builds(
        &["core::hash::BuildHasher::hash_one"],
        &[
            "<std::hash::RandomState as core::hash::BuildHasher>::hash_one::<&u8>",
            "<app::State as core::hash::BuildHasher>::hash_one::<&u8>",
        ],
    );
    assert_eq!(
        rows(&diff),
        [("core::hash::BuildHasher::hash_one", 100, 300)]
    );
}

#[test]
fn what_line_tables_name_is_one_with_the_only_path_that_ends_so() {
    // Inlined on one side: line tables only have the last name.
    let path = "<alloc::btree::NodeRef<K,V>>::bulk_push";
    let inlined = ["bulk_push<u64, usize>", "bulk_push<u8, usize>"];
    assert_eq!(rows(&builds(&[path], &inlined)), [(path, 100, 300)]);
    assert_eq!(rows(&builds(&inlined, &[path])), [(path, 300, 100)]);
    // Two functions with the same last name: ambiguous.
    let paths = ["a::A::next", "b::B::next"];
    assert_eq!(rows(&builds(&paths, &["next<u8>"])).len(), 3);
    // A function without arguments does not represent functions with arguments.
    let diff = builds(&["reserve<u8, a::G>", "reserve"], &["reserve<u8, b::G>"]);
    let expected = [
        ("reserve", 200, 0),
        ("reserve<u8, a::G>", 100, 0),
        ("reserve<u8, b::G>", 0, 100),
    ];
    assert_eq!(rows(&diff), expected);
    let diff = builds(&["a::A::next", "next<u8>"], &["a::A::next", "next<u8>"]);
    assert_eq!((rows(&diff).len(), diff.outcome), (2, Outcome::Same));
}

#[test]
fn a_closure_without_a_function_is_part_of_what_it_is_inlined_into() {
    let runs = |parse: u64, check: u64| {
        [0, 1, 2].map(|more| {
            let mut builder = ProfileBuilder::with_inlined();
            let event = builder.add_event("cpu-clock", WeightUnit::Nanoseconds);
            let object = builder.intern_object("app");
            let thread = builder.intern_thread_name("app");
            for (name, samples) in [("parse", parse), ("check", check), ("write", 1000)] {
                let function = builder.intern_function(Ok(name), object);
                let function = builder.intern_frame(Frame::of(function));
                let closure = builder.intern_function(Ok("{closure#0}"), object);
                let closure = builder.intern_frame(Frame {
                    inline_depth: 1,
                    ..Frame::of(closure)
                });
                let stack = builder.intern_stack(&[function, closure]);
                let samples = samples + more;
                builder.add_samples(event, thread, stack, samples, samples * MS);
            }
            builder.finish()
        })
    };
    let diff = compare(
        &runs(1000, 2000),
        &runs(2000, 1000),
        &CompareOptions::default(),
    );
    let diff = diff.unwrap();
    let expected = [
        ("check", 2001, 1001),
        ("parse", 1001, 2001),
        ("write", 1001, 1001),
    ];
    assert_eq!(rows(&diff), expected);
    assert_eq!(named(&diff), ["check", "parse"]);
}

#[test]
fn functions_of_a_few_samples_do_not_say_that_names_do_not_match() {
    let with = |name: &str, samples| [of(&[("main;f", 1000), (&format!("main;{name}"), samples)])];
    for (samples, matched) in [(4, 1.0), (1000, 0.5)] {
        let diff = compare(
            &with("rare", samples),
            &with("other", samples),
            &CompareOptions::default(),
        );
        let diff = diff.unwrap();
        assert_eq!((diff.old.matched, diff.new.matched), (matched, matched));
    }
}

#[test]
fn threads_of_a_program_that_is_called_otherwise_are_one() {
    let run = |comms: [&str; 2], samples| {
        let mut builder = ProfileBuilder::new();
        let event = builder.add_event("cpu-clock", WeightUnit::Nanoseconds);
        let object = builder.intern_object("app");
        for (comm, names) in comms.into_iter().zip([["main", "work"], ["main", "write"]]) {
            let thread = builder.intern_thread_name(comm);
            let frames = names.map(|name| builder.intern_function(Ok(name), object));
            let stack = builder.intern_stack(&frames);
            builder.add_samples(event, thread, stack, samples, samples);
        }
        [builder.finish()]
    };
    let options = CompareOptions {
        stacks: true,
        ..CompareOptions::default()
    };
    let (old, new) = (
        run(["app-old", "writer"], 100),
        run(["app-new", "writer"], 200),
    );
    let diff = compare(&old, &new, &options).unwrap();
    let mut stacks: Vec<_> = (diff.stacks.iter())
        .map(|stack| (&*diff.comms[stack.comm as usize], stack.weights))
        .collect();
    stacks.sort_unstable();
    assert_eq!(stacks, [("app-new", [100, 200]), ("writer", [100, 200])]);
    let other = run(["writer", "app-new"], 100);
    let diff = compare(&old, &other, &options).unwrap();
    assert_eq!(diff.stacks.len(), 4);
}
