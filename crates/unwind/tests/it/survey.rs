//! Not a test but a tool: how complete the stacks of a program are that runs freely, and how long
//! it takes to find them.
//!
//! ```sh
//! PROGRAM=/usr/bin/git ARGUMENTS="log --stat" cargo test --release -p rprof-unwind --test it \
//!     -- --ignored --nocapture survey
//! ```

use crate::process::{Stop, Traced};
use rprof_unwind::{Arch, Module, Modules, StackDump, TruncationReason, UnwindOutcome, Unwinder};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// A process without readable code.
struct WithoutCode<'a>(&'a Traced);

impl Modules for WithoutCode<'_> {
    fn find(&self, avma: u64) -> Option<Module<'_>> {
        self.0.find(avma)
    }
}

#[test]
#[ignore = "needs a program"]
fn survey() {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let arguments = variable("ARGUMENTS");
    let arguments: Vec<&str> = arguments.split_whitespace().collect();
    let samples: u32 = variable("SAMPLES").parse().unwrap_or(300);
    let mut process = Traced::start(Path::new(&variable("PROGRAM")), &arguments);
    process.stack_len = 1 << 20;
    let mut unwinder = Unwinder::new(Arch::X86_64);
    let mut ends: BTreeMap<String, usize> = BTreeMap::new();
    let (mut found, mut deepest, mut time, mut all) = (0, 0, Duration::ZERO, 0);
    let mut frames = Vec::new();
    let mut by: BTreeMap<String, usize> = BTreeMap::new();
    for sample in 0..samples {
        let wait = Duration::from_micros(1000 + u64::from(sample) * 7919 % 3000);
        if !matches!(process.run_for(wait), Stop::Stepped) {
            break;
        }
        process.look_at_maps();
        let registers = process.registers();
        process.read_stack(registers.sp());
        let end = unwinder.unwind(&registers, &process, &process, 10_000, &mut frames);
        let text = match end {
            UnwindOutcome::Truncated(
                TruncationReason::NoUnwindInfo { address }
                | TruncationReason::BadCfi { address }
                | TruncationReason::NotMapped { address }
                | TruncationReason::NotProgressing { address }
                | TruncationReason::MissingRegister { address, .. },
            ) => {
                let last = frames.last().map_or(0, |frame| frame.address);
                format!("{end:?} {} {}", process.place(address), process.place(last))
            }
            end => format!("{end:?}"),
        };
        *ends.entry(text).or_default() += 1;
        all += 1;
        deepest = deepest.max(frames.len());
        // Without reads from the process.
        let stack = process.stack();
        let without_code = WithoutCode(&process);
        let dump = StackDump::new(registers.sp(), &stack);
        for frame in &frames {
            *by.entry(format!("{:?}", frame.found_by)).or_default() += 1;
        }
        let begin = Instant::now();
        for _ in 0..20 {
            unwinder.unwind(&registers, &dump, &without_code, 10_000, &mut frames);
            found += frames.len() as u32;
        }
        time += begin.elapsed();
    }
    eprintln!(
        "{all} samples, deepest {deepest}, {:?} a frame, {found} frames {by:?}",
        time / found.max(1)
    );
    let mut ends: Vec<_> = ends.into_iter().collect();
    ends.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    for (end, count) in ends.iter().take(25) {
        eprintln!("{count:6} {end}");
    }
}
