//! Pairs of known truth: those that a program has seen itself, and a trace by instruction. True pairs
//! are possible, and planted wrong ones are found.

use std::path::{Path, PathBuf};
use std::process::Command;

use rprof_edges::{Callers, EdgeVerdict, Report, check};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Checks stacks of file offsets, innermost frame first.
fn checked(program: &Path, stacks: &[Vec<u64>]) -> Report {
    let program = program.display();
    let frame = |address: &u64| format!("\t{address:x} ({program})\n");
    let stack = |stack: &Vec<u64>| {
        let frames: String = stack.iter().map(frame).collect();
        format!("program 1/1 1.0: \n{frames}\n")
    };
    check(
        &stacks.iter().map(stack).collect::<String>(),
        Callers::Return,
    )
}

/// A line of `fixtures/pairs.c`: how the function was called, its code, and its return address.
struct Seen {
    how: String,
    callee: u64,
    caller: u64,
}

/// Compiles and runs `fixtures/pairs.c`, at a fixed address. Returns it with its output, as offsets
/// in its file.
fn pairs(flags: &[&str]) -> (PathBuf, Vec<Seen>) {
    /// Address where linkers put programs that are not relocatable.
    const BASE: u64 = 0x40_0000;
    let source = Path::new(ROOT).join("fixtures/pairs.c");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let flags = [&["-O2", "-no-pie"], flags].concat();
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let program = rprof_testing::compile(folder, &compiler, &source, &flags);
    let output = Command::new(&program).output().expect("a program to run");
    let text = String::from_utf8(output.stdout).expect("text");
    let number = |hex: &str| u64::from_str_radix(hex, 16).expect("an address") - BASE;
    let seen = text.lines().map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        Seen {
            how: words[0].to_owned(),
            callee: number(words[1]),
            caller: number(words[2]),
        }
    });
    let seen: Vec<Seen> = seen.collect();
    assert_eq!(seen.len(), 4, "{text}");
    (program, seen)
}

fn verdict(program: &Path, callee: u64, caller: u64) -> EdgeVerdict {
    let report = checked(program, &[vec![callee, caller]]);
    let verdicts: Vec<EdgeVerdict> = report.pairs.keys().copied().collect();
    assert_eq!(verdicts.len(), 1, "{report}");
    assert_eq!(
        report.findings.len(),
        usize::from(verdicts[0].is_impossible())
    );
    verdicts[0]
}

/// Bounds of functions by symbols.
const BARE: &str = "-fno-asynchronous-unwind-tables";

const FLAGS: [&[&str]; 3] = [&[], &[BARE], &["-fno-omit-frame-pointer"]];

#[test]
fn pairs_that_a_program_has_seen_are_possible() {
    rprof_testing::needs!(X86_64);
    for flags in FLAGS {
        let (program, seen) = pairs(flags);
        let found = seen
            .iter()
            .map(|seen| verdict(&program, seen.callee, seen.caller));
        let expected = [
            EdgeVerdict::Direct,
            EdgeVerdict::Jump,
            EdgeVerdict::Indirect,
            EdgeVerdict::Direct,
        ];
        assert_eq!(found.collect::<Vec<_>>(), expected, "{flags:?}");
    }
}

#[test]
fn planted_pairs_are_impossible() {
    rprof_testing::needs!(X86_64);
    for flags in FLAGS {
        let (program, seen) = pairs(flags);
        let of = |how: &str| seen.iter().find(|seen| seen.how == how).expect(how);
        let callers = ["direct", "jump", "nowhere"].map(of);
        // A direct call of another function.
        for (one, other) in [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)] {
            let found = verdict(&program, callers[one].callee, callers[other].caller);
            assert_eq!(found, EdgeVerdict::WrongTarget, "{flags:?} {one} {other}");
        }
        // A call by pointer cannot lead to a function without one.
        let (callee, caller) = (of("nowhere").callee, of("pointer").caller);
        let is_described = !flags.contains(&BARE);
        let found = verdict(&program, callee, caller);
        assert_eq!(found == EdgeVerdict::NotNamed, is_described, "{flags:?}");
        // Within the call instruction, and behind the next one.
        for away in [-1, -2, 1, 2, 3] {
            let caller = of("direct").caller.wrapping_add_signed(away);
            let found = verdict(&program, of("direct").callee, caller);
            assert_eq!(found, EdgeVerdict::NoCall, "{flags:?} {away}");
        }
    }
}

