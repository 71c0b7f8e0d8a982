//! [`Layout`]: where a version of HotSpot keeps the fields that lead to a method's name.

use super::tables::{Exports, Tables};
use crate::snapshot::{Fault, Result, Snapshot};

/// Types with needed fields.
const TYPES: [&str; 18] = [
    "Abstract_VM_Version",
    "CodeBlob",
    "CodeCache",
    "CodeHeap",
    "CompiledMethod",
    "ConstMethod",
    "ConstantPool",
    "GenericGrowableArray",
    "GrowableArray<int>",
    "GrowableArrayBase",
    "HeapBlock",
    "InstanceKlass",
    "Klass",
    "Method",
    "PcDesc",
    "Symbol",
    "VirtualSpace",
    "nmethod",
];

/// Maximum offset of a field, and size of a type.
const MAX_OFFSET: u64 = 4096;

/// First and last version of each supported layout of code.
const WITH_POINTERS: std::ops::RangeInclusive<u32> = 9..=22;
const WITH_OFFSETS: std::ops::RangeInclusive<u32> = 25..=25;

/// First version whose compressed numbers contain no zero bytes (JDK-8292758).
const WITHOUT_ZEROS: u32 = 20;

/// Offsets in objects, in bytes, unless stated otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// True if no byte of a compressed number is zero.
    pub(super) excludes_zeros: bool,
    pub(super) method: MethodLayout,
    pub(super) code: CodeLayout,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MethodLayout {
    pub(super) const_method: u64,
    /// Start of the interpreter's code for this kind of method.
    pub(super) interpreter_entry: u64,
    pub(super) constants: u64,
    pub(super) flags: u64,
    pub(super) code_size: u64,
    pub(super) name_index: u64,
    /// Bytes of a ConstMethod, before the bytecode.
    pub(super) const_method_size: u64,
    pub(super) pool_tags: u64,
    pub(super) pool_holder: u64,
    pub(super) pool_length: u64,
    /// Bytes of a ConstantPool, before the constants.
    pub(super) pool_size: u64,
    pub(super) source_file: SourceFile,
    pub(super) class_constants: u64,
    pub(super) class_name: u64,
    pub(super) symbol_length: u64,
    pub(super) symbol_body: u64,
}

/// Location of the index of the source file's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SourceFile {
    /// JDK 15 and later.
    InPool(u64),
    InClass(u64),
}

/// Form of an address in the header of compiled code. Numbers are offsets of fields in the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A pointer.
    Pointer(u64),
    /// Bytes from the header, in 32 bits.
    FromHeader(u64),
    /// Bytes from the start of the code, in 16 bits.
    FromStart(u64),
    /// Bytes from where a pointer leads, in 32 bits.
    From { pointer: u64, bytes: u64 },
}

