//! Names the functions at offsets of an ELF file, the calls inlined there, and the lines, as `perf script -F ip` prints them for
//! libraries. Debug files that are installed are found. Without offsets, they are read from standard
//! input, one a line.
//!
//! ```sh
//! cargo run --example symbolize -- /lib/x86_64-linux-gnu/libc.so.6 0x98930 0xf82ad
//! ```
#![allow(clippy::print_stdout)]

use rprof_symbols::{ImageKey, Style, Symbolizer};
use std::error::Error;

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
    for (offset, lookup) in offsets
        .iter()
        .zip(symbolizer.resolve_image(&image, &offsets))
    {
        match lookup {
            Ok(frames) => {
                println!("{offset:#x} {:#x} behind the start of", frames.offset());
                for frame in frames.iter() {
                    // Names may hold anything, so they are escaped for the terminal.
                    let line = frame
                        .line
                        .map(|line| format!(" {}:{}", line.file, line.line));
                    let line = line.unwrap_or_default();
                    println!("    {}{}", frame.name.escape_debug(), line.escape_debug());
                }
            }
            Err(reason) => println!("{offset:#x} [unknown: {reason}]"),
        }
    }
    Ok(())
}
