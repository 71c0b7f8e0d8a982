//! Causes of time that the machine code of a function shows, for `rprof explain`.
//!
//! The rules read the text of instructions in Intel syntax. What they do not know is no cause.

use rprof_annotate::{Annotation, CodePart, Flow, Instruction, Loop};
use rprof_explain::CodeCause;

/// Maximum number of instructions of a loop that only waits.
const MAX_SPIN: usize = 12;

/// Part of a function's own time at one instruction that makes it the cause.
const MOST: f64 = 0.6;

/// Fewest instructions of a loop without a chain of loads. In a shorter one, the processor retires
/// all instructions in a cycle or two, and samples collect at one of them.
const MIN_LOOP: usize = 6;

/// Fewest conditional jumps of a loop that branches a lot.
const MIN_BRANCHES: usize = 3;

/// A cause, and its time.
#[derive(Debug, PartialEq)]
pub(crate) struct Found {
    pub(crate) own: u64,
    /// Number of instructions of the loop.
    pub(crate) instructions: usize,
    pub(crate) cause: CodeCause,
}

/// Finds the cause in a function's hottest loop, or else its slow instruction.
pub(crate) fn cause_in(annotation: &Annotation) -> Option<Found> {
    let parts = annotation.parts.iter();
    let (part, hot) = parts
        .filter_map(|part| Some((part, part.loops.first()?)))
        .max_by_key(|(_, hot)| hot.amount.own)?;
    in_loop(part, hot, annotation.amount.own)
}

fn in_loop(part: &CodePart, hot: &Loop, of_function: u64) -> Option<Found> {
    let inside = (part.instructions.iter())
        .filter(|one| (hot.start..=hot.end).contains(&one.address))
        .collect::<Vec<_>>();
    let found = |own, cause| Found {
        own,
        instructions: hot.instructions,
        cause,
    };
    let is_hint = |text: &str| matches!(text, "pause" | "yield" | "isb");
    if hot.instructions <= MAX_SPIN {
        if let Some(hint) = inside.iter().find(|one| is_hint(&one.text)) {
            return Some(found(hot.amount.own, CodeCause::Hint(hint.text.clone())));
        }
        if watches(&inside) {
            return Some(found(hot.amount.own, CodeCause::Watches));
        }
    }
    let is_most = |own: u64| own as f64 >= MOST * of_function as f64;
    if let Some((own, cause)) = slow(&inside).filter(|(own, _)| is_most(*own)) {
        return Some(found(own, cause));
    }
    // An interrupt comes behind a slow instruction.
    let behind = |pair: &[&Instruction]| pair[0].amount.own.saturating_add(pair[1].amount.own);
    let atomics = inside.windows(2).filter_map(|pair| {
        let cause = atomic(&pair[0].text)?;
        Some((behind(pair), CodeCause::Atomic(cause)))
    });
    if let Some((own, cause)) = atomics.max_by_key(|(own, _)| *own) {
        return Some(found(own, cause));
    }
    let own = behind_branches(&inside).filter(|own| is_most(*own))?;
    Some(found(own, CodeCause::Branches))
}

/// Returns the kind of slow instruction with the most time, and the time at its instructions.
fn slow(inside: &[&Instruction]) -> Option<(u64, CodeCause)> {
    use CodeCause::{Chain, Division, Float, Load, Write};
    let kinds: Vec<Option<CodeCause>> = inside.iter().map(|one| kind_of(one, inside)).collect();
    let own = |at: usize| inside.get(at).map_or(0, |one| one.amount.own);
    let mut found = Vec::new();
    for (at, kind) in kinds.iter().enumerate() {
        let is_long = inside.len() >= MIN_LOOP;
        let is_member = |other: usize| match (kind, &kinds[other]) {
            (Some(Division(_)), Some(Division(_))) => true,
            (Some(Float(_)), Some(Float(_))) => is_long,
            (Some(Write(operand)), Some(_)) => inside[other].text.contains(operand),
            (Some(Chain(_)), _) => other == at,
            (Some(Load(_)), _) => is_long && other == at,
            _ => false,
        };
        // An interrupt comes behind a slow instruction. If the next one may be slow as well, the
        // time may be of either.
        let counts = |one: &usize| {
            is_member(*one) || *one > 0 && kinds[*one].is_none() && is_member(*one - 1)
        };
        let sum: u64 = (0..inside.len()).filter(counts).map(own).sum();
        found.extend(kind.clone().map(|kind| (sum, own(at) + own(at + 1), kind)));
    }
    let hottest = found.into_iter().max_by_key(|(sum, here, _)| (*sum, *here));
    hottest
        .filter(|(sum, ..)| *sum > 0)
        .map(|(sum, _, kind)| (sum, kind))
}

