//! All kernel records, typed.

use std::borrow::Cow;

use crate::build_id::BuildId;
use crate::bytes::{Endian, RawBytes};
use crate::error::DecodeError;
use crate::header::{Misc, RawRecord, RecordType};
use crate::layout::SampleLayout;
use crate::read_values::ReadValues;
use crate::sample::{Callchain, Sample};

/// `PROT_EXEC` of mmap(2), as in [`Mmap2::prot`].
pub const PROT_EXEC: u32 = 4;

/// Mapping (MMAP).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mmap<'a> {
    /// Process; -1 for the kernel's own mappings.
    pub pid: i32,
    /// Thread that called mmap.
    pub tid: i32,
    /// First address.
    pub start: u64,
    /// Length in bytes.
    pub len: u64,
    /// File offset in bytes.
    pub pgoff: u64,
    /// Path as seen by the kernel, or a name such as `[vdso]` or `//anon`.
    pub path: Cow<'a, [u8]>,
}

/// Identity of a mapped file, from an MMAP2 record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MmapIdentity {
    /// Device, inode and its generation; all zero for anonymous memory.
    Inode {
        /// Device, major.
        major: u32,
        /// Device, minor.
        minor: u32,
        /// Inode number.
        inode: u64,
        /// Inode generation.
        generation: u64,
    },
    /// Build-id of at most [`BuildId::MAX_RECORD_LEN`] bytes, with [`Misc::MMAP_BUILD_ID`].
    BuildId(BuildId),
}

/// Mapping (MMAP2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mmap2<'a> {
    /// Process; -1 for the kernel's own mappings.
    pub pid: i32,
    /// Thread that called mmap.
    pub tid: i32,
    /// First address.
    pub start: u64,
    /// Length in bytes.
    pub len: u64,
    /// File offset in bytes.
    pub pgoff: u64,
    /// Identity of the mapped file.
    pub identity: MmapIdentity,
    /// Protection of the mapping (`PROT_*` of mmap(2)).
    pub prot: u32,
    /// `MAP_*`.
    pub flags: u32,
    /// Path as seen by the kernel.
    pub path: Cow<'a, [u8]>,
}

/// Task name (COMM), with [`Misc::COMM_EXEC`] if set by exec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comm<'a> {
    /// Process.
    pub pid: i32,
    /// Thread.
    pub tid: i32,
    /// Name, without its NUL.
    pub name: Cow<'a, [u8]>,
}

/// Created or exited thread or process (FORK, EXIT).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Task {
    /// Process.
    pub pid: i32,
    /// Parent process.
    pub ppid: i32,
    /// Thread.
    pub tid: i32,
    /// Thread that called fork or clone.
    pub ptid: i32,
    /// Nanoseconds of the event's clock.
    pub time: u64,
}

/// Dropped records (LOST).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Event whose ring buffer was full.
    pub id: u64,
    /// Number of records.
    pub lost: u64,
}

