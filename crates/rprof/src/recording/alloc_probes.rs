//! Probes of allocators (`otel_memory:alloc` and `:free`): programs that sample their allocations
//! themselves.
//!
//! The contract is OpenTelemetry's (design document 3 of its eBPF profiler): `alloc(address, size,
//! weight)` for a sampled allocation, `free(address)` for its release. The events are made in
//! tracefs, because the kernel then reads arguments in memory, and new threads and processes inherit
//! the events. Both need root.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rprof_events::tracefs::Tracefs;
use rprof_image::{ImageFile, UsdtProbe, needed_libraries, usdt_probes};
use rprof_launch::find_program;
use rprof_launch::procfs::Procfs;
use rprof_recorder::{AllocationProbe, ProbeKind};

/// Provider of the contract, and the provider of Datadog's library, which had the same probes before.
const PROVIDERS: [&str; 2] = ["otel_memory", "ddheap"];

/// Prefix of the groups in tracefs. The process id of the recorder follows.
const GROUP: &str = "rprof_alloc_";

/// Maximum number of probes. Each is an event.
const MAX_PROBES: usize = 128;

/// Maximum number of files that are searched.
const MAX_FILES: usize = 512;

/// Maximum length of the first line of a script.
const MAX_LINE: usize = 256;

/// Folders of libraries, without the cache of ld.so(8).
const FOLDERS: [&str; 8] = [
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/local/lib",
    "/lib64",
    "/usr/lib64",
    "/usr/lib",
];

/// Reason to record allocations without the programs' own probes.
#[derive(Debug)]
pub(crate) enum Unusable {
    /// The programs have none.
    Missing,
    /// The programs have some, which cannot be recorded.
    Refused(String),
}

/// Events for the probes of programs. They are removed on drop.
#[derive(Debug)]
pub(crate) struct OwnProbes {
    list: PathBuf,
    /// Events in tracefs, with the file of the probe.
    pub(crate) probes: Vec<AllocationProbe>,
    /// File with the first probe.
    pub(crate) file: PathBuf,
}

impl OwnProbes {
    /// Makes events for the probes in these files.
    pub(crate) fn new(files: &[PathBuf]) -> Result<OwnProbes, Unusable> {
        let refused = |why: String| Unusable::Refused(why);
        let found: Vec<Found> = files.iter().flat_map(|file| find(file)).collect();
        let Some(first) = found.iter().find(|one| one.kind == ProbeKind::Allocation) else {
            return Err(Unusable::Missing);
        };
        let file = first.path.clone();
        if found.len() > MAX_PROBES {
            let number = found.len();
            return Err(refused(format!(
                "{number} probes; rprof follows {MAX_PROBES} at most"
            )));
        }
        let root = Tracefs::find().map_err(|error| refused(error.to_string()))?;
        let list = root.root().join("uprobe_events");
        remove_left(&list);
        let mut own = OwnProbes {
            list,
            probes: Vec::new(),
            file,
        };
        let mut cause = None;
        for (number, probe) in found.iter().enumerate() {
            match own.add(number, probe) {
                Ok(()) => {}
                Err(why) => cause = cause.or(Some(why)),
            }
        }
        // The recorder describes samples by the first event.
        (own.probes).sort_by_key(|probe| probe.kind != ProbeKind::Allocation);
        // An unread probe would leave allocations out, or keep released ones.
        match cause {
            Some(why) => Err(refused(why)),
            None => Ok(own),
        }
    }

    fn add(&mut self, number: usize, found: &Found) -> Result<(), String> {
        let shown = found.path.display();
        let group = format!("{GROUP}{}", std::process::id());
        let (name, arguments) = match found.kind {
            ProbeKind::Allocation => (format!("alloc{number}"), 3),
            ProbeKind::Release => (format!("free{number}"), 1),
        };
        let mut line = format!(
            "p:{group}/{name} /proc/self/fd/{}:{:#x}",
            found.file.as_raw_fd(),
            found.probe.offset
        );
        if let Some(semaphore) = found.probe.semaphore {
            line.push_str(&format!("({semaphore:#x})"));
        }
        let mut widths = Vec::new();
        let operands = operands(&found.probe.arguments);
        for (operand, argument) in operands
            .iter()
            .take(arguments)
            .zip(["address", "size", "weight"])
        {
            let (place, width) = fetch(operand)
                .ok_or_else(|| format!("unsupported argument `{operand}` of a probe in {shown}"))?;
            line.push_str(&format!(" {argument}={place}"));
            widths.push(width);
        }
        if widths.len() < arguments {
            return Err(format!("a probe in {shown} has too few arguments"));
        }
        append(&self.list, &line).map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => {
                "uprobes need root (CAP_PERFMON, and write access to tracefs)".to_owned()
            }
            _ => format!("the kernel refuses a probe in {shown}: {error}"),
        })?;
        self.probes.push(AllocationProbe {
            kind: found.kind,
            event: format!("{group}:{name}"),
            widths,
        });
        Ok(())
    }

    /// Returns the events as text for `-e`. A release needs no stack.
    pub(crate) fn events(&self) -> Vec<String> {
        let text = |probe: &AllocationProbe| match probe.kind {
            ProbeKind::Allocation => probe.event.clone(),
            ProbeKind::Release => format!("{}/call-graph=no/", probe.event),
        };
        self.probes.iter().map(text).collect()
    }
}

