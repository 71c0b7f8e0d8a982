//! [`CarriedRecords`]: records that a new file begins with, so that each file is self-contained.
//!
//! Names and mappings come from the live process map. One-time records of processes, their requests,
//! the kernel and cgroups are kept verbatim, while their objects live.

use std::collections::BTreeMap;
use std::sync::Arc;

use rprof_processes::{LiveMap, Records};
use rprof_records::{ProcessEvent, RawRecord, Record, RecordType, SampleId, SampleLayout};

/// `PERF_BPF_EVENT_PROG_LOAD` and `PERF_BPF_EVENT_PROG_UNLOAD`.
const PROG_LOAD: u16 = 1;
const PROG_UNLOAD: u16 = 2;

/// Sideband of live processes, kernel symbols, BPF programs and cgroups.
#[derive(Debug, Default)]
pub(crate) struct CarriedRecords {
    live: LiveMap<Records>,
    namespaces: BTreeMap<i32, Arc<[u8]>>,
    /// Names of the attributes of requests, by process.
    request_contexts: BTreeMap<i32, Box<[u8]>>,
    kernel_symbols: BTreeMap<u64, Box<[u8]>>,
    programs: BTreeMap<u32, Box<[u8]>>,
    cgroups: BTreeMap<u64, Box<[u8]>>,
}

impl CarriedRecords {
    /// Handles a sideband record: `bytes` with its header, and `event` if it is a process event.
    /// Ignores other records.
    pub(crate) fn handle(
        &mut self,
        raw: &RawRecord<'_>,
        event: Option<&ProcessEvent<'_>>,
        bytes: &[u8],
    ) {
        if let Some(event) = event {
            self.handle_event(event, bytes);
        }
        self.handle_raw(raw, bytes);
    }

    /// Replaces the process context of a process.
    pub(crate) fn set_request_context(&mut self, pid: i32, record: &[u8]) {
        self.request_contexts.insert(pid, record.into());
    }

    fn handle_event(&mut self, event: &ProcessEvent<'_>, bytes: &[u8]) {
        let process_ended = self.live.handle(event);
        match event {
            ProcessEvent::Forked {
                pid, parent_pid, ..
            } if pid != parent_pid => match self.namespaces.get(parent_pid).cloned() {
                Some(namespaces) => drop(self.namespaces.insert(*pid, namespaces)),
                None => drop(self.namespaces.remove(pid)),
            },
            ProcessEvent::Ended { pid, .. } if process_ended => {
                self.namespaces.remove(pid);
                self.request_contexts.remove(pid);
            }
            ProcessEvent::Executed { pid, .. } => drop(self.request_contexts.remove(pid)),
            ProcessEvent::KernelSymbol {
                start, registered, ..
            } => match registered {
                true => drop(self.kernel_symbols.insert(*start, bytes.into())),
                false => drop(self.kernel_symbols.remove(start)),
            },
            _ => {}
        }
    }

    fn handle_raw(&mut self, raw: &RawRecord<'_>, bytes: &[u8]) {
        let kinds = [
            RecordType::NAMESPACES,
            RecordType::BPF_EVENT,
            RecordType::CGROUP,
        ];
        if !kinds.contains(&raw.kind) {
            return;
        }
        // Without a layout the trailer is ignored.
        match Record::decode(raw, None) {
            Ok(Record::Namespaces { pid, .. }) => {
                self.namespaces.insert(pid, bytes.into());
            }
            Ok(Record::BpfEvent { kind, id, .. }) => match kind {
                PROG_LOAD => drop(self.programs.insert(id, bytes.into())),
                PROG_UNLOAD => drop(self.programs.remove(&id)),
                _ => {}
            },
            Ok(Record::Cgroup { id, .. }) => drop(self.cgroups.insert(id, bytes.into())),
            _ => {}
        }
    }

    /// Appends the records. Synthesized ones have time 0, before all later records.
    pub(crate) fn append(&self, layout: &SampleLayout, out: &mut Vec<u8>) {
        let id = SampleId::default();
        let mut pids: Vec<_> = self.live.processes().collect();
        pids.sort_unstable();
        for pid in pids {
            for (record, misc) in self.live.records(pid) {
                // It came from a record, so it fits into one.
                drop(record.encode(misc, layout, &id, out));
            }
        }
        let namespaces = self.namespaces.values().map(|bytes| &bytes[..]);
        let others = (self.kernel_symbols.values())
            .chain(self.programs.values())
            .chain(self.cgroups.values())
            .chain(self.request_contexts.values());
        for bytes in namespaces.chain(others.map(|bytes| &bytes[..])) {
            out.extend_from_slice(bytes);
        }
    }
}

#[cfg(test)]
#[path = "carried_tests.rs"]
mod tests;