/// Decoded record. Strings are bytes, because the kernel guarantees no encoding.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[allow(missing_docs, reason = "fields are those of perf_event_open(2)")]
pub enum Record<'a> {
    Mmap(Mmap<'a>),
    Mmap2(Mmap2<'a>),
    Lost(Lost),
    Comm(Comm<'a>),
    Exit(Task),
    Fork(Task),
    Throttle {
        time: u64,
        id: u64,
        stream_id: u64,
    },
    Unthrottle {
        time: u64,
        id: u64,
        stream_id: u64,
    },
    Read {
        pid: i32,
        tid: i32,
        values: ReadValues,
    },
    Sample(Sample<'a>),
    Aux {
        offset: u64,
        size: u64,
        flags: u64,
    },
    ItraceStart {
        pid: i32,
        tid: i32,
    },
    LostSamples {
        lost: u64,
    },
    /// Context switch of the task in the trailer.
    Switch,
    SwitchCpuWide {
        next_prev_pid: i32,
        next_prev_tid: i32,
    },
    /// Device and inode of each namespace, in the order net, uts, ipc, pid, user, mnt, cgroup.
    Namespaces {
        pid: i32,
        tid: i32,
        links: Vec<(u64, u64)>,
    },
    Ksymbol {
        addr: u64,
        len: u32,
        ksym_type: u16,
        flags: u16,
        name: Cow<'a, [u8]>,
    },
    BpfEvent {
        kind: u16,
        flags: u16,
        id: u32,
        tag: [u8; 8],
    },
    Cgroup {
        id: u64,
        path: Cow<'a, [u8]>,
    },
    TextPoke {
        addr: u64,
        old_len: u16,
        new_len: u16,
        bytes: RawBytes<'a>,
    },
    AuxOutputHwId {
        hw_id: u64,
    },
    CallchainDeferred {
        cookie: u64,
        callchain: Callchain<'a>,
    },
    /// Record of an unsupported type, or of perf.
    Other(RawRecord<'a>),
}

struct Cursor<'a> {
    body: RawBytes<'a>,
    at: usize,
    endian: Endian,
    what: &'static str,
}

impl<'a> Cursor<'a> {
    fn fail(&self) -> DecodeError {
        DecodeError::TooShort {
            what: self.what,
            at: self.at,
            len: self.body.len(),
        }
    }

    fn u16(&mut self) -> Result<u16, DecodeError> {
        let v = self.body.u16(self.at, self.endian).ok_or(self.fail())?;
        self.at += 2;
        Ok(v)
    }

    fn u32(&mut self) -> Result<u32, DecodeError> {
        let v = self.body.u32(self.at, self.endian).ok_or(self.fail())?;
        self.at += 4;
        Ok(v)
    }

    fn i32(&mut self) -> Result<i32, DecodeError> {
        Ok(self.u32()? as i32)
    }

    fn u64(&mut self) -> Result<u64, DecodeError> {
        let v = self.body.u64(self.at, self.endian).ok_or(self.fail())?;
        self.at += 8;
        Ok(v)
    }

    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let range = self.body.get(self.at..self.at + N).ok_or(self.fail())?;
        self.at += N;
        range.to_cow().as_ref().try_into().map_err(|_| self.fail())
    }

    fn c_str(&self) -> Result<Cow<'a, [u8]>, DecodeError> {
        self.body.c_str(self.at).ok_or(self.fail())
    }

    fn task(&mut self) -> Result<Task, DecodeError> {
        Ok(Task {
            pid: self.i32()?,
            ppid: self.i32()?,
            tid: self.i32()?,
            ptid: self.i32()?,
            time: self.u64()?,
        })
    }
}

impl<'a> Record<'a> {
    /// Decodes a record.
    ///
    /// `layout` is the layout of the record's event. Without it, samples and READ records cannot be
    /// decoded, and an unterminated string may include the trailer.
    ///
    /// # Examples
    /// ```
    /// use rprof_records::{Endian, RawBytes, RawRecord, Record};
    ///
    /// // A LOST record of 24 bytes: 3 records of event 7.
    /// let mut bytes = vec![2, 0, 0, 0, 0, 0, 24, 0];
    /// bytes.extend(7_u64.to_le_bytes());
    /// bytes.extend(3_u64.to_le_bytes());
    ///
    /// let raw = RawRecord::parse(RawBytes::from(&bytes[..]), Endian::Little).unwrap();
    /// let Record::Lost(lost) = Record::decode(&raw, None)? else {
    ///     panic!("no LOST record");
    /// };
    /// assert_eq!((lost.id, lost.lost), (7, 3));
    /// # Ok::<(), rprof_records::DecodeError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`DecodeError`] if a field exceeds the record, or a required layout is missing.
    pub fn decode(
        raw: &RawRecord<'a>,
        layout: Option<&'a SampleLayout>,
    ) -> Result<Record<'a>, DecodeError> {
        let trailer = layout.map_or(0, SampleLayout::trailer_len);
        // A hostile file may omit the NUL.
        let body = match raw.kind {
            RecordType::SAMPLE => raw.body,
            kind if kind.is_user() => raw.body,
            _ => (raw.body.get(0..raw.body.len().saturating_sub(trailer))).unwrap_or(raw.body),
        };
        let mut c = Cursor {
            body,
            at: 0,
            endian: raw.endian,
            what: raw.kind.name().unwrap_or("record"),
        };
        Ok(match raw.kind {
            RecordType::MMAP => Record::Mmap(Mmap {
                pid: c.i32()?,
                tid: c.i32()?,
                start: c.u64()?,
                len: c.u64()?,
                pgoff: c.u64()?,
                path: c.c_str()?,
            }),
            RecordType::MMAP2 => Record::Mmap2(mmap2(&mut c, raw.misc)?),
            RecordType::LOST => Record::Lost(Lost {
                id: c.u64()?,
                lost: c.u64()?,
            }),
            RecordType::COMM => Record::Comm(Comm {
                pid: c.i32()?,
                tid: c.i32()?,
                name: c.c_str()?,
            }),
            RecordType::EXIT => Record::Exit(c.task()?),
            RecordType::FORK => Record::Fork(c.task()?),
            RecordType::THROTTLE => Record::Throttle {
                time: c.u64()?,
                id: c.u64()?,
                stream_id: c.u64()?,
            },
            RecordType::UNTHROTTLE => Record::Unthrottle {
                time: c.u64()?,
                id: c.u64()?,
                stream_id: c.u64()?,
            },
            RecordType::READ => {
                let layout = layout.ok_or(DecodeError::NoLayout(raw.kind))?;
                let (pid, tid) = (c.i32()?, c.i32()?);
                let values = ReadValues::parse(&c.body, c.at, layout.read_format, raw.endian)
                    .ok_or(c.fail())?;
                Record::Read { pid, tid, values }
            }
            RecordType::SAMPLE => {
                let layout = layout.ok_or(DecodeError::NoLayout(raw.kind))?;
                Record::Sample(Sample::parse(raw.body, layout)?)
            }
            RecordType::AUX => Record::Aux {
                offset: c.u64()?,
                size: c.u64()?,
                flags: c.u64()?,
            },
            RecordType::ITRACE_START => Record::ItraceStart {
                pid: c.i32()?,
                tid: c.i32()?,
            },
            RecordType::LOST_SAMPLES => Record::LostSamples { lost: c.u64()? },
            RecordType::SWITCH => Record::Switch,
            RecordType::SWITCH_CPU_WIDE => Record::SwitchCpuWide {
                next_prev_pid: c.i32()?,
                next_prev_tid: c.i32()?,
            },
            RecordType::NAMESPACES => {
                let (pid, tid, count) = (c.i32()?, c.i32()?, c.u64()?);
                // Limited by the body, not by the stated count.
                let mut links = Vec::new();
                for _ in 0..count {
                    links.push((c.u64()?, c.u64()?));
                }
                Record::Namespaces { pid, tid, links }
            }
            RecordType::KSYMBOL => Record::Ksymbol {
                addr: c.u64()?,
                len: c.u32()?,
                ksym_type: c.u16()?,
                flags: c.u16()?,
                name: c.c_str()?,
            },
            RecordType::BPF_EVENT => Record::BpfEvent {
                kind: c.u16()?,
                flags: c.u16()?,
                id: c.u32()?,
                tag: c.bytes()?,
            },
            RecordType::CGROUP => Record::Cgroup {
                id: c.u64()?,
                path: c.c_str()?,
            },
            RecordType::TEXT_POKE => {
                let (addr, old_len, new_len) = (c.u64()?, c.u16()?, c.u16()?);
                let len = usize::from(old_len) + usize::from(new_len);
                let bytes = c.body.get(c.at..c.at + len).ok_or(c.fail())?;
                Record::TextPoke {
                    addr,
                    old_len,
                    new_len,
                    bytes,
                }
            }
            RecordType::AUX_OUTPUT_HW_ID => Record::AuxOutputHwId { hw_id: c.u64()? },
            RecordType::CALLCHAIN_DEFERRED => {
                let cookie = c.u64()?;
                let callchain = Callchain::parse(c.body, c.at, raw.endian).ok_or(c.fail())?;
                Record::CallchainDeferred { cookie, callchain }
            }
            _ => Record::Other(*raw),
        })
    }
}

