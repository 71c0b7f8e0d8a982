use rustc_hash::FxHashMap;

use super::*;
use crate::{
    AggregatedStack, Keys, ProfileBuilder, ProfileSample, StackId, TopFunctions, WeighBy,
    WeightUnit,
};
use rprof_testing::Random;

const PYTHON: &str = "/usr/bin/python3.12";

/// Functions of all roles: name, object, kind.
const FUNCTIONS: [(&str, &str, ObjectKind); 16] = [
    ("py::f:/x/app.py", "/tmp/perf-1.map", ObjectKind::Jit),
    ("py::f:/x/app.py", "/tmp/perf-2.map", ObjectKind::Jit),
    ("py::f:/x/app.py:3", "/tmp/perf-1.map", ObjectKind::Jit),
    ("py::g:/x/app.py:9", "/tmp/perf-1.map", ObjectKind::Jit),
    ("py::g:/y/app.py:9", "/tmp/perf-1.map", ObjectKind::Jit),
    ("JS:*h /x/a.js:1:2", "/tmp/perf-1.map", ObjectKind::Jit),
    ("JS:~h /x/a.js:1:2", "/tmp/perf-1.map", ObjectKind::Jit),
    (
        "[Python callers unproven]",
        "/tmp/perf-1.map",
        ObjectKind::Jit,
    ),
    ("_PyEval_EvalFrameDefault", PYTHON, ObjectKind::File),
    ("PyObject_Call", PYTHON, ObjectKind::File),
    ("Builtins_ArrayMap", "/usr/bin/node", ObjectKind::File),
    (
        "Builtins_InterpreterEntryTrampoline",
        "/usr/bin/node",
        ObjectKind::File,
    ),
    ("sort", "/usr/lib/numpy.so", ObjectKind::File),
    ("memcpy", "/usr/lib/libc.so.6", ObjectKind::File),
    (
        "asm_exc_page_fault",
        "[kernel.kallsyms]",
        ObjectKind::Kernel,
    ),
    ("main", "/usr/bin/uwsgi", ObjectKind::File),
];

fn random_profile(random: &mut Random, mut builder: ProfileBuilder) -> Profile {
    let event = builder.add_event("cpu-clock", WeightUnit::Nanoseconds);
    let threads = ["a", "b"].map(|name| builder.intern_thread_name(name));
    let functions = FUNCTIONS.map(|(name, object, kind)| {
        let object = builder.add_object(Object {
            name: object.into(),
            kind,
            build_id: None,
            runtime: None,
        });
        builder.intern_function(Ok(name), object)
    });
    for time in 0..random.index(60) as u64 {
        let frames: Vec<_> = (0..random.index(14))
            .map(|_| {
                builder.intern_frame(Frame {
                    inline_depth: u32::from(random.index(5) == 0),
                    ..Frame::of(functions[random.index(functions.len())])
                })
            })
            .collect();
        let stack = builder.intern_stack(&frames);
        builder.add_sample(ProfileSample {
            time,
            cpu: None,
            thread: threads[random.index(2)],
            stack,
            event,
            weight: 1 + random.index(1000) as u64,
        });
    }
    builder.finish()
}

/// Sums the stacks that contain each source, by display name, or the weight by the innermost one.
fn by_source(
    profile: &Profile,
    stack_of: impl Fn(StackId) -> Vec<String>,
) -> (FxHashMap<String, u64>, u64) {
    let mut sums = FxHashMap::default();
    for AggregatedStack { stack, weight, .. } in &profile.aggregated {
        let mut names = stack_of(*stack);
        names.sort();
        names.dedup();
        for name in names {
            *sums.entry(name).or_insert(0) += weight;
        }
    }
    let whole = profile.aggregated.iter().map(|entry| entry.weight).sum();
    (sums, whole)
}

