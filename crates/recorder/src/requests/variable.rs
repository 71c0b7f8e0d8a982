//! [`Variable`]: the thread-local variable of a file, and its place in a process.

use std::fs::File;
use std::os::unix::fs::FileExt;

use object::read::elf::{Dynamic, ElfFile64, ElfSymbol64, FileHeader, ProgramHeader};
use object::{Endianness, Object, ObjectSymbol, ReadRef, RelocationFlags, RelocationTarget};
use object::{SymbolKind, elf};
use rprof_image::{FileReader, Segments};
use rprof_perf_event::ContextPlace;

use crate::mapped_files::MappedImage;

/// Thread-local variable with a pointer to the thread context.
const VARIABLE: &[u8] = b"otel_thread_ctx_v1";

/// Maximum size of `/proc/PID/maps` in bytes.
const MAX_MAPS: u64 = 4 << 20;

/// Thread-local variable in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Variable {
    pub(super) access: Access,
    /// True in a program, which takes precedence over libraries.
    pub(super) is_program: bool,
}

/// Access to a thread-local variable. Slots are SVMAs of words that the dynamic linker writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// Distance from the thread pointer.
    Static(i64),
    /// The slot contains the distance from the thread pointer.
    InitialExec { slot: u64 },
    /// The slot contains the number of the module, and `offset` is the place in its memory.
    Module { slot: u64, offset: u64 },
    /// The second word of the slot is the distance from the thread pointer, or the address of the
    /// number of the module and of the offset.
    Descriptor { slot: u64, offset: u64 },
}

/// Reads the variable of a mapped file, with the bias of the mapping.
pub(super) fn read_variable(image: &MappedImage, file_offset: u64) -> Option<(Variable, u64)> {
    let file = image.file().open().ok()?;
    let reader = FileReader::new(&file);
    let variable = variable(&reader)?;
    let bias = Segments::parse(&reader)?.bias(image.range.start, file_offset)?;
    Some((variable, bias))
}

/// Finds the variable in an ELF file.
fn variable<'data, R: ReadRef<'data>>(data: R) -> Option<Variable> {
    let file = ElfFile64::<Endianness, R>::parse(data).ok()?;
    let endian = file.endian();
    let header = file.elf_header();
    let segments = file.elf_program_headers();
    let has = |kind| {
        segments
            .iter()
            .any(|segment| segment.p_type(endian) == kind)
    };
    if !has(elf::PT_TLS) {
        return None;
    }
    let has_linker = has(elf::PT_INTERP);
    let is_program = header.e_type(endian) == elf::ET_EXEC || has_linker || is_static_pie(&file);
    let is_it = |symbol: &ElfSymbol64<'data, '_, Endianness, R>| {
        symbol.kind() == SymbolKind::Tls
            && !symbol.is_undefined()
            && symbol.name_bytes() == Ok(VARIABLE)
    };
    let Some(symbol) = file.dynamic_symbols().find(is_it) else {
        // Linkers give static programs no dynamic symbols.
        let is_static = is_program && !has_linker;
        let symbol = is_static.then(|| file.symbols().find(is_it))??;
        let access = Access::Static(distance_in_program(&file, symbol.address())?);
        return Some(Variable { access, is_program });
    };
    let machine = header.e_machine(endian);
    let mut of_module = None;
    let relocations = file.dynamic_relocations().into_iter().flatten();
    for (slot, relocation) in relocations {
        let RelocationFlags::Elf { r_type } = relocation.flags() else {
            continue;
        };
        let access = match (machine, r_type) {
            (elf::EM_X86_64, elf::R_X86_64_TPOFF64)
            | (elf::EM_AARCH64, elf::R_AARCH64_TLS_TPREL) => Access::InitialExec { slot },
            (elf::EM_X86_64, elf::R_X86_64_DTPMOD64)
            | (elf::EM_AARCH64, elf::R_AARCH64_TLS_DTPMOD) => Access::Module {
                slot,
                offset: symbol.address(),
            },
            (elf::EM_X86_64, elf::R_X86_64_TLSDESC) | (elf::EM_AARCH64, elf::R_AARCH64_TLSDESC) => {
                Access::Descriptor {
                    slot,
                    // A descriptor without a symbol is for the variable at the addend.
                    offset: match relocation.target() {
                        RelocationTarget::Symbol(_) => 0,
                        _ => symbol
                            .address()
                            .wrapping_sub(relocation.addend().cast_unsigned()),
                    },
                }
            }
            _ => continue,
        };
        match relocation.target() {
            RelocationTarget::Symbol(index) if index == symbol.index() => {
                return Some(Variable { access, is_program });
            }
            // Of the module, for variables that are used in the file alone.
            RelocationTarget::Absolute => match access {
                Access::InitialExec { .. }
                    if relocation.addend().cast_unsigned() == symbol.address() =>
                {
                    return Some(Variable { access, is_program });
                }
                Access::InitialExec { .. } => {}
                access => of_module = of_module.or(Some(access)),
            },
            _ => {}
        }
    }
    let access = match of_module {
        Some(access) => access,
        None if is_program => Access::Static(distance_in_program(&file, symbol.address())?),
        None => return None,
    };
    Some(Variable { access, is_program })
}

