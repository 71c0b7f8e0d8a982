//! Names the functions at offsets of an ELF file, the calls inlined there, and the lines, as `perf script -F ip` prints them for
//! libraries. Debug files that are installed are found. Without offsets, they are read from standard
//! input, one a line.
//!
//! ```sh
//! cargo run --example symbolize -- /lib/x86_64-linux-gnu/libc.so.6 0x98930 0xf82ad
//! ```
#![allow(clippy::print_stdout)]

use rprof_symbols::{ImageKey, Style, Symbolizer};
use std::borrow::Cow;
use std::error::Error;
use std::io::Write;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments
        .next()
        .ok_or("usage: symbolize ELF-FILE HEX-OFFSET...")?;
    let parse = |argument: String| u64::from_str_radix(argument.trim_start_matches("0x"), 16);
    let mut offsets = arguments.map(parse).collect::<Result<Vec<u64>, _>>()?;
    if offsets.is_empty() {
        let input = std::io::read_to_string(std::io::stdin())?;
        offsets = input
            .lines()
            .map(str::to_owned)
            .map(parse)
            .collect::<Result<_, _>>()?;
    }

    let symbolizer = Symbolizer::builder().style(Style::NoParameters).build();
    let image = ImageKey::file(&path);
    if let Some(build_id) = symbolizer.build_id(&image) {
        println!("{path}: build-id {build_id}");
    }
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for (offset, lookup) in offsets
        .iter()
        .zip(symbolizer.resolve_image(&image, &offsets))
    {
        match lookup {
            Ok(frames) => {
                writeln!(
                    out,
                    "{offset:#x} {:#x} behind the start of",
                    frames.offset()
                )?;
                for frame in frames.iter() {
                    write!(out, "    {}", escaped(frame.name))?;
                    match frame.line {
                        Some(line) => writeln!(out, " {}:{}", escaped(&line.file), line.line)?,
                        None => writeln!(out)?,
                    }
                }
            }
            Err(reason) => writeln!(out, "{offset:#x} [unknown: {reason}]")?,
        }
    }
    Ok(out.flush()?)
}

/// Names may hold anything, so they are escaped for the terminal.
fn escaped(name: &str) -> Cow<'_, str> {
    // All bytes are looked at, many at a time.
    let is_plain = name
        .bytes()
        .fold(true, |plain, byte| plain & matches!(byte, b' '..=b'~'));
    match is_plain {
        true => name.into(),
        false => name.escape_debug().to_string().into(),
    }
}
