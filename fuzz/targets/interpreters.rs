//! Reads stacks of a process whose memory, registers and native stack are the input.
//!
//! Input: a byte for the reader (0 to 6: CPython 3.8 to 3.14, 7: V8, 8: HotSpot), a byte of options
//! (bit 0: other memory is zero instead of unreadable, bit 1: the thread sleeps, bit 2: memory
//! changes between reads), a byte for the number of samples, one for the number of frames, the stack
//! pointer, [the frames](FRAME), then pieces of memory: address, 16-bit length, bytes.

use std::collections::{BTreeMap, HashSet};

use rprof_interpreters::{
    CodeKind, Found, ImageSymbol, ImageSymbols, MemoryRead, Names, NativeFrame, ProcessMemory,
    Stack, runtimes_of,
};
use rprof_unwind::{Arch, FoundBy, FrameKind, Memory, Registers, StackFrame};

/// Bytes of a frame: kind of code, size in words, address, and the values of [`REGISTERS`].
const FRAME: usize = 2 + 8 + 8 * REGISTERS.len();

/// DWARF numbers of rbx, rbp, r12 and r13.
const REGISTERS: [u8; 4] = [3, 6, 12, 13];

/// Nanoseconds between samples: more than a proof of a code object is valid for.
const INTERVAL: u64 = 60_000_000;

/// Maximum numbers of batches, bytes and functions of a sample.
const MAX_BATCHES: u32 = 500;
const MAX_BYTES: usize = 16 << 20;
const MAX_FUNCTIONS: usize = 100_000;

/// Maximum bytes of a name.
const MAX_NAME: usize = 1 << 14;

const BLOCK: u64 = 64;

/// Symbols of the interpreter's image, with their addresses and sizes.
const PYTHON: [(&str, u64, u64); 5] = [
    ("_PyEval_EvalFrameDefault", 0x1000, 0x1000),
    ("PyCode_Type", 0x9000, 8),
    ("PyFrame_Type", 0x9008, 8),
    ("Py_Version", 0xa000, 4),
    ("_PyRuntime", 0xb000, 8),
];

/// Symbols of `libjvm.so`, one word each from address 8 on.
const HOTSPOT: [&str; 10] = [
    "gHotSpotVMStructs",
    "gHotSpotVMStructEntryArrayStride",
    "gHotSpotVMStructEntryTypeNameOffset",
    "gHotSpotVMStructEntryFieldNameOffset",
    "gHotSpotVMStructEntryOffsetOffset",
    "gHotSpotVMStructEntryAddressOffset",
    "gHotSpotVMTypes",
    "gHotSpotVMTypeEntryArrayStride",
    "gHotSpotVMTypeEntryTypeNameOffset",
    "gHotSpotVMTypeEntrySizeOffset",
];

/// Symbols of Node.js 20, 4 bytes each from address 0x100 on.
const V8: [&str; 38] = [
    "_ZN2v88internal7Version6major_E",
    "_ZN2v88internal7Version6minor_E",
    "v8dbg_TaggedSize",
    "v8dbg_SmiShiftSize",
    "v8dbg_off_fp_context",
    "v8dbg_off_fp_function",
    "v8dbg_off_fp_bytecode_array",
    "v8dbg_off_fp_bytecode_offset",
    "v8dbg_class_Map__instance_type__uint16_t",
    "v8dbg_class_JSFunction__shared__SharedFunctionInfo",
    "v8dbg_class_SharedFunctionInfo__name_or_scope_info__Object",
    "v8dbg_class_Script__source__Object",
    "v8dbg_class_Script__name__Object",
    "v8dbg_class_Script__line_ends__Object",
    "v8dbg_class_UncompiledData__inferred_name__String",
    "v8dbg_class_UncompiledData__start_position__int32_t",
    "v8dbg_class_FixedArrayBase__length__SMI",
    "v8dbg_class_FixedArray__data__uintptr_t",
    "v8dbg_class_String__length__int32_t",
    "v8dbg_class_SeqOneByteString__chars__char",
    "v8dbg_class_ConsString__first__String",
    "v8dbg_class_ConsString__second__String",
    "v8dbg_class_ExternalString__resource__Object",
    "v8dbg_class_SlicedString__parent__String",
    "v8dbg_class_SlicedString__offset__SMI",
    "v8dbg_class_ThinString__actual__String",
    "v8dbg_type_JSFunction__JS_FUNCTION_TYPE",
    "v8dbg_type_SharedFunctionInfo__SHARED_FUNCTION_INFO_TYPE",
    "v8dbg_type_Script__SCRIPT_TYPE",
    "v8dbg_type_ScopeInfo__SCOPE_INFO_TYPE",
    "v8dbg_type_BytecodeArray__BYTECODE_ARRAY_TYPE",
    "v8dbg_type_Code__CODE_TYPE",
    "v8dbg_type_InterpreterData__INTERPRETER_DATA_TYPE",
    "v8dbg_type_FixedArray__FIXED_ARRAY_TYPE",
    "v8dbg_type_UncompiledDataWithPreparseData__UNCOMPILED_DATA_WITH_PREPARSE_DATA_TYPE",
    "v8dbg_type_UncompiledDataWithoutPreparseData__UNCOMPILED_DATA_WITHOUT_PREPARSE_DATA_TYPE",
    "v8dbg_FirstNonstringType",
    "v8dbg_CodeKindBaseline",
];

