//! Names the functions at addresses of an ELF file, as they are stated in it (SVMAs):
//!
//! ```sh
//! cargo run --example symbolize -- /bin/bash 0x31560 0x31600
//! ```
#![allow(clippy::print_stdout)]

use rprof_symbols::{ElfSymbols, Style};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments
        .next()
        .ok_or("usage: symbolize ELF-FILE HEX-ADDRESS...")?;
    let symbols = ElfSymbols::parse(std::fs::read(&path)?)?;
    if let Some(build_id) = symbols.build_id() {
        println!("{path}: build-id {build_id}");
    }
    for argument in arguments {
        let svma = u64::from_str_radix(argument.trim_start_matches("0x"), 16)?;
        match symbols.lookup_svma(svma) {
            // Names may hold anything, so they are escaped for the terminal.
            Some(symbol) => {
                let name = symbol.name(Style::Full);
                println!(
                    "{svma:#x} {}+{:#x}",
                    name.escape_debug(),
                    svma - symbol.start()
                );
            }
            None => println!("{svma:#x} [unknown]"),
        }
    }
    Ok(())
}