/// Stacks of `fixtures/aarch64`, traced by instruction. A handler returns to qemu's own page, where the
/// stack is cut.
fn traced() -> Vec<Vec<u64>> {
    /// Addresses above belong to no file.
    const NO_FILE: u64 = 1 << 32;
    let path = Path::new(ROOT).join("fixtures/aarch64/tree.truth");
    let text = std::fs::read_to_string(path).expect("a truth");
    let stack = |line: &str| {
        let words = line.split(' ').skip(1);
        let number = |word| u64::from_str_radix(word, 16).expect("an address");
        words
            .map(number)
            .take_while(|address| *address < NO_FILE)
            .collect()
    };
    text.lines().map(stack).collect()
}

#[test]
fn traced_stacks_of_aarch64_are_possible() {
    let program = Path::new(ROOT).join("fixtures/aarch64/tree");
    let report = checked(&program, &traced());
    assert!(report.checked() > 2_000, "{report}");
    assert_eq!(report.impossible(), 0, "{report}");
    let direct = report.pairs[&EdgeVerdict::Direct].samples;
    assert!(direct * 2 > report.checked(), "{report}");
}

#[test]
fn aarch64_stacks_without_their_second_frame_are_impossible() {
    let program = Path::new(ROOT).join("fixtures/aarch64/tree");
    let mut stacks = traced();
    stacks.retain(|stack| stack.len() > 3);
    for stack in &mut stacks {
        stack.remove(1);
        stack.truncate(2);
    }
    let report = checked(&program, &stacks);
    assert!(report.impossible() * 10 > report.checked() * 9, "{report}");
}

/// This machine's vdso is not the vdso of a recording of another processor.
#[test]
fn the_vdso_of_another_processor_is_unknown() {
    const BLR: u32 = 0xd63f_0000;
    let program = Path::new(ROOT).join("fixtures/aarch64/tree");
    let code = std::fs::read(&program).expect("a program");
    let is_by_pointer = |behind: &u64| {
        let call = &code[*behind as usize - 4..*behind as usize];
        u32::from_le_bytes(call.try_into().unwrap()) & 0xffff_fc1f == BLR
    };
    let mut callers = traced()
        .into_iter()
        .flat_map(|stack| stack.into_iter().skip(1));
    let caller = callers
        .find(is_by_pointer)
        .expect("a call through a pointer");
    let program = program.display();
    let text = format!("program 1/1 1.0: \n\t810 ([vdso])\n\t{caller:x} ({program})\n\n");
    let report = check(&text, Callers::Return);
    assert_eq!((report.checked(), report.stacks), (0, 1), "{report}");
}

/// Code of `-mcmodel=large`, of Boost's `make_fcontext`, Go's `sigreturn`, and a personality routine.
const ASSEMBLY: &str = "
.globl caller, start, signal
hidden: .cfi_startproc
    ret
    .cfi_endproc
caller: .cfi_startproc
    movabs $hidden@GOTOFF, %rax
    call *%rax
behind:
    ret
    .cfi_endproc
handled: .cfi_startproc
    .cfi_personality 0x1b, personality
    ret
    .cfi_endproc
personality: .cfi_startproc
    ret
    .cfi_endproc
start: .cfi_startproc
    jmp *%rbx
end:
    xor %edi, %edi
    call caller@PLT
    hlt
    .cfi_endproc
signal: .cfi_startproc
    movq $15, %rax
    syscall
    .cfi_endproc
";

#[test]
fn written_return_addresses_and_distant_pointers_are_possible() {
    rprof_testing::needs!(X86Assembler, Tool("cc"), Tool("nm"));
    let folder = tempfile::tempdir().expect("a folder");
    let source = folder.path().join("edges.s");
    std::fs::write(&source, ASSEMBLY).expect("a file");
    // Offsets in the file are addresses.
    let flags = ["-shared", "-nostdlib", "-Wl,-z,noseparate-code"];
    let program = rprof_testing::compile(folder.path(), "cc", &source, &flags);
    let nm = Command::new("nm").arg(&program).output();
    let nm = String::from_utf8(nm.expect("a program to run").stdout).expect("text");
    let at = |name: &str| {
        let line = nm.lines().find(|line| line.ends_with(&format!(" {name}")));
        let address = line.and_then(|line| line.split(' ').next());
        u64::from_str_radix(address.expect("a symbol"), 16).expect("an address")
    };
    let pairs = [
        (at("hidden"), at("behind"), EdgeVerdict::Indirect),
        (at("personality"), at("behind"), EdgeVerdict::Indirect),
        (at("handled"), at("behind"), EdgeVerdict::NotNamed),
        (at("hidden"), at("end"), EdgeVerdict::Root),
        // The byte behind the start of the code.
        (at("caller"), at("signal") + 1, EdgeVerdict::Signal),
        // The system call.
        (at("caller"), at("signal") + 7, EdgeVerdict::Signal),
        (at("hidden"), at("start"), EdgeVerdict::NoCall),
    ];
    for (callee, caller, expected) in pairs {
        assert_eq!(verdict(&program, callee, caller), expected, "{nm}");
    }
}
