//! [`Codes`]: code objects of a process, with their names.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};

use super::births::Births;
use super::layout::{Bytecode, CODE_BYTES, Layout};
use super::text::{TEXT_BYTES, begins_thread, is_shim, missing_bytes, text};
use crate::{MemoryRead, Names, ProcessMemory};

/// Maximum number of code objects. At the limit all are forgotten, and read again on demand.
const MAX_CODES: usize = 1 << 16;

/// Maximum length of a function's instructions in bytes.
const MAX_BYTECODE: u64 = 64 << 20;

/// Age in nanoseconds from which a code object is expected to stay: one of a module or a class, not
/// of an `exec`.
pub(super) const SETTLED: u64 = 250_000_000;

/// Validity in nanoseconds of the last proof of a settled code object.
const FRESH: u64 = 50_000_000;

/// Nanoseconds for which an address without a code object is not read again. The time doubles with
/// each such read up to the maximum: frames of returned functions leave many such addresses.
const ABSENT: u64 = 20_000_000;
const MAX_ABSENT: u64 = 640_000_000;

/// Maximum number of references, which immortal objects have.
const MAX_REFERENCES: u64 = u32::MAX as u64;

/// The references in the first word of any object. 3.14 has flags above them.
const REFERENCES: u64 = (1 << 48) - 1;

/// `ob_type` of any object.
pub(super) const TYPE: usize = 8;

/// `ob_size` of any object with a variable length.
const SIZE: usize = 16;

/// `CO_GENERATOR`, `CO_COROUTINE` and `CO_ASYNC_GENERATOR` of `co_flags`.
const GENERATOR: u32 = 0x20 | 0x80 | 0x200;

/// Bytes of instructions that are searched for it.
const PROLOGUE: usize = 128;

/// Contents of a bytes object.
const BYTES_DATA: u64 = 32;

/// Code objects by address.
#[derive(Debug)]
pub(super) struct Codes {
    layout: Layout,
    /// Address of the type object of code objects.
    code_type: u64,
    known: FxHashMap<u64, Code>,
    /// Code objects by the start of their instructions.
    ranges: BTreeMap<u64, u64>,
    /// Starts of instructions of several code objects. Before 3.11, equal functions of a module
    /// have the same bytes object.
    shared: FxHashSet<u64>,
    /// Addresses of former code objects.
    reused: FxHashSet<u64>,
    absent: FxHashMap<u64, Absent>,
    births: Births,
    /// Number of code objects read.
    count: u64,
    /// Time of the current sample.
    time: u64,
}

/// Address without a code object.
#[derive(Clone, Copy, Debug)]
struct Absent {
    /// Time of the last read.
    read: u64,
    /// Nanoseconds until the next one.
    wait: u64,
}

#[derive(Clone, Copy, Debug)]
struct Code {
    identity: Identity,
    start: u64,
    end: u64,
    is_generator: bool,
    /// Behind the instruction that makes the generator, if known.
    made: Option<u64>,
    /// Callchain entry. `None` if the name could not be read.
    name: Option<u64>,
    /// True for a frame that [no function](is_shim) has.
    is_shim: bool,
    /// True for functions that [begin or end](begins_thread) a thread.
    begins_thread: bool,
    /// Time since when it exists at the latest, and of the last read that found it unchanged.
    first: u64,
    proven: u64,
    /// True if another code object had the address before. Then further ones may follow.
    is_reused: bool,
    /// Number of code objects that were read before.
    number: u64,
}

impl Code {
    /// Returns true if the code object was at its address at this time: reads before and after
    /// found it, or many did before.
    const fn is_proven(&self, time: u64) -> bool {
        let is_settled = self.proven.saturating_sub(self.first) >= SETTLED;
        let is_around = self.first < time && self.proven >= time;
        match self.is_reused {
            // A version tells it from equal ones that `exec` made at the same address meanwhile.
            true => is_around && (is_settled || self.identity.version != 0),
            false => is_around || is_settled && time.saturating_sub(self.proven) < FRESH,
        }
    }
}

/// Fields that tell a code object from another one at the same address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    size: u64,
    file: u64,
    name: u64,
    first_line: u32,
    flags: u32,
    /// Number of words of a frame; 0 without a data stack.
    frame_words: u64,
    /// The bytes object with the instructions.
    bytes: u64,
    consts: u64,
    version: u32,
}

