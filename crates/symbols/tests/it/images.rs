//! [`Symbolizer`]: identity of images, reasons, threads.

use crate::tools::Scratch;
use rprof_symbols::{BuildId, ElfSymbols, ImageKey, Reason, Symbolizer};
use std::path::Path;
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
