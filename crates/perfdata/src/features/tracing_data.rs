//! TRACING_DATA: contents of `/sys/kernel/tracing` on the recording machine.
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
//! Source: `tools/perf/util/trace-event-info.c` of perf. The section states its own byte order.

use std::collections::BTreeMap;

use rprof_records::{Endian, RawBytes};

use super::{Feature, FeatureSections};

const MAGIC: &[u8] = b"\x17\x08Dtracing";

/// System of ftrace's own formats, which are stored separately.
const FTRACE: &[u8] = b"ftrace";

/// Tracepoint descriptions of a recording (TRACING_DATA).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracingData<'a> {
    /// Version of the section, such as `0.6`.
    pub version: String,
    /// Bytes of a `long` on the recording machine.
    pub long_size: u8,
    /// Byte order of payloads.
    pub endian: Endian,
    /// System (`sched`) and `format` file of each tracepoint.
    pub formats: Vec<(&'a [u8], &'a [u8])>,
    /// Kernel string constants by address, for pointers in payloads.
    pub kernel_strings: BTreeMap<u64, String>,
    /// True if the section is truncated. Data before that is kept.
    pub damaged: bool,
}

impl FeatureSections {
    /// Returns the tracepoint descriptions. `None` also if perf did not write the section.
    pub fn tracing_data(&self) -> Option<TracingData<'_>> {
        TracingData::parse(self.get(Feature::TRACING_DATA)?)
    }
}

struct Cursor<'a> {
    section: &'a [u8],
    at: usize,
    endian: Endian,
}

impl<'a> Cursor<'a> {
    fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(len)?;
        let found = self.section.get(self.at..end)?;
        self.at = end;
        Some(found)
    }

    fn u8(&mut self) -> Option<u8> {
        self.bytes(1).map(|b| b[0])
    }

    fn u32(&mut self) -> Option<u32> {
        RawBytes::from(self.bytes(4)?).u32(0, self.endian)
    }

    fn u64(&mut self) -> Option<u64> {
        RawBytes::from(self.bytes(8)?).u64(0, self.endian)
    }

    fn c_str(&mut self) -> Option<&'a [u8]> {
        let rest = self.section.get(self.at..)?;
        let len = rest.iter().position(|b| *b == 0)?;
        self.at += len + 1;
        Some(&rest[..len])
    }

    fn sized(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.u64()?).ok()?;
        self.bytes(len)
    }

    fn sized_u32(&mut self) -> Option<&'a [u8]> {
        let len = self.u32()? as usize;
        self.bytes(len)
    }
}

impl<'a> TracingData<'a> {
    fn parse(section: &'a [u8]) -> Option<TracingData<'a>> {
        let mut c = Cursor {
            section: section.strip_prefix(MAGIC)?,
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
        let mut data = TracingData {
            version,
            long_size,
            endian: c.endian,
            formats: Vec::new(),
            kernel_strings: BTreeMap::new(),
            damaged: false,
        };
        data.damaged = data.read(&mut c).is_none();
        Some(data)
    }

    fn read(&mut self, c: &mut Cursor<'a>) -> Option<()> {
        for header in [&b"header_page"[..], b"header_event"] {
            (c.c_str()? == header).then_some(())?;
            c.sized()?;
        }
        // Each item takes some bytes, so the counts are limited.
        for _ in 0..c.u32()? {
            self.formats.push((FTRACE, c.sized()?));
        }
        for _ in 0..c.u32()? {
            let system = c.c_str()?;
            for _ in 0..c.u32()? {
                self.formats.push((system, c.sized()?));
            }
        }
        c.sized_u32()?;
        let strings = c.sized_u32()?;
        for line in String::from_utf8_lossy(strings).lines() {
            self.kernel_strings.extend(kernel_string(line));
        }
        Some(())
    }
}

/// Parses a printk_formats line: `0xADDRESS : "text"`.
fn kernel_string(line: &str) -> Option<(u64, String)> {
    let (address, text) = line.split_once(':')?;
    let address = u64::from_str_radix(address.trim().strip_prefix("0x")?, 16).ok()?;
    let text = text.trim().strip_prefix('"')?;
    let text = text.strip_suffix('"').unwrap_or(text);
    let text = text.strip_suffix("\\n").unwrap_or(text);
    Some((address, text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(big: bool, format: &str) -> Vec<u8> {
        let word = |v: u32| match big {
            true => v.to_be_bytes(),
            false => v.to_le_bytes(),
        };
        let long = |v: usize| match big {
            true => (v as u64).to_be_bytes(),
            false => (v as u64).to_le_bytes(),
        };
        let mut out = b"\x17\x08Dtracing0.6\0".to_vec();
        out.extend([u8::from(big), 8]);
        out.extend(word(4096));
        for header in ["header_page", "header_event"] {
            out.extend(header.as_bytes());
            out.push(0);
            out.extend(long(3));
            out.extend(b"abc");
        }
        out.extend(word(0));
        out.extend(word(1));
        out.extend(b"test\0");
        out.extend(word(1));
        out.extend(long(format.len()));
        out.extend(format.as_bytes());
        out.extend(word(0));
        let strings = "0x1234 : \"Start\\n\"\n0x88 : \"end\"\nrubbish\n";
        out.extend(word(strings.len() as u32));
        out.extend(strings.as_bytes());
        out.extend(long(0));
        out
    }

    #[test]
    fn what_stands_before_damage_is_kept() {
        let format = "name: event\nID: 42\n";
        for (big, endian) in [(false, Endian::Little), (true, Endian::Big)] {
            let bytes = section(big, format);
            let data = TracingData::parse(&bytes).unwrap();
            assert!(!data.damaged);
            assert_eq!(
                (&*data.version, data.long_size, data.endian),
                ("0.6", 8, endian)
            );
            assert_eq!(data.formats, [(&b"test"[..], format.as_bytes())]);
            let strings = [(0x88, "end".to_owned()), (0x1234, "Start".to_owned())];
            assert_eq!(data.kernel_strings, BTreeMap::from(strings));
            // The last eight bytes, the saved command lines, are not decoded.
            for len in 0..bytes.len() {
                match TracingData::parse(&bytes[..len]) {
                    Some(cut) if len + 8 >= bytes.len() => assert_eq!(cut, data),
                    Some(cut) => assert!(cut.damaged && cut.kernel_strings.is_empty()),
                    None => assert!(len < 20, "{len}"),
                }
            }
        }
        assert!(TracingData::parse(b"nothing").is_none());
    }
}