/// Memory of the process, in aligned blocks.
struct Process {
    blocks: BTreeMap<u64, [u8; BLOCK as usize]>,
    is_zero_elsewhere: bool,
    is_fickle: bool,
    /// Time of the sample.
    now: u64,
    batches: u32,
    bytes: usize,
}

impl Process {
    fn add(&mut self, address: u64, bytes: &[u8]) {
        for (at, byte) in (0..).map(|offset| address.wrapping_add(offset)).zip(bytes) {
            let block = self
                .blocks
                .entry(at - at % BLOCK)
                .or_insert([0; BLOCK as usize]);
            block[(at % BLOCK) as usize] = *byte;
        }
    }

    /// Fills a buffer. Returns false if a part is unreadable.
    fn fill(&self, address: u64, into: &mut [u8]) -> bool {
        let Some(end) = address.checked_add(into.len() as u64) else {
            return false;
        };
        into.fill(0);
        let mut found = 0;
        for (start, block) in self.blocks.range(address - address % BLOCK..end) {
            let from = address.max(*start);
            let to = end.min(start.saturating_add(BLOCK));
            let bytes = &block[(from - start) as usize..(to - start) as usize];
            into[(from - address) as usize..][..bytes.len()].copy_from_slice(bytes);
            found += bytes.len();
        }
        found == into.len() || self.is_zero_elsewhere
    }
}

impl ProcessMemory for Process {
    fn read(&mut self, reads: &mut [MemoryRead]) {
        self.batches += 1;
        for read in reads {
            self.bytes += read.bytes.len();
            read.is_read = self.fill(read.address, &mut read.bytes);
            if self.is_fickle
                && self.batches.is_multiple_of(3)
                && let Some(byte) = read.bytes.first_mut()
            {
                *byte ^= 8;
            }
        }
    }

    fn time(&self) -> u64 {
        self.now + u64::from(self.batches)
    }
}

impl Memory for Process {
    fn read_u64(&self, avma: u64) -> Option<u64> {
        let mut word = [0; 8];
        self.fill(avma, &mut word).then(|| u64::from_le_bytes(word))
    }
}

/// Entries of names: equal for equal names.
#[derive(Default)]
struct Addresses(Vec<String>);

impl Names for Addresses {
    fn address_of(&mut self, name: &str) -> Option<u64> {
        assert!(name.len() <= MAX_NAME, "a name of {} bytes", name.len());
        let known = self.0.iter().position(|known| known == name);
        Some(known.unwrap_or_else(|| {
            self.0.push(name.to_owned());
            self.0.len() - 1
        }) as u64)
    }
}