impl Codes {
    pub(super) fn new(layout: Layout, code_type: u64) -> Self {
        Self {
            layout,
            code_type,
            known: FxHashMap::default(),
            ranges: BTreeMap::new(),
            shared: FxHashSet::default(),
            reused: FxHashSet::default(),
            absent: FxHashMap::default(),
            births: Births::default(),
            count: 0,
            time: 0,
        }
    }

    /// Uses other offsets from now on.
    pub(super) const fn set_layout(&mut self, layout: Layout) {
        self.layout = layout;
    }

    /// Begins a sample of this time.
    pub(super) fn begin_sample(&mut self, time: u64) {
        self.time = time;
        if self.known.len() > MAX_CODES {
            self.known.clear();
            self.ranges.clear();
            self.shared.clear();
        }
    }

    /// Returns reads that prove or find these code objects, as far as the last read is too old.
    pub(super) fn reads(&self, codes: &[u64]) -> Vec<MemoryRead> {
        let is_due = |code: &u64| match self.known.get(code) {
            Some(known) => !known.is_proven(self.time),
            None => !self.is_absent(*code),
        };
        let mut due: Vec<u64> = codes.iter().copied().filter(is_due).collect();
        due.sort_unstable();
        due.dedup();
        let reads = due.into_iter().filter(|code| is_pointer(*code));
        reads
            .map(|code| MemoryRead::new(code, CODE_BYTES))
            .collect()
    }

    /// Takes in [`reads`](Self::reads) that were completed at a time, and reads the names of new
    /// code objects. A read that was not made, as on a busy machine, says nothing about a known one.
    pub(super) fn take_in(
        &mut self,
        reads: &[MemoryRead],
        time: u64,
        memory: &mut dyn ProcessMemory,
        names: &mut dyn Names,
    ) {
        let mut new = Vec::new();
        // Without a clock, the reads are after the sample.
        let proven = if time == 0 { self.time } else { time };
        for read in reads {
            let identity = self.identity(read);
            if let Some(identity) = identity {
                self.births.add(proven, identity.version);
            }
            let known = self.known.get_mut(&read.address);
            match (known, identity) {
                (Some(known), Some(identity)) if known.identity == identity => {
                    known.proven = known.proven.max(proven);
                }
                (_, Some(identity)) => {
                    self.forget(read.address);
                    new.push((read.address, identity));
                }
                (Some(_), None) if !read.is_read => {}
                (_, None) => {
                    self.forget(read.address);
                    self.note_absent(read.address, proven);
                }
            }
        }
        if !new.is_empty() {
            self.read_names(&new, proven, memory, names);
        }
    }

    fn identity(&self, read: &MemoryRead) -> Option<Identity> {
        let layout = &self.layout.code;
        if !self.is_header(read, 0) {
            return None;
        }
        let identity = Identity {
            size: read.u64(SIZE)?,
            file: read.u64(layout.file)?,
            name: read.u64(layout.name)?,
            first_line: read.u32(layout.first_line)?,
            flags: read.u32(layout.flags)?,
            frame_words: layout.frame_words.of(read)?,
            bytes: match layout.bytes {
                Bytecode::Inside(_) => 0,
                Bytecode::Object(at) => read.u64(at)?,
            },
            consts: read.u64(layout.consts)?,
            version: layout.version.map_or(Some(0), |at| read.u32(at))?,
        };
        Some(match layout.bytes {
            Bytecode::Inside(_) => identity,
            // Code objects had a fixed size: no `ob_size`.
            Bytecode::Object(_) => Identity {
                size: 0,
                ..identity
            },
        })
    }

    fn forget(&mut self, code: u64) {
        if let Some(known) = self.known.remove(&code) {
            if self.ranges.get(&known.start) == Some(&code) {
                self.ranges.remove(&known.start);
            }
            self.note_reused(code);
        }
    }

    /// Returns true if there was no code object a moment ago. One may have been made meanwhile.
    fn is_absent(&self, address: u64) -> bool {
        let absent = self.absent.get(&address);
        absent.is_some_and(|absent| self.time < absent.read.saturating_add(absent.wait))
    }

