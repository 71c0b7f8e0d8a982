//! A small heap, laid out as in Node.js 20, and hostile ones.

use std::collections::HashMap;

use proptest::prelude::*;
use rprof_unwind::{Arch, FoundBy, FrameKind, Registers, StackDump, StackFrame};

use super::layout::Values;
use super::*;
use crate::{InterpretedFrame, MemoryRead};

const CONTEXT: u16 = 210;
const UNDEFINED: u16 = 131;
const INSTRUCTIONS: u16 = 252;
const BASELINE: u64 = 11;
const TURBOFAN: u64 = 13;

const STACK: u64 = 0x7ffd_0000_0000;
/// Return address of the interpreter, with its code, and one of a builtin function.
const INTERPRETER: u64 = 0x8c_fd20;
const INTERPRETER_CODE: [u64; 2] = [0xdc4d_8b44_e065_8b4c, 0x000c_1cb6_0f43];
const BUILTIN: u64 = 0x8e_fd20;
const GARBAGE: u64 = HEAP + 0x8_0001;
const CODE: u64 = 0x7f00_0000_1000;
/// DWARF number of the frame pointer.
const RBP: u8 = 6;

const HEAP: u64 = 0x10_0000;

const fn tagged(number: u32) -> u64 {
    (number as u64) << 32
}

/// Words of a process; other words are 0.
#[derive(Clone, Debug, Default)]
struct Process {
    words: HashMap<u64, u64>,
    used: u64,
    maps: HashMap<u16, u64>,
    batches: usize,
}

#[derive(Clone, Copy, Debug)]
struct Function {
    function: u64,
    shared: u64,
    bytecode: u64,
}

impl Process {
    fn new() -> Self {
        let mut process = Self::default();
        process.put(INTERPRETER, &INTERPRETER_CODE);
        process
    }

    fn put(&mut self, avma: u64, words: &[u64]) {
        for (at, word) in (avma..).step_by(8).zip(words) {
            self.words.insert(at, *word);
        }
    }

    fn map(&mut self, number: u16) -> u64 {
        if let Some(map) = self.maps.get(&number) {
            return *map;
        }
        let avma = HEAP + self.used;
        self.used += 0x20;
        self.put(avma, &[1, u64::from(number) << 32]);
        self.maps.insert(number, avma + 1);
        avma + 1
    }

    /// Adds an object with these words after its map. Returns the tagged pointer.
    fn object(&mut self, number: u16, words: &[u64]) -> u64 {
        let map = self.map(number);
        let avma = HEAP + self.used;
        self.used += (words.len() as u64 + 1) * 8;
        self.put(avma, &[map]);
        self.put(avma + 8, words);
        avma + 1
    }

    fn string_of(&mut self, number: u16, len: usize, bytes: &[u8]) -> u64 {
        let mut words = vec![(len as u64) << 32];
        for bytes in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            words.push(u64::from_le_bytes(word));
        }
        self.object(number, &words)
    }

    fn string(&mut self, text: &str) -> u64 {
        self.string_of(8, text.len(), text.as_bytes())
    }

    fn script(&mut self) -> u64 {
        let source = self.string("line one\nline two\r\nfunction outer() {}\n");
        let name = self.string("/app.js");
        let undefined = self.object(UNDEFINED, &[0; 5]);
        self.object(167, &[source, name, 0, 0, 0, tagged(2), undefined, 0])
    }

    fn function(&mut self, name: &str, start: u32) -> Function {
        let bytecode = self.object(191, &[0; 4]);
        let (name, script) = (self.string(name), self.script());
        let flags = tagged(2 | 3 << 12);
        let end = tagged(start + 4);
        // One variable in the context, before the name and the position.
        let words = [flags, 0, tagged(1), name, 0, name, 0, tagged(start), end];
        let scope = self.object(261, &words);
        let shared = self.object(262, &[bytecode, scope, 0, script]);
        let function = self.object(2066, &[0, 0, shared, 0, 0, 0]);
        Function {
            function,
            shared,
            bytecode,
        }
    }

    /// Adds code at an address, for bytecode or with deoptimization data.
    fn code(&mut self, kind: u64, start: u64, data: u64) -> u64 {
        let code = self.object(245, &[0, data, 0, 0, start, kind, 0x200]);
        let map = self.map(INSTRUCTIONS);
        self.put(start - 16, &[map, code]);
        code
    }

    fn optimized(&mut self, function: Function, start: u64) -> u64 {
        let words = [tagged(8), 0, 0, 0, 0, 0, 0, function.shared, 0];
        let data = self.object(175, &words);
        self.code(TURBOFAN, start, data)
    }

    fn set_code(&mut self, function: Function, code: u64) {
        self.put(function.function - 1 + 48, &[code]);
    }
}

