//! Interpretation of sideband records, for all users.
//!
//! The meaning of a record depends on its bits. A COMM with [`Misc::COMM_EXEC`] is an exec, which
//! removes all mappings. A FORK with [`Misc::FORK_EXEC`] describes a thread found in /proc. An MMAP
//! is executable without [`Misc::MMAP_DATA`], an MMAP2 according to its protection. Only this
//! module has these rules.
//!
//! To support another record that [`Record`] decodes:
//!
//! - add a variant to [`ProcessEvent`];
//! - add the record's type to [`ProcessEvent::is_recorded_as`];
//! - add an arm to [`ProcessEvent::decode`] and [`ProcessEvent::into_owned`].
//!
//! Most users ignore other variants with a `_` arm. The two maps of the crate `processes` usually
//! need a change. A mapping covers its range until another replaces it, so they represent its end
//! as a mapping of nothing.

use std::borrow::Cow;

use crate::error::DecodeError;
use crate::header::{CpuMode, Misc, RawRecord, RecordType};
use crate::layout::SampleLayout;
use crate::record::{Mmap2, MmapIdentity, PROT_EXEC, Record};

/// `PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER`: the symbol was removed.
const KSYMBOL_UNREGISTER: u16 = 1;

/// Mapped address range (MMAP, MMAP2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapped<'a> {
    /// Process; -1 for the kernel's own mappings in perf's files.
    pub pid: i32,
    /// Thread that called mmap.
    pub tid: i32,
    /// First address.
    pub start: u64,
    /// Length in bytes.
    pub len: u64,
    /// File offset of the first address, in bytes.
    pub file_offset: u64,
    /// Path as seen by the kernel, or a name such as `[vdso]` or `//anon`.
    pub path: Cow<'a, [u8]>,
    /// Build-id, or device and inode; `None` for MMAP records.
    pub identity: Option<MmapIdentity>,
    /// True for executable mappings.
    pub executable: bool,
    /// True for the kernel and its modules, in the address space shared by all processes: the
    /// record's CPU mode is the kernel's.
    pub kernel: bool,
    /// `PROT_*` and `MAP_*` of an MMAP2; `None` for MMAP records.
    pub prot_and_flags: Option<(u32, u32)>,
    /// Bits of the record's header.
    pub misc: Misc,
}

impl Mapped<'_> {
    /// Returns the end of the range; `u64::MAX` if it overflows.
    pub fn end(&self) -> u64 {
        self.start.saturating_add(self.len)
    }
}

/// Change of processes, of their names, or of mappings.
///
/// # Examples
/// ```
/// use rprof_records::{
///     Attr, Comm, Endian, Misc, ProcessEvent, RawBytes, RawRecord, Record, SampleId, SampleLayout,
/// };
///
/// let layout = SampleLayout::new(&Attr::default(), Endian::NATIVE);
/// let comm = Record::Comm(Comm { pid: 7, tid: 7, name: b"ls".into() });
/// let mut bytes = Vec::new();
/// comm.encode(Misc::COMM_EXEC, &layout, &SampleId::default(), &mut bytes)?;
///
/// let raw = RawRecord::parse(RawBytes::from(&bytes[..]), Endian::NATIVE).unwrap();
/// let event = ProcessEvent::decode(&raw, Some(&layout))?;
/// assert_eq!(event, Some(ProcessEvent::Executed { pid: 7, tid: 7, name: b"ls".into() }));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProcessEvent<'a> {
    /// An address range was mapped. It replaces the overlapping parts of earlier mappings.
    Mapped(Mapped<'a>),
    /// A thread has another name (COMM).
    Renamed {
        /// Process.
        pid: i32,
        /// Thread.
        tid: i32,
        /// Name, as bytes of unknown encoding.
        name: Cow<'a, [u8]>,
    },
    /// A process executed a program (COMM with [`Misc::COMM_EXEC`]). Its mappings and other threads
    /// are gone.
    Executed {
        /// Process.
        pid: i32,
        /// Thread that called execve(2), under the first thread's id, which it takes over.
        tid: i32,
        /// Name of the program.
        name: Cow<'a, [u8]>,
    },
    /// A thread (`pid == parent_pid`) or a process was created (FORK).
    Forked {
        /// Process.
        pid: i32,
        /// Thread.
        tid: i32,
        /// Process of the thread that called fork(2) or clone(2).
        parent_pid: i32,
        /// Thread that called fork(2) or clone(2).
        parent_tid: i32,
    },
    /// The recorder found a thread without seeing its creation (FORK with [`Misc::FORK_EXEC`]). Its
    /// process's mappings have their own records; none is inherited.
    Found {
        /// Process.
        pid: i32,
        /// Thread.
        tid: i32,
        /// Parent process; `pid` itself for a thread other than the first.
        parent_pid: i32,
    },
    /// A thread exited (EXIT). Its process exits with the last thread.
    Ended {
        /// Process.
        pid: i32,
        /// Thread.
        tid: i32,
    },
    /// The kernel added or removed a generated function, such as a BPF program (KSYMBOL).
    KernelSymbol {
        /// First address.
        start: u64,
        /// Length in bytes.
        len: u64,
        /// Name.
        name: Cow<'a, [u8]>,
        /// False if it was removed.
        registered: bool,
    },
}

