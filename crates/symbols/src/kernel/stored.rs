//! Disk cache of kernel symbols.
//!
//! The kernel takes about 40 ms to print `/proc/kallsyms`, and parsing takes as long again. Between
//! boots, the list changes with modules, which are in the cache key, and with BPF programs,
//! trampolines and probes, which are not. Cached symbols are used only for addresses that cannot
//! belong to them ([`StoredSymbols::is_certain`]).
//!
//! Most runs need few symbols, so the file consists of blocks that are read on demand:
//!
//! ```text
//!   magic | crc32 of the head | its length | head | blocks
//!   head:  text range | key | modules | for each block: first address, length and crc32
//!   block: number of entries | entries, 16 bytes each | names
//! ```
//!
//! A block repeats the first entry of the next, to mark the end of its last one. Byte order is
//! native, and the magic reveals it.

use super::table::{Entry, PAGE, Table};
use super::{KernelSymbol, KernelSymbols};
use rprof_image::loaded_modules;
use rprof_output::PrivateCache;
use rustc_hash::FxHashSet;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

pub(super) const FILE: &str = "kernel-symbols";

/// Maximum length in bytes: ten times the length for a distribution kernel.
const LIMIT: u64 = 64 << 20;

/// Magic number with the format version.
const MAGIC: u64 = u64::from_be_bytes(*b"rprofks2");

const BEFORE: usize = 24;

/// Bytes of the first read, usually enough for the whole head.
const AT_ONCE: usize = 64 << 10;

/// Number of entries, without the one shared with the next block.
const IN_BLOCK: usize = 128;

const ENTRY: usize = 16;

const BLOCK: usize = 16;

/// Cached symbols. Blocks are read on first use.
#[derive(Debug)]
pub(crate) struct StoredSymbols {
    file: File,
    text: Range<u64>,
    modules: Vec<Box<str>>,
    blocks: Vec<StoredBlock>,
    is_damaged: AtomicBool,
}

#[derive(Debug)]
struct StoredBlock {
    start: u64,
    place: Range<u64>,
    crc: u32,
    /// `None` if it is damaged.
    read: OnceLock<Option<Block>>,
}

#[derive(Debug)]
struct Block {
    entries: Vec<Entry>,
    names: String,
}

impl StoredSymbols {
    pub(super) fn open(cache: &PrivateCache, key: &[u8]) -> Option<Self> {
        Self::read(cache.open(FILE).ok()?, key)
    }

    fn read(file: File, key: &[u8]) -> Option<Self> {
        let len = file.metadata().ok()?.len();
        if len > LIMIT {
            return None;
        }
        let mut bytes = vec![0; AT_ONCE.min(usize::try_from(len).ok()?)];
        file.read_exact_at(&mut bytes, 0).ok()?;
        let mut rest = &bytes[..];
        let magic = number(&mut rest)?;
        let crc = number(&mut rest)?;
        let head_len = usize::try_from(number(&mut rest)?).ok()?;
        let end = BEFORE.checked_add(head_len)?;
        if magic != MAGIC || end as u64 > len {
            return None;
        }
        let begun = bytes.len();
        bytes.resize(end, 0);
        if let Some(more) = bytes.get_mut(begun..) {
            file.read_exact_at(more, begun as u64).ok()?;
        }
        let head = &bytes[BEFORE..];
        if u64::from(crc32fast::hash(head)) != crc {
            return None;
        }
        let mut rest = head;
        let text = number(&mut rest)?..number(&mut rest)?;
        if part(&mut rest)? != key {
            return None;
        }
        let modules = str::from_utf8(part(&mut rest)?).ok()?;
        let modules: Vec<Box<str>> = modules.split('\n').map(Into::into).collect();
        let (list, []) = rest.as_chunks::<BLOCK>() else {
            return None;
        };
        let mut at = end as u64;
        let mut blocks: Vec<StoredBlock> = Vec::with_capacity(list.len());
        for bytes in list {
            let mut rest = &bytes[..];
            let start = number(&mut rest)?;
            let (block_len, crc) = halves(number(&mut rest)?);
            let place = at..at.checked_add(u64::from(block_len))?;
            if blocks.last().is_some_and(|before| before.start >= start) {
                return None;
            }
            at = place.end;
            blocks.push(StoredBlock {
                start,
                place,
                crc,
                read: OnceLock::new(),
            });
        }
        let is_sound = !text.is_empty() && at == len;
        is_sound.then_some(Self {
            file,
            text,
            modules,
            blocks,
            is_damaged: AtomicBool::new(false),
        })
    }

