//! AArch64 programs in qemu, one instruction at a time: the test logs calls and returns, and the
//! unwinder must find the open calls after each instruction. Qemu's GDB stub makes the steps. Its
//! process has the program's memory at the program's addresses.

use object::{Object, ObjectSegment, SegmentFlags};
use rprof_testing::needs;
use rprof_unwind::{
    Arch, FoundBy, FrameKind, Memory, Module, Modules, Registers, Root, StackFrame, UnwindOutcome,
    UnwindTable, Unwinder,
};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::time::Duration;

/// Number of stack bytes that are read at each instruction.
const STACK: usize = 1 << 15;

/// Registers x0 to x30, sp, pc.
const REGISTERS: usize = 33;

/// Code of an image in memory.
struct Code {
    start: u64,
    end: u64,
    bias: u64,
    path: Rc<Path>,
    table: Option<Rc<UnwindTable>>,
}

/// The code of an image: its ranges of file offsets with their SVMAs.
struct Image {
    path: Rc<Path>,
    table: Option<Rc<UnwindTable>>,
    code: Vec<(u64, u64, u64)>,
}

/// Program in qemu.
struct Emulated {
    child: Child,
    stub: UnixStream,
    memory: File,
    images: HashMap<PathBuf, Rc<Image>>,
    code: Vec<Code>,
    generation: u64,
    is_bare: bool,
    stack: RefCell<(u64, Vec<u8>)>,
}

impl Emulated {
    /// Starts a program. With `is_bare`, the unwinder does not see call frame information.
    fn start(program: &[&str], root: &str, is_bare: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("stub");
        let child = Command::new("qemu-aarch64")
            .args(["-cpu", "max", "-L", root, "-g"])
            .arg(&socket)
            .args(program)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let connect = |_| {
            std::thread::sleep(Duration::from_millis(10));
            UnixStream::connect(&socket).ok()
        };
        let stub = (0..1000).find_map(connect).expect("qemu's stub");
        let memory = File::open(format!("/proc/{}/mem", child.id())).unwrap();
        let mut emulated = Self {
            child,
            stub,
            memory,
            images: HashMap::new(),
            code: Vec::new(),
            generation: 0,
            is_bare,
            stack: RefCell::default(),
        };
        emulated.send(b"$?#3f");
        emulated.reply();
        emulated.look_at_maps();
        emulated
    }

    fn send(&mut self, bytes: &[u8]) {
        self.stub.write_all(bytes).unwrap();
    }

    /// Reads a reply, which the next request acknowledges.
    fn reply(&mut self) -> Option<Vec<u8>> {
        let mut all = Vec::new();
        let mut part = [0; 4096];
        loop {
            let len = self.stub.read(&mut part).ok().filter(|len| *len > 0)?;
            all.extend_from_slice(&part[..len]);
            if all.len() > 3
                && all[all.len() - 3] == b'#'
                && let Some(start) = all.iter().position(|byte| *byte == b'$')
            {
                return Some(all[start + 1..all.len() - 3].to_vec());
            }
        }
    }

    fn ask(&mut self, request: &str) -> Option<Vec<u8>> {
        let sum = request.bytes().fold(0_u8, u8::wrapping_add);
        self.send(format!("+${request}#{sum:02x}").as_bytes());
        self.reply()
    }

    /// Executes an instruction. Returns false at the end of the program.
    fn step(&mut self) -> bool {
        (self.ask("s")).is_some_and(|reply| reply.starts_with(b"T05") || reply.starts_with(b"S05"))
    }

    /// Executes the program up to an address. Returns the open calls there, as the unwinder finds
    /// them.
    fn run_to(&mut self, avma: u64) -> Vec<Call> {
        self.ask(&format!("Z0,{avma:x},4")).unwrap();
        self.ask("c").unwrap();
        self.ask(&format!("z0,{avma:x},4")).unwrap();
        self.look_at_maps();
        let registers = self.registers();
        assert_eq!(registers.ip(), avma);
        self.read_stack(registers.sp());
        let mut frames = Vec::new();
        let end = Unwinder::new(Arch::Aarch64).unwind(&registers, self, self, 1000, &mut frames);
        assert!(end.is_complete(), "{end:?}");
        let calls = frames.iter().skip(1).rev().map(|frame| Call {
            return_address: frame.address,
            sp: frame.sp,
        });
        calls.collect()
    }