/// Returns the time at the first instructions of the paths behind conditional jumps, if that is at
/// least twice as much as for others.
fn behind_branches(inside: &[&Instruction]) -> Option<u64> {
    let branches = || inside.iter().filter(|one| one.flow == Flow::Branch);
    if branches().count() < MIN_BRANCHES {
        return None;
    }
    let is_behind = |at: &usize| {
        // The start of the loop is where its last jump almost always goes.
        let is_target = || branches().any(|jump| jump.target == Some(inside[*at].address));
        *at > 0 && (inside[*at - 1].flow == Flow::Branch || is_target())
    };
    let behind: Vec<usize> = (0..inside.len()).filter(is_behind).collect();
    let own: u64 = behind.iter().map(|at| inside[*at].amount.own).sum();
    let all: u64 = inside.iter().map(|one| one.amount.own).sum();
    let is_more = own as f64 * inside.len() as f64 >= 2.0 * all as f64 * behind.len() as f64;
    is_more.then_some(own)
}

/// Returns the name of an atomic instruction.
fn atomic(text: &str) -> Option<String> {
    const ATOMIC: [&str; 7] = ["ldadd", "ldset", "ldclr", "swp", "cas", "stlxr", "stxr"];
    let mut words = text.split_whitespace();
    let name = words.next()?;
    if name == "lock" {
        return Some(format!("lock {}", words.next()?));
    }
    let is_atomic = name == "xchg" && text.contains('[')
        || ATOMIC.iter().any(|prefix| name.starts_with(prefix));
    is_atomic.then(|| name.to_owned())
}

/// Returns the cause of an instruction that may be slow by its kind.
fn kind_of(one: &Instruction, inside: &[&Instruction]) -> Option<CodeCause> {
    const DIVISIONS: [&str; 11] = [
        "idiv", "divs", "divp", "vdiv", "sqrts", "sqrtp", "vsqrt", "fdiv", "fsqrt", "sdiv", "udiv",
    ];
    const FLOAT: [&str; 8] = [
        "add", "sub", "mul", "vadd", "vsub", "vmul", "vfmadd", "vfmsub",
    ];
    const FLOAT_TYPES: [&str; 4] = ["ss", "sd", "ps", "pd"];
    let starts = |prefixes: &[&str], name: &str| prefixes.iter().any(|one| name.starts_with(one));
    let (name, operands) = parts(&one.text);
    if one.flow != Flow::Next || matches!(name, "nop" | "lea" | "push") {
        return None;
    }
    if let Some(name) = atomic(&one.text) {
        return Some(CodeCause::Atomic(name));
    }
    let text = one.text.clone();
    if name == "div" || starts(&DIVISIONS, name) {
        return Some(CodeCause::Division(text));
    }
    match operands.iter().position(|operand| operand.contains('[')) {
        Some(_) if is_chain(one, inside) => Some(CodeCause::Chain(text)),
        Some(0) => {
            let changes = match operands.len() {
                1 => matches!(name, "inc" | "dec" | "neg" | "not"),
                _ => !matches!(name, "cmp" | "test"),
            };
            let operand = operands[0].to_owned();
            (changes && !is_of_stack(&operand)).then_some(CodeCause::Write(operand))
        }
        Some(at) => {
            // Constants are in the first cache, as the stack is.
            let is_constant = registers(operands[at]).next().is_none();
            (!is_constant && !is_of_stack(operands[at])).then_some(CodeCause::Load(text))
        }
        None => {
            let is_float = starts(&FLOAT, name) && FLOAT_TYPES.iter().any(|of| name.ends_with(of));
            is_float.then_some(CodeCause::Float(text))
        }
    }
}

fn is_of_stack(operand: &str) -> bool {
    let mut all = registers(operand).peekable();
    all.peek().is_some() && all.all(|register| matches!(&*register, "sp" | "bp"))
}

