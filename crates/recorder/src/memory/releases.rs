//! [`Releases`]: memory that a process gave back, and huge pages, by tracepoints.
//!
//! Page faults tell what became resident. These events tell the rest exactly, where the rights allow
//! them: system calls that unmap, empty or move pages, and allocations of huge pages by a fault.
//! Without them the ledger learns of both at the next look.

use std::ops::Range;

use rprof_events::tracefs::Tracefs;
use rprof_records::{Endian, EventKind, RecordType, Sample, SampleLayout};
use rprof_sampler::{Session, Stream};
use rprof_tracepoint::EventFormat;
use rustc_hash::FxHashMap;

use super::events::Change;
use crate::pipeline::merge::Released;

/// Tracepoints with their filters, as `-e` and `--filter` take them.
pub const RELEASES: [(&str, Option<&str>); 7] = [
    ("syscalls:sys_enter_munmap", None),
    (
        "syscalls:sys_enter_madvise",
        Some("behavior == 4 || behavior == 9 || behavior == 24"),
    ),
    // MAP_FIXED replaces what was mapped there.
    ("syscalls:sys_enter_mmap", Some("flags & 16")),
    // Pages are gone some milliseconds before the system call ends, and a look may be in between.
    ("syscalls:sys_enter_brk", Some("brk != 0")),
    ("syscalls:sys_exit_brk", None),
    ("syscalls:sys_enter_mremap", None),
    ("syscalls:sys_exit_mremap", None),
];

/// Returns the tracepoint of huge pages and its filter; `None` if tracefs cannot be read, or the
/// kernel does not name its flags. Unlike system calls of own processes, the tracepoint needs
/// permission for all tracepoints.
///
/// Reading a file allocates pages of this order for the page cache. Only an allocation by a page
/// fault has the flag `__GFP_NOMEMALLOC`. The number of this flag differs between kernels.
pub fn huge_pages() -> Option<(&'static str, String)> {
    let text = Tracefs::find()
        .ok()?
        .format("kmem", "mm_page_alloc")
        .ok()??;
    let filter = filter_of_huge_pages(str::from_utf8(&text).ok()?)?;
    Some(("kmem:mm_page_alloc", filter))
}

fn filter_of_huge_pages(format: &str) -> Option<String> {
    let long_size = size_of::<libc::c_long>() as u8;
    let format = EventFormat::parse("kmem", format, Endian::NATIVE, long_size)?;
    let field = format
        .fields
        .iter()
        .find(|field| field.name == "gfp_flags")?;
    let is_it = |flag: &u32| {
        let mut payload = vec![0; field.offset as usize + 8];
        payload[field.offset as usize..][..4].copy_from_slice(&flag.to_le_bytes());
        let mut text = String::new();
        format.print(&payload, &(), &mut text);
        text.ends_with("=__GFP_NOMEMALLOC")
    };
    let flag = (0..u32::BITS).map(|bit| 1 << bit).find(is_it)?;
    Some(format!("order == 9 && gfp_flags & {flag}"))
}

/// Offset of the first argument of a system call, or of its result, in the payload. The number of
/// the system call stands before it.
const ARGUMENTS: usize = 16;

/// Pages of a huge page of the order 9.
const HUGE: u64 = 512;

/// Maximum number of threads within mremap(2).
const MAX_CALLS: usize = 1 << 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Unmap,
    Break,
    Broken,
    Remap,
    Remapped,
    Huge,
}

impl Kind {
    fn of(name: &str) -> Option<Kind> {
        let name = name.split(['/', ',']).next().unwrap_or(name);
        Some(match name.rsplit(':').next()? {
            "sys_enter_munmap" | "sys_enter_madvise" | "sys_enter_mmap" => Kind::Unmap,
            "sys_enter_brk" => Kind::Break,
            "sys_exit_brk" => Kind::Broken,
            "sys_enter_mremap" => Kind::Remap,
            "sys_exit_mremap" => Kind::Remapped,
            "mm_page_alloc" => Kind::Huge,
            _ => return None,
        })
    }
}

/// Data segment of a process, as page numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct Heap {
    /// Least end so far. The kernel refuses one before the beginning, which is not known.
    least: Option<u64>,
    end: Option<u64>,
}

impl Heap {
    /// Takes the end that the process asks for, or that it has if it `is_result`. Returns the pages
    /// that it gives back.
    pub(super) fn set(&mut self, end: u64, is_result: bool) -> Option<Range<u64>> {
        if is_result {
            self.least = Some(self.least.map_or(end, |least| least.min(end)));
        } else if self.least.is_none_or(|least| end < least) {
            return None;
        }
        let before = self.end.replace(end)?;
        (end < before).then_some(end..before)
    }
}

#[derive(Debug)]
pub(super) struct Releases {
    page_bytes: u64,
    kinds: FxHashMap<u64, Kind>,
    layout: Option<SampleLayout>,
    /// Arguments of mremap(2) by thread: address, old and new size.
    calls: FxHashMap<i32, [u64; 3]>,
}