    fn registers(&mut self) -> Registers {
        let text = self.ask("g").unwrap();
        let nibble = |byte: u8| (byte as char).to_digit(16).unwrap() as u8;
        let bytes: Vec<u8> = (text.chunks_exact(2).take(8 * REGISTERS))
            .map(|pair| nibble(pair[0]) << 4 | nibble(pair[1]))
            .collect();
        let words: Vec<u64> = (bytes.chunks_exact(8))
            .map(|word| u64::from_le_bytes(word.try_into().unwrap()))
            .collect();
        let mut registers = Registers::new(Arch::Aarch64, words[32], words[31]);
        for (number, word) in (0..).zip(&words[..31]) {
            registers.set(number, *word);
        }
        registers
    }

    fn read_stack(&mut self, sp: u64) {
        let mut bytes = vec![0; STACK];
        let len = self.memory.read_at(&mut bytes, sp).unwrap_or(0);
        bytes.truncate(len);
        self.stack = RefCell::new((sp, bytes));
    }

    fn word(&self, avma: u64) -> u32 {
        let mut word = [0; 4];
        self.memory.read_at(&mut word, avma).unwrap_or(0);
        u32::from_le_bytes(word)
    }

    /// Finds the code of all images. Qemu maps it without permission to execute.
    fn look_at_maps(&mut self) {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.child.id())).unwrap();
        self.code.clear();
        self.generation += 1;
        for line in maps.lines() {
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            let (Some(path), Some((start, end))) = (words.get(5), words[0].split_once('-')) else {
                continue;
            };
            let path = Path::new(path);
            if !path.is_absolute() || path.starts_with("/dev") {
                continue;
            }
            let hex = |text: &str| u64::from_str_radix(text, 16).unwrap();
            let (start, end, offset) = (hex(start), hex(end), hex(words[2]));
            let is_bare = self.is_bare;
            let image = self.images.entry(path.to_owned());
            let image = Rc::clone(image.or_insert_with(|| Rc::new(read_image(path, is_bare))));
            for &(from, to, svma) in &image.code {
                let mapped = offset..offset + (end - start);
                if mapped.contains(&from) {
                    let at = start + (from - offset);
                    self.code.push(Code {
                        start: at,
                        end: end.min(at + (to - from)),
                        bias: at.wrapping_sub(svma),
                        path: Rc::clone(&image.path),
                        table: image.table.clone(),
                    });
                }
            }
        }
    }

    fn at(&self, avma: u64) -> Option<&Code> {
        let mut code = self.code.iter();
        code.find(|code| (code.start..code.end).contains(&avma))
    }

    /// Names a place, for messages.
    fn place(&self, avma: u64) -> String {
        let Some(code) = self.at(avma) else {
            return format!("{avma:#x}");
        };
        let file = code.path.file_name().unwrap_or_default().to_string_lossy();
        format!("{file}+{:#x}", avma.wrapping_sub(code.bias))
    }
}

impl Drop for Emulated {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads the table and the code of an ELF file for AArch64.
fn read_image(path: &Path, is_bare: bool) -> Image {
    const MACHINE: u16 = 183;
    let mut image = Image {
        path: path.into(),
        table: None,
        code: Vec::new(),
    };
    let mut bytes = std::fs::read(path).unwrap_or_default();
    let machine = bytes
        .get(18..20)
        .map(|machine| u16::from_le_bytes([machine[0], machine[1]]));
    if machine != Some(MACHINE) {
        return image;
    }
    let Ok(file) = object::File::parse(&*bytes) else {
        return image;
    };
    for segment in file.segments() {
        let (SegmentFlags::Elf { p_flags, .. }, (offset, len)) =
            (segment.flags(), segment.file_range())
        else {
            continue;
        };
        if p_flags.0 & object::elf::PF_X.0 != 0 {
            image.code.push((offset, offset + len, segment.address()));
        }
    }
    if is_bare {
        without_cfi(&mut bytes);
    }
    image.table = UnwindTable::parse(&bytes).ok().map(Rc::new);
    image
}

/// Removes the headers that lead to call frame information.
fn without_cfi(bytes: &mut [u8]) {
    const PT_GNU_EH_FRAME: u32 = 0x6474_e550;
    let number =
        |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let (first, count) = (number(bytes, 32) as usize, bytes[56]);
    for header in (0..usize::from(count)).map(|number| first + 56 * number) {
        if bytes[header..].starts_with(&PT_GNU_EH_FRAME.to_le_bytes()) {
            bytes[header..header + 4].fill(0);
        }
    }
    // Names of sections.
    for at in 0..bytes.len() {
        if [&b".eh_frame"[..], b".debug_frame"]
            .iter()
            .any(|name| bytes[at..].starts_with(name))
        {
            bytes[at + 1] = b'x';
        }
    }
}

impl Memory for Emulated {
    fn read_u64(&self, avma: u64) -> Option<u64> {
        let stack = self.stack.borrow();
        let at = usize::try_from(avma.wrapping_sub(stack.0)).ok()?;
        if let Some(word) = stack.1.get(at..).and_then(|rest| rest.first_chunk()) {
            return Some(u64::from_le_bytes(*word));
        }
        let mut word = [0; 8];
        (self.memory.read_at(&mut word, avma).ok() == Some(8)).then(|| u64::from_le_bytes(word))
    }
}

impl Modules for Emulated {
    fn find(&self, avma: u64) -> Option<Module<'_>> {
        self.at(avma).map(|code| Module {
            table: code.table.as_deref(),
            bias: code.bias,
        })
    }

