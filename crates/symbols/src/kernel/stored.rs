//! Kernel symbols as they are kept from one run to the next.
//!
//! The kernel takes some 40 ms to print `/proc/kallsyms`, and reading the text takes as long again. Nothing in it changes
//! while the machine runs but modules, which are listed, and what comes and goes without notice: BPF programs,
//! trampolines, probes. The latter are not kept, and a kept list answers only for addresses that cannot be theirs
//! ([`KernelSymbols::is_certain`]).
//!
//! ```text
//!   magic | crc32 of what follows | key | text range | modules | entries, 16 bytes each | names
//! ```
//!
//! Numbers have the byte order of this machine, which the magic shows.

use super::{Entry, KernelError, KernelSymbols, split_line};
use rprof_image::loaded_modules;
use rprof_output::PrivateCache;
use rustc_hash::FxHashSet;
use std::fs::{self, File};
use std::io::Read;

/// Name of the file in the cache.
const FILE: &str = "kernel-symbols";

/// Most bytes of it that are read: ten times what a distribution's kernel has.
const MOST: u64 = 64 << 20;

/// Beginning of the file, with the version of its form.
const MAGIC: u64 = u64::from_be_bytes(*b"rprofks1");

/// Number of bytes of `/proc/kallsyms` that are compared.
const HEAD: u64 = 1024;

/// Length of an entry in the file.
const ENTRY: usize = 16;

/// Returns the symbols of the running kernel: kept ones, if they are of this start of the machine, with these modules; else
/// those of `/proc/kallsyms`, which are then kept.
///
/// # Errors
/// As [`KernelSymbols::load_running`].
pub(crate) fn load_running(cache: Option<&PrivateCache>) -> Result<KernelSymbols, KernelError> {
    let Some((cache, key)) = cache.and_then(|cache| Some((cache, running_key()?))) else {
        return KernelSymbols::load_running();
    };
    let kept = cache.read(FILE, MOST).ok();
    if let Some(symbols) = kept.and_then(|bytes| decode(&bytes, &key)) {
        return Ok(symbols);
    }
    let symbols = KernelSymbols::load_running()?;
    // Unless modules changed meanwhile. Where nothing can be kept, the next run takes as long.
    if let Some(bytes) = encode(&symbols, &key).filter(|_| running_key() == Some(key)) {
        cache.write(FILE, &bytes).ok();
    }
    Ok(symbols)
}

/// Returns what the symbols depend on: the start of the machine, the modules, and the beginning of the list itself, without
/// which nobody who may not see addresses is shown any. `None` where they are hidden, or may not be kept.
fn running_key() -> Option<Vec<u8>> {
    let mut head = Vec::new();
    let list = File::open("/proc/kallsyms").ok()?;
    list.take(HEAD).read_to_end(&mut head).ok()?;
    let mut lines = head.split(|byte| *byte == b'\n').filter_map(split_line);
    let shows_addresses = lines.any(|(start, ..)| start != 0);
    let mut key = fs::read("/proc/sys/kernel/random/boot_id").ok()?;
    for module in loaded_modules() {
        // One that is just coming or going has symbols that will be gone.
        if !module.is_live || module.start == 0 {
            return None;
        }
        let line = format!("{} {:x} {:x}\n", module.name, module.start, module.size);
        key.extend(line.bytes());
    }
    key.extend(head);
    shows_addresses.then_some(key)
}

/// Encodes the symbols of the kernel and of loaded modules; `None` if the list does not say where the kernel's code ends.
fn encode(symbols: &KernelSymbols, key: &[u8]) -> Option<Vec<u8>> {
    let text = symbols.text.clone()?;
    let loaded: FxHashSet<Box<str>> = (loaded_modules().into_iter().map(|m| m.name)).collect();
    let is_kept = |entry: &&Entry| match usize::from(entry.module) {
        0 => true,
        module => loaded.contains(&symbols.modules[module]),
    };
    let modules = symbols.modules.join("\n");
    let entries: Vec<&Entry> = symbols.entries.iter().filter(is_kept).collect();
    let mut out = Vec::with_capacity(
        64 + key.len() + modules.len() + entries.len() * ENTRY + symbols.names.len(),
    );
    out.extend(text.start.to_ne_bytes());
    out.extend(text.end.to_ne_bytes());
    for part in [key, modules.as_bytes(), symbols.names.as_bytes()] {
        out.extend((part.len() as u64).to_ne_bytes());
        out.extend(part);
    }
    for entry in entries {
        out.extend(entry.start.to_ne_bytes());
        let module_and_name = u64::from(entry.module) << 32 | u64::from(entry.name);
        let rest = u64::from(entry.code) << 48 | module_and_name;
        out.extend(rest.to_ne_bytes());
    }
    let mut file = MAGIC.to_ne_bytes().to_vec();
    file.extend(u64::from(crc32fast::hash(&out)).to_ne_bytes());
    file.append(&mut out);
    Some(file)
}

