//! Compiles the preload library. It is a shared library without libc, so that one file works in
//! programs with glibc and with musl.

use std::env;
use std::path::PathBuf;

const SOURCES: [&str; 2] = ["library/interpose.c", "library/sampling.c"];

const FLAGS: [&str; 18] = [
    "-std=gnu11",
    "-O2",
    "-g0",
    "-w",
    "-ffreestanding",
    "-fno-builtin",
    "-fno-lto",
    "-fPIC",
    "-fvisibility=hidden",
    // The library is there when the program starts, so its thread-local variables have fixed
    // offsets. Other models may allocate.
    "-ftls-model=initial-exec",
    // The profiler unwinds through its functions, by tables or by frame pointers.
    "-fno-omit-frame-pointer",
    "-fasynchronous-unwind-tables",
    "-fno-stack-protector",
    "-shared",
    "-nostdlib",
    "-Wl,-z,now",
    "-Wl,--hash-style=both",
    "-Wl,--build-id",
];

fn main() {
    for source in SOURCES.iter().chain(&["library/sampling.h"]) {
        println!("cargo::rerun-if-changed={source}");
    }
    let folder = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let library = folder.join("librprof-alloc.so");
    let architecture = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    if !["x86_64", "aarch64"].contains(&&*architecture) {
        std::fs::write(&library, []).expect("OUT_DIR is writable");
        return;
    }
    let compiler = cc::Build::new()
        .no_default_flags(true)
        .warnings(false)
        .get_compiler();
    let status = compiler
        .to_command()
        .args(FLAGS)
        .args(["-Wl,-soname,librprof-alloc.so", "-o"])
        .arg(&library)
        .args(SOURCES)
        .status();
    match status {
        Ok(status) if status.success() => {}
        other => panic!("cannot compile the preload library: {other:?}"),
    }
}