    fn code(&self, avma: u64, into: &mut [u8]) -> usize {
        self.memory.read_at(into, avma).unwrap_or(0)
    }

    fn generation(&self) -> Option<u64> {
        Some(self.generation)
    }
}

/// A call that has not returned.
#[derive(Clone, Copy)]
struct Call {
    return_address: u64,
    /// Stack pointer at the call.
    sp: u64,
}

#[derive(Default)]
struct Tally {
    steps: usize,
    right: usize,
    /// In `longjmp`.
    jumping: usize,
    /// Correct stacks that are cut, by place.
    short: BTreeMap<String, usize>,
    /// Wrong stacks by place: their number, and the first one.
    wrong: BTreeMap<String, (usize, String)>,
}

const SYSTEM_CALL: u32 = 0xd400_0001;

/// Follows an instruction on the stack of calls.
fn follow(calls: &mut Vec<Call>, word: u32, before: (u64, u64), after: (u64, u64)) {
    let ((ip, old), (to, sp)) = (before, after);
    let is_call = word >> 26 == 0b10_0101 || word & 0xfeff_f000 == 0xd63f_0000;
    if is_call {
        calls.push(Call {
            return_address: ip + 4,
            sp: old,
        });
        return;
    }
    // An exception, or `longjmp`.
    while calls
        .last()
        .is_some_and(|call| call.sp < sp && sp - call.sp < 1 << 24)
    {
        calls.pop();
    }
    // ret, retaa, retab; br x30
    let is_return = matches!(word & 0xffff_f81f, 0xd65f_0000 | 0xd65f_081f) || word == 0xd61f_03c0;
    if to == ip + 4 {
        return;
    }
    let Some(last) = calls.last() else {
        return;
    };
    if last.return_address == to && last.sp == sp {
        calls.pop();
    } else if is_return {
        while calls.last().is_some_and(|call| call.sp <= sp) {
            calls.pop();
        }
    }
}

/// Executes a program up to `limit` instructions, of which the first `skip` are not checked.
fn run(mut process: Emulated, mut calls: Vec<Call>, (skip, limit): (usize, usize)) -> Tally {
    let mut unwinder = Unwinder::new(Arch::Aarch64);
    let (mut tally, mut frames) = (Tally::default(), Vec::new());
    let mut registers = process.registers();
    let mut executed = 0;
    while tally.steps < limit {
        let before = (registers.ip(), registers.sp());
        let word = process.word(before.0);
        if !process.step() {
            break;
        }
        registers = process.registers();
        let after = (registers.ip(), registers.sp());
        if word == SYSTEM_CALL {
            // Qemu goes on for an instruction behind the call.
            process.look_at_maps();
            if after.0 != before.0 + 4 {
                follow(
                    &mut calls,
                    process.word(before.0 + 4),
                    (before.0 + 4, before.1),
                    after,
                );
            }
        } else {
            follow(&mut calls, word, before, after);
        }
        executed += 1;
        if executed <= skip {
            continue;
        }
        tally.steps += 1;
        process.read_stack(after.1);
        let end = unwinder.unwind(&registers, &process, &process, 1000, &mut frames);
        check(&process, &calls, &frames, end, &mut tally);
    }
    tally
}

