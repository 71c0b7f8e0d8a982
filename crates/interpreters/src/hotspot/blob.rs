//! [`Blob`]: a header of HotSpot, and code behind it (`src/hotspot/share/code/codeBlob.hpp` of the JDK).

use super::layout::CodeLayout;
use crate::snapshot::{Fault, Result, Snapshot};

/// Maximum bytes of a blob.
const MAX_BLOB: u64 = 64 << 20;

/// Maximum length of a blob's name.
const MAX_NAME: usize = 48;

/// Blob of code, with its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Blob {
    /// Address of the header.
    pub(super) at: u64,
    pub(super) start: u64,
    pub(super) end: u64,
    name: u64,
    pub(super) kind: BlobKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum BlobKind {
    Interpreter,
    Compiled(Compiled),
    /// Code of no method, with HotSpot's name for it.
    Stub(String),
}

/// Fields of compiled code. All are addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Compiled {
    /// The Method.
    pub(super) method: u64,
    /// Code between these two checks the class of the receiver, and may jump to another method.
    pub(super) entry: u64,
    pub(super) verified_entry: u64,
    /// Return addresses that replace those of frames with invalid code.
    pub(super) deoptimization: [u64; 2],
    /// Offset of the slot that keeps the return address of a frame with invalid code, in bytes above
    /// the stack pointer.
    pub(super) original_pc: u64,
    /// False for the wrapper of a native method, which has no table of instructions.
    pub(super) is_bytecode: bool,
    pub(super) metadata: u64,
    pub(super) metadata_end: u64,
    pub(super) scopes: u64,
    pub(super) scopes_end: u64,
    pub(super) pcs: u64,
    pub(super) pcs_end: u64,
}

impl Blob {
    /// Reads the header at an address.
    pub(super) fn read(memory: &mut Snapshot, layout: &CodeLayout, at: u64) -> Result<Self> {
        let place = |offset: u64| at.wrapping_add(offset);
        let start = layout.blob_start.read(memory, at, at);
        let end = layout.blob_end.read(memory, at, at);
        let name = memory.u64(place(layout.blob_name));
        let size = u64::from(memory.u32(place(layout.blob_size))?);
        let (start, end, name) = (start?, end?, name?);
        let last = at.checked_add(size).ok_or(Fault::Invalid)?;
        if !(at < start && start < end && end <= last && size <= MAX_BLOB) {
            return Err(Fault::Invalid);
        }
        let kind = match &*text(memory, name)? {
            "Interpreter" => BlobKind::Interpreter,
            name @ ("nmethod" | "native nmethod") => {
                let is_bytecode = name == "nmethod";
                let compiled = Compiled::read(memory, layout, at, start, is_bytecode)?;
                BlobKind::Compiled(compiled)
            }
            name => BlobKind::Stub(name.to_owned()),
        };
        Ok(Self {
            at,
            start,
            end,
            name,
            kind,
        })
    }
}

impl Compiled {
    fn read(
        memory: &mut Snapshot,
        layout: &CodeLayout,
        at: u64,
        start: u64,
        is_bytecode: bool,
    ) -> Result<Self> {
        let original_pc = memory.u32(at.wrapping_add(layout.original_pc_offset));
        let layout = &layout.compiled;
        let method = memory.u64(at.wrapping_add(layout.method));
        let places = [
            layout.entry,
            layout.verified_entry,
            layout.metadata,
            layout.metadata_end,
            layout.scopes,
            layout.scopes_end,
            layout.pcs,
            layout.pcs_end,
        ];
        let places = places.map(|place| place.read(memory, at, start));
        let handlers = (layout.deoptimization).map(|place| place.read(memory, at, start));
        let [entry, verified_entry, tables @ ..] = places;
        let [metadata, metadata_end, scopes, scopes_end, pcs, pcs_end] = tables;
        let [handler, mh_handler] = handlers;
        let compiled = Self {
            method: method?,
            entry: entry?,
            verified_entry: verified_entry?,
            deoptimization: [handler?, mh_handler?],
            original_pc: original_pc?.into(),
            is_bytecode,
            // Relocations before the metadata have any length.
            metadata: metadata?.wrapping_add(7) & !7,
            metadata_end: metadata_end?,
            scopes: scopes?,
            scopes_end: scopes_end?,
            pcs: pcs?,
            pcs_end: pcs_end?,
        };
        let are_in_order = compiled.metadata <= compiled.metadata_end
            && compiled.scopes <= compiled.scopes_end
            && compiled.pcs <= compiled.pcs_end;
        match are_in_order {
            true => Ok(compiled),
            false => Err(Fault::Invalid),
        }
    }
}

impl Compiled {
    /// Returns the return address of a frame of this code. `word` reads the stack at a distance
    /// from the frame's stack pointer.
    pub(super) fn return_address(&self, pc: u64, word: impl Fn(u64) -> Option<u64>) -> Option<u64> {
        match self.deoptimization.contains(&pc) {
            true => word(self.original_pc),
            false => Some(pc),
        }
    }
}

/// Returns a blob's name. It is a constant of `libjvm.so`, or was copied for a stub.
fn text(memory: &mut Snapshot, avma: u64) -> Result<String> {
    let bytes: [u8; MAX_NAME] = memory.bytes(avma)?;
    let end = bytes
        .iter()
        .position(|byte| *byte == 0)
        .ok_or(Fault::Invalid)?;
    let name = bytes.get(..end).unwrap_or_default();
    match !name.is_empty() && name.iter().all(|byte| (b' '..=b'~').contains(byte)) {
        true => Ok(String::from_utf8_lossy(name).into_owned()),
        false => Err(Fault::Invalid),
    }
}
