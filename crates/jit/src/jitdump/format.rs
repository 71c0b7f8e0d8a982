//! Header and records of a jitdump, in either byte order.

/// Maximum number of code ranges of one file.
pub(super) const MAX_CODES: usize = 1 << 20;

/// Cause for rejecting a file as a jitdump.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DumpError {
    /// Wrong magic number.
    #[error("it is not a jitdump: its first 4 bytes are not `JiTD`")]
    NotAJitDump,
    /// Header truncated or damaged.
    #[error("its header is cut off or damaged")]
    DamagedHeader,
}

/// Record types (`enum jit_record_type`).
pub(super) mod kind {
    pub(crate) const LOAD: u32 = 0;
    pub(crate) const MOVE: u32 = 1;
    pub(crate) const DEBUG_INFO: u32 = 2;
    pub(crate) const CLOSE: u32 = 3;
    pub(crate) const UNWINDING: u32 = 4;
}

/// Magic number `JiTD`, in the writer's byte order.
const MAGIC: u32 = 0x4a69_5444;

/// `JITDUMP_FLAGS_ARCH_TIMESTAMP`.
const ARCH_TIMESTAMP: u64 = 1;

/// Bytes of the header: `magic, version, total_size, elf_mach, pad, pid: u32; timestamp, flags:
/// u64`.
pub(super) const HEADER: usize = 40;

/// Bytes before the body of a record: `id, total_size: u32; timestamp: u64`.
pub(super) const PREFIX: usize = 16;

/// Offset of the length field in a record.
pub(super) const SIZE_AT: usize = 4;

/// Offset of the time in a record.
pub(super) const TIME_AT: usize = 8;

/// Returns a time of the kernel's clock for a time of one that is ahead of it.
pub(super) fn set_back(time: u64, ahead: i64) -> u64 {
    time.saturating_add_signed(ahead.saturating_neg())
}

/// Sequential reader; `None` past the end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
    big: bool,
}

impl<'a> Reader<'a> {
    fn read_array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*taken)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        let bytes = self.read_array()?;
        Some(match self.big {
            true => u32::from_be_bytes(bytes),
            false => u32::from_le_bytes(bytes),
        })
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        let bytes = self.read_array()?;
        Some(match self.big {
            true => u64::from_be_bytes(bytes),
            false => u64::from_le_bytes(bytes),
        })
    }

    pub(super) fn skip(&mut self, bytes: usize) -> Option<()> {
        self.rest = self.rest.get(bytes..)?;
        Some(())
    }

    pub(super) fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(taken)
    }

    pub(super) fn c_string(&mut self) -> Option<&'a [u8]> {
        let end = self.rest.iter().position(|byte| *byte == 0)?;
        let (text, rest) = self.rest.split_at(end);
        self.rest = &rest[1..];
        Some(text)
    }

    pub(super) fn left(&self) -> usize {
        self.rest.len()
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    pub(super) big: bool,
    /// Bytes before the first record.
    pub(super) len: usize,
    pub(super) has_other_clock: bool,
}

impl Header {
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, DumpError> {
        let header = Self::parse_start(bytes)?;
        match header.len > bytes.len() {
            true => Err(DumpError::DamagedHeader),
            false => Ok(header),
        }
    }

    pub(super) fn parse_start(bytes: &[u8]) -> Result<Self, DumpError> {
        let big = match bytes.first_chunk() {
            Some(magic) if u32::from_le_bytes(*magic) == MAGIC => false,
            Some(magic) if u32::from_be_bytes(*magic) == MAGIC => true,
            _ => return Err(DumpError::NotAJitDump),
        };
        let mut reader = Reader { rest: bytes, big };
        let mut read = || {
            reader.skip(8)?;
            let len = reader.u32()? as usize;
            reader.skip(4 + 4 + 4 + 8)?;
            Some((len, reader.u64()?))
        };
        let (len, flags) = read().ok_or(DumpError::DamagedHeader)?;
        if len < HEADER {
            return Err(DumpError::DamagedHeader);
        }
        Ok(Self {
            big,
            len,
            has_other_clock: flags & ARCH_TIMESTAMP != 0,
        })
    }

