//! Compares the rule of [`Segments`] with the kernel: the bias of each code mapping.

use rprof_image::{ImageFile, Segment, Segments};
use rprof_testing::{Need, has, skip};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Code mapping from `/proc/PID/maps`.
struct CodeMapping {
    start: u64,
    end: u64,
    offset: u64,
    path: PathBuf,
}

fn code_mappings(maps: &str) -> Vec<CodeMapping> {
    let mapping = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let is_code = words.next()?.as_bytes().get(2) == Some(&b'x');
        let offset = u64::from_str_radix(words.next()?, 16).ok()?;
        let path = PathBuf::from(words.nth(2)?);
        (is_code && path.is_absolute()).then_some(CodeMapping {
            start: u64::from_str_radix(start, 16).ok()?,
            end: u64::from_str_radix(end, 16).ok()?,
            offset,
            path,
        })
    };
    maps.lines().filter_map(mapping).collect()
}

/// Former rule of symbolization: exact match, code first; else by pages, including memory without
/// file.
fn old_rule_of_symbols(table: &[Segment], offset: u64) -> Option<u64> {
    let sorted = || {
        let code = table.iter().filter(|segment| segment.executable);
        code.chain(table.iter().filter(|segment| !segment.executable))
    };
    let exact = sorted().find(|s| offset.wrapping_sub(s.offset) < s.file_size);
    let rounded = || {
        sorted().find(|s| {
            let end = s.offset + s.file_size.max(s.memory_size);
            s.offset / 4096 * 4096 <= offset && offset < end.next_multiple_of(4096)
        })
    };
    let found = exact.or_else(rounded)?;
    Some(found.svma.wrapping_add(offset.wrapping_sub(found.offset)))
}

/// Former rule of unwinding: from the start of the page to the end in the file, code first.
fn old_rule_of_unwinding(table: &[Segment], offset: u64) -> Option<u64> {
    let covers = |s: &&Segment| {
        s.offset / 4096 * 4096 <= offset && offset < s.offset.saturating_add(s.file_size)
    };
    let found = (table.iter().filter(covers)).max_by_key(|segment| segment.executable)?;
    Some(found.svma.wrapping_add(offset.wrapping_sub(found.offset)))
}

fn loads_of_readelf(path: &Path) -> Vec<Segment> {
    let output = Command::new("readelf")
        .arg("-lW")
        .arg(path)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let loads = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("LOAD"));
    let load = |line: &str| {
        let hex = |word: &str| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok();
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        Some(Segment {
            offset: hex(words[0])?,
            svma: hex(words[1])?,
            file_size: hex(words[3])?,
            memory_size: hex(words[4])?,
            align: hex(words.last()?)?,
            executable: words[5..].iter().any(|word| word.contains('E')),
        })
    };
    loads.map(|line| load(line).unwrap()).collect()
}

#[derive(Default)]
struct Compared {
    mappings: usize,
    naming_was_wrong: usize,
    unwinding_was_wrong: usize,
}

/// Compares each code mapping of `path` in `maps` with the known bias.
fn compare(path: &Path, bias: u64, maps: &str, compared: &mut Compared) {
    let file = ImageFile::open(path).unwrap();
    let segments = Segments::parse(file.bytes()).unwrap();
    let table = loads_of_readelf(path);
    assert!(!table.is_empty(), "{}", path.display());
    for mapping in code_mappings(maps).iter().filter(|m| m.path == path) {
        let shown = format!("{} {:#x}", path.display(), mapping.offset);
        let found = segments.bias(mapping.start, mapping.offset);
        assert_eq!(found, Some(bias), "{shown}");
        // Every instruction keeps the SVMA of its segment.
        for code in table.iter().filter(|segment| segment.executable) {
            for svma in [
                code.svma,
                code.svma + code.file_size / 2,
                code.svma + code.file_size - 1,
            ] {
                let avma = svma.wrapping_add(bias);
                if (mapping.start..mapping.end).contains(&avma) {
                    let offset = avma - mapping.start + mapping.offset;
                    assert_eq!(segments.svma(offset), Some(svma), "{shown}: {svma:#x}");
                }
            }
        }
        compared.mappings += 1;
        let by = |old: Option<u64>| old.map(|svma| mapping.start.wrapping_sub(svma));
        let naming = by(old_rule_of_symbols(&table, mapping.offset));
        let unwinding = by(old_rule_of_unwinding(&table, mapping.offset));
        compared.naming_was_wrong += usize::from(naming != Some(bias));
        compared.unwinding_was_wrong += usize::from(unwinding != Some(bias));
    }
}