    /// Has an address without a code object not read again for a while.
    pub(super) fn note_absent(&mut self, address: u64, read: u64) {
        if self.absent.len() >= MAX_CODES {
            self.absent.clear();
        }
        let absent = self.absent.entry(address).or_insert(Absent {
            read,
            wait: ABSENT / 2,
        });
        absent.read = absent.read.max(read);
        absent.wait = (2 * absent.wait).min(MAX_ABSENT);
    }

    fn note_reused(&mut self, code: u64) {
        if self.reused.len() >= MAX_CODES {
            self.reused.clear();
        }
        self.reused.insert(code);
    }

    fn read_names(
        &mut self,
        new: &[(u64, Identity)],
        proven: u64,
        memory: &mut dyn ProcessMemory,
        names: &mut dyn Names,
    ) {
        let mut reads = Vec::with_capacity(4 * new.len());
        for (code, identity) in new {
            reads.push(MemoryRead::new(identity.name, TEXT_BYTES));
            reads.push(MemoryRead::new(identity.file, TEXT_BYTES));
            reads.push(match self.layout.code.bytes {
                Bytecode::Inside(_) => MemoryRead::new(self.start(*code, identity), PROLOGUE),
                Bytecode::Object(_) => MemoryRead::new(identity.bytes, BYTES_DATA as usize),
            });
        }
        // It may have been freed since the read that found it. Then its names are others.
        reads.extend(
            new.iter()
                .map(|(code, _)| MemoryRead::new(*code, CODE_BYTES)),
        );
        memory.read(&mut reads);
        let again = reads.split_off(3 * new.len());
        // Strings that are longer, or that end shortly before unmapped memory.
        let missing = |read: &MemoryRead| match read.get() {
            Some(bytes) => missing_bytes(bytes),
            None => Some(96),
        };
        let is_text = |at: usize| at % 3 < 2;
        let mut longer: Vec<(usize, MemoryRead)> = (reads.iter().enumerate())
            .filter(|(at, read)| is_text(*at) && is_pointer(read.address))
            .filter_map(|(at, read)| Some((at, MemoryRead::new(read.address, missing(read)?))))
            .collect();
        if !longer.is_empty() {
            let mut second: Vec<MemoryRead> =
                longer.iter_mut().map(|(_, read)| read.clone()).collect();
            memory.read(&mut second);
            for ((at, _), read) in longer.iter().zip(second) {
                if let (Some(old), true) = (reads.get_mut(*at), read.is_read) {
                    *old = read;
                }
            }
        }
        let texts = reads.as_chunks::<3>().0.iter();
        for ((code, identity), (read, again)) in new.iter().zip(texts.zip(&again)) {
            if self.identity(again) != Some(*identity) {
                if again.is_read {
                    self.note_reused(*code);
                }
                continue;
            }
            let [name, file, bytes] = read;
            let start = self.start(*code, identity);
            let len = match self.layout.code.bytes {
                Bytecode::Inside(_) => identity.size.checked_mul(2),
                Bytecode::Object(_) => bytes.u64(SIZE),
            };
            let Some(len) = len else {
                continue;
            };
            let instructions = bytes.get().unwrap_or_default().as_chunks::<2>().0;
            let made = (instructions.iter())
                .position(|[opcode, _]| Some(*opcode) == self.layout.return_generator)
                .and_then(|at| start.checked_add(2 * at as u64 + 2));
            let Some(end) = start.checked_add(len).filter(|_| len <= MAX_BYTECODE) else {
                continue;
            };
            let old = self.ranges.get(&start);
            if old.is_some_and(|old| old != code) && self.shared.len() < MAX_CODES {
                self.shared.insert(start);
            }
            let line = identity.first_line.cast_signed();
            let text = |read: &MemoryRead| text(read.get()?, &self.layout);
            let texts = text(name).zip(text(file));
            let is_shim = line == 0 && texts.as_ref().is_some_and(is_shim);
            let begins_thread = texts.as_ref().is_some_and(begins_thread);
            let name = texts.and_then(|(name, file)| {
                let name = format!("py::{name}:{file}:{line}");
                names.address_of(&name)
            });
            let known = Code {
                identity: *identity,
                start,
                end,
                is_generator: identity.flags & GENERATOR != 0,
                made,
                name,
                is_shim,
                begins_thread,
                first: self
                    .births
                    .before(identity.version)
                    .unwrap_or(proven)
                    .min(proven),
                proven,
                is_reused: self.reused.contains(code),
                number: self.count,
            };
            self.count += 1;
            self.absent.remove(code);
            self.known.insert(*code, known);
            self.ranges.insert(start, *code);
        }
    }

