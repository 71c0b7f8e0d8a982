//! The processor as the oracle. A program runs one instruction at a time, and the test logs its
//! calls and returns. After each instruction the unwinder must find exactly the open calls. This
//! covers prologues, epilogues, PLT entries, lazy binding, the dynamic linker, signal handlers, and
//! the C library's start and exit.

use crate::process::{Stop, Traced};
use crate::tools;
use rprof_testing::needs;
use rprof_unwind::{Arch, FrameKind, Root, StackFrame, TruncationReason, UnwindOutcome, Unwinder};
use std::collections::BTreeMap;
use std::path::Path;

/// A call that has not returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Call {
    /// Return address.
    address: u64,
    /// Slot of the return address; for an interruption, the slot of the saved registers.
    slot: u64,
    interrupted: bool,
}

#[derive(Default)]
struct Tally {
    steps: usize,
    right: usize,
    /// Correct stacks reported as truncated.
    short: usize,
    /// In longjmp, or in the code that throws exceptions just before its jump.
    jumping: usize,
    /// Correct stacks up to code that has overwritten its return address to throw an exception.
    left: usize,
    /// Wrong stacks by the place of the instruction: their number, and the first one.
    wrong: BTreeMap<String, (usize, String)>,
    roots: BTreeMap<String, usize>,
}

/// Executes a program to its end, or up to `limit` instructions.
fn run(program: &Path, arguments: &[&str], limit: usize) -> Tally {
    run_from(Traced::start(program, arguments), limit)
}

fn run_from(process: Traced, limit: usize) -> Tally {
    run_within(process, Vec::new(), limit)
}

/// Returns the calls of a stopped process, as the unwinder finds them.
fn open_calls(process: &mut Traced) -> Vec<Call> {
    let registers = process.registers();
    process.read_stack(registers.sp());
    let mut frames = Vec::new();
    let end = Unwinder::new(Arch::X86_64).unwind(&registers, process, process, 1000, &mut frames);
    assert!(matches!(end, UnwindOutcome::Complete(_)), "{end:?}");
    let calls = frames.iter().skip(1).rev().map(|frame| Call {
        address: frame.address,
        slot: frame.slot,
        interrupted: false,
    });
    calls.collect()
}

/// Executes a program with these open calls, outermost first.
fn run_within(mut process: Traced, mut calls: Vec<Call>, limit: usize) -> Tally {
    let mut unwinder = Unwinder::new(Arch::X86_64);
    let mut frames = Vec::new();
    let mut tally = Tally::default();
    let mut registers = process.registers();
    let arch = registers.arch();
    let word = arch.word_size();
    // `syscall`, `sysenter`, `int 0x80`.
    let is_system_call = |code: &[u8]| matches!(code, [0x0f, 0x05 | 0x34, ..] | [0xcd, 0x80, ..]);
    while tally.steps < limit {
        let (ip, sp) = (registers.ip(), registers.sp());
        let mut code = [0; 16];
        process.bytes(ip, &mut code);
        let mut stop = process.step(0);
        if let Stop::Signal(signal) = stop {
            // The signal is pending: the next step ends at the handler's first instruction.
            stop = process.step(signal);
            if matches!(stop, Stop::Gone) {
                break;
            }
            registers = process.registers();
            let restorer = arch.read_word(&process, registers.sp()).unwrap();
            calls.push(Call {
                address: ip,
                slot: registers.sp() + word,
                interrupted: true,
            });
            calls.push(Call {
                address: restorer,
                slot: registers.sp(),
                interrupted: false,
            });
        } else if matches!(stop, Stop::Stepped) {
            registers = process.registers();
        }
        if !matches!(stop, Stop::Stepped) {
            break;
        }
        // A system call may have changed the mappings.
        if is_system_call(&code) {
            process.look_at_maps();
        }
        let now = registers.sp();
        // A step over `sysenter` may also execute the next instruction.
        if is_system_call(&code) && registers.sp().abs_diff(sp) > 64 {
            // Only sigreturn changes it: the handler's frames disappear.
            let interrupted = calls.iter().rposition(|call| call.interrupted);
            calls.truncate(interrupted.unwrap_or(0));
        }
        // Handlers may run on another stack, below or above.
        while calls
            .last()
            .is_some_and(|call| call.slot < now && now - call.slot < 1 << 24)
        {
            calls.pop();
        }
        if now == sp.wrapping_sub(word) {
            let address = arch.read_word(&process, now).unwrap();
            let is_call = (2..=8).contains(&address.wrapping_sub(ip)) && registers.ip() != address
                || code[0] == 0xe8;
            // lea rsp, [rsp + 8]: a return thunk calls it instead of returning.
            let mut target = [0; 5];
            process.bytes(registers.ip(), &mut target);
            if is_call && target != [0x48, 0x8d, 0x64, 0x24, 8] {
                calls.push(Call {
                    address,
                    slot: now,
                    interrupted: false,
                });
            }
        }
        tally.steps += 1;
        process.read_stack(registers.sp());
        let end = unwinder.unwind(&registers, &process, &process, 1000, &mut frames);
        check((&process, arch), &calls, &frames, end, &mut tally);
    }
    tally
}

