//! Downloads the debug file of an ELF file from the servers in `DEBUGINFOD_URLS`.
//!
//! `cargo run -p rprof-debuginfod --example fetch -- /bin/ls`
#![allow(clippy::print_stdout, reason = "an example talks to its user")]

use std::path::{Path, PathBuf};

use rprof_debuginfod::{Client, Settings};
use rprof_image::{ImageFile, RemoteFile, RemoteFiles, RemoteKind, build_id_of};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let image = PathBuf::from(std::env::args_os().nth(1).ok_or("name an ELF file")?);
    let build_id = build_id_of(ImageFile::open(&image)?.bytes()).ok_or("it has no build-id")?;
    let client = Client::new(Settings::from_environment()?);
    let wanted = RemoteFile {
        build_id: &build_id,
        kind: RemoteKind::DebugInfo,
        image: &image,
    };
    // A server is not trusted, so the caller checks the file.
    let is_right = |path: &Path| {
        ImageFile::open(path).is_ok_and(|file| build_id_of(file.bytes()) == Some(build_id))
    };
    match client.fetch(&wanted, &is_right) {
        Some(path) => println!("{}", path.display()),
        None => println!("no server has it"),
    }
    for outcome in client.take_outcomes() {
        println!("{:?} of {build_id}: {:?}", outcome.kind, outcome.result);
    }
    Ok(())
}