/// Returns the folder with the `ld.lld` of the Rust toolchain, for `gcc -B`.
fn folder_of_lld() -> Option<PathBuf> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc)
        .args(["--print", "sysroot"])
        .output()
        .ok()?;
    let root = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
    let targets = std::fs::read_dir(root.join("lib/rustlib")).ok()?;
    let folders = targets
        .flatten()
        .map(|target| target.path().join("bin/gcc-ld"));
    folders
        .into_iter()
        .find(|folder| folder.join("ld.lld").exists())
}

#[test]
fn the_bias_of_code_is_the_one_that_the_kernel_gave() {
    if !has(Need::Gcc) || !has(Need::Tool("readelf")) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let lld = folder_of_lld().map(|folder| format!("-B{}", folder.display()));
    let mut ways: Vec<Vec<&str>> = vec![
        vec![],
        vec!["-no-pie"],
        vec!["-Wl,-z,noseparate-code"],
        vec!["-no-pie", "-Wl,-z,noseparate-code"],
        vec!["-Wl,-z,separate-code"],
        vec!["-Wl,-z,max-page-size=65536"],
    ];
    match &lld {
        Some(lld) => ways.extend([
            vec![lld, "-fuse-ld=lld"],
            vec![lld, "-fuse-ld=lld", "-no-pie"],
            vec![lld, "-fuse-ld=lld", "-Wl,-z,max-page-size=65536"],
            vec![lld, "-fuse-ld=lld", "-Wl,-z,separate-code"],
            vec![lld, "-fuse-ld=lld", "-Wl,--no-rosegment"],
        ]),
        None => skip("needs the lld of a Rust toolchain"),
    }
    if has(Need::Tool("ld.gold")) {
        ways.push(vec!["-fuse-ld=gold"]);
        ways.push(vec!["-fuse-ld=gold", "-Wl,--rosegment"]);
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/maps.c");
    let mut compared = Compared::default();
    for (number, way) in ways.iter().enumerate() {
        let program = folder.path().join(format!("maps-{number}"));
        let mut gcc = Command::new("gcc");
        gcc.arg("-O1")
            .arg(&source)
            .arg("-o")
            .arg(&program)
            .args(way);
        let built = gcc.output().unwrap();
        let errors = String::from_utf8_lossy(&built.stderr);
        assert!(built.status.success(), "{way:?}: {errors}");
        let output = Command::new(&program).output().unwrap();
        let maps = String::from_utf8(output.stdout).unwrap();
        let (first, maps) = maps.split_once('\n').unwrap();
        let bias = u64::from_str_radix(first.strip_prefix("bias ").unwrap(), 16).unwrap();
        let before = compared.mappings;
        compare(&program, bias, maps, &mut compared);
        assert!(compared.mappings > before, "{way:?}: {maps}");
    }
    // The test must contain cases in which the former rules fail.
    if lld.is_some() {
        let what = "segments on one page of the file, where unwinding and naming disagreed";
        assert!(compared.naming_was_wrong >= 3, "no {what}");
    }
    eprintln!(
        "{} mappings of code; naming had another bias for {}, unwinding for {}",
        compared.mappings, compared.naming_was_wrong, compared.unwinding_was_wrong
    );
}

/// Checks everything mapped into this process, from any linker.
#[test]
fn what_this_process_has_mapped_has_one_bias() {
    if !has(Need::Tool("readelf")) {
        return;
    }
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let mut compared = Compared::default();
    for (path, bias) in loaded() {
        compare(&path, bias, &maps, &mut compared);
    }
    assert!(compared.mappings >= 2, "{}", compared.mappings);
}

/// Returns paths and biases of the loaded objects from the dynamic linker (dl_iterate_phdr(3)).
fn loaded() -> Vec<(PathBuf, u64)> {
    unsafe extern "C" fn each(
        info: *mut libc::dl_phdr_info,
        _: usize,
        into: *mut libc::c_void,
    ) -> i32 {
        // SAFETY: `info` is valid for this call, and `into` is the list below.
        let (info, into) = unsafe { (&*info, &mut *into.cast::<Vec<(PathBuf, u64)>>()) };
        // SAFETY: the name is a C string as long as the object is loaded.
        let name = unsafe { std::ffi::CStr::from_ptr(info.dlpi_name) };
        into.push((
            PathBuf::from(name.to_string_lossy().as_ref()),
            info.dlpi_addr,
        ));
        0
    }
    let mut found: Vec<(PathBuf, u64)> = Vec::new();
    // SAFETY: `each` does not unwind, and `found` outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(each), (&raw mut found).cast()) };
    // The program comes first and without a name.
    if let Some((first, _)) = found.first_mut() {
        *first = std::env::current_exe().unwrap();
    }
    let real = |(path, bias): (PathBuf, u64)| Some((path.canonicalize().ok()?, bias));
    found.into_iter().filter_map(real).collect()
}