/// Decodes symbols that were encoded with this key; `None` for any others, and for damaged ones.
fn decode(file: &[u8], key: &[u8]) -> Option<KernelSymbols> {
    let mut rest = file;
    if number(&mut rest)? != MAGIC || number(&mut rest)? != u64::from(crc32fast::hash(rest)) {
        return None;
    }
    let text = number(&mut rest)?..number(&mut rest)?;
    if part(&mut rest)? != key {
        return None;
    }
    let modules = str::from_utf8(part(&mut rest)?).ok()?;
    let modules: Vec<Box<str>> = modules.split('\n').map(Into::into).collect();
    let names = str::from_utf8(part(&mut rest)?).ok()?.to_owned();
    let (entries, []) = rest.as_chunks::<ENTRY>() else {
        return None;
    };
    let decode = |bytes: &[u8; ENTRY]| {
        let (start, rest) = bytes.split_first_chunk()?;
        let rest = u64::from_ne_bytes(*rest.first_chunk()?);
        Some(Entry {
            start: u64::from_ne_bytes(*start),
            name: rest as u32,
            module: (rest >> 32) as u16,
            code: rest >> 48 != 0,
        })
    };
    let entries: Vec<Entry> = entries.iter().map(decode).collect::<Option<_>>()?;
    let is_sound = entries.is_sorted_by(|a, b| a.start < b.start)
        && (entries.iter()).all(|entry| usize::from(entry.module) < modules.len())
        && !text.is_empty();
    is_sound.then_some(KernelSymbols {
        entries,
        names,
        modules,
        text: Some(text),
        is_kept: true,
    })
}

/// Takes a number from the beginning.
fn number(rest: &mut &[u8]) -> Option<u64> {
    let (number, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(u64::from_ne_bytes(*number))
}

/// Takes a part from the beginning, with its length before it.
fn part<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(number(rest)?).ok()?;
    let (part, behind) = rest.split_at_checked(length)?;
    *rest = behind;
    Some(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "\
ffffffff81000000 T _text
ffffffff81000010 t first
ffffffff81003000 T _etext
ffffffff81003040 d data
ffffffff81003050 t behind_data
ffffffffc0001000 t bpf_prog_6deef7357e7b4530_sd_devices\t[bpf]
";

    #[test]
    fn kept_symbols_are_those_that_were_listed() {
        let symbols = KernelSymbols::parse(LIST.as_bytes()).unwrap();
        let file = encode(&symbols, b"key").unwrap();
        let kept = decode(&file, b"key").unwrap();
        assert_eq!(kept.text_range(), symbols.text_range());
        let listed: Vec<_> = symbols.iter().filter(|s| s.module.is_none()).collect();
        let mut found: Vec<_> = kept.iter().collect();
        // The last one ends where the program began that is not kept.
        assert_eq!(found.len(), listed.len());
        assert_eq!(found.pop().unwrap().name, "behind_data");
        assert_eq!(found, listed[..found.len()]);
        assert!(decode(&file, b"another").is_none());
    }

    #[test]
    fn they_answer_for_no_address_that_may_be_of_something_else() {
        let symbols = KernelSymbols::parse(LIST.as_bytes()).unwrap();
        let kept = decode(&encode(&symbols, b"key").unwrap(), b"key").unwrap();
        let bpf = 0xffff_ffff_c000_1000;
        assert!(symbols.is_certain(bpf) && !kept.is_certain(bpf));
        for avma in [0xffff_ffff_8100_0018, 0xffff_ffff_8100_2fff] {
            assert!(kept.is_certain(avma), "{avma:#x}");
            assert_eq!(kept.lookup(avma), symbols.lookup(avma));
        }
        // Within the page of a symbol nothing else can lie.
        assert!(kept.is_certain(0xffff_ffff_8100_3060));
        assert!(!kept.is_certain(0xffff_ffff_8100_4000));
        assert!(!kept.is_certain(0x1000) && !kept.is_certain(u64::MAX));
    }

    #[test]
    fn what_is_damaged_is_not_read() {
        let symbols = KernelSymbols::parse(LIST.as_bytes()).unwrap();
        let file = encode(&symbols, b"key").unwrap();
        for end in 0..file.len() {
            assert!(decode(&file[..end], b"key").is_none(), "{end}");
        }
        for at in 0..file.len() {
            let mut damaged = file.clone();
            damaged[at] ^= 1;
            assert!(decode(&damaged, b"key").is_none(), "{at}");
        }
    }

    #[test]
    fn symbols_of_the_running_kernel_are_kept_unless_they_are_hidden() {
        let folder = rprof_output::private_folder().unwrap();
        let home = folder.path().as_os_str().to_owned();
        let get = |name| (name == "HOME").then(|| home.clone());
        let cache = PrivateCache::from_variables(get).unwrap();
        let first = load_running(Some(&cache));
        if running_key().is_none() {
            assert!(!cache.path().exists(), "{first:?}");
        }
        rprof_testing::needs!(Kernel);
        let first = first.unwrap();
        let second = load_running(Some(&cache)).unwrap();
        assert!(!first.is_kept && second.is_kept);
        assert_eq!(second.text_range(), first.text_range());
        let text = first.text_range().unwrap();
        for avma in text.step_by(997) {
            assert!(second.is_certain(avma));
            assert_eq!(second.lookup(avma), first.lookup(avma), "{avma:#x}");
        }
        fs::write(cache.path().join(FILE), b"something else").unwrap();
        assert!(!load_running(Some(&cache)).unwrap().is_kept);
        assert!(load_running(Some(&cache)).unwrap().is_kept);
    }
}