    fn start(&self, code: u64, identity: &Identity) -> u64 {
        match self.layout.code.bytes {
            Bytecode::Inside(at) => code.wrapping_add(at as u64),
            Bytecode::Object(_) => identity.bytes.wrapping_add(BYTES_DATA),
        }
    }

    /// Returns true if a word is the start of a code object's instructions, not the next one.
    pub(super) fn is_start(&self, code: u64, word: u64) -> bool {
        self.known
            .get(&code)
            .is_some_and(|known| known.start == word)
    }

    /// Returns the code object with this instruction pointer, if known: it may point behind the
    /// last instruction.
    pub(super) fn at(&self, instruction: u64) -> Option<u64> {
        // Most words are no pointers.
        if instruction.wrapping_sub(1 << 12) >= 1 << 52 || !instruction.is_multiple_of(2) {
            return None;
        }
        let (_, code) = self.ranges.range(..=instruction).next_back()?;
        let known = self.known.get(code)?;
        (instruction <= known.end).then_some(*code)
    }

    /// Returns true if the code object around this word is unknown, although the word may be the
    /// address of an instruction in one.
    pub(super) fn wants_search(&self, word: u64) -> bool {
        let is_inside = matches!(self.layout.code.bytes, Bytecode::Inside(_));
        let is_pointer = is_pointer(word - word % 8) && word.is_multiple_of(2);
        is_inside && is_pointer && self.at(word).is_none() && !self.is_absent(word)
    }

    /// Returns true if the object at this offset of a read may be a code object.
    pub(super) fn is_header(&self, read: &MemoryRead, offset: usize) -> bool {
        read.u64(offset + TYPE) == Some(self.code_type)
            && read.u64(offset).is_some_and(is_count_of_references)
    }

    /// Returns true if the instructions of a code object with this header contain an address.
    pub(super) fn may_contain(&self, read: &MemoryRead, offset: usize, address: u64) -> bool {
        let Bytecode::Inside(first) = self.layout.code.bytes else {
            return false;
        };
        let start = read.address.wrapping_add((offset + first) as u64);
        let len = read.u64(offset + SIZE).and_then(|size| size.checked_mul(2));
        let distance = address.checked_sub(start).filter(|at| *at <= MAX_BYTECODE);
        distance
            .zip(len)
            .is_some_and(|(distance, len)| distance <= len)
    }

    /// Returns the code object with the instructions of `code` that a frame has. `None` if several
    /// have them, and the frame has another one meanwhile.
    pub(super) fn of_frame(&self, code: u64, in_frame: Option<u64>) -> Option<u64> {
        let start = self.known.get(&code)?.start;
        let has_them = |code: &u64| self.is_start(*code, start);
        let is_only = !self.shared.contains(&start);
        in_frame.filter(has_them).or(is_only.then_some(code))
    }

    /// Returns true if the code object is proven for the current sample.
    pub(super) fn is_proven(&self, code: u64) -> bool {
        let known = self.known.get(&code);
        known.is_some_and(|known| known.is_proven(self.time))
    }

    /// Returns true if the code object was read since the current sample.
    pub(super) fn is_known(&self, code: u64) -> bool {
        let known = self.known.get(&code);
        known.is_some_and(|known| known.proven >= self.time)
    }

    /// Returns true if the code object is proven for an earlier time.
    pub(super) fn was_proven(&self, code: u64, time: u64) -> bool {
        let known = self.known.get(&code);
        known.is_some_and(|known| known.is_proven(time.min(self.time)))
    }

    /// Returns a number that no other code object has, also not a later one at the same address.
    pub(super) fn number(&self, code: u64) -> u64 {
        self.known.get(&code).map_or(u64::MAX, |known| known.number)
    }

    /// Returns true if a frame with this next instruction is part of a generator, and not the one
    /// that makes it.
    pub(super) fn is_made(&self, code: u64, next: u64) -> bool {
        let known = self.known.get(&code).filter(|known| known.is_generator);
        known
            .and_then(|known| known.made)
            .is_some_and(|made| next > made && next <= self.end(code))
    }