impl ProcessMemory for Process {
    fn read(&mut self, reads: &mut [MemoryRead]) {
        self.batches += 1;
        for read in reads {
            let end = read.address.wrapping_add(read.bytes.len() as u64);
            read.is_read = (HEAP..HEAP << 4).contains(&read.address)
                || (CODE - 0x1000..CODE + 0x4000).contains(&end);
            for (at, byte) in (read.address..end).zip(&mut read.bytes) {
                let word = self.words.get(&(at & !7)).copied().unwrap_or(0);
                *byte = (word >> (8 * (at & 7))) as u8;
            }
        }
    }
}

#[derive(Debug, Default)]
struct KnownNames(Vec<String>);

impl Names for KnownNames {
    fn address_of(&mut self, name: &str) -> Option<u64> {
        self.0.push(name.to_owned());
        Some(self.0.len() as u64 - 1)
    }
}

/// Frame with the size of its part of the stack, and its words below the frame pointer.
#[derive(Clone, Copy, Debug)]
struct Pushed {
    address: u64,
    kind: CodeKind,
    below: [u64; 5],
}

/// Stack of frames with frame pointers, innermost first, above `main`.
#[derive(Debug)]
struct Pushes {
    frames: Vec<NativeFrame>,
    words: Vec<u64>,
}

impl Pushes {
    fn new(pushed: &[Pushed]) -> Self {
        let main = Pushed {
            address: 0x40_0000,
            kind: CodeKind::Other,
            below: [0; 5],
        };
        let mut pushes = Self {
            frames: Vec::new(),
            words: Vec::new(),
        };
        for (index, frame) in pushed.iter().chain([&main]).enumerate() {
            let sp = STACK + 8 * pushes.words.len() as u64;
            let fp = sp + 40;
            let mut registers = Registers::new(Arch::X86_64, frame.address, sp);
            registers.set(RBP, fp);
            pushes.frames.push(NativeFrame {
                frame: StackFrame {
                    address: frame.address,
                    sp,
                    slot: 0,
                    kind: match index {
                        0 => FrameKind::Sampled,
                        _ => FrameKind::Caller,
                    },
                    found_by: FoundBy::FramePointer,
                },
                registers,
                code: frame.kind,
            });
            let caller = pushed.get(index + 1).unwrap_or(&main).address;
            pushes.words.extend(frame.below.iter().rev());
            pushes.words.extend([fp + 56, caller]);
        }
        pushes
    }

    fn stack<'a>(&'a self, time: u64, memory: &'a StackDump<'a>) -> Stack<'a> {
        Stack {
            thread: 1,
            time,
            frames: &self.frames,
            memory,
            is_complete: true,
            is_asleep: false,
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let bytes = self.words.iter().flat_map(|word| word.to_le_bytes());
        bytes.collect()
    }

    fn interpreted(function: Function, context: u64) -> Pushed {
        Pushed {
            address: INTERPRETER,
            kind: CodeKind::Image(INTERPRETER),
            below: [context, function.function, 0, function.bytecode, tagged(57)],
        }
    }

    fn compiled(address: u64, function: Function, context: u64) -> Pushed {
        Pushed {
            address,
            kind: CodeKind::Generated,
            below: [context, function.function, 0, 0, 0],
        }
    }
}

/// Reader of a process, with all names so far.
struct Session {
    v8: V8Process,
    names: KnownNames,
}

fn session() -> Session {
    session_of(&Values::NODE_20)
}

fn session_of(values: &Values) -> Session {
    let mut v8 = reader();
    v8.layout = Some(Layout::new(values).map(Box::new));
    let names = KnownNames::default();
    Session { v8, names }
}

fn reader() -> V8Process {
    V8Process {
        image: Arc::new(V8Image {
            constants: Constants::default(),
        }),
        bias: 0,
        is_code_named: false,
        layout: Some(Layout::new(&Values::NODE_20).map(Box::new)),
        identities: Identities::default(),
        scripts: Scripts::default(),
        named: FxHashMap::default(),
    }
}

/// Returns the names by native frame, innermost first.
fn read(session: &mut Session, process: &mut Process, pushes: &Pushes) -> Vec<(usize, String)> {
    let bytes = pushes.bytes();
    let dump = StackDump::new(STACK, &bytes);
    let stack = pushes.stack(1_000_000_000, &dump);
    let mut found = Found::default();
    let Session { v8, names } = session;
    v8.read(&stack, process, names, &mut found);
    let name = |frame: &InterpretedFrame| {
        let name = names.0.get(frame.address as usize).cloned();
        (frame.native, name.unwrap_or_default())
    };
    found.frames.iter().map(name).collect()
}