    pub(crate) fn text_range(&self) -> Range<u64> {
        self.text.clone()
    }

    pub(super) fn is_damaged(&self) -> bool {
        self.is_damaged.load(Ordering::Relaxed)
    }

    /// Returns the function that covers this AVMA. `None` is reliable only if the address [is
    /// certain](Self::is_certain).
    pub(super) fn lookup(&self, avma: u64) -> Option<KernelSymbol<'_>> {
        self.table_at(avma)?.lookup(avma)
    }

    /// Returns true if a lookup is reliable: the address is in code of the kernel or a module, and
    /// its block is undamaged.
    pub(super) fn is_certain(&self, avma: u64) -> bool {
        let Some(table) = self.table_at(avma) else {
            return false;
        };
        if self.text.contains(&avma) {
            return true;
        }
        let Some(index) = table.index_at(avma) else {
            return false;
        };
        let entry = &table.entries[index];
        // The code of a module is contiguous, and it shares no page with other code.
        let goes_on = |next: &Entry| entry.module != 0 && next.module == entry.module && next.code;
        entry.start / PAGE == avma / PAGE
            || (entry.code && table.entries.get(index + 1).is_some_and(goes_on))
    }

    /// Returns the AVMAs where the result may change, ascending, with duplicates. `None` if a
    /// block is damaged.
    pub(crate) fn bounds(&self) -> Option<Vec<u64>> {
        let mut bounds = Vec::with_capacity(self.blocks.len() * IN_BLOCK * 2);
        for (number, block) in self.blocks.iter().enumerate() {
            let table = self.table(block)?;
            // The last entry of other blocks belongs to the next one.
            let own = match number + 1 < self.blocks.len() {
                true => table.entries.len().saturating_sub(1),
                false => table.entries.len(),
            };
            bounds.extend((0..own).flat_map(|at| [table.entries[at].start, table.end(at)]));
        }
        Some(bounds)
    }

    fn table_at(&self, avma: u64) -> Option<Table<'_>> {
        let after = self.blocks.partition_point(|block| block.start <= avma);
        self.table(self.blocks.get(after.checked_sub(1)?)?)
    }

    fn table<'a>(&'a self, block: &'a StoredBlock) -> Option<Table<'a>> {
        let read = block.read.get_or_init(|| {
            let read = self.read_block(block);
            if read.is_none() {
                self.is_damaged.store(true, Ordering::Relaxed);
            }
            read
        });
        let read = read.as_ref()?;
        Some(Table {
            entries: &read.entries,
            names: &read.names,
            modules: &self.modules,
        })
    }

    fn read_block(&self, block: &StoredBlock) -> Option<Block> {
        let len = usize::try_from(block.place.end - block.place.start).ok()?;
        let mut bytes = vec![0; len];
        self.file
            .read_exact_at(&mut bytes, block.place.start)
            .ok()?;
        if crc32fast::hash(&bytes) != block.crc {
            return None;
        }
        let mut rest = &bytes[..];
        let count = usize::try_from(number(&mut rest)?).ok()?;
        let (entries, names) = rest.split_at_checked(count.checked_mul(ENTRY)?)?;
        let (entries, _) = entries.as_chunks::<ENTRY>();
        let decode = |bytes: &[u8; ENTRY]| {
            let mut rest = &bytes[..];
            let start = number(&mut rest)?;
            let rest = number(&mut rest)?;
            Some(Entry {
                start,
                name: rest as u32,
                module: (rest >> 32) as u16,
                code: rest >> 48 != 0,
            })
        };
        let entries: Vec<Entry> = entries.iter().map(decode).collect::<Option<_>>()?;
        let modules = self.modules.len();
        let is_sound = entries
            .first()
            .is_some_and(|first| first.start == block.start)
            && entries.is_sorted_by(|a, b| a.start < b.start)
            && (entries.iter()).all(|entry| usize::from(entry.module) < modules);
        let names = String::from_utf8(names.to_vec()).ok()?;
        is_sound.then_some(Block { entries, names })
    }
}

