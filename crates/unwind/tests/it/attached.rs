//! Not tests but tools. `attached` shows how complete the stacks of all threads of a running process are, and
//! the incomplete ones. `survey` starts a program, and also measures the time of a frame.
//!
//! ```sh
//! PROGRAM=/usr/bin/git ARGUMENTS="log --stat" cargo test --release -p rprof-unwind --test it \
//!     -- --ignored --nocapture survey
//! ATTACH=$(pgrep java) DETAIL=3 cargo test --release -p rprof-unwind --test it \
//!     -- --ignored --nocapture attached
//! ```

use crate::process::{Stop, Traced};
use rprof_unwind::{Arch, Module, Modules, StackDump, TruncationReason, UnwindOutcome, Unwinder};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// Returns the running threads of a process.
fn running(pid: i32) -> Vec<i32> {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    let runs = |tid: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat"));
        stat.is_ok_and(|stat| stat.contains(") R "))
    };
    let tids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    tids.filter(runs).collect()
}

#[test]
#[ignore = "needs a process"]
fn attached() {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let pid: i32 = variable("ATTACH").parse().expect("ATTACH: a process");
    let samples: usize = variable("SAMPLES").parse().unwrap_or(1000);
    let mut detail: usize = variable("DETAIL").parse().unwrap_or(0);
    let all_stacks = !variable("STACKS").is_empty();
    let mut process = Traced::of(pid);
    process.stack_len = 1 << 20;
    let mut unwinder = Unwinder::new(Arch::X86_64);
    let mut ends: BTreeMap<String, usize> = BTreeMap::new();
    let mut by: BTreeMap<String, usize> = BTreeMap::new();
    let (mut frames, mut count, mut complete) = (Vec::new(), 0, 0);
    'samples: while count < samples {
        let tids = running(pid);
        if tids.is_empty() {
            if !Path::new(&format!("/proc/{pid}")).exists() {
                break 'samples;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        for tid in tids {
            std::thread::sleep(Duration::from_micros(200 + count as u64 * 7919 % 1000));
            if !process.stop(tid) {
                continue;
            }
            process.look_at_maps();
            let registers = process.registers();
            process.read_stack(registers.sp());
            let end = unwinder.unwind(&registers, &process, &process, 10_000, &mut frames);
            let place = |at: u64| process.place(at);
            let last = frames.last().map_or(0, |frame| frame.address);
            let text = match end {
                UnwindOutcome::Truncated(TruncationReason::NoUnwindInfo { address })
                    if address >> 40 == 0x7f =>
                {
                    format!("no info {}", place(address).split('+').next().unwrap_or(""))
                }
                UnwindOutcome::Truncated(_) => format!("{end:?} {}", place(last)),
                end => format!("{end:?}"),
            };
            count += 1;
            complete += usize::from(end.is_complete());
            for frame in &frames {
                *by.entry(format!("{:?}", frame.found_by)).or_default() += 1;
            }
            *ends.entry(text).or_default() += 1;
            let shown = !end.is_complete() && detail > 0;
            if shown || all_stacks {
                eprintln!("STACK {end:?} {registers:x?}");
                for frame in &frames {
                    let mut call = [0; 5];
                    process.bytes(frame.address.wrapping_sub(5), &mut call);
                    if call[0] == 0xe8 && frame.kind == rprof_unwind::FrameKind::Caller {
                        let by = i32::from_le_bytes([call[1], call[2], call[3], call[4]]);
                        eprintln!("  T {:x}", frame.address.wrapping_add_signed(by.into()));
                    }
                    let (a, sp, slot) = (frame.address, frame.sp, frame.slot);
                    let at = place(frame.address);
                    eprintln!(
                        "  F {a:x} sp {sp:x} slot {slot:x} {:?} {at}",
                        frame.found_by
                    );
                }
            }
            if shown {
                detail -= 1;
                let mut code = vec![0; 2048];
                let len = process.bytes(last.wrapping_sub(512), &mut code);
                let hex: String = code[..len].iter().map(|b| format!("{b:02x}")).collect();
                eprintln!("CODE {:x} {hex}", last.wrapping_sub(512));
                let sp = frames.last().map_or(0, |frame| frame.sp);
                for word in 0..48 {
                    let at = sp.wrapping_sub(64) + word * 8;
                    let value = rprof_unwind::Memory::read_u64(&process, at).unwrap_or(0);
                    eprintln!("  W {at:x} {value:x} {}", place(value));
                }
            }
            process.go_on(tid);
        }
    }
    eprintln!("{complete} of {count} samples are complete, frames {by:?}");
    let mut ends: Vec<_> = ends.into_iter().collect();
    ends.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    for (end, count) in ends.iter().take(25) {
        eprintln!("{count:6} {end}");
    }
}

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