fn names_of(process: &mut Process, pushed: &[Pushed]) -> Vec<(usize, String)> {
    read(&mut session(), process, &Pushes::new(pushed))
}

const OUTER: &str = "JS:outer /app.js:3:15";
const INNER: &str = "JS:inner /app.js:2:1";

fn outer(native: usize) -> (usize, String) {
    (native, OUTER.to_owned())
}

fn inner(native: usize) -> (usize, String) {
    (native, INNER.to_owned())
}

fn unnamed(native: usize) -> (usize, String) {
    (native, UNNAMED_JAVASCRIPT.to_owned())
}

/// Returns a process with two functions and a context.
fn two_functions() -> (Process, Function, Function, u64) {
    let mut process = Process::new();
    let outer = process.function("outer", 33);
    let inner = process.function("inner", 9);
    let context = process.object(CONTEXT, &[0; 4]);
    (process, outer, inner, context)
}

#[test]
fn interpreter_frames_are_named_by_their_bytecode() {
    let (mut process, one, two, context) = two_functions();
    let pushed = [
        Pushes::interpreted(two, context),
        Pushes::interpreted(one, context),
    ];
    assert_eq!(names_of(&mut process, &pushed), [inner(0), outer(1)]);
    // A stub has a small integer in place of the context.
    let mut stub = pushed;
    stub[0].below[0] = tagged(17);
    assert_eq!(names_of(&mut process, &stub), [outer(1)]);
    // The frame of a builtin has bytecode of a former frame in its slot.
    let mut builtin = [pushed[1], pushed[0], pushed[1]];
    (builtin[1].address, builtin[1].kind) = (BUILTIN, CodeKind::Image(BUILTIN));
    builtin[1].below[3] = one.bytecode;
    assert_eq!(names_of(&mut process, &builtin), [outer(0), outer(2)]);
    // A closure that resumes a function lives for one call only.
    (builtin[1].below[1], builtin[1].below[3]) = (GARBAGE, GARBAGE);
    assert_eq!(names_of(&mut process, &builtin), [outer(0), outer(2)]);
    assert_eq!(names_of(&mut process, &builtin[1..]), [outer(1)]);
}

#[test]
fn function_of_other_bytecode_is_unnamed() {
    let (mut process, one, two, context) = two_functions();
    let mut pushed = [Pushes::interpreted(one, context); 2];
    pushed[1].below[3] = two.bytecode;
    assert_eq!(names_of(&mut process, &pushed), [outer(0), unnamed(1)]);
}

#[test]
fn moved_function_is_followed() {
    let (mut process, one, two, context) = two_functions();
    let pushed = [Pushes::interpreted(one, context); 2];
    let copy = process.object(2066, &[0, 0, one.shared, 0, 0, 0]);
    process.put(one.function - 1, &[copy - 1]);
    assert_eq!(names_of(&mut process, &pushed), [outer(0), outer(1)]);
    // Another function has its place now.
    process.put(one.function - 1, &[two.function - 1]);
    assert_eq!(names_of(&mut process, &pushed), [unnamed(1)]);
}

#[test]
fn code_names_its_function_without_the_slot() {
    let (mut process, one, two, context) = two_functions();
    let optimized = process.optimized(one, CODE);
    let baseline = process.code(BASELINE, CODE + 0x1000, two.bytecode);
    process.set_code(one, optimized);
    process.set_code(two, baseline);
    process.put(two.shared - 1 + 8, &[baseline]);
    let pushed = [
        Pushes::compiled(CODE + 0x1030, two, context),
        Pushes::compiled(CODE + 0x40, one, context),
    ];
    let mut pushes = Pushes::new(&pushed);
    // The bytecode is in the frame of baseline code too.
    pushes.words[1] = two.bytecode;
    let mut v8 = session();
    assert_eq!(read(&mut v8, &mut process, &pushes), [inner(0), outer(1)]);
    // In later samples the instruction alone is enough.
    let function = GARBAGE;
    let garbage = Function { function, ..one };
    let pushes = Pushes::new(&[Pushes::compiled(CODE + 0x40, garbage, context)]);
    assert_eq!(read(&mut v8, &mut process, &pushes), [outer(0)]);
}