impl<'a> ProcessEvent<'a> {
    /// Returns true if records of this type are process events.
    #[inline]
    pub fn is_recorded_as(kind: RecordType) -> bool {
        matches!(
            kind,
            RecordType::MMAP
                | RecordType::MMAP2
                | RecordType::COMM
                | RecordType::FORK
                | RecordType::EXIT
                | RecordType::KSYMBOL
        )
    }

    /// Decodes a record; `None` if it is not a process event. Borrows names and paths if the record
    /// is in one piece.
    ///
    /// `layout` is the layout of the record's event. Without it, an unterminated string may include
    /// the trailer.
    ///
    /// # Errors
    /// Returns [`DecodeError`] if a field exceeds the record.
    pub fn decode(
        raw: &RawRecord<'a>,
        layout: Option<&'a SampleLayout>,
    ) -> Result<Option<ProcessEvent<'a>>, DecodeError> {
        if !ProcessEvent::is_recorded_as(raw.kind) {
            return Ok(None);
        }
        let misc = raw.misc;
        let kernel = misc.cpu_mode() == CpuMode::Kernel;
        Ok(Some(match Record::decode(raw, layout)? {
            Record::Mmap(m) => ProcessEvent::Mapped(Mapped {
                pid: m.pid,
                tid: m.tid,
                start: m.start,
                len: m.len,
                file_offset: m.pgoff,
                path: m.path,
                identity: None,
                executable: !misc.has(Misc::MMAP_DATA),
                kernel,
                prot_and_flags: None,
                misc,
            }),
            Record::Mmap2(m) => ProcessEvent::Mapped(Mapped::from_mmap2(m, misc)),
            Record::Comm(comm) => {
                let (pid, tid, name) = (comm.pid, comm.tid, comm.name);
                match misc.has(Misc::COMM_EXEC) {
                    true => ProcessEvent::Executed { pid, tid, name },
                    false => ProcessEvent::Renamed { pid, tid, name },
                }
            }
            Record::Fork(task) => match misc.has(Misc::FORK_EXEC) {
                true => ProcessEvent::Found {
                    pid: task.pid,
                    tid: task.tid,
                    parent_pid: task.ppid,
                },
                false => ProcessEvent::Forked {
                    pid: task.pid,
                    tid: task.tid,
                    parent_pid: task.ppid,
                    parent_tid: task.ptid,
                },
            },
            Record::Exit(task) => ProcessEvent::Ended {
                pid: task.pid,
                tid: task.tid,
            },
            Record::Ksymbol {
                addr,
                len,
                flags,
                name,
                ..
            } => ProcessEvent::KernelSymbol {
                start: addr,
                len: u64::from(len),
                name,
                registered: flags & KSYMBOL_UNREGISTER == 0,
            },
            _ => return Ok(None),
        }))
    }

    /// Returns the time of a process event in nanoseconds of its event's clock: from the trailer,
    /// or else from a FORK or EXIT, the only timestamps before `sample_id_all`. 0 if there is none.
    #[inline]
    pub fn time_of(raw: &RawRecord<'_>, layout: Option<&SampleLayout>) -> u64 {
        let own_time = || match raw.kind {
            // After four 32-bit ids.
            RecordType::FORK | RecordType::EXIT => raw.body.u64(16, raw.endian),
            _ => None,
        };
        let trailer_time = layout.and_then(|layout| layout.trailer_time(raw));
        trailer_time.or_else(own_time).unwrap_or(0)
    }

    /// Copies borrowed data.
    pub fn into_owned(self) -> ProcessEvent<'static> {
        let own = |bytes: Cow<'_, [u8]>| Cow::Owned(bytes.into_owned());
        match self {
            ProcessEvent::Mapped(m) => ProcessEvent::Mapped(Mapped {
                path: own(m.path),
                ..m
            }),
            ProcessEvent::Renamed { pid, tid, name } => ProcessEvent::Renamed {
                pid,
                tid,
                name: own(name),
            },
            ProcessEvent::Executed { pid, tid, name } => ProcessEvent::Executed {
                pid,
                tid,
                name: own(name),
            },
            ProcessEvent::KernelSymbol {
                start,
                len,
                name,
                registered,
            } => ProcessEvent::KernelSymbol {
                start,
                len,
                name: own(name),
                registered,
            },
            ProcessEvent::Forked {
                pid,
                tid,
                parent_pid,
                parent_tid,
            } => ProcessEvent::Forked {
                pid,
                tid,
                parent_pid,
                parent_tid,
            },
            ProcessEvent::Found {
                pid,
                tid,
                parent_pid,
            } => ProcessEvent::Found {
                pid,
                tid,
                parent_pid,
            },
            ProcessEvent::Ended { pid, tid } => ProcessEvent::Ended { pid, tid },
        }
    }
}