fn sources(profile: &Profile, stack: StackId) -> Vec<String> {
    (profile.stack(stack))
        .filter_map(|id| {
            let function = profile.function(id);
            let object = profile.object(function.object);
            if let Some(source) = &function.source {
                let file = source.file.map(|file| &*profile.files[file.0 as usize]);
                let text = format!("{} {:?} {}", source.name, file, source.line);
                return file.map(|_| text);
            }
            let source = SourceName::of(function, object)?;
            Some(format!(
                "{} {:?} {}",
                source.name,
                Some(source.file),
                source.line
            ))
        })
        .collect()
}

/// Returns functions that folding must keep where a source function called them.
fn natives(profile: &Profile, stack: StackId) -> Vec<String> {
    let kept = ["sort", "memcpy", "asm_exc_page_fault", "main"];
    (profile.stack(stack))
        .filter_map(|id| Some(profile.function(id).name.as_deref().ok()?.to_owned()))
        .filter(|name| kept.contains(&&**name))
        .collect()
}

#[test]
fn folding_moves_no_weight_between_functions_of_languages() {
    let builders = [
        ProfileBuilder::new,
        ProfileBuilder::with_inlined,
        ProfileBuilder::with_addresses,
    ];
    let mut random = Random::new(41);
    for round in 0..600 {
        let make = builders[round % 3];
        let seed = random.index(1 << 30) as u64;
        let before = random_profile(&mut Random::new(seed), make());
        let mut after = random_profile(&mut Random::new(seed), make());
        after.fold_languages();
        assert_eq!(after.events, before.events);
        let [(old, whole), (new, same)] =
            [&before, &after].map(|profile| by_source(profile, |id| sources(profile, id)));
        assert_eq!(whole, same, "round {round}");
        let is_doubled = |name: &str| name.starts_with("f ");
        let sums = |sums: &FxHashMap<String, u64>| {
            let mut sums: Vec<_> = (sums.iter())
                .filter(|(name, _)| !is_doubled(name))
                .map(|(name, weight)| (name.clone(), *weight))
                .collect();
            sums.sort();
            sums
        };
        assert_eq!(sums(&old), sums(&new), "round {round}");
        let top = |profile: &Profile| {
            let top = TopFunctions::of(profile, 0, WeighBy::Period, Keys::FUNCTIONS);
            top.rows.iter().map(|row| row.self_weight).sum::<u64>()
        };
        assert_eq!(top(&after), whole, "self of all rows, round {round}");
        for (a, b) in before.aggregated.iter().zip(&after.aggregated) {
            if !before.tells_inlined() {
                let [old, new] = [(&before, a), (&after, b)]
                    .map(|(profile, entry)| natives(profile, entry.stack));
                assert_eq!(old, new, "round {round}");
            }
            let (old, new) = (sources(&before, a.stack), sources(&after, b.stack));
            assert!(new.len() <= old.len());
            let mut rest = old.iter();
            assert!(
                new.iter().all(|name| rest.any(|old| old == name)),
                "{old:?} {new:?}"
            );
        }
    }
}