#[test]
fn replaced_code_is_found_by_its_header() {
    let (mut process, one, two, context) = two_functions();
    process.optimized(one, CODE + 0x1000);
    let other = process.optimized(one, CODE);
    process.set_code(one, other);
    let known = process.optimized(two, CODE + 0x2000);
    process.set_code(two, known);
    let pushed = [
        Pushes::compiled(CODE + 0x2100, two, context),
        Pushes::compiled(CODE + 0x11f0, one, context),
        Pushes::compiled(CODE + 0x1201, one, context),
    ];
    // The last address is behind the code.
    let expected = [inner(0), outer(1), unnamed(2)];
    assert_eq!(names_of(&mut process, &pushed), expected);
}

#[test]
fn caller_skipped_by_the_unwinder_is_inserted() {
    let (mut process, one, two, context) = two_functions();
    let code = process.code(BASELINE, CODE, two.bytecode);
    process.put(two.shared - 1 + 8, &[code]);
    process.set_code(two, code);
    // Sampled before `inner` has a frame: the frame pointer belongs to `outer`.
    let mut sampled = Pushes::interpreted(one, context);
    sampled.address = CODE + 4;
    sampled.kind = CodeKind::Generated;
    let mut v8 = session();
    let mut own = Pushes::compiled(CODE + 0x80, two, context);
    own.below[3] = two.bytecode;
    let pushes = Pushes::new(&[own]);
    assert_eq!(read(&mut v8, &mut process, &pushes), [inner(0)]);
    let pushes = Pushes::new(&[sampled]);
    assert_eq!(read(&mut v8, &mut process, &pushes), [inner(0), outer(0)]);
}

#[test]
fn code_named_by_a_file_is_left_out() {
    let (mut process, one, two, context) = two_functions();
    let code = process.optimized(two, CODE);
    process.set_code(two, code);
    let pushes = Pushes::new(&[
        Pushes::compiled(CODE + 0x40, two, context),
        Pushes::interpreted(one, context),
    ]);
    let mut v8 = session();
    v8.v8.handle_named_code();
    assert_eq!(read(&mut v8, &mut process, &pushes), [outer(1)]);
}

#[test]
fn modules_before_node_22_have_no_number_of_variables_before_them() {
    let (mut process, mut one, _, context) = two_functions();
    let (name, script) = (process.string("outer"), process.script());
    let flags = tagged(3 | 3 << 12);
    let position = [name, 0, tagged(33), tagged(37)];
    let mut named = |values: &Values, count: &[u64]| {
        let mut words = vec![flags, 0, 0];
        words.extend(count.iter().chain(&position));
        let scope = process.object(261, &words);
        one.shared = process.object(262, &[one.bytecode, scope, 0, script]);
        one.function = process.object(2066, &[0, 0, one.shared, 0, 0, 0]);
        let pushes = Pushes::new(&[Pushes::interpreted(one, context)]);
        read(&mut session_of(values), &mut process, &pushes)
    };
    assert_eq!(named(&Values::NODE_18, &[]), [outer(0)]);
    assert_eq!(named(&Values::NODE_20, &[]), [outer(0)]);
    assert_eq!(named(&Values::NODE_22, &[tagged(7)]), [outer(0)]);
}

#[test]
fn code_of_node_24_is_found_without_its_function() {
    let (mut process, mut one, _, context) = two_functions();
    let (name, script) = (process.string("outer"), process.script());
    let words = [4 | 3 << 12, 0, 0, tagged(33), tagged(37), name, 0];
    let scope = process.object(280, &words);
    one.bytecode = process.object(186, &[0; 4]);
    one.shared = process.object(282, &[one.bytecode, 0, scope, 0, script]);
    // An entry of a table stands in place of the code.
    one.function = process.object(2065, &[0, 0, 7 << 8, one.shared, 0, 0]);
    let wrapper = process.object(283, &[one.shared]);
    let data = process.object(206, &[tagged(9), 0, 0, 0, 0, 0, 0, 0, wrapper]);
    let code = process.object(187, &[data, 0, 0, 0, CODE, tagged(12), 0x200]);
    let map = process.map(INSTRUCTIONS);
    process.put(CODE - 32, &[map, code]);
    let pushes = Pushes::new(&[
        Pushes::interpreted(one, context),
        Pushes::compiled(CODE + 0x40, one, context),
    ]);
    let mut session = session_of(&Values::NODE_24);
    let names = read(&mut session, &mut process, &pushes);
    assert_eq!(names, [outer(0), outer(1)]);
}

