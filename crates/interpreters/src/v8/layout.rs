//! [`Layout`]: offsets and type numbers of one V8 version.
//!
//! V8 exports them as constants for debuggers, `v8dbg_*` (`tools/gen-postmortem-metadata.py` in its
//! sources). Node.js keeps them also in stripped builds. Their values are read from the process.
//! The constants omit some fields, so a version is supported only if it was measured.

use crate::{ImageSymbols, MemoryRead, ProcessMemory};

/// Prefix of the constants.
pub(super) const PREFIX: &str = "v8dbg_";

/// Symbols of the version numbers.
pub(super) const MAJOR: &str = "_ZN2v88internal7Version6major_E";
pub(super) const MINOR: &str = "_ZN2v88internal7Version6minor_E";

/// Maximum plausible offset of a field in an object or frame.
const MAX_OFFSET: i32 = 1 << 12;

/// Names of the constants, in the order of [`Constants`]. Names of fields end with their type,
/// which differs between versions.
const NAMES: [&str; COUNT] = [
    "TaggedSize",
    "SmiShiftSize",
    "off_fp_context",
    "off_fp_function",
    "off_fp_bytecode_array",
    "off_fp_bytecode_offset",
    "class_Map__instance_type__",
    "class_JSFunction__shared__",
    "class_SharedFunctionInfo__name_or_scope_info__",
    "class_Script__source__",
    "class_Script__name__",
    "class_Script__line_ends__",
    "class_UncompiledData__inferred_name__",
    "class_UncompiledData__start_position__",
    "class_FixedArrayBase__length__",
    "class_FixedArray__data__",
    "class_String__length__",
    "class_SeqOneByteString__chars__",
    "class_ConsString__first__",
    "class_ConsString__second__",
    "class_ExternalString__resource__",
    "class_SlicedString__parent__",
    "class_SlicedString__offset__",
    "class_ThinString__actual__",
    "type_JSFunction__",
    "type_SharedFunctionInfo__",
    "type_Script__",
    "type_ScopeInfo__",
    "type_BytecodeArray__",
    "type_Code__",
    "type_InterpreterData__",
    "type_FixedArray__",
    "type_UncompiledDataWithPreparseData__",
    "type_UncompiledDataWithoutPreparseData__",
    "FirstNonstringType",
    "CodeKindBaseline",
];
const COUNT: usize = 36;

/// Stated addresses (SVMAs) of the constants in an image.
#[derive(Clone, Debug)]
pub(super) struct Constants {
    version: [u64; 2],
    constants: [u64; COUNT],
}

impl Constants {
    /// Finds the constants. `None` if one is missing.
    pub(super) fn find(symbols: &ImageSymbols) -> Option<Self> {
        let version = [symbols.get(MAJOR)?.svma, symbols.get(MINOR)?.svma];
        let mut constants = [0; COUNT];
        for (name, symbol) in symbols.iter() {
            let name = name.strip_prefix(PREFIX.as_bytes()).unwrap_or_default();
            let is_name = |known: &&str| match known.ends_with('_') {
                true => name.starts_with(known.as_bytes()),
                false => name == known.as_bytes(),
            };
            if let Some(at) = NAMES.iter().position(is_name)
                && let Some(svma) = constants.get_mut(at)
            {
                *svma = symbol.svma;
            }
        }
        let is_whole = constants.iter().all(|svma| *svma != 0);
        is_whole.then_some(Self { version, constants })
    }

    /// Reads the values in a process. `None` if they are unreadable.
    pub(super) fn read(&self, bias: u64, memory: &mut dyn ProcessMemory) -> Option<Values> {
        let svmas = self.version.iter().chain(&self.constants);
        let mut reads: Vec<_> = svmas
            .map(|svma| MemoryRead::new(svma.wrapping_add(bias), 4))
            .collect();
        memory.read(&mut reads);
        let mut values = reads.iter().map(|read| read.u32(0).map(u32::cast_signed));
        let version = (values.next()??, values.next()??);
        let values = values.collect::<Option<Vec<i32>>>()?;
        Some(Values {
            version,
            constants: values.try_into().ok()?,
        })
    }
}

/// Values of the constants.
#[derive(Clone, Copy, Debug)]
pub(super) struct Values {
    version: (i32, i32),
    constants: [i32; COUNT],
}

