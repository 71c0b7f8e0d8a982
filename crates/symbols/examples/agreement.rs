//! Compares this crate with `llvm-symbolizer` and `eu-addr2line` at random text addresses: how
//! often do all frames agree by name, file, line and column?
//!
//! ```sh
//! cargo run --release --example agreement -- [--count N] [--debug-dir DIR] [--reference FILE] [--show N] FILE...
//! ```
//!
//! With `--reference`, the other two look up that file with the same code, for example the
//! unstripped one.
#![allow(clippy::print_stdout, dead_code)]

#[path = "../tests/it/chains.rs"]
mod chains;
#[path = "../tests/it/others.rs"]
mod others;

use others::{Agreement, Places};
use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let (mut count, mut show, mut places) = (10_000, 5, Places::default());
    let mut arguments = std::env::args().skip(1);
    let percent = |part: usize, whole: usize| 100.0 * part as f64 / whole.max(1) as f64;
    println!("file addresses llvm% elfutils% both-agree all-three%");
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or("a value is missing");
        match &*argument {
            "--count" => count = value()?.parse()?,
            "--show" => show = value()?.parse()?,
            "--reference" => places.reference = Some(value()?.into()),
            "--debug-dir" => places.dir = Some(value()?.into()),
            path => {
                let sum = Agreement::of(Path::new(path), &places, count, 7);
                println!(
                    "{path} {} {:.2} {:.2} {} {:.3}",
                    sum.all,
                    percent(sum.with_llvm, sum.all),
                    percent(sum.with_elfutils, sum.all),
                    sum.both,
                    percent(sum.with_both, sum.both),
                );
                for (class, count) in &sum.classes {
                    println!("  {count:6} {class}");
                }
                for example in sum.examples.iter().take(show) {
                    println!("  {example}");
                }
            }
        }
    }
    Ok(())
}