/// Encodes the symbols of the kernel and its modules. `None` if the range of the kernel's code is
/// unknown.
pub(super) fn encode(symbols: &KernelSymbols, key: &[u8]) -> Option<Vec<u8>> {
    let text = symbols.text.clone()?;
    let loaded: FxHashSet<Box<str>> = (loaded_modules().into_iter().map(|m| m.name)).collect();
    let is_stored = |entry: &&Entry| match usize::from(entry.module) {
        0 => true,
        module => loaded.contains(&symbols.modules[module]),
    };
    let entries: Vec<&Entry> = symbols.entries.iter().filter(is_stored).collect();
    let mut head = Vec::new();
    head.extend(text.start.to_ne_bytes());
    head.extend(text.end.to_ne_bytes());
    for part in [key, symbols.modules.join("\n").as_bytes()] {
        head.extend((part.len() as u64).to_ne_bytes());
        head.extend(part);
    }
    let mut blocks = Vec::new();
    for first in (0..entries.len()).step_by(IN_BLOCK) {
        let behind = entries.len().min(first + IN_BLOCK + 1);
        let block = encode_block(symbols, &entries[first..behind]);
        let len_and_crc = (block.len() as u64) << 32 | u64::from(crc32fast::hash(&block));
        head.extend(entries[first].start.to_ne_bytes());
        head.extend(len_and_crc.to_ne_bytes());
        blocks.extend(block);
    }
    let mut file = MAGIC.to_ne_bytes().to_vec();
    file.extend(u64::from(crc32fast::hash(&head)).to_ne_bytes());
    file.extend((head.len() as u64).to_ne_bytes());
    file.append(&mut head);
    file.append(&mut blocks);
    Some(file)
}

fn encode_block(symbols: &KernelSymbols, entries: &[&Entry]) -> Vec<u8> {
    let mut names = Vec::new();
    let mut block = (entries.len() as u64).to_ne_bytes().to_vec();
    for entry in entries {
        block.extend(entry.start.to_ne_bytes());
        let module_and_name = u64::from(entry.module) << 32 | names.len() as u64;
        let rest = u64::from(entry.code) << 48 | module_and_name;
        block.extend(rest.to_ne_bytes());
        if entry.code {
            let name = symbols.names.get(entry.name as usize..);
            names.extend(
                name.and_then(|name| name.split('\n').next())
                    .map(str::bytes)
                    .into_iter()
                    .flatten(),
            );
            names.push(b'\n');
        }
    }
    block.append(&mut names);
    block
}

fn halves(number: u64) -> (u32, u32) {
    ((number >> 32) as u32, number as u32)
}