fn check(
    (process, arch): (&Traced, Arch),
    calls: &[Call],
    frames: &[StackFrame],
    end: UnwindOutcome,
    tally: &mut Tally,
) {
    let found = frames.iter().skip(1).map(|frame| Call {
        address: frame.address,
        slot: frame.slot,
        interrupted: frame.kind == FrameKind::Interrupted,
    });
    // A return address in a register has no slot.
    let same = |call: &Call, found: &Call| {
        call.address == found.address
            && call.interrupted == found.interrupted
            && (call.interrupted || found.slot == 0 || call.slot == found.slot)
    };
    // Code that ends the process never returns, so its caller `_start` is missing. `_start` of i386
    // calls its own end, which moves the return address to a register.
    let calls_itself = |call: &Call| {
        let last = frames.last().map(StackFrame::lookup_address);
        arch == Arch::X86 && last.is_some_and(|last| last.abs_diff(call.address) < 64)
    };
    let missing = match (end, calls.first()) {
        (UnwindOutcome::Complete(Root::ExitFollows), _) => 1,
        (UnwindOutcome::Complete(Root::UndefinedReturnAddress), Some(call))
            if found.clone().count() < calls.len() =>
        {
            usize::from(calls_itself(call))
        }
        _ => 0,
    };
    let agree = found.clone().count() + missing == calls.len()
        && calls
            .iter()
            .rev()
            .zip(found.clone())
            .all(|(call, found)| same(call, &found));
    if agree && matches!(end, UnwindOutcome::Complete(_)) {
        tally.right += 1;
        *tally.roots.entry(format!("{end:?}")).or_default() += 1;
        return;
    }
    let prefix = calls
        .iter()
        .rev()
        .zip(found.clone())
        .all(|(call, found)| same(call, &found));
    // libgcc's unwinder replaces the return address in its own frame once it has found the handler.
    // It will not return.
    let overwritten =
        |call: &Call| !call.interrupted && arch.read_word(process, call.slot) != Some(call.address);
    let is_left = matches!(
        end,
        UnwindOutcome::Truncated(TruncationReason::BadCfi { .. })
    );
    // Its last instructions are `mov rsp, rcx; pop rcx; jmp rcx`.
    let word = arch.read_word(process, frames[0].address);
    let word = word.unwrap_or(0).to_le_bytes();
    let has_left = word.starts_with(&[0x48, 0x89, 0xcc])
        || matches!(word, [0x59, 0xff, 0xe1, ..] | [0xff, 0xe1, ..]);
    if prefix && is_left && (has_left || calls.iter().any(overwritten)) {
        tally.left += 1;
        return;
    }
    if prefix && matches!(end, UnwindOutcome::Truncated(_)) {
        tally.short += 1;
        *tally
            .roots
            .entry(place_of(process, frames[0].address, end))
            .or_default() += 1;
        return;
    }
    // longjmp's call frame information deliberately describes its target, not its caller. The
    // return address is in a register.
    if frames
        .get(1)
        .is_some_and(|frame| frame.slot == 0 && frame.kind == FrameKind::Caller)
    {
        tally.jumping += 1;
        return;
    }
    if calls.iter().any(overwritten) {
        tally.jumping += 1;
        return;
    }
    let place = process.place(frames[0].address);
    let entry = tally.wrong.entry(place).or_default();
    entry.0 += 1;
    if entry.1.is_empty() {
        entry.1 = format!("{end:x?}\n  true:");
        for call in calls.iter().rev().take(12) {
            entry.1 += &format!(" {}@{:x}", process.place(call.address), call.slot);
        }
        entry.1 += "\n  found:";
        for (frame, call) in frames.iter().skip(1).zip(found).take(12) {
            entry.1 += &format!(
                " {}@{:x}:{:?}",
                process.place(call.address),
                call.slot,
                frame.found_by
            );
        }
    }
}

/// Returns the end of a truncated stack, for messages.
fn place_of(process: &Traced, ip: u64, end: UnwindOutcome) -> String {
    match end {
        UnwindOutcome::Truncated(TruncationReason::NoUnwindInfo { address }) => {
            format!("no unwind information: {}", process.place(address))
        }
        end => format!("{end:x?} at {}", process.place(ip)),
    }
}

