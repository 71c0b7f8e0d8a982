//! [`BlobCache`]: finds headers of HotSpot's code in memory.

use super::is_return_barrier;
use crate::code::LEN;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

pub(crate) const MAX_FRAME: u64 = 16 << 20;
/// Maximum distance in bytes of code from its header. Most code has less.
const MAX_DISTANCE: u64 = 256 << 10;
/// Maximum bytes of a blob in JDK 25.
const MAX_BLOB: u64 = 64 << 20;
const PAGE: u64 = 4096;
const HEADER: usize = 112;
/// Maximum number of header bytes that stay constant while the code exists.
const UNCHANGING: usize = 92;
/// Number of header bytes of JDK 25 that stay constant.
const UNCHANGING_OFFSETS: usize = 60;
/// Kinds of code in JDK 25: the safepoint handler's, and the last one.
const SAFEPOINT: u8 = 8;
const MAX_KIND: u8 = 11;
const MAX_KEPT: usize = 4096;
/// After this number of failed searches a process counts as non-Java: only one stack in 64 is
/// searched.
const MAX_MISSES: usize = 8;

/// Offsets of fields in a header with pointers.
#[derive(Debug, Clone, Copy)]
struct HeaderLayout {
    /// Size, size of the header, end of the prologue, data and frame: five numbers of 32 bits.
    sizes: usize,
    /// Start and end of the code, content, end of the data, relocations: six words.
    addresses: usize,
    /// The name. JDK 11 has another word before it than JDK 17.
    names: [usize; 2],
}