fn mmap2<'a>(c: &mut Cursor<'a>, misc: Misc) -> Result<Mmap2<'a>, DecodeError> {
    let (pid, tid) = (c.i32()?, c.i32()?);
    let (start, len, pgoff) = (c.u64()?, c.u64()?, c.u64()?);
    let at = c.at;
    let build_id = build_id(c.bytes()?).filter(|_| misc.has(Misc::MMAP_BUILD_ID));
    let identity = match build_id {
        Some(build_id) => MmapIdentity::BuildId(build_id),
        None => {
            c.at = at;
            MmapIdentity::Inode {
                major: c.u32()?,
                minor: c.u32()?,
                inode: c.u64()?,
                generation: c.u64()?,
            }
        }
    };
    Ok(Mmap2 {
        pid,
        tid,
        start,
        len,
        pgoff,
        identity,
        prot: c.u32()?,
        flags: c.u32()?,
        path: c.c_str()?,
    })
}

/// Decodes the build-id in these bytes of an MMAP2 record; `None` if they cannot be one.
///
/// The kernel may flag device and inode as a build-id if another recorder of the process requested
/// build-ids. (In 6.18, `perf_event_mmap_output` still sets the bit in a header shared by all
/// recorders.) Then the first byte, of the major number, is rarely a valid length, and the bytes
/// after such a length are not all zero. (perf 6.1 crashes on such a record.)
fn build_id(bytes: [u8; 24]) -> Option<BuildId> {
    let (head, bytes) = bytes.split_last_chunk::<{ BuildId::MAX_RECORD_LEN }>()?;
    let (&len, reserved) = head.split_first()?;
    let (id, padding) = bytes.split_at_checked(usize::from(len))?;
    let zeroes = reserved.iter().chain(padding).all(|byte| *byte == 0);
    zeroes.then(|| BuildId::new(id)).flatten()
}
