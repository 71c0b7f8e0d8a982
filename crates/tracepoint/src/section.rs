//! The TRACING_DATA section: what a recorder found under `/sys/kernel/tracing`.
//!
//! ```text
//!   17 08 44 "tracing"         magic
//!   "0.6" NUL                  version
//!   u8 u8 u32                  big-endian?, size of long, page size
//!   "header_page" NUL  u64 len bytes
//!   "header_event" NUL u64 len bytes
//!   u32 n, n × (u64 len, bytes)                      ftrace's own formats
//!   u32 n, n × (name NUL, u32 m, m × (u64 len, bytes))  systems and their formats
//!   u32 len, bytes             kallsyms (perf leaves it empty)
//!   u32 len, bytes             printk_formats: addresses of strings
//!   u64 len, bytes             saved_cmdlines, from version 0.6 on
//! ```
//!
//! As `perf record` writes it (`tools/perf/util/trace-event-info.c`).

use rprof_records::{Endian, RawBytes};
use rustc_hash::FxHashMap;

use super::format::EventFormat;

const MAGIC: &[u8] = b"\x17\x08Dtracing";

/// The formats of a recording, by event id. Texts are borrowed from the section and
/// compiled when asked for.
#[derive(Debug)]
pub struct Tracepoints<'a> {
    /// Version of the section, such as `0.6`.
    pub version: String,
    /// Bytes of a `long` of the recorder.
    pub long_size: u8,
    /// Byte order of payloads.
    pub endian: Endian,
    formats: FxHashMap<u64, (&'a [u8], &'a [u8])>,
    strings: FxHashMap<u64, String>,
    /// Whether the section ended early.
    pub damaged: bool,
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    endian: Endian,
}

impl<'a> Cursor<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(len)?;
        let taken = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(taken)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take(1).map(|b| b[0])
    }

    fn u32(&mut self) -> Option<u32> {
        RawBytes::from(self.take(4)?).u32(0, self.endian)
    }

    fn u64(&mut self) -> Option<u64> {
        RawBytes::from(self.take(8)?).u64(0, self.endian)
    }

    fn c_str(&mut self) -> Option<&'a [u8]> {
        let rest = self.bytes.get(self.at..)?;
        let len = rest.iter().position(|b| *b == 0)?;
        self.at += len + 1;
        Some(&rest[..len])
    }

    /// Bytes behind their 64-bit length.
    fn sized(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.u64()?).ok()?;
        self.take(len)
    }

    fn sized_u32(&mut self) -> Option<&'a [u8]> {
        let len = self.u32()? as usize;
        self.take(len)
    }
}

impl<'a> Tracepoints<'a> {
    /// Reads a section. `None` where it is none; what stands before damage is kept.
    pub fn parse(section: &'a [u8]) -> Option<Tracepoints<'a>> {
        let mut c = Cursor {
            bytes: section.strip_prefix(MAGIC)?,
            at: 0,
            endian: Endian::Little,
        };
        let version = String::from_utf8_lossy(c.c_str()?).into_owned();
        c.endian = match c.u8()? {
            0 => Endian::Little,
            _ => Endian::Big,
        };
        let long_size = match c.u8()? {
            4 => 4,
            _ => 8,
        };
        c.u32()?;
        let mut tracepoints = Tracepoints {
            version,
            long_size,
            endian: c.endian,
            formats: FxHashMap::default(),
            strings: FxHashMap::default(),
            damaged: false,
        };
        tracepoints.damaged = tracepoints.read(&mut c).is_none();
        Some(tracepoints)
    }

    fn read(&mut self, c: &mut Cursor<'a>) -> Option<()> {
        for header in [&b"header_page"[..], b"header_event"] {
            (c.c_str()? == header).then_some(())?;
            c.sized()?;
        }
        // Counts are bounded by the bytes there are: each item takes some.
        for _ in 0..c.u32()? {
            self.add(b"ftrace", c.sized()?);
        }
        for _ in 0..c.u32()? {
            let system = c.c_str()?;
            for _ in 0..c.u32()? {
                self.add(system, c.sized()?);
            }
        }
        c.sized_u32()?;
        let strings = c.sized_u32()?;
        for line in String::from_utf8_lossy(strings).lines() {
            self.strings.extend(kernel_string(line));
        }
        Some(())
    }

    fn add(&mut self, system: &'a [u8], text: &'a [u8]) {
        // The id stands near the start, and texts can be long.
        let start = String::from_utf8_lossy(&text[..text.len().min(1024)]);
        if let Some(id) = EventFormat::id_of(&start) {
            self.formats.insert(id, (system, text));
        }
    }

    /// The tracepoint with this id: `config` of its attr.
    pub fn format(&self, id: u64) -> Option<EventFormat> {
        let (system, text) = self.formats.get(&id)?;
        let text = String::from_utf8_lossy(text);
        let system = String::from_utf8_lossy(system);
        EventFormat::parse(&system, &text, self.endian, self.long_size)
    }

    /// Ids of all tracepoints that are described, in no order.
    pub fn ids(&self) -> impl Iterator<Item = u64> {
        self.formats.keys().copied()
    }

    /// The kernel's string at an address.
    pub fn kernel_string(&self, address: u64) -> Option<&str> {
        self.strings.get(&address).map(String::as_str)
    }
}

/// Reads a line of printk_formats: `0xADDRESS : "text"`.
fn kernel_string(line: &str) -> Option<(u64, String)> {
    let (address, text) = line.split_once(':')?;
    let address = u64::from_str_radix(address.trim().strip_prefix("0x")?, 16).ok()?;
    let text = text.trim().strip_prefix('"')?;
    let text = text.strip_suffix('"').unwrap_or(text);
    let text = text.strip_suffix("\\n").unwrap_or(text);
    Some((address, text.to_owned()))
}