/// Layouts of JDK 9 to 19, and of JDK 20 to 22.
const LAYOUTS: [HeaderLayout; 2] = [
    HeaderLayout {
        sizes: 12,
        addresses: 32,
        names: [96, 104],
    },
    HeaderLayout {
        sizes: 72,
        addresses: 8,
        names: [64, 64],
    },
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Blob {
    pub(super) code_start: u64,
    pub(super) code_end: u64,
    /// First instruction after the prologue.
    pub(super) complete: u64,
    /// Size in bytes, with return address and saved frame pointer; 0 for none.
    pub(super) frame: u64,
    pub(super) is_interpreter: bool,
    /// True for the safepoint handler, entered by a signal at a loop's poll.
    pub(super) is_safepoint: bool,
    /// True for a header of JDK 22 or earlier.
    has_pointers: bool,
}

/// Blobs found in one process or for one stack.
#[derive(Debug, Clone, Default)]
pub(crate) struct BlobCache {
    /// Blobs by start address of their code.
    found: RefCell<BTreeMap<u64, KnownBlob>>,
    /// Failed searches, for this stack and in total.
    misses: Cell<(usize, usize)>,
    stack: Cell<usize>,
    runs_erlang: Cell<bool>,
}

#[derive(Debug, Clone, Copy)]
struct KnownBlob {
    blob: Blob,
    at: u64,
    header: [u8; UNCHANGING],
    /// Number of bytes of it that stay constant.
    unchanging: usize,
    /// Number of the stack that last verified the header.
    stack: usize,
}

impl BlobCache {
    /// Starts the next stack. Cached blobs are verified again before use.
    pub(crate) fn begin_stack(&self) {
        self.stack.set(self.stack.get().wrapping_add(1));
        self.misses.set((0, self.misses.get().1));
        let mut found = self.found.borrow_mut();
        if found.len() > MAX_KEPT {
            found.clear();
        }
    }

    pub(crate) fn set_runs_erlang(&self) {
        self.runs_erlang.set(true);
    }

    pub(crate) fn runs_erlang(&self) -> bool {
        self.runs_erlang.get()
    }

    pub(crate) fn is_used(&self) -> bool {
        self.runs_erlang.get() || self.misses.get().1 > 0 || !self.found.borrow().is_empty()
    }

    pub(super) fn has(&self, avma: u64) -> bool {
        let found = self.found.borrow();
        let below = found.range(..=avma).next_back();
        below.is_some_and(|(_, known)| avma < known.blob.code_end)
    }

    /// Returns the blob with this address. A cached blob is valid if its header is unchanged or its
    /// memory has become unreadable. `read` copies memory.
    pub(super) fn find(&self, avma: u64, read: impl Fn(u64, &mut [u8]) -> usize) -> Option<Blob> {
        let mut found = self.found.borrow_mut();
        let below = found.range_mut(..=avma).next_back();
        if let Some((&start, known)) = below.filter(|(_, known)| avma < known.blob.code_end) {
            let mut now = [0; UNCHANGING];
            let is_same = known.stack == self.stack.get()
                || read(known.at, &mut now) < now.len()
                || now.get(..known.unchanging) == known.header.get(..known.unchanging);
            if is_same {
                known.stack = self.stack.get();
                return Some(known.blob);
            }
            found.remove(&start);
        }
        // Code of other runtimes has no headers, and searching for them is slow.
        let (misses, all) = self.misses.get();
        let is_other = found.is_empty() && all > MAX_MISSES && !self.stack.get().is_multiple_of(64);
        if is_other || misses > found.len() {
            return None;
        }
        let Some((blob, at, header)) = search(avma, read) else {
            self.misses.set((misses + 1, all.saturating_add(1)));
            return None;
        };
        let stack = self.stack.get();
        let known = KnownBlob {
            blob,
            at,
            header,
            unchanging: match blob.has_pointers {
                true => UNCHANGING,
                false => UNCHANGING_OFFSETS,
            },
            stack,
        };
        found.insert(blob.code_start, known);
        Some(blob)
    }

    /// Returns true for return addresses without a preceding call: in the interpreter, the
    /// deoptimization handler (`SharedRuntime::deopt_blob`), and the barrier of virtual threads.
    pub(crate) fn is_return(&self, avma: u64, read: impl Fn(u64, &mut [u8]) -> usize) -> bool {
        let Some(blob) = self.find(avma, &read) else {
            return false;
        };
        let mut code = [0; LEN];
        let len = read(avma, &mut code);
        let code = code.get(..len).unwrap_or_default();
        blob.is_interpreter
            || is_return_barrier(code)
            || (blob.frame != 0 && is_deoptimization(code))
    }
}

/// The deoptimization handler pushes its own address, by calling the next instruction (C2) or as a
/// constant (C1), and jumps.
fn is_deoptimization(code: &[u8]) -> bool {
    matches!(
        code,
        [0xe8, 0, 0, 0, 0, 0x48, 0x83, 0x2c, 0x24, 5, 0xe9, ..]
            | [0x49, 0xba, _, _, _, _, _, _, _, _, 0x41, 0x52, 0xe9, ..]
    )
}

fn search(
    avma: u64,
    read: impl Fn(u64, &mut [u8]) -> usize,
) -> Option<(Blob, u64, [u8; UNCHANGING])> {
    let mut end = avma & !15;
    let floor = avma.saturating_sub(MAX_DISTANCE);
    let mut bytes = Vec::new();
    let mut size = PAGE;
    while end > floor {
        let start = end.saturating_sub(size) & !(PAGE - 1);
        let len = usize::try_from(end - start).ok()? + HEADER;
        bytes.resize(len, 0);
        if read(start, &mut bytes) < len - HEADER {
            if size == PAGE {
                return None;
            }
            size = PAGE;
            continue;
        }
        for at in (0..len - HEADER).step_by(8).rev() {
            let header: &[u8; HEADER] = bytes.get(at..).and_then(<[u8]>::first_chunk)?;
            let avma_of = start + at as u64;
            if let Some(blob) = parse(avma_of, header, avma, &read) {
                return Some((blob, avma_of, *header.first_chunk()?));
            }
        }
        end = start;
        size = 4 * PAGE;
    }
    None
}

/// Parses a header. `None` if it is invalid or its code does not contain `avma`.
fn parse(
    at: u64,
    header: &[u8; HEADER],
    avma: u64,
    read: impl Fn(u64, &mut [u8]) -> usize,
) -> Option<Blob> {
    let mut layouts = LAYOUTS.iter();
    // Headers with pointers are aligned to 16 bytes.
    let of_pointers = || layouts.find_map(|layout| parse_layout(layout, at, header, avma, &read));
    let blob = at.is_multiple_of(16).then(of_pointers).flatten();
    blob.or_else(|| parse_offsets(at, header, avma, &read))
}

/// Parses a header of JDK 25. Its numbers have these offsets: size 24, relocations 28, content 32,
/// code 36, data 40, frame 44, data elsewhere 48 (32 bits each), size of the header 52, end of the
/// prologue 54 (16 bits each), kind 56 (a byte).
fn parse_offsets(
    at: u64,
    header: &[u8; HEADER],
    avma: u64,
    read: impl Fn(u64, &mut [u8]) -> usize,
) -> Option<Blob> {
    let int = |offset: usize| -> Option<i32> {
        let bytes = header.get(offset..)?.first_chunk()?;
        Some(i32::from_le_bytes(*bytes))
    };
    let bytes = |offset| u64::try_from(int(offset)?).ok();
    let word = |offset: usize| -> Option<u64> {
        let bytes = header.get(offset..)?.first_chunk()?;
        Some(u64::from_le_bytes(*bytes))
    };
    let (size, content, code, data) = (bytes(24)?, bytes(32)?, bytes(36)?, bytes(40)?);
    let within = avma.checked_sub(at)?;
    if !(code..data).contains(&within) {
        return None;
    }
    let (frame, elsewhere) = (int(44)?, bytes(48)?);
    let (header_size, complete) = (int(52)? as u16, (int(52)? >> 16) as i16);
    let header_size = u64::from(header_size);
    let (maps, name, mutable) = (word(0)?, word(8)?, word(16)?);
    let fits = (64..=1024).contains(&header_size)
        && header_size <= content
        && content <= code
        && data <= size
        && at.wrapping_add(content).is_multiple_of(16)
        && (1..=MAX_KIND).contains(header.get(56)?)
        && bytes(28)? <= elsewhere
        // Without data elsewhere, the pointer leads behind the code as it was first allocated.
        && (elsewhere > 0 || (size..MAX_BLOB).contains(&mutable.wrapping_sub(at)))
        && maps.is_multiple_of(8)
        && mutable.is_multiple_of(8)
        && frame >= -1
        && complete >= -1;
    let mut text = [0; 14];
    let len = if fits {
        read(name, &mut text).min(text.len())
    } else {
        0
    };
    let text = text
        .get(..len)
        .filter(|text| text.first().is_some_and(u8::is_ascii_graphic))?;
    let frame = u64::try_from(frame).unwrap_or(0) * 8;
    let start = at.wrapping_add(code);
    Some(Blob {
        code_start: start,
        code_end: at.wrapping_add(data),
        complete: start.wrapping_add_signed(complete.max(0).into()),
        frame: if frame <= MAX_FRAME { frame } else { 0 },
        is_interpreter: frame == 0 && text.starts_with(b"Interpreter\0"),
        is_safepoint: frame != 0 && *header.get(56)? == SAFEPOINT,
        has_pointers: false,
    })
}

fn parse_layout(
    layout: &HeaderLayout,
    at: u64,
    header: &[u8; HEADER],
    avma: u64,
    read: impl Fn(u64, &mut [u8]) -> usize,
) -> Option<Blob> {
    let word = |offset: usize| -> Option<u64> {
        let bytes = header.get(offset..)?.first_chunk()?;
        Some(u64::from_le_bytes(*bytes))
    };
    let address = |number: usize| word(layout.addresses + 8 * number);
    let (code_start, code_end) = (address(0)?, address(1)?);
    if code_start <= at || avma < code_start || code_end <= avma {
        return None;
    }
    let int = |number: usize| -> Option<i32> {
        let bytes = header.get(layout.sizes + 4 * number..)?.first_chunk()?;
        Some(i32::from_le_bytes(*bytes))
    };
    let size = u64::try_from(int(0)?).ok()?;
    let header_size = u64::try_from(int(1)?).ok()?;
    let complete = int(2)?;
    let data = u64::try_from(int(3)?).ok()?;
    let frame = int(4)?;
    let (content, data_end) = (address(2)?, address(3)?);
    let (relocation, relocation_end) = (address(4)?, address(5)?);
    let end = at.checked_add(size)?;
    let fits = (80..=1024).contains(&header_size)
        && relocation == at.checked_add(header_size)?
        && relocation <= relocation_end
        && relocation_end <= content
        && content <= code_start
        && code_end <= data_end
        && data_end <= end
        && data <= size
        && frame >= -1
        && complete >= -1;
    if !fits {
        return None;
    }
    let frame = u64::try_from(frame).unwrap_or(0) * 8;
    let is_named = |name: &[u8]| {
        layout.names.into_iter().any(|offset| {
            let mut found = [0; 14];
            let len = read(word(offset).unwrap_or(0), &mut found).min(found.len());
            found
                .get(..len)
                .is_some_and(|found| found.starts_with(name))
        })
    };
    Some(Blob {
        code_start,
        code_end,
        // A stub without this value has its frame when it calls.
        complete: code_start.wrapping_add_signed(complete.max(0).into()),
        frame: if frame <= MAX_FRAME { frame } else { 0 },
        is_interpreter: frame == 0 && is_named(b"Interpreter\0"),
        is_safepoint: frame != 0 && is_named(b"SafepointBlob\0"),
        has_pointers: true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: u64 = 0x7f00_0000_2010;

    /// Returns memory with a header, as JDK 17 writes it, and its code.
    fn memory(change: impl Fn(&mut [u8])) -> impl Fn(u64, &mut [u8]) -> usize {
        memory_of(12, 32, change)
    }

    fn memory_of(
        sizes: usize,
        addresses: usize,
        change: impl Fn(&mut [u8]),
    ) -> impl Fn(u64, &mut [u8]) -> usize {
        let mut header = vec![0; 0x100];
        let mut put = |at: usize, bytes: &[u8]| {
            header[at..at + bytes.len()].copy_from_slice(bytes);
        };
        // Size, size of the header, frame complete, data, frame in words.
        for (number, value) in (0..).zip([0x200_i32, 0x70, 12, 0x1c0, 6]) {
            put(sizes + number * 4, &value.to_le_bytes());
        }
        // Code, content to data's end, relocation.
        for (number, offset) in (0..).zip([0x100, 0x1c0, 0x100, 0x200, 0x70, 0x100]) {
            put(addresses + number * 8, &(AT + offset).to_le_bytes());
        }
        change(&mut header);
        move |avma, into| {
            let mut len = 0;
            for (avma, into) in (avma..).zip(&mut *into) {
                if avma < 0x7f00_0000_0000 {
                    break;
                }
                let at = avma.checked_sub(AT).and_then(|at| header.get(at as usize));
                *into = at.copied().unwrap_or(0xcc);
                len += 1;
            }
            len
        }
    }

    #[test]
    fn a_header_counts_if_all_of_it_fits() {
        let (blob, at, _) = search(AT + 0x130, memory(|_| {})).unwrap();
        assert_eq!(at, AT);
        assert_eq!((blob.code_start, blob.code_end), (AT + 0x100, AT + 0x1c0));
        assert_eq!((blob.complete, blob.frame), (AT + 0x10c, 48));
        assert!(!blob.is_interpreter && !blob.is_safepoint);
        assert_eq!(search(AT + 0x1c0, memory(|_| {})), None, "behind the code");
        assert_eq!(search(AT + 0xff, memory(|_| {})), None, "before it");
        for place in [15, 16, 25, 31, 48, 57, 64, 73] {
            let changed = memory(|header| header[place] ^= 0x88);
            assert_eq!(search(AT + 0x130, changed), None, "{place}");
        }
    }

    #[test]
    fn header_of_jdk_21_has_its_addresses_first() {
        let jdk_21 = || memory_of(72, 8, |_| {});
        let (blob, at, _) = search(AT + 0x130, jdk_21()).unwrap();
        assert_eq!((at, blob.code_start), (AT, AT + 0x100));
        assert_eq!((blob.complete, blob.frame), (AT + 0x10c, 48));
        assert_eq!(search(AT + 0x1c0, jdk_21()), None, "behind the code");
    }

    #[test]
    fn header_of_jdk_25_has_numbers_only() {
        let at = AT + 8;
        let header = |change: &dyn Fn(&mut [u8; HEADER])| {
            let mut header = [0; HEADER];
            // Name, and other data of the code.
            header[8..16].copy_from_slice(&0x7f00_0100_0000_u64.to_le_bytes());
            header[16..24].copy_from_slice(&0x7f00_0200_0000_u64.to_le_bytes());
            // Size, relocations, content, code, data, frame, data elsewhere.
            let numbers = [0x400_u32, 16, 0xe8, 0x108, 0x3c0, 6, 32];
            for (number, bytes) in numbers.iter().zip(header[24..52].chunks_mut(4)) {
                bytes.copy_from_slice(&number.to_le_bytes());
            }
            // Size of the header, end of the prologue, kind.
            header[52..57].copy_from_slice(&[224, 0, 12, 0, 1]);
            change(&mut header);
            let name = |_, into: &mut [u8]| {
                into.copy_from_slice(&b"nmethod\0nmethod\0"[..into.len()]);
                into.len()
            };
            parse(at, &header, at + 0x110, name)
        };
        let blob = header(&|_| {}).unwrap();
        assert_eq!((blob.code_start, blob.code_end), (at + 0x108, at + 0x3c0));
        assert_eq!((blob.complete, blob.frame), (at + 0x114, 48));
        for place in [0, 16, 27, 29, 32, 37, 41, 53, 55, 56] {
            assert_eq!(header(&|header| header[place] ^= 0x84), None, "{place}");
        }
        let elsewhere = |behind: u64| {
            header(&|header| {
                header[48] = 0;
                header[28] = 0;
                header[16..24].copy_from_slice(&(at + behind).to_le_bytes());
            })
        };
        assert!(elsewhere(0x400).is_some() && elsewhere(0x800).is_some());
        assert_eq!(elsewhere(0x3f8), None, "in the code");
    }

    #[test]
    fn other_code_is_searched_once() {
        let blobs = BlobCache::default();
        let reads = Cell::new(0);
        for avma in [0x7f00_0800_0000, 0x7f00_0800_1000, 0x7f00_0900_0000] {
            let found = blobs.find(avma, |_, into: &mut [u8]| {
                reads.set(reads.get() + 1);
                into.fill(0);
                into.len()
            });
            assert_eq!(found, None);
        }
        assert!(reads.get() < 40, "{}", reads.get());
    }

    #[test]
    fn kept_while_the_header_stays_as_it_is() {
        let blobs = BlobCache::default();
        let at = AT + 0x130;
        assert!(blobs.find(at, memory(|_| {})).is_some());
        blobs.begin_stack();
        assert!(blobs.has(at) && blobs.is_used());
        let gone = |_, _: &mut [u8]| 0;
        assert!(blobs.find(at, gone).is_some(), "the process has ended");
        blobs.begin_stack();
        let other = memory(|header| header[28] = 9);
        assert_eq!(blobs.find(at, other).unwrap().frame, 72, "another method");
        blobs.begin_stack();
        assert_eq!(blobs.find(at, memory(|header| header.fill(0))), None);
        assert!(!blobs.has(at));
    }

    #[test]
    fn where_methods_are_left_for_the_interpreter() {
        let c2 = [
            0xe8, 0, 0, 0, 0, 0x48, 0x83, 0x2c, 0x24, 5, 0xe9, 1, 2, 3, 4,
        ];
        assert!(is_deoptimization(&c2));
        assert!(!is_deoptimization(&c2[1..]));
        assert!(!is_deoptimization(&[]));
    }
}