fn number(rest: &mut &[u8]) -> Option<u64> {
    let (number, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(u64::from_ne_bytes(*number))
}

/// Reads a length-prefixed part from the front.
fn part<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(number(rest)?).ok()?;
    let (part, behind) = rest.split_at_checked(length)?;
    *rest = behind;
    Some(part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const LIST: &str = "\
ffffffff81000000 T _text
ffffffff81000010 t first
ffffffff81003000 T _etext
ffffffff81003040 d data
ffffffff81003050 t behind_data
ffffffffc0001000 t bpf_prog_6deef7357e7b4530_sd_devices\t[bpf]
";

    fn parse(list: &str) -> KernelSymbols {
        KernelSymbols::parse(list.as_bytes()).unwrap()
    }

    fn read(bytes: &[u8], key: &[u8]) -> Option<StoredSymbols> {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), bytes).unwrap();
        StoredSymbols::read(file.reopen().unwrap(), key)
    }

    fn stored(symbols: &KernelSymbols) -> StoredSymbols {
        read(&encode(symbols, b"key").unwrap(), b"key").unwrap()
    }

    #[test]
    fn stored_symbols_are_those_that_were_listed() {
        let symbols = parse(LIST);
        let stored = stored(&symbols);
        assert_eq!(Some(stored.text_range()), symbols.text_range());
        for symbol in symbols.iter().filter(|symbol| symbol.module.is_none()) {
            let found = stored.lookup(symbol.start).unwrap();
            // The last symbol ended at the BPF program, which is not stored.
            assert_eq!(found.name, symbol.name);
            assert!(found.name == "behind_data" || found == symbol);
        }
        assert!(read(&encode(&symbols, b"key").unwrap(), b"another").is_none());
    }

    /// A list of many blocks, with data and names of every length at their boundaries.
    fn many() -> KernelSymbols {
        let mut list = String::from("ffffffff81000000 T _text\n");
        for n in 1..2000u64 {
            let kind = if n % 7 == 0 { 'd' } else { 't' };
            let start = 0xffff_ffff_8100_0000 + n * 24 + n % 3;
            list += &format!("{start:016x} {kind} f{}\n", "x".repeat(n as usize % 40));
        }
        list += "ffffffff82000000 T _etext\n";
        parse(&list)
    }

    #[test]
    fn every_block_answers_as_the_whole_list() {
        let symbols = many();
        let stored = stored(&symbols);
        assert_eq!(stored.blocks.len(), 2001usize.div_ceil(IN_BLOCK));
        let is_read = |block: &StoredBlock| block.read.get().is_some();
        assert!(!stored.blocks.iter().any(is_read));
        assert!(stored.lookup(0xffff_ffff_8100_0020).is_some());
        assert_eq!(
            stored.blocks.iter().filter(|block| is_read(block)).count(),
            1
        );
        for avma in (0xffff_ffff_8100_0000..0xffff_ffff_8101_0000).step_by(5) {
            assert!(stored.is_certain(avma));
            assert_eq!(stored.lookup(avma), symbols.lookup(avma), "{avma:#x}");
        }
        assert!(stored.lookup(0xffff_ffff_80ff_ffff).is_none());
        let bounds: Vec<u64> = symbols.bounds().collect();
        assert_eq!(stored.bounds(), Some(bounds));
        assert!(!stored.is_damaged());
    }

    #[test]
    fn they_answer_for_no_address_that_may_be_of_something_else() {
        let symbols = parse(LIST);
        let stored = stored(&symbols);
        assert!(!stored.is_certain(0xffff_ffff_c000_1000));
        for avma in [0xffff_ffff_8100_0018, 0xffff_ffff_8100_2fff] {
            assert!(stored.is_certain(avma), "{avma:#x}");
            assert_eq!(stored.lookup(avma), symbols.lookup(avma));
        }
        assert!(stored.is_certain(0xffff_ffff_8100_3060));
        assert!(!stored.is_certain(0xffff_ffff_8100_4000));
        assert!(!stored.is_certain(0x1000) && !stored.is_certain(u64::MAX));
    }

    #[test]
    fn what_is_damaged_is_not_read() {
        let symbols = parse(LIST);
        let file = encode(&symbols, b"key").unwrap();
        let avma = 0xffff_ffff_8100_0018;
        let answers = |bytes: &[u8]| {
            let stored = read(bytes, b"key")?;
            let answer = stored.lookup(avma).map(|symbol| symbol.name.to_owned());
            assert_eq!(stored.is_certain(avma), answer.is_some());
            assert_eq!(stored.is_damaged(), answer.is_none());
            assert_eq!(stored.bounds().is_some(), answer.is_some());
            answer
        };
        assert_eq!(answers(&file).as_deref(), Some("first"));
        for end in 0..file.len() {
            assert!(read(&file[..end], b"key").is_none(), "{end}");
        }
        for at in 0..file.len() {
            let mut damaged = file.clone();
            damaged[at] ^= 1;
            assert!(answers(&damaged).is_none(), "{at}");
        }
        let mut longer = file;
        longer.push(0);
        assert!(answers(&longer).is_none());
    }

    #[test]
    fn a_damaged_block_does_not_answer() {
        let symbols = many();
        let mut file = encode(&symbols, b"key").unwrap();
        let last = file.len() - 1;
        file[last] ^= 1;
        let stored = read(&file, b"key").unwrap();
        let (first, end) = (0xffff_ffff_8100_0020, 0xffff_ffff_8200_0000 - 1);
        assert!(stored.is_certain(first) && !stored.is_damaged());
        assert!(!stored.is_certain(end) && stored.is_damaged());
        assert!(stored.bounds().is_none());
        assert_eq!(stored.lookup(first), symbols.lookup(first));
    }
}