impl Drop for OwnProbes {
    fn drop(&mut self) {
        for probe in &self.probes {
            append(&self.list, &format!("-:{}", probe.event.replace(':', "/"))).ok();
        }
    }
}

/// Removes the events that killed recorders left. Events in use stay: the kernel refuses to remove
/// them.
fn remove_left(list: &Path) {
    let lines = std::fs::read_to_string(list).unwrap_or_default();
    let procfs = Procfs::default();
    for line in lines.lines() {
        let name = line
            .strip_prefix("p:")
            .and_then(|rest| rest.split(' ').next());
        let pid = name.and_then(|name| name.strip_prefix(GROUP)?.split('/').next()?.parse().ok());
        if let (Some(name), Some(pid)) = (name, pid)
            && !procfs.exists(pid)
        {
            append(list, &format!("-:{name}")).ok();
        }
    }
}

/// Adds a line. Opening without `O_APPEND` would remove all probes of the machine.
fn append(list: &Path, line: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().append(true).open(list)?;
    file.write_all(line.as_bytes())
}

struct Found {
    kind: ProbeKind,
    probe: UsdtProbe,
    path: PathBuf,
    /// Keeps the descriptor that names the file, whatever its path contains.
    file: std::rc::Rc<File>,
}

/// Returns the probes of the first provider in a file.
fn find(path: &Path) -> Vec<Found> {
    let Some(file) = open(path).map(std::rc::Rc::new) else {
        return Vec::new();
    };
    let Ok(image) = ImageFile::open(Path::new(&format!("/proc/self/fd/{}", file.as_raw_fd())))
    else {
        return Vec::new();
    };
    let found = PROVIDERS.iter().map(|provider| {
        let file = file.clone();
        let probes = usdt_probes(image.bytes(), provider).into_iter();
        // Links in /proc/PID/map_files name the file.
        let link = (path.starts_with("/proc")).then(|| std::fs::read_link(path).ok());
        let shown = link.flatten().unwrap_or_else(|| path.to_owned());
        let found = move |probe: UsdtProbe| {
            let kind = match &*probe.name {
                "alloc" => ProbeKind::Allocation,
                "free" => ProbeKind::Release,
                _ => return None,
            };
            Some(Found {
                kind,
                probe,
                path: shown.clone(),
                file: file.clone(),
            })
        };
        probes.filter_map(found).collect::<Vec<_>>()
    });
    found
        .into_iter()
        .find(|list| !list.is_empty())
        .unwrap_or_default()
}

/// Opens a regular file. Opening others may wait or have effects.
fn open(path: &Path) -> Option<File> {
    let is_file = std::fs::metadata(path).is_ok_and(|meta| meta.is_file());
    is_file.then(|| File::open(path).ok()).flatten()
}

/// Returns the files that running processes map as code.
pub(crate) fn files_of_processes(pids: &[u32]) -> Vec<PathBuf> {
    // By the identity of the file, since processes share libraries.
    let mut files = BTreeMap::new();
    for pid in pids {
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        for line in maps.lines() {
            let mut fields = line.split_ascii_whitespace();
            let range = fields.next();
            let (Some(range), Some(access)) = (range, fields.next()) else {
                continue;
            };
            let path = PathBuf::from(format!("/proc/{pid}/map_files/{range}"));
            if access.contains('x')
                && files.len() < MAX_FILES
                && let Ok(meta) = std::fs::metadata(&path)
            {
                files.entry((meta.dev(), meta.ino())).or_insert(path);
            }
        }
    }
    files.into_values().collect()
}

/// Returns the executable file of a command, the interpreter of a script, and their libraries.
pub(crate) fn files_of_command(command: &[OsString]) -> Vec<PathBuf> {
    let Some(program) = command.first().and_then(|name| find_program(name)) else {
        return Vec::new();
    };
    let preloaded = std::env::var_os("LD_PRELOAD").unwrap_or_default();
    let preloaded = (preloaded.as_bytes().split(|byte| b" :".contains(byte)))
        .filter(|name| !name.is_empty())
        .filter_map(|name| library(OsStr::from_bytes(name), &[]));
    let mut waiting: VecDeque<PathBuf> = preloaded.collect();
    waiting.push_front(program);
    let (mut files, mut seen) = (Vec::new(), HashSet::new());
    while let Some(path) = waiting.pop_front() {
        if files.len() >= MAX_FILES || !seen.insert(path.clone()) {
            continue;
        }
        match interpreter(&path) {
            Some(interpreter) => waiting.push_back(interpreter),
            None => waiting.extend(libraries(&path)),
        }
        files.push(path);
    }
    files
}