fn check(
    process: &Emulated,
    calls: &[Call],
    frames: &[StackFrame],
    end: UnwindOutcome,
    tally: &mut Tally,
) {
    let found = frames.iter().skip(1);
    let same = |(call, frame): (&Call, &StackFrame)| {
        let has_sp = match frame.found_by {
            // The stack pointer is a lower bound.
            FoundBy::FramePointer | FoundBy::JustCalled => frame.sp <= call.sp,
            _ => frame.sp == call.sp,
        };
        frame.kind == FrameKind::Caller && call.return_address == frame.address && has_sp
    };
    let is_prefix = calls.iter().rev().zip(found.clone()).all(same);
    let missing = calls.len().checked_sub(frames.len() - 1);
    let may_miss = match end {
        // Code that ends the process never returns, so its caller is missing.
        UnwindOutcome::Complete(Root::ExitFollows) => 1,
        // Go's entry point calls its first function twice.
        UnwindOutcome::Complete(Root::UndefinedReturnAddress) => 2,
        _ => 0,
    };
    let place = process.place(frames[0].address);
    // The description of `longjmp` leads to its target: its buffer counts as the frame.
    let is_far = |target: &StackFrame| target.sp.abs_diff(frames[0].sp) > 1 << 24;
    if frames.get(1).is_some_and(is_far) {
        tally.jumping += 1;
        return;
    }
    match end {
        UnwindOutcome::Complete(_) if is_prefix && missing.is_some_and(|most| most <= may_miss) => {
            tally.right += 1;
        }
        UnwindOutcome::Truncated(_) if is_prefix && missing.is_some() => {
            let last = process.place(frames[frames.len() - 1].address);
            *tally.short.entry(format!("{last} {end:x?}")).or_default() += 1;
        }
        _ => {
            let (count, example) = tally.wrong.entry(place).or_default();
            *count += 1;
            if example.is_empty() {
                *example = format!("{end:x?}\n  true:");
                for call in calls.iter().rev().take(8) {
                    *example += &format!(" {}@{:x}", process.place(call.return_address), call.sp);
                }
                *example += "\n  found:";
                for frame in found.take(8) {
                    let place = process.place(frame.address);
                    *example += &format!(" {place}@{:x}:{:?}", frame.sp, frame.found_by);
                }
            }
        }
    }
}

fn report(what: &str, tally: &Tally) {
    let wrong: usize = tally.wrong.values().map(|(count, _)| count).sum();
    let short: usize = tally.short.values().sum();
    let (steps, right, jumping) = (tally.steps, tally.right, tally.jumping);
    eprintln!(
        "{what}: {steps} steps, {right} right, {short} short, {jumping} jumping, {wrong} wrong"
    );
    let mut ends: Vec<_> = tally.short.iter().collect();
    ends.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    for (end, count) in ends.iter().take(12) {
        eprintln!("  short {count}: {end}");
    }
    let mut places: Vec<_> = tally.wrong.iter().collect();
    places.sort_by_key(|(_, (count, _))| std::cmp::Reverse(*count));
    for (place, (count, example)) in places.iter().take(12) {
        eprintln!("  wrong {count} at {place}: {example}");
    }
}

/// Not a test but a tool: unwinds each instruction of a program.
///
/// ```sh
/// EMULATE='/root/arm64/usr/bin/perl -e 1' ROOT=/root/arm64 STEPS=100000 cargo test -p rprof-unwind --test it \
///     -- --ignored --nocapture emulated_program
/// ```
///
/// `FROM` is the hexadecimal address where it begins, `SKIP` a number of instructions that are not
/// checked.
/// `BARE` hides call frame information.
#[test]
#[ignore = "needs a program"]
fn emulated_program() {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let number = |name: &str, other: usize| variable(name).parse().unwrap_or(other);
    let command = variable("EMULATE");
    let words: Vec<&str> = command.split(' ').collect();
    let mut process = Emulated::start(&words, &variable("ROOT"), !variable("BARE").is_empty());
    let from = u64::from_str_radix(&variable("FROM"), 16).ok();
    let calls = from.map_or_else(Vec::new, |from| process.run_to(from));
    let tally = run(
        process,
        calls,
        (number("SKIP", 0), number("STEPS", 100_000)),
    );
    report(&command, &tally);
}

#[test]
fn every_instruction_of_aarch64() {
    needs!(Tool("qemu-aarch64"));
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/aarch64/tree");
    for is_bare in [false, true] {
        let process = Emulated::start(&[program], "/", is_bare);
        let tally = run(process, Vec::new(), (10, 5_000));
        report(&format!("tree, bare: {is_bare}"), &tally);
        assert!(tally.steps == 5_000 && tally.wrong.is_empty());
        // Without description, nothing leads from `begin`, which never returns, to its caller.
        assert!(is_bare || tally.short.is_empty());
    }
}
