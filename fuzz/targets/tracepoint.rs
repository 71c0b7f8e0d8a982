//! Compiles a tracepoint format, and prints a payload with it.
//!
//! Input: one byte of options (bit 0: big-endian, bit 1: `long` has four bytes), one byte for the
//! length of the payload, the payload, the text of a `format` file.

use rprof_records::Endian;
use rprof_tracepoint::{EventFormat, KernelNames};

/// Maximum length of the output, independent of field widths in the format.
const LONGEST: usize = 1 << 20;

struct Known;

impl KernelNames for Known {
    fn kernel_function(&self, address: u64) -> Option<(&str, u64)> {
        (address >> 16 == 0xffff_ffff_8100).then_some(("do_it", address & 0xffff))
    }

    fn kernel_string(&self, address: u64) -> Option<&str> {
        (address == 0x1234).then_some("a string of the kernel's")
    }
}

pub(crate) fn run(data: &[u8]) {
    let Some((&[options, len], rest)) = data.split_first_chunk::<2>() else {
        return;
    };
    let (payload, text) = rest.split_at(usize::from(len).min(rest.len()));
    let endian = match options & 1 {
        0 => Endian::Little,
        _ => Endian::Big,
    };
    let long_size = if options & 2 == 0 { 8 } else { 4 };
    let text = String::from_utf8_lossy(text);
    let _ = EventFormat::id_of(&text);
    if let Some(format) = EventFormat::parse("system", &text, endian, long_size) {
        print(&format, payload);
    }
}

fn print(format: &EventFormat, payload: &[u8]) {
    let mut first = String::new();
    format.print(payload, &Known, &mut first);
    assert!(first.len() <= LONGEST, "{} bytes", first.len());
    let mut second = String::new();
    format.print(payload, &Known, &mut second);
    assert_eq!(first, second);
    assert!(format.is_printable() || first.starts_with("[FAILED TO PARSE]"));
    let mut functions = 0usize;
    format.functions(payload, &mut |_| functions += 1);
    assert!(functions == 0 || format.has_functions());
}
