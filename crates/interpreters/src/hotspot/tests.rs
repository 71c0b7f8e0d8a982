//! A small virtual machine, laid out as in JDK 17, and hostile ones.

use std::collections::HashMap;

use proptest::prelude::*;
use rprof_unwind::{Arch, FoundBy, FrameKind, Registers, StackDump, StackFrame};

use super::code::FRESH;
use super::tables::Tables;
use super::*;
use crate::{InterpretedFrame, MemoryRead};

/// Fields of JDK 17.0.15. A field without a name is the size of its type.
const FIELDS: [(&str, &str, u64); 45] = [
    ("CodeBlob", "_name", 96),
    ("CodeBlob", "_size", 12),
    ("CodeBlob", "_code_begin", 32),
    ("CodeBlob", "_code_end", 40),
    ("CodeCache", "_heaps", HEAPS),
    ("CodeHeap", "_memory", 8),
    ("CodeHeap", "_segmap", 120),
    ("CodeHeap", "_log2_segment_size", 256),
    ("CompiledMethod", "_method", 112),
    ("CompiledMethod", "_scopes_data_begin", 120),
    ("CompiledMethod", "_deopt_handler_begin", 128),
    ("CompiledMethod", "_deopt_mh_handler_begin", 136),
    ("ConstMethod", "", 48),
    ("ConstMethod", "_constants", 8),
    ("ConstMethod", "_flags", 28),
    ("ConstMethod", "_code_size", 32),
    ("ConstMethod", "_name_index", 34),
    ("ConstantPool", "", 72),
    ("ConstantPool", "_tags", 8),
    ("ConstantPool", "_pool_holder", 24),
    ("ConstantPool", "_length", 60),
    ("ConstantPool", "_source_file_name_index", 54),
    ("GrowableArrayBase", "_len", 0),
    ("GrowableArray<int>", "_data", 8),
    ("HeapBlock", "", 16),
    ("InstanceKlass", "_constants", 232),
    ("Klass", "_name", 24),
    ("Method", "_constMethod", 8),
    ("Method", "_i2i_entry", 56),
    ("PcDesc", "", 16),
    ("PcDesc", "_pc_offset", 0),
    ("PcDesc", "_scope_decode_offset", 4),
    ("Symbol", "_length", 4),
    ("Symbol", "_body", 6),
    ("VirtualSpace", "_low_boundary", 0),
    ("VirtualSpace", "_high_boundary", 8),
    ("nmethod", "_metadata_offset", 260),
    ("nmethod", "_scopes_pcs_offset", 268),
    ("nmethod", "_dependencies_offset", 272),
    ("nmethod", "_orig_pc_offset", 300),
    ("nmethod", "_entry_point", 216),
    ("nmethod", "_verified_entry_point", 224),
    ("Abstract_VM_Version", "_vm_major_version", 0),
    ("VirtualSpace", "_low", 16),
    ("VirtualSpace", "_high", 24),
];

const HEAPS: u64 = DATA;
const DATA: u64 = 0x10_0000;
const CODE: u64 = 0x7f00_0000_0000;
const CODE_SIZE: u64 = 0x10_0000;
const SEGMENT: u64 = 128;
const STACK: u64 = 0x7ffd_0000_0000;
/// DWARF number of the frame pointer.
const RBP: u8 = 6;

/// Bytes of a process; other bytes are 0.
#[derive(Clone, Debug)]
pub(super) struct Process {
    bytes: HashMap<u64, u8>,
    next: u64,
    next_code: u64,
    pool: u64,
    batches: usize,
}

impl Process {
    /// A process with one heap of code, and a class `a/B` of `B.java`.
    pub(super) fn new() -> Self {
        let mut process = Self {
            bytes: HashMap::new(),
            next: DATA + 0x1000,
            next_code: CODE,
            pool: 0,
            batches: 0,
        };
        let (list, heap, map) = (process.take(16), process.take(0x200), process.take(0x4000));
        process.put(HEAPS, list);
        process.write(list, &1_u32.to_le_bytes());
        process.put(list + 8, list + 0x100);
        process.put(list + 0x100, heap);
        process.put(heap + 8, CODE);
        process.put(heap + 16, CODE + CODE_SIZE);
        process.put(heap + 120, map);
        process.write(heap + 256, &7_u32.to_le_bytes());
        process.write(map, &[0xff; (CODE_SIZE / SEGMENT) as usize]);
        let (pool, class, tags) = (
            process.take(0x400),
            process.take(0x200),
            process.take(0x100),
        );
        process.pool = pool;
        process.put(pool + 8, tags);
        process.put(pool + 24, class);
        process.put(class + 232, pool);
        let name = process.symbol("a/B");
        process.put(class + 24, name);
        let file = process.constant("B.java");
        process.write(pool + 54, &file.to_le_bytes());
        process
    }