fn report(what: &str, tally: &Tally) {
    let wrong: usize = tally.wrong.values().map(|(count, _)| count).sum();
    eprintln!(
        "{what}: {} steps, {} right, {} short, {} jumping, {} left, {wrong} wrong; {:#?}",
        tally.steps, tally.right, tally.short, tally.jumping, tally.left, tally.roots
    );
    for (place, (count, example)) in tally.wrong.iter().take(20) {
        eprintln!("{count} at {place}: {example}");
    }
}

fn expect_all_right(what: &str, program: &Path) {
    let tally = run(program, &[], 400_000);
    report(what, &tally);
    assert!(tally.steps > 1000, "{what} ended early");
    assert!(tally.wrong.is_empty() && tally.short == 0, "{what}");
}

#[test]
fn every_instruction_of_a_program() {
    if !tools::present("gcc") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    for flags in [
        &["-O2", "-fomit-frame-pointer"][..],
        &["-O1", "-no-pie", "-Wl,-z,lazy"],
        &[
            "-O3",
            "-fomit-frame-pointer",
            "-static",
            "-Wl,--no-eh-frame-hdr",
        ],
        // Only .debug_frame, compressed.
        &[
            "-Os",
            "-g",
            "-gz=zlib",
            "-fno-asynchronous-unwind-tables",
            "-static",
        ],
    ] {
        let program = tools::compile("gcc", "calls.c", flags, directory.path()).unwrap();
        expect_all_right(&format!("gcc {flags:?}"), &program);
    }
}

/// Functions with a realigned stack: gcc 12 does not describe that the end of the function has restored the frame
/// pointer.
#[test]
fn every_instruction_of_realigned_stacks() {
    if !tools::present("gcc") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    for flags in [&["-O2"][..], &["-O3"], &["-O1", "-mstackrealign"]] {
        let all = [flags, &["-static", "-fomit-frame-pointer"]].concat();
        let source = "../../../../fixtures/realigned.c";
        let program = tools::compile("gcc", source, &all, directory.path()).unwrap();
        let tally = run(&program, &[], 50_000);
        report(&format!("gcc {all:?}"), &tally);
        assert_eq!(tally.right, 50_000, "{all:?}");
    }
}

/// Code without call frame information and frame pointers, whose returns are thunks.
#[test]
fn every_instruction_of_return_thunks() {
    if !tools::present("gcc") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let flags = [
        "-O2",
        "-static",
        "-fomit-frame-pointer",
        "-fno-asynchronous-unwind-tables",
        "-mfunction-return=thunk-inline",
        "-fcf-protection=none",
    ];
    let program = tools::compile("gcc", "calls.c", &flags, directory.path()).unwrap();
    let tally = run(&program, &[], 400_000);
    report("return thunks", &tally);
    assert!(tally.steps > 1000 && tally.wrong.is_empty());
    assert!(tally.short * 50 < tally.right);
}

/// One rule describes LuaJIT's whole interpreter, with its frame: also helpers without frame, prologues
/// and epilogues.
#[test]
fn every_instruction_of_luajit() {
    needs!(X86_64, File("/usr/bin/luajit"));
    let script = "local t = {} for i = 1, 200 do \
                  t[i] = tostring(math.floor(i * 1.5) % -7 + math.fmod(-i, 7.5)) .. math.ceil(i / 2) end \
                  table.sort(t, function(a, b) return select('#', a) < #b end) \
                  coroutine.wrap(function() coroutine.yield(pcall(error)) end)()";
    for jit in ["-joff", "-Ohotloop=2"] {
        let mut process = Traced::start(Path::new("/usr/bin/luajit"), &[jit, "-e", script]);
        // Up to the script's first call.
        process.run_to_exported("luaL_loadbuffer");
        process.run_to_exported("lua_pcall");
        let calls = open_calls(&mut process);
        let tally = run_within(process, calls, 15_000);
        report(&format!("luajit {jit}"), &tally);
        assert!(tally.steps == 15_000 && tally.wrong.is_empty(), "{jit}");
        assert!(tally.short * 100 < tally.right, "{jit}");
    }
}

/// Code whose jumps and calls through pointers are thunks. Behind an inline thunk, gcc's call frame
/// information claims the thunk's frame.
#[test]
fn every_instruction_of_inline_thunks() {
    if !tools::present("gcc") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let flags = [
        "-O2",
        "-static",
        "-fomit-frame-pointer",
        "-mindirect-branch=thunk-inline",
        "-fcf-protection=none",
    ];
    let program = tools::compile("gcc", "calls.c", &flags, directory.path()).unwrap();
    let tally = run(&program, &[], 400_000);
    report("inline thunks", &tally);
    assert!(tally.steps > 1000 && tally.wrong.is_empty());
    assert!(tally.short * 50 < tally.right);
}

