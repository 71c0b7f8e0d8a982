//! A `vmlinux` with functions at known addresses.

use crate::tools::{Scratch, have, run};
use rprof_symbols::{BuildId, ImageKey, Reason, Symbolizer, VmlinuxError};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Link address.
const LINKED: u64 = 0xffff_ffff_8100_0000;
/// Address during the recording, moved by KASLR.
const LOADED: u64 = 0xffff_ffff_9d20_0000;
const BUILD_ID: [u8; 20] = [0x5a; 20];

const SOURCE: &str = "
    .file 1 \"/made/up/kernel.c\"
    .text
    .globl _text
_text:
    .loc 1 10 1
    .globl startup_64
    .type startup_64, @function
startup_64:
    nop
    nop
    .size startup_64, . - startup_64
    .balign 256
    .globl made_up_read
    .type made_up_read, @function
made_up_read:
    .loc 1 20 1
    nop
    .loc 1 21 1
    nop
    nop
    .size made_up_read, . - made_up_read
";

fn make(scratch: &Scratch, name: &str, build_id: &str) -> PathBuf {
    let object = scratch.path().join("kernel.o");
    let path = scratch.path().join(name);
    let mut assembler = Command::new("as");
    run(
        assembler.args(["-gdwarf-5", "-o"]).arg(&object).arg("-"),
        SOURCE,
    );
    let mut linker = Command::new("ld");
    let base = format!("-Ttext={LINKED:#x}");
    let id = format!("--build-id={build_id}");
    run(
        linker
            .args(["-e", "0", &base, &id, "-o"])
            .arg(&path)
            .arg(object),
        "",
    );
    path
}

fn hex(id: &[u8]) -> String {
    let digits: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("0x{digits}")
}

fn kernel() -> ImageKey {
    let id = BuildId::new(&BUILD_ID);
    (ImageKey::kernel().with_build_id(id)).with_recorded_start(Some(LOADED))
}

fn with(vmlinux: &Path) -> Symbolizer {
    Symbolizer::builder()
        .vmlinux(Some(vmlinux.to_owned()))
        .build()
}

#[test]
fn a_kernel_that_was_moved_is_named_with_lines() {
    if !have(&["as", "ld"]) {
        return;
    }
    let scratch = Scratch::new();
    let symbolizer = with(&make(&scratch, "vmlinux", &hex(&BUILD_ID)));
    let found = symbolizer.resolve_image(
        &kernel(),
        &[
            LOADED + 0x101,
            LOADED + 1,
            LOADED + 0x103,
            LOADED - 1,
            LINKED + 0x101,
            0x101,
        ],
    );
    let named: Vec<_> = found
        .iter()
        .map(|lookup| {
            let frames = lookup.as_ref().ok()?;
            let outermost = frames.iter().next()?;
            let line = outermost
                .line
                .as_ref()
                .map(|line| (line.file.to_string(), line.line));
            Some((frames.symbol().name.to_string(), frames.offset(), line))
        })
        .collect();
    let line = |line| Some(("/made/up/kernel.c".to_owned(), line));
    assert_eq!(
        named,
        [
            Some(("made_up_read".into(), 1, line(21))),
            Some(("startup_64".into(), 1, line(10))),
            None,
            None,
            None,
            None,
        ]
    );
    assert_eq!(
        found[2],
        Err(Reason::ForeignKernel),
        "nor does another kernel help"
    );
    assert_eq!(symbolizer.refused_vmlinux(), None);
}

#[test]
fn another_kernel_is_refused() {
    if !have(&["as", "ld"]) {
        return;
    }
    let scratch = Scratch::new();
    for id in ["none", &hex(&[1; 20])] {
        let symbolizer = with(&make(&scratch, "vmlinux", id));
        let found = symbolizer.resolve_image(&kernel(), &[LOADED + 0x101]);
        assert_eq!(found, [Err(Reason::ForeignKernel)]);
        let refused = symbolizer.refused_vmlinux().unwrap();
        assert!(matches!(refused, VmlinuxError::Another { .. }), "{refused}");
    }
}

#[test]
fn without_its_start_it_is_refused() {
    if !have(&["as", "ld"]) {
        return;
    }
    let scratch = Scratch::new();
    let symbolizer = with(&make(&scratch, "vmlinux", &hex(&BUILD_ID)));
    let hidden = ImageKey::kernel().with_build_id(BuildId::new(&BUILD_ID));
    let found = symbolizer.resolve_image(&hidden, &[LOADED + 0x101, LINKED + 0x101]);
    assert!(found.iter().all(Result::is_err), "{found:?}");
    let refused = symbolizer.refused_vmlinux().unwrap();
    assert!(matches!(refused, VmlinuxError::NoStart { .. }), "{refused}");
    assert!(refused.to_string().contains("kptr_restrict"));
}

#[test]
fn what_is_no_vmlinux_is_refused() {
    let scratch = Scratch::new();
    let file = scratch.path().join("vmlinuz");
    std::fs::write(&file, b"\x1f\x8b compressed").unwrap();
    for path in [
        &file,
        &scratch.path().join("nothing"),
        scratch.path(),
        Path::new("/dev/zero"),
    ] {
        let symbolizer = with(path);
        let refused = symbolizer.refused_vmlinux().unwrap();
        assert!(
            matches!(refused, VmlinuxError::Unusable { .. }),
            "{refused}"
        );
        let found = symbolizer.resolve_image(&kernel(), &[LOADED + 0x101]);
        assert_eq!(found, [Err(Reason::ForeignKernel)]);
    }
}

/// A stripped `vmlinux` with its symbols in a debug file, as in distributions.
#[test]
fn its_debug_file_is_found() {
    if !have(&["as", "ld", "objcopy"]) {
        return;
    }
    let scratch = Scratch::new();
    let whole = make(&scratch, "vmlinux", &hex(&BUILD_ID));
    let stripped = scratch.path().join("stripped");
    let dir = scratch.path().join("debug");
    crate::debug_files::split(&whole, &stripped, &dir).unwrap();
    let symbolizer = Symbolizer::builder()
        .vmlinux(Some(stripped))
        .debug_dirs(vec![dir])
        .build();
    let found = symbolizer.resolve_image(&kernel(), &[LOADED + 0x100]);
    assert_eq!(&*found[0].as_ref().unwrap().symbol().name, "made_up_read");
}
