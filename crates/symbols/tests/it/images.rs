//! [`Symbolizer`]: identity of images, reasons, threads.

use crate::tools::{Scratch, have, run, without_section_headers};
use rprof_symbols::{BuildId, ElfSymbols, ImageKey, Reason, Symbolizer};
use std::path::{Path, PathBuf};
use std::process::Command;

#[inline(never)]
fn a_function_to_find(n: u64) -> u64 {
    // Contains no call that might be inlined.
    n ^ 0x5555
}

/// Returns path and file offset of code in this process.
fn locate(address: u64) -> (String, u64) {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let find = |line: &str| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let (low, high) = words[0].split_once('-')?;
        let hex = |text| u64::from_str_radix(text, 16).unwrap();
        (hex(low) <= address && address < hex(high))
            .then(|| (words[5].to_owned(), address - hex(low) + hex(words[2])))
    };
    maps.lines().find_map(find).unwrap()
}

#[test]
fn own_code() {
    let (path, offset) = locate(a_function_to_find as fn(u64) -> u64 as usize as u64);
    let symbolizer = Symbolizer::builder().build();
    let image = ImageKey::file(&path);
    let results = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| symbolizer.resolve_image(&image, &[offset + 1, offset, u64::MAX]))
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect::<Vec<_>>()
    });
    for result in results {
        let frames = result[0].as_ref().unwrap();
        assert_eq!(&*frames.symbol().name, "it::images::a_function_to_find");
        assert_eq!((frames.offset(), frames.names().count()), (1, 1));
        assert_eq!(result[1].as_ref().unwrap().offset(), 0);
        assert_eq!(result[2], Err(Reason::OutsideImage));
    }
    let build_id = symbolizer.build_id(&image);
    let wrong = image.clone().with_build_id(BuildId::new(&[1; 20]));
    assert_eq!(
        symbolizer.resolve_image(&wrong, &[offset]),
        [Err(Reason::BuildIdMismatch)]
    );
    if build_id.is_some() {
        assert!(
            symbolizer.resolve_image(&image.clone().with_build_id(build_id), &[offset])[0].is_ok()
        );
    }
    assert_eq!(
        symbolizer.resolve_image(&image.with_inode(Some(1)), &[offset]),
        [Err(Reason::FileChanged)]
    );
}

#[test]
fn reasons() {
    let scratch = Scratch::new();
    let symbolizer = Symbolizer::builder().build();
    let why = |path: &Path| {
        symbolizer.resolve_image(&ImageKey::file(path), &[0x1000])[0]
            .clone()
            .unwrap_err()
    };
    let text = scratch.path().join("text");
    std::fs::write(&text, "not an ELF file").unwrap();
    assert_eq!(why(&text), Reason::NotAnElf);
    assert_eq!(why(&scratch.path().join("none")), Reason::NoSuchFile);
    assert_eq!(why(Path::new("/dev/zero")), Reason::NotARegularFile);
    let fifo = scratch.path().join("fifo");
    if Command::new("mkfifo")
        .arg(&fifo)
        .status()
        .is_ok_and(|status| status.success())
    {
        assert_eq!(why(&fifo), Reason::NotARegularFile);
    }
    let cut = scratch.path().join("cut");
    std::fs::write(&cut, &std::fs::read("/proc/self/exe").unwrap()[..4096]).unwrap();
    assert_eq!(why(&cut), Reason::DamagedElf);
}

#[test]
fn vdso_and_kernel() {
    let symbolizer = Symbolizer::builder().build();
    if let Some(bytes) = rprof_image::vdso_image() {
        let symbols = ElfSymbols::parse(bytes).unwrap();
        let start = symbols
            .iter()
            .find(|symbol| symbol.raw() == b"__vdso_clock_gettime")
            .map(|symbol| symbol.start());
        let image = ImageKey::vdso().with_build_id(symbols.build_id().copied());
        if let Some(start) = start {
            // For code in the vdso, the offset equals the SVMA.
            let frames = symbolizer.resolve_image(&image, &[start])[0]
                .clone()
                .unwrap();
            assert!(frames.symbol().name.ends_with("clock_gettime"));
        }
        let other = ImageKey::vdso().with_build_id(BuildId::new(&[1; 20]));
        assert_eq!(
            symbolizer.resolve_image(&other, &[0]),
            [Err(Reason::ForeignVdso)]
        );
    }
    let other = ImageKey::kernel().with_build_id(BuildId::new(&[1; 20]));
    assert_eq!(
        symbolizer.resolve_image(&other, &[0]),
        [Err(Reason::ForeignKernel)]
    );

    let list =
        b"ffffffff81000000 T _text\nffffffff81000010 T work\nffffffff81000020 T _etext\n".to_vec();
    let symbolizer = Symbolizer::builder().kernel_list(list).build();
    let image = ImageKey::kernel().with_recorded_start(Some(0xffff_ffff_9100_0000));
    let frames = symbolizer.resolve_image(&image, &[0xffff_ffff_9100_0014])[0]
        .clone()
        .unwrap();
    assert_eq!((&*frames.symbol().name, frames.offset()), ("work", 4));
}