impl<'a> Mapped<'a> {
    fn from_mmap2(m: Mmap2<'a>, misc: Misc) -> Mapped<'a> {
        Mapped {
            pid: m.pid,
            tid: m.tid,
            start: m.start,
            len: m.len,
            file_offset: m.pgoff,
            path: m.path,
            identity: Some(m.identity),
            executable: m.prot & PROT_EXEC != 0,
            kernel: misc.cpu_mode() == CpuMode::Kernel,
            prot_and_flags: Some((m.prot, m.flags)),
            misc,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Attr, AttrFlags, BuildId, Comm, Endian, Lost, Mmap, RawBytes, SampleId, SampleType, Task,
    };

    const TASK: Task = Task {
        pid: 2,
        ppid: 1,
        tid: 3,
        ptid: 4,
        time: 50,
    };

    fn both(record: &Record<'_>, misc: Misc) -> [(Option<ProcessEvent<'static>>, u64); 2] {
        let stamped = Attr {
            sample_type: SampleType::TIME | SampleType::TID,
            flags: AttrFlags::SAMPLE_ID_ALL,
            ..Attr::default()
        };
        [stamped, Attr::default()].map(|attr| {
            let layout = SampleLayout::new(&attr, Endian::Big);
            let id = SampleId {
                time: Some(9),
                ..SampleId::default()
            };
            let mut out = Vec::new();
            record.encode(misc, &layout, &id, &mut out).unwrap();
            let raw = RawRecord::parse(RawBytes::from(&out[..]), Endian::Big).unwrap();
            let event = ProcessEvent::decode(&raw, Some(&layout)).unwrap();
            assert_eq!(event.is_some(), ProcessEvent::is_recorded_as(raw.kind));
            let time = ProcessEvent::time_of(&raw, Some(&layout));
            (event.map(ProcessEvent::into_owned), time)
        })
    }

    #[test]
    fn a_fork_with_the_exec_bit_is_no_birth() {
        let born = ProcessEvent::Forked {
            pid: 2,
            tid: 3,
            parent_pid: 1,
            parent_tid: 4,
        };
        let found = ProcessEvent::Found {
            pid: 2,
            tid: 3,
            parent_pid: 1,
        };
        for (misc, event) in [(Misc(0), born), (Misc::FORK_EXEC, found)] {
            let expected = [(Some(event.clone()), 9), (Some(event), 50)];
            assert_eq!(both(&Record::Fork(TASK), misc), expected);
        }
    }

    #[test]
    fn a_comm_with_the_exec_bit_is_an_exec() {
        let name: Cow<'static, [u8]> = Cow::Borrowed(b"ls");
        let comm = Record::Comm(Comm {
            pid: 2,
            tid: 3,
            name: name.clone(),
        });
        let (pid, tid) = (2, 3);
        let renamed = ProcessEvent::Renamed {
            pid,
            tid,
            name: name.clone(),
        };
        let executed = ProcessEvent::Executed { pid, tid, name };
        for (misc, event) in [(Misc(0), renamed), (Misc::COMM_EXEC, executed)] {
            let expected = [(Some(event.clone()), 9), (Some(event), 0)];
            assert_eq!(both(&comm, misc), expected);
        }
    }

    #[test]
    fn an_end_without_a_trailer_has_a_time() {
        let ended = ProcessEvent::Ended { pid: 2, tid: 3 };
        let expected = [(Some(ended.clone()), 9), (Some(ended), 50)];
        assert_eq!(both(&Record::Exit(TASK), Misc(0)), expected);
    }

    #[test]
    fn mappings_are_executable_each_by_its_own_bit() {
        let mmap = Record::Mmap(Mmap {
            pid: 1,
            tid: 1,
            start: 0x1000,
            len: u64::MAX,
            pgoff: 0,
            path: Cow::Borrowed(b"/a"),
        });
        let mmap2 = |prot| {
            Record::Mmap2(Mmap2 {
                pid: 1,
                tid: 1,
                start: 0x1000,
                len: u64::MAX,
                pgoff: 0,
                identity: MmapIdentity::BuildId(BuildId::new(&[1]).unwrap()),
                prot,
                flags: 2,
                path: Cow::Borrowed(b"/a"),
            })
        };
        let data = Misc::MMAP_DATA;
        for (record, misc, executable, kernel) in [
            (&mmap, Misc::USER, true, false),
            (&mmap, Misc::USER | data, false, false),
            (&mmap, Misc::KERNEL, true, true),
            (&mmap2(5), Misc::USER | data, true, false),
            (&mmap2(1), Misc::USER, false, false),
        ] {
            let [(Some(ProcessEvent::Mapped(m)), 9), _] = both(record, misc) else {
                panic!("{record:?} is no mapping");
            };
            assert_eq!((m.executable, m.kernel), (executable, kernel), "{record:?}");
            assert_eq!(m.end(), u64::MAX);
            assert_eq!(m.identity.is_some(), m.prot_and_flags.is_some());
        }
    }

    #[test]
    fn kernel_symbols_come_and_go() {
        for (flags, comes) in [(0, true), (1, false)] {
            let record = Record::Ksymbol {
                addr: 0x1000,
                len: 64,
                ksym_type: 1,
                flags,
                name: Cow::Borrowed(b"bpf_prog"),
            };
            let [(Some(ProcessEvent::KernelSymbol { registered, .. }), 9), _] =
                both(&record, Misc::KERNEL)
            else {
                panic!("no kernel symbol");
            };
            assert_eq!(registered, comes);
        }
    }

    #[test]
    fn other_records_are_none() {
        let lost = Record::Lost(Lost { id: 1, lost: 2 });
        assert!(
            both(&lost, Misc(0))
                .iter()
                .all(|(event, _)| event.is_none())
        );
    }
}