    fn take(&mut self, len: u64) -> u64 {
        let at = self.next;
        self.next += len.next_multiple_of(0x200);
        at
    }

    fn write(&mut self, avma: u64, bytes: &[u8]) {
        self.bytes.extend((avma..).zip(bytes.iter().copied()));
    }

    pub(super) fn put(&mut self, avma: u64, word: u64) {
        self.write(avma, &word.to_le_bytes());
    }

    pub(super) fn word(&self, avma: u64) -> u64 {
        let byte = |at| self.bytes.get(&at).copied().unwrap_or(0);
        u64::from_le_bytes(std::array::from_fn(|at| byte(avma + at as u64)))
    }

    fn symbol(&mut self, text: &str) -> u64 {
        let at = self.take(8 + text.len() as u64);
        self.write(at + 4, &(text.len() as u16).to_le_bytes());
        self.write(at + 6, text.as_bytes());
        at
    }

    /// Adds a name to the constant pool. Returns its index.
    fn constant(&mut self, text: &str) -> u16 {
        let (symbol, tags) = (self.symbol(text), self.word(self.pool + 8));
        let index = (self.word(self.pool + 56) >> 32).max(1);
        self.put(self.pool + 72 + 8 * index, symbol);
        self.write(tags + 4 + index, &[1]);
        self.write(self.pool + 60, &(index as u32 + 1).to_le_bytes());
        index as u16
    }

    /// Adds a method whose first line has this number, below 64.
    pub(super) fn method(&mut self, name: &str, line: u8) -> u64 {
        let (method, const_method) = (self.take(88), self.take(0x100));
        let index = self.constant(name);
        self.put(method + 8, const_method);
        self.put(const_method + 8, self.pool);
        self.write(const_method + 28, &1_u16.to_le_bytes());
        self.write(const_method + 32, &5_u16.to_le_bytes());
        self.write(const_method + 34, &index.to_le_bytes());
        // Bytecode 0, and the line with its sign.
        self.write(const_method + 48 + 5, &[0xff, 0, 2 * line, 0]);
        method
    }

    /// Adds a blob with 0x400 bytes of code. Returns the start of the code.
    pub(super) fn blob(&mut self, name: &str) -> u64 {
        let block = self.next_code;
        self.next_code += 0x1000;
        let map = self.word(self.word(self.word(self.word(HEAPS) + 8)) + 120);
        for segment in 0..0x1000 / SEGMENT {
            self.write(map + (block - CODE) / SEGMENT + segment, &[segment as u8]);
        }
        let (at, text) = (block + 16, self.take(32));
        self.write(text, name.as_bytes());
        self.write(at + 12, &0x0ff0_u32.to_le_bytes());
        self.put(at + 32, at + 0x200);
        self.put(at + 40, at + 0x600);
        self.put(at + 96, text);
        at + 0x200
    }

    /// Adds compiled code of a method. At each of the offsets, the given chain of methods, outermost
    /// first, is active.
    fn compiled(&mut self, method: u64, pcs: &[(u32, &[u64])]) -> u64 {
        let start = self.blob("nmethod");
        let at = start - 0x200;
        let (metadata, scopes, table) = (0x600, 0x700, 0x800);
        self.put(at + 112, method);
        self.put(at + 120, at + scopes);
        self.put(at + 128, start + 0x3f0);
        self.put(at + 216, start);
        self.put(at + 224, start + 0x20);
        self.write(at + 260, &(metadata as u32).to_le_bytes());
        self.write(at + 268, &(table as u32).to_le_bytes());
        self.write(at + 300, &0x30_u32.to_le_bytes());
        let (mut next_scope, mut next_method) = (1, 0_u8);
        let mut entries = vec![(-1_i32, 0)];
        for (pc, chain) in pcs {
            let mut caller = 0;
            for (depth, method) in chain.iter().enumerate() {
                self.put(at + metadata + 8 * u64::from(next_method), *method);
                next_method += 1;
                // Caller, method, bytecode.
                let scope = [caller, next_method, depth as u8 + 5];
                self.write(at + scopes + u64::from(next_scope), &scope);
                caller = next_scope;
                next_scope += 3;
            }
            entries.push((*pc as i32, u32::from(caller)));
        }
        entries.push((i32::MAX, 0));
        for (number, (pc, scope)) in (0..).zip(&entries) {
            self.write(at + table + 16 * number, &pc.to_le_bytes());
            self.write(at + table + 16 * number + 4, &scope.to_le_bytes());
        }
        let end = table as u32 + 16 * entries.len() as u32;
        self.write(at + 272, &end.to_le_bytes());
        start
    }
}