/// Code whose returns pop the return address and jump to it. Nothing describes that.
#[test]
fn every_instruction_of_hardened_returns() {
    if !tools::present("clang") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    for described in [
        "-fasynchronous-unwind-tables",
        "-fno-asynchronous-unwind-tables",
    ] {
        for frame in ["-fomit-frame-pointer", "-fno-omit-frame-pointer"] {
            let flags = ["-O2", "-static", "-mlvi-cfi", frame, described];
            let program = tools::compile("clang", "calls.c", &flags, directory.path()).unwrap();
            let tally = run(&program, &[], 400_000);
            report(&format!("hardened returns {flags:?}"), &tally);
            assert!(tally.steps > 1000 && tally.wrong.is_empty(), "{flags:?}");
            assert!(tally.short * 50 < tally.right, "{flags:?}");
        }
    }
}

/// The same for 32-bit programs: signal handlers return through the vdso, which also makes the system
/// calls. The C library's own information is wrong in a few places of its assembly, such as `memset`,
/// where stacks are short.
#[test]
#[ignore = "the tracer loses outer frames at longjmp and changes of stacks: `tests/unwind/i386.rs` has known stacks"]
fn every_instruction_of_i386() {
    needs!(I386);
    let directory = tempfile::tempdir().unwrap();
    for flags in [
        &["-O0"][..],
        &["-O2", "-fomit-frame-pointer"],
        &["-O1", "-no-pie", "-fno-pie", "-Wl,-z,lazy"],
        &["-O2", "-fPIC", "-fcf-protection", "-Wl,-z,ibtplt"],
        &["-O3", "-static", "-Wl,--no-eh-frame-hdr"],
        &["-Os", "-g", "-fno-asynchronous-unwind-tables", "-static"],
        // The program's own code has no call frame information, but frame pointers.
        &[
            "-O2",
            "-fno-asynchronous-unwind-tables",
            "-fno-omit-frame-pointer",
        ],
    ] {
        let all = [&["-m32"], flags].concat();
        let program = tools::compile("gcc", "calls.c", &all, directory.path()).unwrap();
        let tally = run(&program, &[], 400_000);
        report(&format!("gcc {all:?}"), &tally);
        assert!(tally.steps > 1000 && tally.wrong.is_empty(), "{flags:?}");
        assert!(tally.short * 200 < tally.right, "{flags:?}");
        let is_described = !flags.contains(&"-fno-asynchronous-unwind-tables");
        let own = format!(" at {}+", program.display());
        let is_own = |end: &&String| end.starts_with("Truncated") && end.contains(&own);
        if is_described && !flags.contains(&"-static") {
            assert_eq!(tally.roots.keys().find(is_own), None, "{flags:?}");
        }
    }
}

#[test]
fn every_instruction_of_exceptions() {
    if !tools::present("g++") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let flags = ["-O2", "-fomit-frame-pointer", "-no-pie"];
    let program = tools::compile("g++", "throw.cc", &flags, directory.path()).unwrap();
    let mut process = Traced::start(&program, &[]);
    // The dynamic linker executes a million instructions before.
    process.run_to_entry();
    let tally = run_from(process, 1_000_000);
    report("exceptions", &tally);
    assert!(tally.steps > 10_000 && tally.jumping == 0 && tally.left > 0);
    assert!(tally.wrong.is_empty() && tally.short == 0);
}

#[test]
fn every_instruction_as_clang_compiles_it() {
    if !tools::present("clang") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let flags = [
        "-O2",
        "-fomit-frame-pointer",
        "-static",
        "-Wno-unknown-attributes",
    ];
    let program = tools::compile("clang", "calls.c", &flags, directory.path()).unwrap();
    expect_all_right("clang", &program);
}

/// musl has neither call frame information nor frame pointers, only code. Stacks with functions
/// that do not return (`exit`) cannot be complete, but their frames must be correct.
#[test]
fn every_instruction_with_musl() {
    if !tools::present("musl-gcc") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let flags = ["-O2", "-static", "-fasynchronous-unwind-tables"];
    let program = tools::compile("musl-gcc", "calls.c", &flags, directory.path()).unwrap();
    let tally = run(&program, &[], 400_000);
    report("musl", &tally);
    assert!(tally.wrong.is_empty());
    assert!(tally.right > 1000 && tally.short * 5 < tally.right);
}

/// For manual tests: `PROGRAM=/bin/ls cargo test --release -p rprof-unwind --test it -- --ignored
/// --nocapture any_program`. Also `ARGUMENTS`, and `LIMIT` instructions.
#[test]
#[ignore = "needs a program"]
fn any_program() {
    let program = std::env::var("PROGRAM").unwrap();
    let arguments = std::env::var("ARGUMENTS").unwrap_or_default();
    let arguments: Vec<&str> = arguments.split_whitespace().collect();
    let limit = std::env::var("LIMIT").map_or(1_000_000, |limit| limit.parse().unwrap());
    let tally = run(Path::new(&program), &arguments, limit);
    report(&program, &tally);
}