    pub(super) fn reader<'a>(&self, bytes: &'a [u8]) -> Reader<'a> {
        Reader {
            rest: bytes,
            big: self.big,
        }
    }

    pub(super) fn record(&self, bytes: &[u8]) -> Option<(u32, usize, u64)> {
        let mut reader = self.reader(bytes);
        Some((reader.u32()?, reader.u32()? as usize, reader.u64()?))
    }

    pub(super) fn records<'a>(&self, bytes: &'a [u8]) -> Records<'a> {
        Records {
            bytes,
            at: self.len,
            header: *self,
            is_cut: false,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct RawRecord<'a> {
    pub(super) kind: u32,
    pub(super) time: u64,
    pub(super) body: Reader<'a>,
    pub(super) bytes: &'a [u8],
}

/// Iterates over records up to the end or a truncated one.
#[derive(Debug)]
pub(super) struct Records<'a> {
    bytes: &'a [u8],
    at: usize,
    header: Header,
    is_cut: bool,
}

impl<'a> Records<'a> {
    pub(super) fn cut_at(&self) -> Option<u64> {
        self.is_cut.then_some(self.at as u64)
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = RawRecord<'a>;

    fn next(&mut self) -> Option<RawRecord<'a>> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        if rest.is_empty() || self.is_cut {
            return None;
        }
        let read = || {
            let (kind, size, time) = self.header.record(rest)?;
            let bytes = rest.get(..size)?;
            let body = self.header.reader(bytes.get(PREFIX..)?);
            Some(RawRecord {
                kind,
                time,
                body,
                bytes,
            })
        };
        match read() {
            Some(record) => {
                self.at += record.bytes.len();
                Some(record)
            }
            None => {
                self.is_cut = true;
                None
            }
        }
    }
}

/// Converts the times of a file of another time namespace, whose clock is `ahead` ns of the
/// kernel's. A damaged file is converted up to the damage.
pub fn to_kernel_clock(bytes: &mut [u8], ahead: i64) {
    let header = Header::parse(bytes).ok();
    let Some(header) = header.filter(|header| ahead != 0 && !header.has_other_clock) else {
        return;
    };
    let mut at = header.len;
    while let Some(record) = bytes.get_mut(at..)
        && let Some((_, size, time)) = header.record(record)
        && (PREFIX..=record.len()).contains(&size)
    {
        let time = set_back(time, ahead);
        record[TIME_AT..PREFIX].copy_from_slice(&match header.big {
            true => time.to_be_bytes(),
            false => time.to_le_bytes(),
        });
        at += size;
    }
}

/// Copies a file without the machine code. The copy parses to the same [`JitDump`](super::JitDump).
///
/// # Errors
/// [`DumpError`], if the file is no jitdump.
pub fn without_code(bytes: &[u8]) -> Result<Vec<u8>, DumpError> {
    let header = Header::parse(bytes)?;
    let mut out = bytes[..header.len].to_vec();
    for record in header.records(bytes) {
        match record.kind {
            kind::LOAD => {
                let mut body = record.body;
                // pid, tid, vma, address, size, index.
                let read = body.skip(4 + 4 + 4 * 8).and_then(|()| body.c_string());
                if read.is_none() {
                    continue;
                }
                let kept = record.bytes.len() - body.left();
                let begins = out.len();
                out.extend_from_slice(&record.bytes[..kept]);
                let size = kept as u32;
                let size = match header.big {
                    true => size.to_be_bytes(),
                    false => size.to_le_bytes(),
                };
                out[begins + SIZE_AT..][..4].copy_from_slice(&size);
            }
            kind::UNWINDING if record.body.left() < 3 * 8 => {}
            kind::MOVE | kind::DEBUG_INFO | kind::CLOSE | kind::UNWINDING => {
                out.extend_from_slice(record.bytes);
            }
            _ => {}
        }
    }
    Ok(out)
}