impl ProcessMemory for Process {
    fn read(&mut self, reads: &mut [MemoryRead]) {
        self.batches += 1;
        for read in reads {
            let end = read.address.wrapping_add(read.bytes.len() as u64);
            read.is_read = (DATA..DATA << 4).contains(&read.address)
                || (CODE..CODE + CODE_SIZE).contains(&read.address);
            for (at, byte) in (read.address..end).zip(&mut read.bytes) {
                *byte = self.bytes.get(&at).copied().unwrap_or(0);
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

/// Frame of generated code with 0x40 bytes of stack, whose frame pointer is 0x30 bytes above its
/// stack pointer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pushed {
    address: u64,
    /// Method in the interpreter's slot.
    method: u64,
    /// Word at the frame pointer.
    original_pc: u64,
}

pub(super) const fn at(address: u64) -> Pushed {
    Pushed {
        address,
        method: 0,
        original_pc: 0,
    }
}

pub(super) fn interpreted(address: u64, method: u64) -> Pushed {
    Pushed {
        method,
        ..at(address)
    }
}

/// Returns the frames, innermost first, above `main`, and their stack.
fn stack_of(pushed: &[Pushed]) -> (Vec<NativeFrame>, Vec<u64>) {
    let (mut frames, mut words) = (Vec::new(), Vec::new());
    for (index, frame) in pushed.iter().chain([&at(0x40_0000)]).enumerate() {
        let sp = STACK + 8 * words.len() as u64;
        let mut registers = Registers::new(Arch::X86_64, frame.address, sp);
        registers.set(RBP, sp + 0x30);
        let kind = match index {
            0 => FrameKind::Sampled,
            _ => FrameKind::Caller,
        };
        frames.push(NativeFrame {
            frame: StackFrame {
                address: frame.address,
                sp,
                slot: 0,
                kind,
                found_by: FoundBy::FramePointer,
            },
            registers,
            code: match index == pushed.len() {
                true => CodeKind::Other,
                false => CodeKind::Generated,
            },
        });
        let caller = pushed
            .get(index + 1)
            .map_or(0x40_0000, |caller| caller.address);
        words.extend([
            0,
            0,
            0,
            frame.method,
            0,
            sp + 0x40,
            frame.original_pc,
            caller,
        ]);
    }
    (frames, words)
}

/// Reader of a process, with all names so far.
pub(super) struct Session {
    hotspot: HotSpotProcess,
    names: KnownNames,
}

pub(super) fn session() -> Session {
    let (hotspot, names) = (reader(), KnownNames::default());
    Session { hotspot, names }
}

fn reader() -> HotSpotProcess {
    let tables: Tables = FIELDS.into_iter().collect();
    let symbols = tables::all_symbols();
    HotSpotProcess {
        image: Arc::new(HotSpotImage {
            exports: Exports::find(&symbols).expect("all symbols"),
        }),
        bias: 0,
        layout: Some(Layout::new(&tables, 17).map(Box::new)),
        code: CodeCache::default(),
        named: FxHashMap::default(),
        reused: None,
        recent: Recent::default(),
    }
}

/// Reads a stack. Returns native frame and name of each function, innermost first.
pub(super) fn read(
    session: &mut Session,
    memory: &mut dyn ProcessMemory,
    pushed: &[Pushed],
    time: u64,
) -> (Vec<(usize, String)>, Found) {
    let (frames, words) = stack_of(pushed);
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let dump = StackDump::new(STACK, &bytes);
    let stack = Stack {
        thread: 1,
        time,
        frames: &frames,
        memory: &dump,
        is_complete: true,
        is_asleep: false,
    };
    let mut found = Found::default();
    let Session { hotspot, names } = session;
    hotspot.read(&stack, memory, names, &mut found);
    let name = |frame: &InterpretedFrame| (frame.native, names.0[frame.address as usize].clone());
    (found.frames.iter().map(name).collect(), found)
}

fn names(functions: &[(usize, String)]) -> Vec<(usize, &str)> {
    functions
        .iter()
        .map(|(native, name)| (*native, &**name))
        .collect()
}

#[test]
fn interpreted_and_compiled_methods_have_names_and_inlined_ones_too() {
    let mut process = Process::new();
    let [f, g, h] = [("f", 3), ("g", 12), ("h", 30)].map(|(name, line)| process.method(name, line));
    let interpreter = process.blob("Interpreter");
    let stub = process.blob("StubRoutines (1)");
    let code = process.compiled(f, &[(0x40, &[f, g, h]), (0x60, &[f, g]), (0x80, &[f])]);
    let pushed = [
        at(code + 0x40),
        interpreted(interpreter + 0x100, h),
        at(code + 0x60),
        at(stub + 8),
    ];
    let (found, counts) = read(&mut session(), &mut process, &pushed, 0);
    let expected = [
        (0, "Java:a.B.h B.java:30"),
        (0, "Java:a.B.g B.java:12"),
        (0, "Java:a.B.f B.java:3"),
        (1, "Java:a.B.h B.java:30"),
        (2, "Java:a.B.g B.java:12"),
        (2, "Java:a.B.f B.java:3"),
        (3, "Java stub: StubRoutines (1)"),
    ];
    assert_eq!(names(&found), expected);
    assert_eq!((counts.proven, counts.unnamed), (6, 0));
}

#[test]
fn inlined_methods_need_a_described_instruction() {
    let mut process = Process::new();
    let [f, g, h] = [("f", 3), ("g", 12), ("h", 30)].map(|(name, line)| process.method(name, line));
    let code = process.compiled(f, &[(0x40, &[f, g, h]), (0x60, &[f, g]), (0x80, &[f])]);
    let mut session = session();
    let mut all = |pushed: Pushed, callee: Option<Pushed>| {
        let stack: Vec<Pushed> = callee.into_iter().chain([pushed]).collect();
        let (found, _) = read(&mut session, &mut process, &stack, 0);
        let method = |name: &String| name.split([' ', '.']).nth(2).map(str::to_owned);
        let methods = found.iter().map(|(_, name)| match name.starts_with('[') {
            true => "?".to_owned(),
            false => method(name).expect("a method"),
        });
        methods.rev().collect::<String>()
    };
    assert_eq!(
        all(at(code + 0x50), None),
        "fg",
        "between g and h inlined in it"
    );
    assert_eq!(all(at(code + 0x70), None), "f");
    assert_eq!(all(at(code + 0x90), None), "f", "behind the last");
    assert_eq!(
        all(at(code + 0x10), None),
        "?",
        "may jump to another method"
    );
    let other = at(0x7f00_4000_0000);
    assert_eq!(all(at(code + 0x60), Some(other)), "fg");
    assert_eq!(all(at(code + 0x61), Some(other)), "f?", "no return address");
    let invalid = Pushed {
        original_pc: code + 0x40,
        ..at(code + 0x3f0)
    };
    assert_eq!(all(invalid, Some(other)), "fgh", "invalid code");
}

#[test]
fn method_that_the_interpreter_enters_is_in_a_register() {
    let mut process = Process::new();
    let (f, g) = (process.method("f", 3), process.method("g", 12));
    let interpreter = process.blob("Interpreter");
    process.put(g + 56, interpreter + 0x80);
    let mut hotspot = reader();
    let mut entered = |address: u64| {
        let (mut frames, words) = stack_of(&[at(address), interpreted(interpreter + 0x300, f)]);
        // The frame pointer is still the caller's.
        let caller = frames[1].registers.frame_pointer().expect("set");
        frames[0].registers.set(RBP, caller);
        frames[0].registers.set(3, g);
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let dump = StackDump::new(STACK, &bytes);
        let stack = Stack {
            thread: 1,
            time: 0,
            frames: &frames,
            memory: &dump,
            is_complete: true,
            is_asleep: false,
        };
        let (mut names, mut found) = (KnownNames::default(), Found::default());
        hotspot.read(&stack, &mut process, &mut names, &mut found);
        found.unnamed
    };
    assert_eq!(entered(interpreter + 0x90), 0);
    assert_eq!(entered(interpreter + 0x70), 1, "another entry");
}

#[test]
fn proofs_are_repeated_and_code_that_was_replaced_is_read_again() {
    let mut process = Process::new();
    let (f, g) = (process.method("f", 3), process.method("g", 12));
    let code = process.compiled(f, &[(0x40, &[f])]);
    let mut session = session();
    let pushed = [at(code + 0x40)];
    let first = |found: &[(usize, String)]| found[0].1.clone();
    let (found, _) = read(&mut session, &mut process, &pushed, 0);
    assert_eq!(first(&found), "Java:a.B.f B.java:3");
    let batches = process.batches;
    read(&mut session, &mut process, &pushed, FRESH - 1);
    assert_eq!(process.batches, batches, "known code takes no read");
    process.put(code - 0x200 + 112, g);
    process.put(code - 0x200 + 0x600, g);
    let (found, _) = read(&mut session, &mut process, &pushed, 2 * FRESH);
    assert_eq!(first(&found), "Java:a.B.g B.java:12");
}

#[test]
fn proofs_of_another_stack_are_renewed_with_a_batch_that_is_due() {
    let mut process = Process::new();
    let [f, g] = [("f", 3), ("g", 12)].map(|(name, line)| process.method(name, line));
    let [one, other] = [f, g].map(|m| at(process.compiled(m, &[(0x40, &[m])]) + 0x40));
    let mut session = session();
    read(&mut session, &mut process, &[one], 0);
    read(&mut session, &mut process, &[other], FRESH / 2);
    let batches = process.batches;
    read(&mut session, &mut process, &[one], FRESH + FRESH / 4);
    assert_eq!(process.batches, batches);
}

#[test]
fn class_that_does_not_lead_back_to_its_names_has_none() {
    let mut process = Process::new();
    let f = process.method("f", 3);
    let code = process.compiled(f, &[(0x40, &[f])]);
    let class = process.word(process.pool + 24);
    process.put(class + 232, process.pool + 8);
    let (found, counts) = read(&mut session(), &mut process, &[at(code + 0x40)], 0);
    assert_eq!(names(&found), [(0, UNNAMED_JAVA)]);
    assert_eq!(counts.unnamed, 1);
}

#[test]
fn code_of_other_generators_gets_no_methods() {
    let mut process = Process::new();
    process.blob("Interpreter");
    let pushed = [at(CODE + CODE_SIZE + 8)];
    let (found, _) = read(&mut session(), &mut process, &pushed, 0);
    assert!(found.is_empty());
}

#[test]
fn code_whose_blob_was_freed_keeps_a_frame() {
    let mut process = Process::new();
    let f = process.method("f", 3);
    let code = process.compiled(f, &[(0x40, &[f])]);
    let (found, _) = read(&mut session(), &mut process, &[at(code + 0x5000)], 0);
    assert_eq!(names(&found), [(0, UNNAMED_JAVA)]);
    // Nothing could be read at all.
    let mut gone = process.clone();
    gone.bytes.clear();
    let (found, _) = read(&mut session(), &mut gone, &[at(code + 0x40)], 0);
    assert_eq!(names(&found), [(0, UNNAMED_JAVA)]);
}

/// Memory of a process in which some bytes are others.
struct Changed {
    process: Process,
    seed: u64,
    share: u64,
    bytes: u64,
    calls: u64,
}

impl ProcessMemory for Changed {
    fn read(&mut self, reads: &mut [MemoryRead]) {
        self.calls += 1;
        self.process.read(reads);
        for read in reads {
            self.bytes += read.bytes.len() as u64;
            for (offset, word) in (0..).step_by(8).zip(read.bytes.chunks_mut(8)) {
                let at = read.address.wrapping_add(offset);
                let mixed = (at ^ self.seed ^ self.calls << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                if mixed >> 32 & 63 < self.share {
                    let lie = match mixed & 3 {
                        0 => mixed >> 8,
                        1 => DATA + (mixed >> 8) % 0x8000,
                        2 => CODE + (mixed >> 8) % CODE_SIZE,
                        _ => (mixed >> 8) % 300,
                    };
                    word.copy_from_slice(&lie.to_le_bytes()[..word.len()]);
                }
            }
        }
    }
}

proptest! {
    /// No memory makes the reader panic, loop, or read without bound.
    #[test]
    fn memory_that_lies_costs_little(seed: u64, share in 0u64..64, is_new: bool) {
        let mut process = Process::new();
        let methods = [("f", 3), ("g", 12)].map(|(name, line)| process.method(name, line));
        let [f, g] = methods;
        let interpreter = process.blob("Interpreter");
        let code = process.compiled(f, &[(0x40, &[f, g]), (0x80, &[f])]);
        let mut session = session();
        if is_new {
            session.hotspot.layout = None;
        }
        let mut memory = Changed { process, seed, share, bytes: 0, calls: 0 };
        for time in 0..8 {
            let address = code + (seed >> (8 * time)) % 0x400;
            let pushed = [
                at(address),
                interpreted(interpreter + 8, if time % 2 == 0 { g } else { seed }),
                at(code + 0x80),
            ];
            (memory.calls, memory.bytes) = (0, 0);
            let (found, _) = read(&mut session, &mut memory, &pushed, time * FRESH);
            prop_assert!(memory.calls < 500, "{} calls", memory.calls);
            prop_assert!(memory.bytes < 16 << 20, "{} bytes", memory.bytes);
            prop_assert!(found.len() < 300);
            prop_assert!(found.iter().all(|(_, name)| name.len() < 4096));
        }
    }
}
