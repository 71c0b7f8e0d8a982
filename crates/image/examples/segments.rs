//! Prints the build-id of ELF files, and the file offset and SVMA of their code.
//!
//! `cargo run -p rprof-image --example segments -- /bin/ls`
#![allow(clippy::print_stdout, reason = "an example talks to its user")]

use std::path::Path;

use rprof_image::{ImageFile, Segments, build_id_of};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for path in std::env::args_os().skip(1) {
        // Refuses devices and named pipes.
        let file = ImageFile::open(Path::new(&path))?;
        let id = build_id_of(file.bytes());
        let id = id.map_or_else(|| "no build-id".into(), |id| id.to_string());
        println!("{}: {id}", path.display());
        let segments = Segments::parse(file.bytes()).ok_or("no program or library")?;
        for code in segments.code() {
            println!(
                "  code at offset {:#x}, SVMA {:#x}, {} bytes",
                code.offset, code.svma, code.file_size
            );
        }
    }
    Ok(())
}