/// Returns true for a load whose address is its own result of the round before.
fn is_chain(one: &Instruction, inside: &[&Instruction]) -> bool {
    let (name, operands) = parts(&one.text);
    let [to, from] = operands[..] else {
        return false;
    };
    let Some(register) = registers(to)
        .next()
        .filter(|_| name == "mov" && !to.contains('['))
    else {
        return false;
    };
    // Calls change registers.
    let changes = |other: &&&Instruction| {
        let (name, operands) = parts(&other.text);
        let first = operands.first().filter(|operand| !operand.contains('['));
        let is_written = first.is_some_and(|first| registers(first).any(|one| one == register));
        other.address != one.address
            && (matches!(other.flow, Flow::Call | Flow::Return)
                || is_written && !matches!(name, "cmp" | "test"))
    };
    registers(from).any(|one| one == register) && inside.iter().find(changes).is_none()
}

/// Returns true for a loop that reads memory and can end only if other code changes it: each round
/// computes all its values from memory and from registers that no round changes.
fn watches(inside: &[&Instruction]) -> bool {
    let Some((last, rest)) = inside.split_last() else {
        return false;
    };
    let (first, end) = (inside[0].address, last.address);
    let jumps_inside = |one: &&Instruction| {
        let is_jump = one.flow != Flow::Next;
        is_jump
            && one
                .target
                .is_none_or(|target| (first..=end).contains(&target))
    };
    if rest.iter().any(jumps_inside) {
        return false;
    }
    let Some(accesses) = inside
        .iter()
        .map(|one| access(one))
        .collect::<Option<Vec<Access>>>()
    else {
        return false;
    };
    let mut written: Vec<&str> = Vec::new();
    for access in &accesses {
        let is_of_this_round = |register: &str| written.contains(&register);
        let changes = |register: &str| {
            let mut all = accesses
                .iter()
                .filter_map(|access| access.writes.as_deref());
            all.any(|written| written == register)
        };
        let mut reads = access.reads.iter().map(String::as_str);
        if reads.any(|register| changes(register) && !is_of_this_round(register)) {
            return false;
        }
        written.extend(access.writes.as_deref());
    }
    accesses.iter().any(|access| access.is_load)
}

/// Registers and memory of an instruction.
#[derive(Debug, Default)]
struct Access {
    reads: Vec<String>,
    writes: Option<String>,
    is_load: bool,
}

/// Returns the accesses of an instruction that writes no memory; `None` for others, and for unknown
/// ones.
fn access(one: &Instruction) -> Option<Access> {
    let (name, operands) = parts(&one.text);
    match one.flow {
        Flow::Branch | Flow::Jump => return one.target.map(|_| Access::default()),
        Flow::Call | Flow::Return => return None,
        Flow::Next if name == "nop" => return Some(Access::default()),
        Flow::Next => {}
    }
    let [to, from] = operands[..] else {
        return None;
    };
    let both = || registers(to).chain(registers(from)).collect();
    let (reads, writes) = match name {
        "cmp" | "test" => (both(), None),
        _ if to.contains('[') => return None,
        "mov" | "movzx" | "movsx" | "movsxd" | "lea" => (registers(from).collect(), Some(to)),
        "and" | "or" | "xor" | "add" | "sub" | "shl" | "shr" | "sar" => (both(), Some(to)),
        _ => return None,
    };
    // A register of an unknown kind.
    let writes = match writes {
        Some(to) => Some(registers(to).next()?),
        None => None,
    };
    Some(Access {
        reads,
        writes,
        is_load: name != "lea" && one.text.contains('['),
    })
}

/// Splits an instruction into name and operands.
fn parts(text: &str) -> (&str, Vec<&str>) {
    let (name, rest) = text.split_once(' ').unwrap_or((text, ""));
    let operands = rest.split(',').map(str::trim);
    (
        name,
        operands.filter(|operand| !operand.is_empty()).collect(),
    )
}

/// Returns the whole registers of an operand: `ax` for `rax`, `eax` and `al`.
fn registers(operand: &str) -> impl Iterator<Item = String> + '_ {
    operand
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter_map(whole_register)
}

