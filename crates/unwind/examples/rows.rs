//! Prints the compiled rows of an ELF file, like `readelf --debug-dump=frames-interp`, with the
//! time and memory used:
//!
//! ```sh
//! cargo run --release --example rows -- /lib/x86_64-linux-gnu/libc.so.6
//! ```
//!
//! `--figures` prints only time and memory.
#![allow(clippy::print_stdout)]

use rprof_unwind::UnwindTable;
use std::error::Error;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let figures = arguments
        .iter()
        .position(|argument| argument == "--figures");
    if let Some(figures) = figures {
        arguments.remove(figures);
    }
    let [path] = &arguments[..] else {
        return Err("usage: rows [--figures] ELF-FILE".into());
    };
    let bytes = std::fs::read(path)?;
    let begin = Instant::now();
    let table = UnwindTable::parse(&bytes)?;
    let indexed = begin.elapsed();
    let mut rows = 0;
    for row in table.rows() {
        rows += 1;
        if figures.is_none() {
            println!("{row}");
        }
    }
    let compiled = begin.elapsed() - indexed;
    println!("{rows} rows; index in {indexed:?}, all rows in {compiled:?}");
    println!("{:?}", table.stats());
    Ok(())
}
