//! Checks the stacks in the output of `rprof script` or `perf script` on standard input.
//!
//! `rprof-edges [--callers return|before] [--json]`. Exit status 1 if a pair is impossible.
//! `benches/edges` records programs and runs it.

#![allow(clippy::print_stderr, reason = "a program")]

use std::io::{Read, Write};
use std::process::ExitCode;

use rprof_edges::{Callers, check};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (mut callers, mut json) = (Callers::Return, false);
    while let Some(argument) = arguments.next() {
        let value = |arguments: &mut std::iter::Skip<std::env::Args>| arguments.next();
        match argument.as_str() {
            "--json" => json = true,
            "--callers" => match value(&mut arguments).as_deref() {
                Some("return") => callers = Callers::Return,
                Some("before") => callers = Callers::Before,
                _ => return usage(),
            },
            _ => return usage(),
        }
    }
    let mut bytes = Vec::new();
    if let Err(error) = std::io::stdin().read_to_end(&mut bytes) {
        eprintln!("rprof-edges: cannot read standard input: {error}");
        return ExitCode::FAILURE;
    }
    let report = check(&String::from_utf8_lossy(&bytes), callers);
    let text = match json {
        true => format!("{}\n", report.json()),
        false => report.to_string(),
    };
    // The reader may have seen enough.
    let _ = std::io::stdout().write_all(text.as_bytes());
    if report.impossible() == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn usage() -> ExitCode {
    eprintln!("usage: SCRIPT | rprof-edges [--callers return|before] [--json]");
    ExitCode::from(2)
}