    fn end(&self, code: u64) -> u64 {
        self.known.get(&code).map_or(0, |known| known.end)
    }

    /// Returns true for a generator or coroutine: its frame is part of an object.
    pub(super) fn is_generator(&self, code: u64) -> bool {
        (self.known.get(&code)).is_some_and(|known| known.is_generator)
    }

    /// Returns the address behind the frame of a function in the data stack. `None` for generators,
    /// since most of their frames are elsewhere.
    pub(super) fn frame_end(&self, code: u64, frame: u64) -> Option<u64> {
        let known = self.known.get(&code).filter(|known| !known.is_generator)?;
        let bytes = known.identity.frame_words.checked_mul(8)?;
        frame.checked_add(bytes).filter(|end| *end > frame)
    }

    /// Returns true if a code object belongs to no function of the program.
    pub(super) fn is_shim(&self, code: u64) -> bool {
        self.known.get(&code).is_some_and(|known| known.is_shim)
    }

    /// Returns true for a function that runs before or after a thread's own function.
    pub(super) fn begins_thread(&self, code: u64) -> bool {
        (self.known.get(&code)).is_some_and(|known| known.begins_thread)
    }

    /// Returns the callchain entry of a code object's name.
    pub(super) fn name(&self, code: u64) -> Option<u64> {
        self.known.get(&code)?.name
    }
}

/// A freed object keeps its type, but has a link in place of its references.
fn is_count_of_references(word: u64) -> bool {
    (1..=MAX_REFERENCES).contains(&(word & REFERENCES))
}

/// Returns true if a word may be the address of an object.
pub(super) const fn is_pointer(word: u64) -> bool {
    word >= 1 << 12 && word < 1 << 52 && word.is_multiple_of(8)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: u64 = 0x10_0000;
    const CODE_TYPE: u64 = 0x20_0000;

    /// Code objects at [`CODE`], with the same text at all other addresses.
    struct Process {
        /// Instructions of the code object, which tell it from others.
        size: u64,
        /// True if reads come too late.
        is_late: bool,
    }

    impl ProcessMemory for Process {
        fn read(&mut self, reads: &mut [MemoryRead]) {
            for read in reads {
                read.is_read = !self.is_late;
                if self.is_late {
                    read.bytes.clear();
                    continue;
                }
                let words = match read.address {
                    CODE => [1, CODE_TYPE, self.size],
                    _ => [1, CODE_TYPE, 0],
                };
                let bytes = words.iter().flat_map(|word| word.to_le_bytes());
                read.bytes
                    .iter_mut()
                    .zip(bytes)
                    .for_each(|(to, byte)| *to = byte);
            }
        }
    }

    struct NoNames;

    impl Names for NoNames {
        fn address_of(&mut self, _: &str) -> Option<u64> {
            None
        }
    }

    #[test]
    fn code_objects_whose_reads_come_too_late_stay_known() {
        let mut codes = Codes::new(Layout::of(11).unwrap(), CODE_TYPE);
        let mut process = Process {
            size: 7,
            is_late: false,
        };
        let mut prove = |process: &mut Process, time: u64| {
            codes.begin_sample(time);
            let mut reads = codes.reads(&[CODE]);
            let is_due = !reads.is_empty();
            process.read(&mut reads);
            codes.take_in(&reads, time + 1, process, &mut NoNames);
            (is_due, codes.is_proven(CODE), codes.number(CODE))
        };
        let first = prove(&mut process, 0);
        assert_eq!(first, (true, false, 0));
        assert_eq!(prove(&mut process, SETTLED), (true, true, 0));
        let later = SETTLED + FRESH;
        process.is_late = true;
        assert_eq!(prove(&mut process, later + 2), (true, false, 0), "late");
        process.is_late = false;
        assert_eq!(prove(&mut process, later + 3), (true, true, 0));
        // Settled code objects need no read for each sample, unless their address had another one.
        assert_eq!(prove(&mut process, later + 5), (false, true, 0));
        process.size = 8;
        let another = prove(&mut process, 2 * later);
        assert_eq!(another, (true, false, 1));
        assert_eq!(prove(&mut process, 2 * later + 9), (true, false, 1));
    }
}
