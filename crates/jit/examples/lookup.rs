//! Looks up addresses in a perf map or a jitdump:
//!
//! ```text
//! cargo run -p rprof-jit --example lookup -- /tmp/perf-1234.map 7f0000001050
//! cargo run -p rprof-jit --example lookup -- /tmp/jit-1234.dump 7f0000001050
//! ```
#![allow(clippy::print_stdout)]

use std::error::Error;

use rprof_image::FileView;
use rprof_jit::{JitDump, JitFunction, MapFile, PerfMap, is_jitdump};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: lookup FILE ADDRESS...")?;
    let path = std::fs::canonicalize(path)?;
    let file = MapFile::open(&FileView::own()?, &path, &[])?.ok_or("there is no such file")?;
    let bytes = file.read()?;
    let dump = match is_jitdump(path.as_os_str().as_encoded_bytes()) {
        true => Some(JitDump::parse(&bytes)?),
        false => None,
    };
    let map = PerfMap::parse(if dump.is_none() { bytes } else { Vec::new() });
    for address in arguments {
        let avma = u64::from_str_radix(address.trim_start_matches("0x"), 16)?;
        // At the end of the recording.
        let function = match &dump {
            Some(dump) => dump.lookup(avma, u64::MAX),
            None => map.lookup(avma),
        };
        println!("{avma:#x} {}", shown(function, avma));
    }
    Ok(())
}

fn shown(function: Option<JitFunction<'_>>, avma: u64) -> String {
    match function {
        // Escape control characters.
        Some(function) => {
            let offset = avma - function.start;
            format!(
                "{}+{offset:#x}/{:#x}",
                function.name.escape_debug(),
                function.size
            )
        }
        None => "[unknown]".into(),
    }
}