/// Returns the interpreter of a script.
fn interpreter(path: &Path) -> Option<PathBuf> {
    let mut start = [0; MAX_LINE];
    let read = open(path)?.read(&mut start).ok()?;
    let line = start.get(..read)?.strip_prefix(b"#!")?;
    let line = line.split(|byte| *byte == b'\n').next()?;
    let mut words = (line.split(|byte| b" \t".contains(byte))).filter(|word| !word.is_empty());
    let first = OsStr::from_bytes(words.next()?);
    // `env` starts the program that its first word without a dash or a variable names.
    match Path::new(first).file_name() == Some(OsStr::new("env")) {
        true => {
            let name = words.find(|word| !word.starts_with(b"-") && !word.contains(&b'='));
            find_program(OsStr::from_bytes(name?))
        }
        false => Some(first.into()),
    }
}

/// Returns the libraries that a file needs.
fn libraries(path: &Path) -> Vec<PathBuf> {
    let Some(image) = open(path).and_then(|_| ImageFile::open(path).ok()) else {
        return Vec::new();
    };
    let needed = needed_libraries(image.bytes());
    let origin = path.parent().unwrap_or(Path::new("/")).as_os_str();
    let folder = |folder: &Vec<u8>| {
        let rest = (folder.strip_prefix(b"$ORIGIN")).or_else(|| folder.strip_prefix(b"${ORIGIN}"));
        PathBuf::from(OsString::from_vec(match rest {
            Some(rest) => [origin.as_bytes(), rest].concat(),
            None => folder.clone(),
        }))
    };
    let folders: Vec<PathBuf> = needed.folders.iter().map(folder).collect();
    let names = needed.names.iter();
    names
        .filter_map(|name| library(OsStr::from_bytes(name), &folders))
        .collect()
}

/// Finds a library as ld.so(8) does, but without its cache.
fn library(name: &OsStr, folders: &[PathBuf]) -> Option<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return Some(name.into());
    }
    let given = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let given: Vec<PathBuf> = std::env::split_paths(&given).collect();
    (given.iter().chain(folders).cloned())
        .chain(FOLDERS.map(PathBuf::from))
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}

/// Splits the arguments of a probe. Operands of AArch64 contain spaces: `8@[sp, 16]`.
fn operands(arguments: &str) -> Vec<String> {
    let mut operands: Vec<String> = Vec::new();
    for word in arguments.split_ascii_whitespace() {
        match operands.last_mut() {
            Some(last) if !word.contains('@') => {
                last.push(' ');
                last.push_str(word);
            }
            _ => operands.push(word.to_owned()),
        }
    }
    operands
}

/// Converts an operand of a probe (`8@-24(%rbp)`) to an argument in `uprobe_events`
/// (`-24(%bp):u64`), and returns its size in bytes. `None` for operands that the kernel cannot read.
fn fetch(operand: &str) -> Option<(String, usize)> {
    let (size, place) = operand.split_once('@')?;
    let width = match size.trim_start_matches('-') {
        "1" => 1,
        "2" => 2,
        "4" => 4,
        "8" => 8,
        _ => return None,
    };
    let sign = if size.starts_with('-') { 's' } else { 'u' };
    let place = match std::env::consts::ARCH {
        "aarch64" => fetch_on_aarch64(place)?,
        _ => fetch_on_x86(place)?,
    };
    Some((format!("{place}:{sign}{}", 8 * width), width))
}

fn fetch_on_x86(place: &str) -> Option<String> {
    if let Some(constant) = place.strip_prefix('$') {
        return Some(format!("\\{}", constant.parse::<i64>().ok()?));
    }
    if let Some(register) = place.strip_prefix('%') {
        return Some(format!("%{}", x86_register(register)?));
    }
    let (displacement, register) = place.strip_suffix(')')?.split_once("(%")?;
    let displacement: i64 = match displacement {
        "" => 0,
        number => number.parse().ok()?,
    };
    Some(format!("{displacement:+}(%{})", x86_register(register)?))
}

