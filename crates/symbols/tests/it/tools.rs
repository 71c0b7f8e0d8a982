//! Tools, scratch folders and test programs.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use rprof_testing::{Need, has};

/// Returns true if all of `tools` are installed. Otherwise the test is skipped.
#[track_caller]
pub(crate) fn have(tools: &[&'static str]) -> bool {
    for tool in tools {
        if !has(Need::Tool(tool)) {
            return false;
        }
    }
    true
}

/// Temporary folder, removed when dropped.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "rprof-symbols-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Compiles `source`, a file of `tests/fixtures`, to `name`.
    pub(crate) fn compile(
        &self,
        compiler: &str,
        source: &str,
        name: &str,
        options: &[&str],
    ) -> PathBuf {
        let source = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/fixtures")
            .join(source);
        let output = self.0.join(name);
        let options = [options, &["-lm"]].concat();
        // The .dwo file is named after the program, so the program is compiled in place.
        if options.contains(&"-gsplit-dwarf") {
            let mut command = Command::new(compiler);
            run(command.arg(source).arg("-o").arg(&output).args(options), "");
            return output;
        }
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let program = rprof_testing::compile(folder, compiler, &source, &options);
        std::fs::copy(program, &output).unwrap();
        output
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn run(command: &mut Command, input: &str) -> String {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().unwrap();
    let _ = writer.join();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Removes the section headers of an ELF file, as `sstrip` does.
pub(crate) fn without_section_headers(mut bytes: Vec<u8>) -> Vec<u8> {
    let (offset, counts) = match bytes[4] {
        1 => (0x20..0x24, 0x2e..0x34),
        _ => (0x28..0x30, 0x3a..0x40),
    };
    bytes[offset].fill(0);
    bytes[counts].fill(0);
    bytes
}

/// Returns the existing programs and libraries from a list of system files.
pub(crate) fn system_files() -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = [
        "/usr/bin/git",
        "/usr/local/bin/git",
        "/bin/bash",
        "/usr/bin/gcc",
        "/lib/x86_64-linux-gnu/libc.so.6",
        "/lib/x86_64-linux-gnu/libm.so.6",
        "/lib/x86_64-linux-gnu/libcrypto.so.3",
        "/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
        "/lib64/ld-linux-x86-64.so.2",
    ]
    .iter()
    .map(PathBuf::from)
    .filter(|path| path.exists())
    .collect();
    files.push(std::env::current_exe().unwrap());
    files
}

pub(crate) fn compiled_files(scratch: &Scratch) -> Vec<PathBuf> {
    if !have(&["gcc", "g++"]) {
        return Vec::new();
    }
    let x86 = cfg!(target_arch = "x86_64");
    let mut files = vec![
        scratch.compile("gcc", "program.c", "pie", &["-O2", "-pie", "-fPIE"]),
        scratch.compile("gcc", "program.c", "no-pie", &["-O2", "-no-pie"]),
        scratch.compile("gcc", "program.c", "static", &["-O1", "-static"]),
        scratch.compile(
            "gcc",
            "program.c",
            "now",
            &["-O2", "-Wl,-z,now", "-fno-plt"],
        ),
        scratch.compile("g++", "program.cpp", "cpp", &["-O2"]),
        scratch.compile("g++", "program.cpp", "cpp-debug", &["-O0", "-g", "-no-pie"]),
    ];
    if x86 {
        files.push(scratch.compile(
            "gcc",
            "program.c",
            "ibt",
            &["-O2", "-fcf-protection", "-Wl,-z,ibtplt"],
        ));
        files.push(scratch.compile(
            "gcc",
            "choice.s",
            "choice",
            &["-nostdlib", "-static", "-Wl,-e,start"],
        ));
    }
    files
}
