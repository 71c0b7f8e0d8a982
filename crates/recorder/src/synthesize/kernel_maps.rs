//! Synthesizes mappings of the kernel and its modules.
//!
//! The kernel records no mappings of its own. Recorders synthesize them with time 0 and pid -1, as
//! perf does.

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufRead, BufReader};

use rprof_image::loaded_modules;
use rprof_records::{Misc, Mmap, Record, SampleId, SampleLayout};

/// First address of modules on x86-64 (`MODULES_VADDR` without KASAN). Kernel text ends before it.
/// See Documentation/arch/x86/x86_64/mm.rst.
const X86_64_MODULES: u64 = 0xffff_ffff_c000_0000;

/// Appends MMAP records for the kernel and its modules; nothing if the kernel hides its addresses
/// from this user.
pub fn append(layout: &SampleLayout, out: &mut Vec<u8>) {
    let Some((symbol, start)) = first_text_symbol() else {
        return;
    };
    let end = match cfg!(target_arch = "x86_64") && start < X86_64_MODULES {
        true => X86_64_MODULES,
        // On other architectures modules precede the kernel, or have records of their own.
        false => u64::MAX,
    };
    let kernel = format!("[kernel.kallsyms]{symbol}");
    put(layout, start, end - start, start, &kernel, out);
    for module in loaded_modules() {
        if module.start != 0 {
            let name = format!("[{}]", module.name);
            put(layout, module.start, module.size, 0, &name, out);
        }
    }
}

fn put(layout: &SampleLayout, start: u64, len: u64, pgoff: u64, path: &str, out: &mut Vec<u8>) {
    let record = Record::Mmap(Mmap {
        pid: -1,
        tid: 0,
        start,
        len,
        pgoff,
        path: Cow::Borrowed(path.as_bytes()),
    });
    // Synthesized records have id 0 and time 0. A module's name fits into any record.
    let id = SampleId::default();
    record.encode(Misc::KERNEL, layout, &id, out).ok();
}

/// Returns `_text`, else `_stext`, with its address. Both are near the beginning, and reading the
/// whole file takes longer than some programs run.
fn first_text_symbol() -> Option<(&'static str, u64)> {
    let list = BufReader::with_capacity(4096, File::open("/proc/kallsyms").ok()?);
    let mut stext = None;
    for line in list.lines().take(1000) {
        let line = line.ok()?;
        let mut words = line.split_ascii_whitespace();
        let address = u64::from_str_radix(words.next()?, 16).ok()?;
        let name = words.nth(1)?;
        match name {
            "_text" if address != 0 => return Some(("_text", address)),
            "_stext" if address != 0 => stext = Some(("_stext", address)),
            _ => {}
        }
    }
    stext
}
