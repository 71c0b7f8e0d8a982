//! [`Releases`]: memory that a process gave back, and huge pages, by tracepoints.
//!
//! Page faults tell what became resident. These events tell the rest exactly, where the rights allow
//! them: system calls that unmap, empty or move pages, and allocations of huge pages by a fault.
//! Without them the ledger learns of both at the next look.

use rprof_records::{Endian, EventKind, RecordType, Sample, SampleLayout};
use rprof_sampler::{Session, Stream};
use rustc_hash::FxHashMap;

use super::events::Change;
use crate::pipeline::merge::Released;

/// Tracepoints with their filters, as `-e` and `--filter` take them.
pub const RELEASES: [(&str, Option<&str>); 6] = [
    ("syscalls:sys_enter_munmap", None),
    (
        "syscalls:sys_enter_madvise",
        Some("behavior == 4 || behavior == 9 || behavior == 24"),
    ),
    // MAP_FIXED replaces what was mapped there.
    ("syscalls:sys_enter_mmap", Some("flags & 16")),
    ("syscalls:sys_exit_brk", None),
    ("syscalls:sys_enter_mremap", None),
    ("syscalls:sys_exit_mremap", None),
];

/// Tracepoint of huge pages. Unlike system calls of own processes, it needs permission for all
/// tracepoints.
pub const HUGE_PAGES: (&str, &str) = ("kmem:mm_page_alloc", "order == 9");

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
    Remap,
    Remapped,
    Huge,
}

impl Kind {
    fn of(name: &str) -> Option<Kind> {
        let name = name.split(['/', ',']).next().unwrap_or(name);
        Some(match name.rsplit(':').next()? {
            "sys_enter_munmap" | "sys_enter_madvise" | "sys_enter_mmap" => Kind::Unmap,
            "sys_exit_brk" => Kind::Break,
            "sys_enter_mremap" => Kind::Remap,
            "sys_exit_mremap" => Kind::Remapped,
            "mm_page_alloc" => Kind::Huge,
            _ => return None,
        })
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
            Kind::Break => Some(Change::Heap {
                pid,
                tid,
                end: first.div_ceil(page),
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