fn symbols(reader: u8) -> (String, ImageSymbols) {
    let symbol = |svma, size| ImageSymbol { svma, size };
    match reader {
        7 => {
            let words = V8.into_iter().zip((0x100..).step_by(4));
            (
                "node".into(),
                words.map(|(name, svma)| (name, symbol(svma, 4))).collect(),
            )
        }
        8 => {
            let words = HOTSPOT.into_iter().zip((8..).step_by(8));
            (
                "libjvm.so".into(),
                words.map(|(name, svma)| (name, symbol(svma, 8))).collect(),
            )
        }
        minor => {
            let all = PYTHON.map(|(name, svma, size)| (name, symbol(svma, size)));
            (format!("python3.{}", minor + 8), all.into_iter().collect())
        }
    }
}

/// Decodes the frames, innermost first. None is in code at the end of memory.
fn frames(bytes: &[u8], mut sp: u64) -> Vec<NativeFrame> {
    let mut frames = Vec::new();
    for (number, bytes) in bytes.chunks_exact(FRAME).enumerate() {
        let word =
            |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| bytes[2 + 8 * at + byte]));
        let address = word(0);
        let kind = if number == 0 {
            FrameKind::Sampled
        } else {
            FrameKind::Caller
        };
        let frame = StackFrame {
            address,
            sp,
            slot: 0,
            kind,
            found_by: FoundBy::Cfi,
        };
        let mut registers = Registers::new(Arch::X86_64, address, sp);
        for (at, number) in REGISTERS.into_iter().enumerate() {
            registers.set(number, word(at + 1));
        }
        let code = match bytes[0] % 3 {
            0 => CodeKind::Image(frame.lookup_address()),
            1 => CodeKind::Generated,
            _ => CodeKind::Other,
        };
        frames.push(NativeFrame {
            frame,
            registers,
            code,
        });
        sp = sp.saturating_add(8 * u64::from(bytes[1]));
    }
    frames
}

pub(crate) fn run(data: &[u8]) {
    let Some((&[reader, options, samples, count], rest)) = data.split_first_chunk() else {
        return;
    };
    let Some((sp, rest)) = rest.split_first_chunk() else {
        return;
    };
    let Some((bytes, mut pieces)) = rest.split_at_checked(FRAME * usize::from(1 + count % 12))
    else {
        return;
    };
    let frames = frames(bytes, u64::from_le_bytes(*sp));
    let mut process = Process {
        blocks: BTreeMap::new(),
        is_zero_elsewhere: options & 1 != 0,
        is_fickle: options & 4 != 0,
        now: 0,
        batches: 0,
        bytes: 0,
    };
    while let Some((address, after)) = pieces.split_first_chunk()
        && let Some((len, after)) = after.split_first_chunk()
    {
        let len = usize::from(u16::from_le_bytes(*len)).min(after.len());
        process.add(u64::from_le_bytes(*address), &after[..len]);
        pieces = &after[len..];
    }
    let (name, symbols) = symbols(reader % 9);
    let image =
        runtimes_of(name.as_bytes()).find_map(|runtime| runtime.image(name.as_bytes(), &symbols));
    let mut interpreter = image.expect("all symbols").process(0);
    let (mut names, mut found, mut watcher) = (Addresses::default(), Found::default(), None);
    let stack = Process {
        blocks: process.blocks.clone(),
        ..process
    };
    for number in 0..u64::from(samples % 16 + 1) {
        process.now = INTERVAL * number;
        let stack = Stack {
            thread: number % 2,
            time: process.now,
            frames: &frames,
            memory: &stack,
            is_complete: true,
            is_asleep: options & 2 != 0,
        };
        (process.batches, process.bytes) = (0, 0);
        found.clear();
        interpreter.read(&stack, &mut process, &mut names, &mut found);
        watcher = interpreter.take_watcher().or(watcher);
        if let Some(watcher) = &mut watcher {
            watcher.look(&mut process);
        }
        assert!(process.batches < MAX_BATCHES, "{} batches", process.batches);
        assert!(process.bytes < MAX_BYTES, "{} bytes", process.bytes);
        assert!(
            found.frames.len() < MAX_FUNCTIONS,
            "{} functions",
            found.frames.len()
        );
        let natives: Vec<usize> = found.frames.iter().map(|frame| frame.native).collect();
        assert!(natives.is_sorted() && natives.iter().all(|at| *at < frames.len()));
    }
    let distinct: HashSet<&String> = names.0.iter().collect();
    assert_eq!(distinct.len(), names.0.len());
}
