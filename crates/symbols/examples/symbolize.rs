//! Prints the functions, inlined calls and lines at offsets of an ELF file, as `perf script -F ip`
//! does for libraries. Uses installed debug files. Without offsets, reads them from standard input,
//! one per line.
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

/// Escapes a name for the terminal, as it may contain any character.
fn escaped(name: &str) -> Cow<'_, str> {
    // Visits all bytes, without an early exit, so that the loop is vectorized.
    let is_plain = name
        .bytes()
        .fold(true, |plain, byte| plain & matches!(byte, b' '..=b'~'));
    match is_plain {
        true => name.into(),
        false => name.escape_debug().to_string().into(),
    }
}