impl Releases {
    /// Follows the tracepoints of a session.
    pub(super) fn of(session: &Session, page_bytes: u64) -> Releases {
        let mut kinds = FxHashMap::default();
        let mut layout = None;
        let tracepoints =
            (session.events().iter()).filter(|one| one.attr.kind == EventKind::TRACEPOINT);
        for event in tracepoints {
            if let Some(kind) = Kind::of(&event.name) {
                kinds.extend(event.ids.iter().map(|id| (*id, kind)));
                layout.get_or_insert_with(|| SampleLayout::new(&event.attr, Endian::NATIVE));
            }
        }
        Releases {
            page_bytes,
            kinds,
            layout,
            calls: FxHashMap::default(),
        }
    }

    /// Returns true for a sample of one of the tracepoints, and the change that it means.
    pub(super) fn read(&mut self, released: &Released<'_>) -> (bool, Option<Change>) {
        let layout = (self.layout.as_ref()).filter(|_| released.stream == Stream::Samples);
        // LOST records begin with an id, too.
        let raw = (released.raw()).filter(|raw| raw.kind == RecordType::SAMPLE);
        let (Some(layout), Some(raw)) = (layout, raw) else {
            return (false, None);
        };
        let id = raw.body.u64(0, Endian::NATIVE);
        let Some(kind) = id.and_then(|id| self.kinds.get(&id).copied()) else {
            return (false, None);
        };
        let Ok(sample) = Sample::parse(raw.body, layout) else {
            return (true, None);
        };
        let (Some(pid), Some(tid), Some(payload)) = (sample.pid(), sample.tid(), sample.raw())
        else {
            return (true, None);
        };
        let payload = payload.to_cow();
        let words = payload
            .get(ARGUMENTS..)
            .unwrap_or_default()
            .as_chunks::<8>()
            .0;
        let words: Vec<u64> = (words.iter().take(3).copied())
            .map(u64::from_ne_bytes)
            .collect();
        (true, self.change(kind, (pid, tid), &words))
    }

    fn change(&mut self, kind: Kind, (pid, tid): (i32, i32), words: &[u64]) -> Option<Change> {
        let page = self.page_bytes;
        let first = *words.first()?;
        match kind {
            // An address of no page is refused, or belongs to a 32-bit process.
            Kind::Unmap | Kind::Remap if first % page != 0 => None,
            Kind::Unmap => {
                let end = first.checked_add(*words.get(1)?)?;
                let pages = first / page..end.div_ceil(page);
                Some(Change::Released { pid, tid, pages })
            }
            Kind::Break | Kind::Broken => Some(Change::Heap {
                pid,
                tid,
                end: first.div_ceil(page),
                is_result: kind == Kind::Broken,
            }),
            Kind::Remap => {
                if self.calls.len() < MAX_CALLS {
                    self.calls.insert(tid, words.first_chunk().copied()?);
                }
                None
            }
            Kind::Remapped => {
                let [address, old, new] = self.calls.remove(&tid)?;
                // Errors are small negative numbers. A size of 0 maps shared pages once more.
                if first.cast_signed() < 0 && first.cast_signed() >= -4095 || old == 0 {
                    return None;
                }
                let end = address.checked_add(old)?.div_ceil(page);
                let pages = address / page..end;
                Some(Change::Moved {
                    pid,
                    pages,
                    kept: new.div_ceil(page),
                    to: first / page,
                })
            }
            Kind::Huge => Some(Change::Huge {
                pid,
                tid,
                pages: HUGE,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Heap, filter_of_huge_pages};

    #[test]
    fn huge_pages_of_faults_are_told_from_those_of_files() {
        let format = |flags: &str| {
            format!(
                "name: mm_page_alloc\nID: 1\nformat:\n\
                 \tfield:unsigned int order;\toffset:16;\tsize:4;\tsigned:0;\n\
                 \tfield:unsigned long gfp_flags;\toffset:24;\tsize:8;\tsigned:0;\n\n\
                 print fmt: \"gfp_flags=%s\", __print_flags(REC->gfp_flags, \"|\", {flags})"
            )
        };
        let of = |flags: &str| filter_of_huge_pages(&format(flags));
        let new = "{( unsigned long)(( gfp_t)((((1UL))) << (18))), \"__GFP_COMP\"}, \
                   {( unsigned long)(( gfp_t)((((1UL))) << (19))), \"__GFP_NOMEMALLOC\"}";
        let old = "{( unsigned long)(( gfp_t)0x10000u), \"__GFP_NOMEMALLOC\"}";
        assert_eq!(of(new).as_deref(), Some("order == 9 && gfp_flags & 524288"));
        assert_eq!(of(old).as_deref(), Some("order == 9 && gfp_flags & 65536"));
        assert_eq!(of("{1, \"__GFP_COMP\"}"), None);
    }

    #[test]
    fn a_heap_shrinks_when_its_system_call_begins() {
        let mut heap = Heap::default();
        assert_eq!(heap.set(90, false), None, "its beginning is not known");
        assert_eq!(heap.set(100, true), None);
        assert_eq!(heap.set(140, false), None);
        assert_eq!(heap.set(140, true), None);
        assert_eq!(heap.set(110, false), Some(110..140));
        assert_eq!(heap.set(110, true), None);
        assert_eq!(heap.set(99, false), None, "the kernel refuses it");
        assert_eq!(heap.set(110, true), None);
        // The kernel had no memory.
        assert_eq!(heap.set(500, false), None);
        assert_eq!(heap.set(110, true), Some(110..500));
    }
}