impl Place {
    /// Returns the address for a header `at` with code from `start`.
    pub(super) fn read(self, memory: &mut Snapshot, at: u64, start: u64) -> Result<u64> {
        let field = |offset: u64| at.wrapping_add(offset);
        let (base, bytes) = match self {
            Self::Pointer(offset) => return memory.u64(field(offset)),
            Self::FromHeader(offset) => (at, memory.u32(field(offset))?),
            Self::FromStart(offset) => (start, memory.u16(field(offset))?.into()),
            Self::From { pointer, bytes } => {
                let base = memory.u64(field(pointer));
                let bytes = memory.u32(field(bytes));
                (base?, bytes?)
            }
        };
        Ok(base.wrapping_add(bytes.into()))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CodeLayout {
    /// Address of the pointer to the list of heaps.
    pub(super) heaps: u64,
    pub(super) list_len: u64,
    pub(super) list_data: u64,
    pub(super) heap_memory: u64,
    pub(super) heap_segments: u64,
    pub(super) heap_segment_shift: u64,
    pub(super) space_low: u64,
    pub(super) space_high: u64,
    /// Bytes of the header of a block in a heap.
    pub(super) block_size: u64,
    pub(super) blob_name: u64,
    pub(super) blob_size: u64,
    pub(super) blob_start: Place,
    pub(super) blob_end: Place,
    pub(super) compiled: CompiledLayout,
    pub(super) original_pc_offset: u64,
    pub(super) pc_offset: u64,
    pub(super) pc_scope: u64,
    pub(super) pc_size: u64,
}

/// Addresses that a header of compiled code states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CompiledLayout {
    pub(super) method: u64,
    pub(super) metadata: Place,
    pub(super) metadata_end: Place,
    pub(super) scopes: Place,
    pub(super) scopes_end: Place,
    pub(super) pcs: Place,
    pub(super) pcs_end: Place,
    pub(super) entry: Place,
    pub(super) verified_entry: Place,
    /// Handlers that replace return addresses of frames with invalid code.
    pub(super) deoptimization: [Place; 2],
}

impl CompiledLayout {
    /// Returns the layout of JDK 9 to 22: pointers, and offsets from the header.
    fn with_pointers(at: impl Fn(&str, &str) -> Option<u64>) -> Option<Self> {
        let pointer = |class: &str, field: &str| at(class, field).map(Place::Pointer);
        let number = |field: &str| at("nmethod", field).map(Place::FromHeader);
        let scopes = pointer("CompiledMethod", "_scopes_data_begin")?;
        let pcs = number("_scopes_pcs_offset")?;
        Some(Self {
            method: at("CompiledMethod", "_method")?,
            metadata: number("_metadata_offset")?,
            metadata_end: scopes,
            scopes,
            scopes_end: pcs,
            pcs,
            pcs_end: number("_dependencies_offset")?,
            entry: pointer("nmethod", "_entry_point")?,
            verified_entry: pointer("nmethod", "_verified_entry_point")?,
            deoptimization: [
                pointer("CompiledMethod", "_deopt_handler_begin")?,
                pointer("CompiledMethod", "_deopt_mh_handler_begin")?,
            ],
        })
    }

    /// Returns the layout of JDK 25: tables outside of the code cache, and offsets.
    fn with_offsets(at: impl Fn(&str, &str) -> Option<u64>) -> Option<Self> {
        let from = |class: &str, pointer: &str, bytes: (&str, &str)| {
            let (pointer, bytes) = (at(class, pointer)?, at(bytes.0, bytes.1)?);
            Some(Place::From { pointer, bytes })
        };
        let mutable = |bytes| from("CodeBlob", "_mutable_data", ("CodeBlob", bytes));
        let immutable = |bytes| from("nmethod", "_immutable_data", ("nmethod", bytes));
        let scopes = immutable("_scopes_data_offset")?;
        Some(Self {
            method: at("nmethod", "_method")?,
            metadata: mutable("_relocation_size")?,
            metadata_end: mutable("_mutable_data_size")?,
            scopes,
            scopes_end: immutable("_immutable_data_size")?,
            pcs: immutable("_scopes_pcs_offset")?,
            pcs_end: scopes,
            entry: Place::FromStart(at("nmethod", "_entry_offset")?),
            verified_entry: Place::FromStart(at("nmethod", "_verified_entry_offset")?),
            deoptimization: [
                Place::FromHeader(at("nmethod", "_deopt_handler_offset")?),
                Place::FromHeader(at("nmethod", "_deopt_mh_handler_offset")?),
            ],
        })
    }
}

impl Layout {
    /// Reads the layout of a process. `None` for an unsupported version.
    pub(super) fn read(
        exports: &Exports,
        bias: u64,
        memory: &mut Snapshot,
    ) -> Result<Option<Self>> {
        let tables = exports.read(bias, memory, |name| TYPES.contains(&name))?;
        let version = tables.field("Abstract_VM_Version", "_vm_major_version");
        let version = memory.u32(version.ok_or(Fault::Invalid)?)?;
        Ok(Self::new(&tables, version))
    }