#[test]
fn strings_in_parts_are_joined() {
    let mut process = Process::new();
    let one = process.string("caf");
    let two = process.string_of(0, 2, &[0xe9, 0, 0x3d, 0xd8]);
    let pair = process.object(33, &[tagged(5), one, two]);
    let thin = process.object(45, &[tagged(5), pair]);
    let slice = process.object(35, &[tagged(3), thin, tagged(1)]);
    let layout = Layout::new(&Values::NODE_20).expect("supported");
    let mut snapshot = Snapshot::default();
    let mut string = |pointer: u64, limit: usize| {
        for _ in 0..MAX_ROUNDS {
            let mut heap = Heap {
                layout: &layout,
                memory: &mut snapshot,
            };
            match heap.string(pointer, limit) {
                Err(Fault::Unread) => snapshot.fetch(&mut process),
                done => return done,
            };
        }
        Err(Fault::Unread)
    };
    assert_eq!(string(one, 2), Ok("ca".to_owned()));
    let half = "café\u{fffd}".to_owned();
    assert_eq!(string(pair, 9), Ok(half));
    assert_eq!(string(slice, 9), Ok("afé".to_owned()));
    assert_eq!(string(slice, 1), Ok("a".to_owned()));
}

#[test]
fn unreadable_process_says_so() {
    let (_, one, _, context) = two_functions();
    let pushes = Pushes::new(&[Pushes::interpreted(one, context); 2]);
    let bytes = pushes.bytes();
    struct Ended;
    impl ProcessMemory for Ended {
        fn read(&mut self, _: &mut [MemoryRead]) {}
    }
    let dump = StackDump::new(STACK, &bytes);
    let stack = pushes.stack(0, &dump);
    let mut found = Found::default();
    reader().read(&stack, &mut Ended, &mut KnownNames::default(), &mut found);
    assert!(found.is_unread);
    assert_eq!((found.proven, found.unnamed), (1, 1));
}

/// Memory of hashes of addresses, so that pointers lead on for ever.
struct Lying {
    seed: u64,
    batches: usize,
    bytes: usize,
}

impl ProcessMemory for Lying {
    fn read(&mut self, reads: &mut [MemoryRead]) {
        self.batches += 1;
        for read in reads {
            self.bytes += read.bytes.len();
            read.is_read = true;
            for (offset, byte) in (0..).zip(&mut read.bytes) {
                let at = read.address.wrapping_add(offset);
                let word = (at & !7)
                    .wrapping_add(self.seed)
                    .wrapping_mul(0x9e37_79b9_7f4a_7c15);
                // Types of functions, strings and code, pointers, and large lengths.
                let word = match word >> 61 {
                    0 => (u64::from(word as u8) << 32) | 1,
                    1 => 2066 << 32 | 1,
                    2 => u64::MAX,
                    3 => 245 << 32,
                    4 => word & 0xffff_ffff_0000_0000,
                    _ => (word >> 16) & !3 | 1,
                };
                *byte = (word >> (8 * (at & 7))) as u8;
            }
        }
    }
}

proptest! {
    #[test]
    fn hostile_memory_is_bounded(seed: u64, words: [u64; 5], address: u64, changed: [u64; 6]) {
        let (mut process, one, two, context) = two_functions();
        let code = process.optimized(two, CODE);
        process.set_code(two, code);
        let mut pushed = vec![
            Pushes::compiled(CODE + 0x40, two, context),
            Pushes::interpreted(one, context),
            Pushed { address, kind: CodeKind::Generated, below: words },
            Pushed { address, kind: CodeKind::Image(address), below: words.map(|word| word | 1) },
        ];
        pushed.extend(std::iter::repeat_n(pushed[1], 40));
        let pushes = Pushes::new(&pushed);
        let bytes = pushes.bytes();
        let dump = StackDump::new(STACK, &bytes);
        let stack = pushes.stack(seed, &dump);
        let mut lying = Lying { seed, batches: 0, bytes: 0 };
        reader().read(&stack, &mut lying, &mut KnownNames::default(), &mut Found::default());
        prop_assert!(lying.batches < 200 && lying.bytes < 16 << 20);
        // A valid heap with some words replaced.
        let mut avmas: Vec<u64> = process.words.keys().copied().collect();
        avmas.sort_unstable();
        for (at, word) in changed.iter().zip(words) {
            let avma = avmas[(*at % avmas.len() as u64) as usize];
            let old = process.words.insert(avma, word).unwrap_or(0);
            if at & 1 == 0 {
                process.words.insert(avma, old ^ (1 << (word % 64)));
            }
        }
        reader().read(&stack, &mut process, &mut KnownNames::default(), &mut Found::default());
        prop_assert!(process.batches < 200);
    }
}
