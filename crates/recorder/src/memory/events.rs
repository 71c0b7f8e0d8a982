//! Faults and process events, as the ledger takes them.

use std::ops::Range;

use rprof_memory::StackNumber;
use rprof_records::{Mapped, ProcessEvent};

/// An event, which may wait until an earlier look is complete.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) time: u64,
    pub(super) change: Change,
}

/// Change by a page fault or a process event.
#[derive(Debug)]
pub(crate) enum Change {
    Fault {
        pid: i32,
        tid: i32,
        address: u64,
        stack: StackNumber,
    },
    /// Pages that are no longer mapped or empty, as page numbers.
    Released {
        pid: i32,
        tid: i32,
        pages: Range<u64>,
    },
    /// The heap shall end before this page number, or ends there if it `is_result`.
    Heap {
        pid: i32,
        tid: i32,
        end: u64,
        is_result: bool,
    },
    /// Pages at another address, of which the first `kept` ones remain.
    Moved {
        pid: i32,
        pages: Range<u64>,
        kept: u64,
        to: u64,
    },
    /// The last fault of a thread made a huge page resident.
    Huge {
        pid: i32,
        tid: i32,
        pages: u64,
    },
    Mapped {
        pid: i32,
        range: Range<u64>,
        name: Box<[u8]>,
        is_read_only_file: bool,
    },
    /// A thread was created or found; `parent` is the process that created it.
    Started {
        pid: i32,
        tid: i32,
        parent: Option<i32>,
    },
    Executed {
        pid: i32,
    },
    Ended {
        pid: i32,
        tid: i32,
    },
}

/// Returns true if a process may write to a mapping, or if that is unknown.
fn is_writable(mapped: &Mapped<'_>) -> bool {
    /// `PROT_WRITE` of asm-generic/mman-common.h.
    const WRITE: u32 = 2;
    mapped
        .prot_and_flags
        .is_none_or(|(protection, _)| protection & WRITE != 0)
}

impl Change {
    /// Returns the change that a process event means for memory; `None` for others.
    pub(crate) fn of(event: &ProcessEvent<'_>) -> Option<Change> {
        Some(match event {
            ProcessEvent::Mapped(mapped) if !mapped.kernel && mapped.pid > 0 => Change::Mapped {
                pid: mapped.pid,
                range: mapped.start..mapped.end(),
                name: mapped.path.as_ref().into(),
                is_read_only_file: mapped.path.starts_with(b"/") && !is_writable(mapped),
            },
            ProcessEvent::Forked {
                pid,
                tid,
                parent_pid,
                ..
            } => Change::Started {
                pid: *pid,
                tid: *tid,
                parent: Some(*parent_pid),
            },
            ProcessEvent::Found { pid, tid, .. } => Change::Started {
                pid: *pid,
                tid: *tid,
                parent: None,
            },
            ProcessEvent::Executed { pid, .. } => Change::Executed { pid: *pid },
            ProcessEvent::Ended { pid, tid } => Change::Ended {
                pid: *pid,
                tid: *tid,
            },
            _ => return None,
        })
    }
}
