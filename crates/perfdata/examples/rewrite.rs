//! Copies a recording into a new file, or with `--pipe` into a stream; `-z` compresses it:
//! `cargo run -p rprof-perfdata --example rewrite -- [--pipe] [-z] FROM TO`

use std::error::Error;
use std::fs::File;
use std::path::PathBuf;

use rprof_perfdata::{PerfData, rewrite, rewrite_pipe};

#[allow(clippy::print_stderr, reason = "an example's output")]
fn main() -> Result<(), Box<dyn Error>> {
    let (mut pipe, mut compression, mut paths) = (false, None, Vec::new());
    for arg in std::env::args_os().skip(1) {
        match arg.to_str() {
            Some("--pipe") => pipe = true,
            Some("-z") => compression = Some(1),
            _ => paths.push(PathBuf::from(arg)),
        }
    }
    let [from, to] = &paths[..] else {
        return Err("two files are needed: from and to".into());
    };
    let data = PerfData::open(from)?;
    let out = File::create(to)?;
    let written = match pipe {
        true => rewrite_pipe(&data, out, compression)?,
        false => rewrite(&data, out, compression)?,
    };
    eprintln!("{} records, {} bytes", written.records, written.len);
    if let Some(damage) = written.damage {
        eprintln!("{damage}");
    }
    Ok(())
}