#[cfg(test)]
impl Default for Constants {
    fn default() -> Self {
        Self {
            version: [0; 2],
            constants: [0; COUNT],
        }
    }
}

#[cfg(test)]
impl Values {
    /// Values of Node.js 18, as far as functions of the interpreter need them.
    pub(super) const NODE_18: Self = Self {
        version: (10, 2),
        ..Self::NODE_20
    };

    /// Values of Node.js 22, as far as functions of the interpreter need them.
    pub(super) const NODE_22: Self = Self {
        version: (12, 4),
        ..Self::NODE_20
    };

    /// Values of Node.js 24.22, in the order of [`NAMES`].
    pub(super) const NODE_24: Self = Self {
        version: (13, 6),
        constants: [
            8, 31, -8, -16, -32, -40, 12, 32, 24, 8, 16, 56, 8, 16, 8, 16, 12, 16, 16, 24, 16, 16,
            24, 16, 2065, 282, 167, 280, 186, 187, 188, 205, 175, 177, 128, 10,
        ],
    };

    /// Values of Node.js 20.20, in the order of [`NAMES`].
    pub(super) const NODE_20: Self = Self {
        version: (11, 3),
        constants: [
            8, 31, -8, -16, -32, -40, 12, 24, 16, 8, 16, 56, 8, 16, 8, 16, 12, 16, 16, 24, 16, 16,
            24, 16, 2066, 262, 167, 261, 191, 245, 159, 175, 220, 222, 128, 11,
        ],
    };
}

/// Where the machine code of a function is described.
#[derive(Clone, Copy, Debug)]
pub(super) struct CodeLayout {
    /// Offset of the pointer from a JSFunction to its Code. `None` if a table outside the heap has
    /// it.
    pub(super) of_function: Option<u64>,
    /// Offset of the start address in a Code. `None` if the instructions follow the Code.
    pub(super) start: Option<u64>,
    /// Distance of the instructions from the object before them.
    pub(super) header: u64,
    pub(super) size: u64,
    pub(super) flags: u64,
    /// Offset of the deoptimization data, or of baseline code's bytecode.
    pub(super) data: u64,
    /// Element of the deoptimization data with the function.
    pub(super) deopt_function: u64,
    /// True if the element is a wrapper, with the function in its first field.
    pub(super) has_wrapper: bool,
}

/// Positions of the parts of a ScopeInfo (`src/objects/scope-info.tq` of V8).
#[derive(Clone, Copy, Debug)]
pub(super) struct ScopeLayout {
    /// True if the flags are half a word, not a small integer, and the position precedes the
    /// variables.
    pub(super) is_new: bool,
    /// Scope type of modules.
    pub(super) module: u32,
    /// True if a module's number of variables precedes the variables.
    pub(super) has_module_word: bool,
}

/// Offsets and type numbers. Offsets in objects count from the object's first byte.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    /// Offsets from the frame pointer.
    pub(super) fp_context: i64,
    pub(super) fp_function: i64,
    pub(super) fp_bytecode: i64,
    pub(super) fp_bytecode_offset: i64,
    pub(super) map_type: u64,
    pub(super) function_shared: u64,
    pub(super) shared_data: u64,
    pub(super) shared_name: u64,
    pub(super) shared_script: u64,
    pub(super) script_source: u64,
    pub(super) script_name: u64,
    pub(super) script_line_offset: u64,
    pub(super) script_column_offset: u64,
    pub(super) script_line_ends: u64,
    pub(super) uncompiled_name: u64,
    pub(super) uncompiled_start: u64,
    pub(super) array_length: u64,
    pub(super) array_data: u64,
    pub(super) string_length: u64,
    pub(super) string_chars: u64,
    pub(super) cons_first: u64,
    pub(super) cons_second: u64,
    pub(super) external_data: u64,
    pub(super) sliced_parent: u64,
    pub(super) sliced_offset: u64,
    pub(super) thin_actual: u64,
    pub(super) type_function: u16,
    pub(super) type_shared: u16,
    pub(super) type_script: u16,
    pub(super) type_scope: u16,
    pub(super) type_bytecode: u16,
    pub(super) type_code: u16,
    pub(super) type_interpreter_data: u16,
    pub(super) type_fixed_array: u16,
    pub(super) type_uncompiled: (u16, u16),
    pub(super) first_nonstring: u16,
    pub(super) kind_baseline: u32,
    pub(super) code: CodeLayout,
    pub(super) scope: ScopeLayout,
}