/// Returns the kernel's name of a register of any size.
fn x86_register(name: &str) -> Option<String> {
    if let Some(number) = name
        .strip_prefix('r')
        .map(|rest| rest.trim_end_matches(['d', 'w', 'b']))
        && (8..16).contains(&number.parse().unwrap_or(0))
    {
        return Some(format!("r{number}"));
    }
    let long = name.strip_prefix(['r', 'e']).unwrap_or(name);
    Some(match long {
        "ax" | "bx" | "cx" | "dx" | "si" | "di" | "bp" | "sp" => long.to_owned(),
        "al" | "bl" | "cl" | "dl" => long.replace('l', "x"),
        "sil" | "dil" | "bpl" | "spl" => long.trim_end_matches('l').to_owned(),
        _ => return None,
    })
}

fn fetch_on_aarch64(place: &str) -> Option<String> {
    let register = |name: &str| match name.strip_prefix(['x', 'w']) {
        Some(number) if number.parse::<u8>().is_ok_and(|number| number < 31) => {
            Some(format!("x{number}"))
        }
        _ => (name == "sp").then(|| name.to_owned()),
    };
    if let Ok(constant) = place.parse::<i64>() {
        return Some(format!("\\{constant}"));
    }
    let Some(memory) = place.strip_prefix('[') else {
        return Some(format!("%{}", register(place)?));
    };
    let memory = memory.strip_suffix(']')?;
    let (base, displacement) = memory.split_once(',').unwrap_or((memory, "0"));
    let displacement: i64 = displacement.trim().trim_start_matches('#').parse().ok()?;
    Some(format!("{displacement:+}(%{})", register(base.trim())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operands_become_arguments_of_the_kernel() {
        let known = [
            ("%rdi", "%di"),
            ("%r12d", "%r12"),
            ("%r8", "%r8"),
            ("%sil", "%si"),
            ("%eax", "%ax"),
            ("%bl", "%bx"),
            ("$-7", "\\-7"),
            ("-24(%rbp)", "-24(%bp)"),
            ("(%rsp)", "+0(%sp)"),
            ("16(%r13)", "+16(%r13)"),
        ];
        for (place, expected) in known {
            assert_eq!(fetch_on_x86(place).as_deref(), Some(expected), "{place}");
        }
        let unknown = [
            "",
            "%",
            "%ah",
            "%xmm0",
            "%r16",
            "weight(%rip)",
            "8(%rax,%rbx,4)",
            "$x",
        ];
        for place in unknown {
            assert_eq!(fetch_on_x86(place), None, "{place}");
        }
        let known = [
            ("x0", "%x0"),
            ("w21", "%x21"),
            ("sp", "%sp"),
            ("512", "\\512"),
            ("[sp, 16]", "+16(%sp)"),
            ("[x29, -8]", "-8(%x29)"),
            ("[x1]", "+0(%x1)"),
        ];
        for (place, expected) in known {
            assert_eq!(
                fetch_on_aarch64(place).as_deref(),
                Some(expected),
                "{place}"
            );
        }
        for place in ["", "x31", "d0", "[x0", "[x0, x1]", "xzr"] {
            assert_eq!(fetch_on_aarch64(place), None, "{place}");
        }
        for operand in ["8f@%xmm0", "%rdi", "3@%rdi", "@%rdi"] {
            assert_eq!(fetch(operand), None, "{operand}");
        }
        if cfg!(target_arch = "x86_64") {
            assert_eq!(fetch("8@%rdi"), Some(("%di:u64".to_owned(), 8)));
            assert_eq!(fetch("-4@8(%rsp)"), Some(("+8(%sp):s32".to_owned(), 4)));
        }
    }

    #[test]
    fn operands_with_spaces_stay_together() {
        assert_eq!(operands("8@x0 8@[sp, 16]"), ["8@x0", "8@[sp, 16]"]);
        assert_eq!(operands("8@%rdi -4@$7"), ["8@%rdi", "-4@$7"]);
        assert!(operands("").is_empty());
    }

    #[test]
    fn a_command_has_its_libraries_and_a_script_its_interpreter() {
        let files = |name: &str| files_of_command(&[OsString::from(name)]);
        let shell = files("sh");
        let has = |files: &[PathBuf], part: &str| {
            files
                .iter()
                .any(|path| path.to_string_lossy().contains(part))
        };
        assert!(
            has(&shell, "libc.so") || cfg!(target_env = "musl"),
            "{shell:?}"
        );
        let folder = tempfile::tempdir().expect("a folder");
        let script = folder.path().join("script");
        for line in ["#!/bin/sh -e\n", "#!/usr/bin/env -S A=1 sh\n"] {
            std::fs::write(&script, line).expect("a script");
            let files = files_of_command(&[script.clone().into()]);
            // A script need not be executable here: its path has a slash.
            assert!(has(&files, "/sh"), "{line}: {files:?}");
        }
        assert!(files("no-such-program").is_empty());
    }
}