    /// Returns the layout of a version. `None` if it is unsupported or a field is missing.
    pub(super) fn new(tables: &Tables, version: u32) -> Option<Self> {
        let at = |class: &str, field: &str| {
            (tables.field(class, field)).filter(|offset| *offset < MAX_OFFSET)
        };
        let size = |class: &str| tables.size(class).filter(|size| *size < MAX_OFFSET);
        let has_offsets = WITH_OFFSETS.contains(&version);
        if !has_offsets && !WITH_POINTERS.contains(&version) {
            return None;
        }
        let source_file = "_source_file_name_index";
        let in_pool = at("ConstantPool", source_file).map(SourceFile::InPool);
        let in_class = || at("InstanceKlass", source_file).map(SourceFile::InClass);
        let method = MethodLayout {
            const_method: at("Method", "_constMethod")?,
            interpreter_entry: at("Method", "_i2i_entry")?,
            constants: at("ConstMethod", "_constants")?,
            flags: at("ConstMethod", "_flags").or_else(|| at("ConstMethod", "_flags._flags"))?,
            code_size: at("ConstMethod", "_code_size")?,
            name_index: at("ConstMethod", "_name_index")?,
            const_method_size: size("ConstMethod")?,
            pool_tags: at("ConstantPool", "_tags")?,
            pool_holder: at("ConstantPool", "_pool_holder")?,
            pool_length: at("ConstantPool", "_length")?,
            pool_size: size("ConstantPool")?,
            source_file: in_pool.or_else(in_class)?,
            class_constants: at("InstanceKlass", "_constants")?,
            class_name: at("Klass", "_name")?,
            symbol_length: at("Symbol", "_length")?,
            symbol_body: at("Symbol", "_body")?,
        };
        let list_len = at("GrowableArrayBase", "_len");
        let code = CodeLayout {
            heaps: tables.field("CodeCache", "_heaps")?,
            list_len: list_len.or_else(|| at("GenericGrowableArray", "_len"))?,
            list_data: at("GrowableArray<int>", "_data")?,
            heap_memory: at("CodeHeap", "_memory")?,
            heap_segments: at("CodeHeap", "_segmap")?,
            heap_segment_shift: at("CodeHeap", "_log2_segment_size")?,
            space_low: at("VirtualSpace", "_low_boundary")?,
            space_high: at("VirtualSpace", "_high_boundary")?,
            block_size: size("HeapBlock")?,
            blob_name: at("CodeBlob", "_name")?,
            blob_size: at("CodeBlob", "_size")?,
            blob_start: match has_offsets {
                true => Place::FromHeader(at("CodeBlob", "_code_offset")?),
                false => Place::Pointer(at("CodeBlob", "_code_begin")?),
            },
            blob_end: match has_offsets {
                true => Place::FromHeader(at("CodeBlob", "_data_offset")?),
                false => Place::Pointer(at("CodeBlob", "_code_end")?),
            },
            compiled: match has_offsets {
                true => CompiledLayout::with_offsets(at)?,
                false => CompiledLayout::with_pointers(at)?,
            },
            original_pc_offset: at("nmethod", "_orig_pc_offset")?,
            pc_offset: at("PcDesc", "_pc_offset")?,
            pc_scope: at("PcDesc", "_scope_decode_offset")?,
            pc_size: size("PcDesc").filter(|size| (8..=64).contains(size))?,
        };
        let fits = code.pc_offset + 4 <= code.pc_size && code.pc_scope + 4 <= code.pc_size;
        fits.then_some(Self {
            excludes_zeros: version >= WITHOUT_ZEROS,
            method,
            code,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MemoryRead, ProcessMemory};

    /// Each word of memory holds its address.
    struct Addresses;

    impl ProcessMemory for Addresses {
        fn read(&mut self, reads: &mut [MemoryRead]) {
            for read in reads {
                read.is_read = true;
                for (at, byte) in (read.address..).zip(&mut read.bytes) {
                    *byte = ((at & !7) >> (8 * (at & 7))) as u8;
                }
            }
        }
    }

    #[test]
    fn places_of_a_header_are_pointers_or_distances() {
        let mut memory = Snapshot::default();
        let (at, start) = (0x5000, 0x6000);
        let mut read = |place: Place| {
            let _ = place.read(&mut memory, at, start);
            memory.fetch(&mut Addresses);
            place.read(&mut memory, at, start)
        };
        assert_eq!(read(Place::Pointer(16)), Ok(0x5010));
        assert_eq!(read(Place::FromHeader(24)), Ok(0x5000 + 0x5018));
        assert_eq!(read(Place::FromStart(32)), Ok(0x6000 + 0x5020));
        let place = Place::From {
            pointer: 8,
            bytes: 40,
        };
        assert_eq!(read(place), Ok(0x5008 + 0x5028));
    }
}