impl Layout {
    /// Checks the values. `None` for unsupported versions and builds, and for implausible values.
    pub(super) fn new(values: &Values) -> Option<Self> {
        let mut next = values.constants.iter().copied();
        let (tagged, smi_shift) = (next.next()?, next.next()?);
        // Node.js is built without pointer compression.
        if tagged != 8 || smi_shift != 31 {
            return None;
        }
        let mut in_frame = || {
            let offset = next.next()?;
            (-MAX_OFFSET..0)
                .contains(&offset)
                .then_some(i64::from(offset))
        };
        let fp_context = in_frame()?;
        let fp_function = in_frame()?;
        let fp_bytecode = in_frame()?;
        let fp_bytecode_offset = in_frame()?;
        let mut in_object = || {
            let offset = u64::try_from(next.next()?).ok()?;
            (offset < MAX_OFFSET as u64).then_some(offset)
        };
        let map_type = in_object()?;
        let function_shared = in_object()?;
        let shared_name = in_object()?;
        let script_source = in_object()?;
        let script_name = in_object()?;
        let script_line_ends = in_object()?;
        let uncompiled_name = in_object()?;
        let uncompiled_start = in_object()?;
        let array_length = in_object()?;
        let array_data = in_object()?;
        let string_length = in_object()?;
        let string_chars = in_object()?;
        let cons_first = in_object()?;
        let cons_second = in_object()?;
        let external_resource = in_object()?;
        let sliced_parent = in_object()?;
        let sliced_offset = in_object()?;
        let thin_actual = in_object()?;
        let mut number = || u16::try_from(next.next()?).ok();
        let (code, scope) = of_version(values.version)?;
        Some(Self {
            fp_context,
            fp_function,
            fp_bytecode,
            fp_bytecode_offset,
            map_type,
            function_shared,
            // The script is two fields after the name. The data is before the name, and since
            // Node.js 24 before another field too.
            shared_data: shared_name.checked_sub(if scope.is_new { 16 } else { 8 })?,
            shared_name,
            shared_script: shared_name + 16,
            script_source,
            script_name,
            script_line_offset: script_name + 8,
            script_column_offset: script_name + 16,
            script_line_ends,
            uncompiled_name,
            uncompiled_start,
            array_length,
            array_data,
            string_length,
            string_chars,
            cons_first,
            cons_second,
            external_data: external_resource + 8,
            sliced_parent,
            sliced_offset,
            thin_actual,
            type_function: number()?,
            type_shared: number()?,
            type_script: number()?,
            type_scope: number()?,
            type_bytecode: number()?,
            type_code: number()?,
            type_interpreter_data: number()?,
            type_fixed_array: number()?,
            type_uncompiled: {
                let (with, without) = (number()?, number()?);
                (with.min(without), with.max(without).saturating_add(1))
            },
            first_nonstring: number()?,
            kind_baseline: u32::from(number()?),
            code,
            scope,
        })
    }
}

/// Returns the fields that the constants of some versions omit.
fn of_version(version: (i32, i32)) -> Option<(CodeLayout, ScopeLayout)> {
    let code = CodeLayout {
        of_function: Some(48),
        start: Some(40),
        header: 16,
        size: 56,
        flags: 48,
        data: 16,
        deopt_function: 6,
        has_wrapper: false,
    };
    let scope = ScopeLayout {
        is_new: false,
        module: 3,
        has_module_word: false,
    };
    match version {
        // Node.js 18.
        (10, 2) => Some((
            CodeLayout {
                start: None,
                header: 128,
                size: 40,
                ..code
            },
            scope,
        )),
        // Node.js 20.
        (11, 3) => Some((code, scope)),
        // Node.js 22.
        (12, 4) => Some((
            CodeLayout {
                of_function: Some(24),
                header: 32,
                size: 52,
                data: 8,
                ..code
            },
            ScopeLayout {
                has_module_word: true,
                ..scope
            },
        )),
        // Node.js 24 and 26.
        (13, 6) | (14, 6) => Some((
            CodeLayout {
                of_function: None,
                header: 32,
                flags: 52,
                data: 8,
                deopt_function: 7,
                has_wrapper: true,
                ..code
            },
            ScopeLayout {
                is_new: true,
                module: 5,
                has_module_word: true,
            },
        )),
        _ => None,
    }
}
