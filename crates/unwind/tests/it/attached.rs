//! Not a test but a tool: how complete the stacks of a process are that somebody else started, all
//! of its threads, and what the incomplete ones look like.
//!
//! ```sh
//! ATTACH=$(pgrep java) DETAIL=3 cargo test --release -p rprof-unwind --test it \
//!     -- --ignored --nocapture attached
//! ```

use crate::process::Traced;
use rprof_unwind::{Arch, TruncationReason, UnwindOutcome, Unwinder};
use std::collections::BTreeMap;
use std::time::Duration;

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
            if !std::path::Path::new(&format!("/proc/{pid}")).exists() {
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