fn whole_register(word: &str) -> Option<String> {
    let numbered = |prefix: &str| {
        let number = word.strip_prefix(prefix)?;
        number
            .starts_with(|c: char| c.is_ascii_digit())
            .then_some(number)
    };
    if let Some(number) = ["xmm", "ymm", "zmm"].into_iter().find_map(numbered) {
        return Some(format!("mm{number}"));
    }
    if let Some(number) = numbered("r") {
        return Some(format!("r{}", number.trim_end_matches(['d', 'w', 'b'])));
    }
    let base = word.strip_prefix(['r', 'e']).filter(|base| base.len() == 2);
    let base = match base.unwrap_or(word) {
        "al" | "ah" => "ax",
        "bl" | "bh" => "bx",
        "cl" | "ch" => "cx",
        "dl" | "dh" => "dx",
        "sil" => "si",
        "dil" => "di",
        "spl" => "sp",
        "bpl" => "bp",
        other => other,
    };
    let is_register = ["ax", "bx", "cx", "dx", "si", "di", "sp", "bp"].contains(&base);
    is_register.then(|| base.to_owned())
}

#[cfg(test)]
mod tests {
    use rprof_annotate::Amount;

    use super::*;

    /// Returns a loop of one-byte instructions with their own weights. The last one jumps back.
    fn code(lines: &[(&str, u64)]) -> CodePart {
        let last = lines.len() - 1;
        let instruction = |(at, (text, own)): (usize, &(&str, u64))| Instruction {
            address: at as u64,
            len: 1,
            text: (*text).to_owned(),
            flow: match text {
                _ if at == last => Flow::Branch,
                text if text.starts_with('j') => Flow::Branch,
                text if text.starts_with("call") => Flow::Call,
                _ => Flow::Next,
            },
            target: match text {
                _ if at == last => Some(0),
                text if text.starts_with('j') => Some(99),
                _ => None,
            },
            amount: Amount {
                own: *own,
                ..Amount::default()
            },
            ..Instruction::default()
        };
        let own = lines.iter().map(|(_, own)| own).sum();
        CodePart {
            instructions: lines.iter().enumerate().map(instruction).collect(),
            loops: vec![Loop {
                start: 0,
                end: last as u64,
                instructions: lines.len(),
                amount: Amount {
                    own,
                    ..Amount::default()
                },
            }],
            ..CodePart::default()
        }
    }

    fn cause(lines: &[(&str, u64)]) -> Option<CodeCause> {
        let part = code(lines);
        let own = lines.iter().map(|(_, own)| own).sum();
        in_loop(&part, &part.loops[0], own).map(|found| found.cause)
    }

    fn watches(lines: &[&str]) -> bool {
        let lines: Vec<(&str, u64)> = lines.iter().map(|text| (*text, 1)).collect();
        cause(&lines) == Some(CodeCause::Watches)
    }

    #[test]
    fn atomic_instructions_are_known_by_their_text() {
        assert_eq!(
            atomic("lock xadd qword ptr [rdi],rax").as_deref(),
            Some("lock xadd")
        );
        assert_eq!(
            atomic("xchg dword ptr [rip+0x2c08],eax").as_deref(),
            Some("xchg")
        );
        assert_eq!(atomic("xchg ax,ax"), None);
        assert_eq!(atomic("ldaddal x0, x1, [x2]").as_deref(), Some("ldaddal"));
        assert_eq!(atomic("add rax,rdx"), None);
    }

    #[test]
    fn loops_that_only_watch_memory_wait_for_other_code() {
        for lines in [
            &["mov eax,DWORD PTR [rip+0x2c08]", "test eax,eax", "je 1000"][..],
            &["cmp DWORD PTR [rdi],0x0", "je 1000"],
            &[
                "mov rax,QWORD PTR [rbp-0x8]",
                "mov eax,DWORD PTR [rax]",
                "test al,0x1",
                "je 1000",
            ],
            &[
                "mov rax,QWORD PTR [rdi]",
                "test rax,rax",
                "jne 1063",
                "cmp BYTE PTR [rsi],0x0",
                "je 1",
            ],
            &[
                "nop DWORD PTR [rax]",
                "movzx eax,BYTE PTR [rdi]",
                "test al,al",
                "jne 1000",
            ],
        ] {
            assert!(watches(lines), "{lines:?}");
        }
        for lines in [
            // A list.
            &["mov rdi,QWORD PTR [rdi+0x8]", "test rdi,rdi", "jne 1000"][..],
            // A count, an index, and a call.
            &["mov eax,DWORD PTR [rdi]", "sub ecx,0x1", "jne 1000"],
            &[
                "cmp BYTE PTR [rdi+rax*1],0x0",
                "lea rax,[rax+0x1]",
                "jne 1000",
            ],
            &[
                "mov eax,DWORD PTR [rdi]",
                "call 2000",
                "test eax,eax",
                "jne 1000",
            ],
            // A write, and no access.
            &[
                "mov DWORD PTR [rsi],eax",
                "cmp DWORD PTR [rdi],0x0",
                "je 1000",
            ],
            &["test eax,eax", "jne 1000"],
            // The clock changes by itself.
            &["rdtsc", "cmp eax,DWORD PTR [rdi]", "jb 1000"],
        ] {
            assert!(!watches(lines), "{lines:?}");
        }
    }