#[test]
fn self_of_a_function_includes_the_interpreter_that_works_for_it() {
    let mut builder = ProfileBuilder::new();
    let event = builder.add_event("cpu-clock", WeightUnit::Nanoseconds);
    let thread = builder.intern_thread_name("python3");
    let object = |builder: &mut ProfileBuilder, name: &str, kind| {
        builder.add_object(Object {
            name: name.into(),
            kind,
            build_id: None,
            runtime: None,
        })
    };
    let python = object(&mut builder, PYTHON, ObjectKind::File);
    let libz = object(&mut builder, "/usr/lib/libz.so.1", ObjectKind::File);
    let maps = [1, 2].map(|pid| {
        object(
            &mut builder,
            &format!("/tmp/perf-{pid}.map"),
            ObjectKind::Jit,
        )
    });
    let eval = builder.intern_function(Ok("_PyEval_EvalFrameDefault"), python);
    let alloc = builder.intern_function(Ok("pymalloc_alloc"), python);
    let deflate = builder.intern_function(Ok("deflate"), libz);
    for map in maps {
        let main = builder.intern_function(Ok("py::main:/x/app.py:20"), map);
        let pack = builder.intern_function(Ok("py::pack:/x/app.py:3"), map);
        for (frames, weight) in [
            (&[eval, main, eval][..], 1),
            (&[eval, main, eval, pack, eval, alloc], 2),
            (&[eval, main, eval, pack, eval, deflate], 4),
        ] {
            let stack = builder.intern_stack(frames);
            builder.add_samples(event, thread, stack, 1, weight);
        }
    }
    let mut profile = builder.finish();
    assert!(profile.fold_languages());
    let mut top = TopFunctions::of(&profile, event, WeighBy::Period, Keys::FUNCTIONS);
    top.sort(true);
    let rows: Vec<_> = (top.rows.iter())
        .map(|row| {
            let name = profile.function(row.key.function.unwrap()).name.as_deref();
            let object = &*profile.object(row.key.object.unwrap()).name;
            (name.unwrap(), object, row.self_weight, row.total_weight)
        })
        .collect();
    assert_eq!(
        rows,
        [
            ("main (app.py:20)", "/x/app.py", 2, 14),
            ("pack (app.py:3)", "/x/app.py", 4, 12),
            ("deflate", "/usr/lib/libz.so.1", 8, 8),
        ]
    );
    let keys = Keys {
        language: true,
        symbol: false,
        object: false,
        ..Keys::FUNCTIONS
    };
    let mut top = TopFunctions::of(&profile, event, WeighBy::Period, keys);
    top.sort(false);
    let rows: Vec<_> = (top.rows.iter())
        .map(|row| (row.key.language.unwrap(), row.self_weight))
        .collect();
    assert_eq!(rows, [(Language::Native, 8), (Language::Python, 6)]);
}

#[test]
fn functions_of_different_files_never_have_equal_names() {
    let mut builder = ProfileBuilder::new();
    let event = builder.add_event("cpu-clock", WeightUnit::Nanoseconds);
    let thread = builder.intern_thread_name("python3");
    let object = builder.add_object(Object {
        name: "/tmp/perf-1.map".into(),
        kind: ObjectKind::Jit,
        build_id: None,
        runtime: None,
    });
    let names = [
        "py::get:/srv/a/models.py:5",
        "py::get:/srv/b/models.py:5",
        "py::get:/srv/b/models.py:7",
        "py::load:/usr/lib/json/__init__.py:2",
    ];
    let stack = names.map(|name| builder.intern_function(Ok(name), object));
    let stack = builder.intern_stack(&stack);
    builder.add_samples(event, thread, stack, 1, 1);
    let mut profile = builder.finish();
    profile.fold_languages();
    let shown: Vec<_> = (profile.stack(stack))
        .map(|id| profile.function(id).name.as_deref().unwrap())
        .collect();
    assert_eq!(
        shown,
        [
            "get (a/models.py:5)",
            "get (b/models.py:5)",
            "get (models.py:7)",
            "load (json/__init__.py:2)",
        ]
    );
    let before = profile.functions.len();
    profile.fold_languages();
    let again: Vec<_> = profile
        .stack(stack)
        .map(|id| profile.function(id).name.clone())
        .collect();
    assert_eq!(again.len(), 4);
    assert_eq!(again[0].as_deref(), Ok("get (a/models.py:5)"));
    assert!(profile.functions.len() >= before);
}

#[test]
fn profiles_without_names_of_a_language_are_unchanged() {
    let mut builder = ProfileBuilder::new();
    let event = builder.add_event("cpu-clock", WeightUnit::Nanoseconds);
    let thread = builder.intern_thread_name("python3");
    let python = builder.intern_object(PYTHON);
    let eval = builder.intern_function(Ok("_PyEval_EvalFrameDefault"), python);
    let stack = builder.intern_stack(&[eval, eval]);
    builder.add_samples(event, thread, stack, 1, 1);
    let mut profile = builder.finish();
    assert!(!profile.fold_languages());
    assert!(!profile.quality.is_by_language);
    assert_eq!((profile.depth(stack), profile.functions.len()), (2, 1));
}