/// Returns true for a static program at any address, which names no dynamic linker.
fn is_static_pie<'data, R: ReadRef<'data>>(file: &ElfFile64<'data, Endianness, R>) -> bool {
    let Ok(table) = file.elf_dynamic_table() else {
        return false;
    };
    let is_flag = |entry: Dynamic| entry.tag == elf::DT_FLAGS_1 && entry.val & elf::DF_1_PIE.0 != 0;
    table.iter().any(is_flag)
}

/// Returns the distance of a variable of the program from the thread pointer. Its memory lies below
/// the thread pointer on x86-64, and 16 bytes above it on AArch64.
fn distance_in_program<'data, R: ReadRef<'data>>(
    file: &ElfFile64<'data, Endianness, R>,
    offset: u64,
) -> Option<i64> {
    let endian = file.endian();
    let segments = file.elf_program_headers();
    let memory = (segments.iter()).find(|segment| segment.p_type(endian) == elf::PT_TLS)?;
    let align = memory.p_align(endian).max(1);
    let distance = match file.elf_header().e_machine(endian) {
        elf::EM_X86_64 => {
            let size = memory.p_memsz(endian).checked_next_multiple_of(align)?;
            offset.wrapping_sub(size)
        }
        elf::EM_AARCH64 => 16_u64.checked_next_multiple_of(align)?.wrapping_add(offset),
        _ => return None,
    };
    Some(distance.cast_signed())
}

pub(super) fn words<const N: usize>(memory: &File, address: u64) -> Option<[u64; N]> {
    let mut words = [0; N];
    for (word, at) in words.iter_mut().zip((address..).step_by(8)) {
        let mut bytes = [0; 8];
        memory.read_exact_at(&mut bytes, at).ok()?;
        *word = u64::from_ne_bytes(bytes);
    }
    Some(words)
}

/// Distances from the thread pointer are smaller, and addresses larger.
const MAX_DISTANCE: i64 = 1 << 20;

/// Returns the place of the variable in a process that maps its file with `bias`. `None` before the
/// dynamic linker has relocated the file.
pub(super) fn place_of(
    memory: &File,
    pid: i32,
    variable: Variable,
    bias: u64,
) -> Option<ContextPlace> {
    let at = |slot: u64| bias.wrapping_add(slot);
    match variable.access {
        Access::Static(distance) => Some(ContextPlace::Static(distance)),
        Access::InitialExec { slot } => {
            let [distance] = words(memory, at(slot))?;
            (distance != 0).then_some(ContextPlace::Static(distance.cast_signed()))
        }
        Access::Module { slot, offset } => {
            let [module] = words(memory, at(slot))?;
            dynamic(pid, module, offset)
        }
        Access::Descriptor { slot, offset } => {
            let [function, argument] = words(memory, at(slot))?;
            let distance = argument.cast_signed();
            if function == 0 || argument == 0 {
                None
            } else if distance.abs() < MAX_DISTANCE {
                let distance = distance.wrapping_add(offset.cast_signed());
                Some(ContextPlace::Static(distance))
            } else {
                let [module, of_symbol] = words(memory, argument)?;
                dynamic(pid, module, of_symbol.wrapping_add(offset))
            }
        }
    }
}

/// Returns the place of a variable in a module with this number, by the layouts of glibc
/// (`tcbhead_t`, `dtv_t`) and musl (`struct pthread`).
fn dynamic(pid: i32, module: u64, offset: u64) -> Option<ContextPlace> {
    // Modules have numbers from 1.
    if module == 0 || module > 1 << 16 {
        return None;
    }
    // Debian's `ld-musl-x86_64.so.1` is a link to `libc.so`. That of glibc is never mapped.
    let is_of_musl = |line: &str| line.contains("/ld-musl-") || line.ends_with("/libc.so");
    let is_musl = maps(pid)?.lines().any(is_of_musl);
    let table = match (cfg!(target_arch = "aarch64"), is_musl) {
        (false, _) => 8,
        (true, false) => 0,
        (true, true) => -8,
    };
    let (entry_bytes, modules) = if is_musl { (8, 0) } else { (16, -16) };
    Some(ContextPlace::Dynamic {
        table,
        entry: module * entry_bytes,
        module,
        modules,
        offset,
    })
}

pub(super) fn maps(pid: i32) -> Option<String> {
    use std::io::Read;
    let mut bytes = Vec::new();
    let file = File::open(format!("/proc/{pid}/maps")).ok()?;
    file.take(MAX_MAPS).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns true if `/proc/PID/maps` has a mapping of the address.
pub(super) fn is_mapped(maps: &str, address: u64) -> bool {
    maps.lines().any(|line| {
        let bounds = || {
            let (start, rest) = line.split_once('-')?;
            let (end, _) = rest.split_once(' ')?;
            let [start, end] = [start, end].map(|text| u64::from_str_radix(text, 16).ok());
            Some(start?..end?)
        };
        bounds().is_some_and(|bounds| bounds.contains(&address))
    })
}