/// Builds a library of functions with these names, of 16 bytes each.
fn library(scratch: &Scratch, names: &[&str], options: &[&str]) -> PathBuf {
    let function = |name: &&str| {
        format!(
            ".globl {name}\n.type {name}, @function\n.p2align 4\n{name}: .zero 16\n.size {name}, 16\n"
        )
    };
    let source = format!(".text\n{}", names.iter().map(function).collect::<String>());
    let path = scratch.path().join("library.so");
    let mut command = Command::new("gcc");
    command.args(["-shared", "-nostdlib", "-x", "assembler", "-", "-o"]);
    run(command.arg(&path).args(options), &source);
    path
}

/// Names of all exported functions of a file, through a symbolizer.
fn names_of(path: &Path, symbols: &[(u64, String)]) -> Vec<String> {
    let bytes = std::fs::read(path).unwrap();
    let segments = rprof_image::Segments::parse(&bytes[..]).unwrap();
    let offset = |(svma, _): &(u64, String)| segments.offset_of_svma(*svma).unwrap().0;
    let offsets: Vec<u64> = symbols.iter().map(offset).collect();
    let lookups = Symbolizer::builder()
        .build()
        .resolve_image(&ImageKey::file(path), &offsets);
    let name = |lookup: Result<rprof_symbols::Frames, Reason>| match lookup {
        Ok(frames) => frames.symbol().name.to_string(),
        Err(reason) => format!("{reason:?}"),
    };
    lookups.into_iter().map(name).collect()
}

/// Returns start and linkage name of each exported symbol.
fn exported(path: &Path) -> Vec<(u64, String)> {
    let symbols = ElfSymbols::parse(std::fs::read(path).unwrap()).unwrap();
    let pair = |symbol: rprof_symbols::ElfSymbol<'_>| {
        (
            symbol.start(),
            String::from_utf8_lossy(symbol.raw()).into_owned(),
        )
    };
    symbols.iter().map(pair).collect()
}

#[test]
fn encoded_names_are_decoded_if_the_image_shows_the_language() {
    if !have(&["gcc"]) {
        return;
    }
    let scratch = Scratch::new();
    let names = [
        "pkg__work",
        "pkg__work__2",
        "pkg__other",
        "base_GHCziBase_map_info",
        "camlList__map_12",
    ];
    let shown = |evidence: &str| {
        let all = [&names[..], &[evidence]].concat();
        let path = library(&scratch, &all, &["-s"]);
        names_of(&path, &exported(&path)[..names.len()])
    };
    assert_eq!(shown("main"), names);
    let ada = [
        "pkg.work [pkg__work]",
        "pkg.work [pkg__work__2]",
        "pkg.other",
    ];
    assert_eq!(shown("__gnat_malloc"), [&ada[..], &names[3..]].concat());
    let haskell = [&names[..3], &["base:GHC.Base.map"], &names[4..]].concat();
    assert_eq!(shown("stg_upd_frame_info"), haskell);
    assert_eq!(
        shown("caml_call_gc"),
        [&names[..4], &["List.map_12"]].concat()
    );
}

/// `sstrip`, `llvm-strip --strip-sections` and `ld -z nosectionheader` remove section headers. The
/// dynamic linker does not need them.
#[test]
fn files_without_section_headers_have_the_names_of_their_dynamic_segment() {
    if !have(&["gcc"]) {
        return;
    }
    let scratch = Scratch::new();
    let names = ["first", "second", "_ZN2ns5thirdEi"];
    for hash in [
        "-Wl,--hash-style=gnu",
        "-Wl,--hash-style=sysv",
        "-Wl,--hash-style=both",
    ] {
        let path = library(&scratch, &names, &["-s", hash]);
        let symbols = exported(&path);
        let expected = names_of(&path, &symbols);
        assert_eq!(expected, ["first", "second", "ns::third"]);
        let bytes = std::fs::read(&path).unwrap();
        let short = scratch.path().join("short.so");
        std::fs::write(&short, without_section_headers(bytes)).unwrap();
        assert_eq!(names_of(&short, &symbols), expected, "{hash}");
    }
}

/// In musl, `setjmp` has no size, and the code that signal handlers return to follows it.
#[test]
fn a_symbol_without_size_does_not_name_a_signal_trampoline() {
    if !have(&["gcc"]) || cfg!(not(target_arch = "x86_64")) {
        return;
    }
    let scratch = Scratch::new();
    let program = scratch.path().join("restorer");
    let source = ".globl start\n.type start,@function\nstart: ret\nnop\nmov $15,%rax\nsyscall\n\
                  .type other,@function\nother: ret\nmov $15,%rax\nsyscall\n";
    let mut compile = Command::new("gcc");
    compile.args(["-x", "assembler", "-nostdlib", "-static", "-Wl,-e,start"]);
    run(compile.args(["-", "-o"]).arg(&program), source);
    let bytes = std::fs::read(&program).unwrap();
    let code = [0xc3, 0x90, 0x48, 0xc7, 0xc0, 15, 0, 0, 0];
    let start = bytes.windows(code.len()).position(|bytes| bytes == code);
    let start = start.unwrap() as u64;
    // The returns, and the bytes before the trampolines.
    let image = ImageKey::file(program.to_str().unwrap());
    let offsets = [start, start + 1, start + 11];
    let found = Symbolizer::builder()
        .build()
        .resolve_image(&image, &offsets);
    let names: Vec<&str> = (found.iter())
        .map(|found| &*found.as_ref().unwrap().symbol().name)
        .collect();
    assert_eq!(names, ["start", "__restore_rt", "other"]);
}