    #[test]
    fn instructions_that_are_slow_by_their_kind_are_causes() {
        use CodeCause::{Atomic, Chain, Division, Float, Load, Write};
        let around = |slow: &'static str| {
            let rest = ["add rcx,0x1", "shr rsi,0x3", "cmp rcx,rbx", "jne 1000"];
            let lines = [(slow, 10), ("xor esi,0x5", 70)];
            lines
                .into_iter()
                .chain(rest.map(|text| (text, 5)))
                .collect::<Vec<_>>()
        };
        type Of = fn(String) -> CodeCause;
        for (text, of) in [
            ("div rcx", Division as Of),
            ("sqrtsd xmm0,xmm1", Division),
            ("mov rdi,QWORD PTR [rdi+0x8]", Chain),
            ("mov eax,DWORD PTR [rdi+rcx*4]", Load),
            ("mulsd xmm0,xmm1", Float),
        ] {
            assert_eq!(cause(&around(text)), Some(of(text.to_owned())), "{text}");
        }
        let shared = [
            ("mov rax,QWORD PTR [rdi]", 40),
            ("lea rcx,[rcx+rax]", 10),
            ("mov QWORD PTR [rdi],rcx", 20),
            ("sub edx,0x1", 10),
            ("jne 1000", 1),
        ];
        assert_eq!(cause(&shared), Some(Write("QWORD PTR [rdi]".to_owned())));
        let two = [
            ("div ecx", 30),
            ("mov eax,edx", 10),
            ("je 1", 10),
            ("div rcx", 25),
            ("jne 1", 9),
        ];
        assert_eq!(cause(&two), Some(Division("div ecx".to_owned())));
        let atomic = Some(Atomic("lock add".to_owned()));
        assert_eq!(cause(&around("lock add QWORD PTR [rdi],0x1")), atomic);
        for other in [
            "mov eax,DWORD PTR [rsp+0x8]",
            "mov eax,DWORD PTR [rip+0x2c08]",
            "lea rax,[rdi+rax*4]",
            "imul rax,rcx",
        ] {
            assert_eq!(cause(&around(other)), None, "{other}");
        }
        // The time may be of either instruction, or is of none.
        let both = [
            ("div rcx", 40),
            ("mov eax,DWORD PTR [rdi+rdx*4]", 40),
            ("jne 1000", 5),
        ];
        assert_eq!(cause(&both), None);
        let even = [
            ("div rcx", 10),
            ("add eax,0x1", 10),
            ("add eax,0x2", 30),
            ("jne 1000", 10),
        ];
        assert_eq!(cause(&even), None);
    }
    #[test]
    fn time_behind_conditional_jumps_may_be_of_wrong_guesses() {
        let taken = [
            ("xor eax,eax", 1),
            ("cmp cl,0x40", 2),
            ("js 1", 2),
            ("add ebx,ecx", 30),
            ("test cl,0x1", 2),
            ("je 1", 2),
            ("xor esi,ecx", 30),
            ("test cl,0x4", 2),
            ("je 1", 2),
            ("sub ebx,esi", 20),
            ("sub edx,0x1", 2),
            ("jne 1", 2),
        ];
        assert_eq!(cause(&taken), Some(CodeCause::Branches));
        let even: Vec<(&str, u64)> = taken.iter().map(|(text, _)| (*text, 8)).collect();
        assert_eq!(cause(&even), None);
    }
}
