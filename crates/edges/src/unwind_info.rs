//! [`UnwindInfo`]: bounds of functions, trampolines of signals and roots, from `.eh_frame`.

use gimli::{
    BaseAddresses, CieOrFde, EhFrame, EhFrameOffset, LittleEndian, Pointer, RegisterRule,
    UnwindContext, UnwindSection,
};

/// Code that one frame description entry covers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Described {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// True for the trampoline that a signal handler returns to (augmentation `S`).
    pub(crate) is_signal: bool,
    /// Offset of the entry in the section.
    offset: usize,
}

/// Descriptions of an image, ascending by address.
#[derive(Default, Debug)]
pub(crate) struct UnwindInfo {
    described: Vec<Described>,
    /// Addresses of the functions that libgcc calls for frames with exception handlers.
    pub(crate) personalities: Vec<u64>,
    section: Vec<u8>,
    bases: BaseAddresses,
}

impl UnwindInfo {
    /// Parses the section. Ends at the first damaged entry.
    pub(crate) fn parse(section: &[u8], bases: BaseAddresses) -> Self {
        let frames = frames(section);
        let mut described = Vec::new();
        let mut personalities = Vec::new();
        let mut entries = frames.entries(&bases);
        while let Ok(Some(entry)) = entries.next() {
            let partial = match entry {
                CieOrFde::Fde(partial) => partial,
                CieOrFde::Cie(cie) => {
                    // Pointers to pointers lead to words of data.
                    personalities.extend(cie.personality().and_then(|pointer| match pointer {
                        Pointer::Direct(address) => Some(address),
                        Pointer::Indirect(_) => None,
                    }));
                    continue;
                }
            };
            let Ok(fde) = partial.parse(EhFrame::cie_from_offset) else {
                continue;
            };
            let (start, len) = (fde.initial_address(), fde.len());
            if start != 0 && len != 0 {
                described.push(Described {
                    start,
                    end: start.saturating_add(len),
                    is_signal: fde.is_signal_trampoline(),
                    offset: fde.offset(),
                });
            }
        }
        described.sort_by_key(|fde| fde.start);
        Self {
            described,
            personalities,
            section: section.to_vec(),
            bases,
        }
    }

    /// Returns the description that covers an address.
    pub(crate) fn at(&self, address: u64) -> Option<&Described> {
        let behind = self.described.partition_point(|fde| fde.start <= address);
        let found = &self.described[behind.checked_sub(1)?];
        (address < found.end).then_some(found)
    }

    /// Returns the described code before and behind an address that nothing describes.
    pub(crate) fn hole(&self, address: u64) -> (u64, u64) {
        let behind = self.described.partition_point(|fde| fde.start <= address);
        let low = behind.checked_sub(1).map_or(0, |at| self.described[at].end);
        let high = self.described.get(behind).map_or(u64::MAX, |fde| fde.start);
        (low, high)
    }

    /// Returns the rule for the return address of a frame at an address.
    pub(crate) fn caller(&self, address: u64, return_register: u16) -> Caller {
        let Some(found) = self.at(address) else {
            return Caller::Usual;
        };
        let frames = frames(&self.section);
        let offset = EhFrameOffset(found.offset);
        let fde = frames.fde_from_offset(&self.bases, offset, EhFrame::cie_from_offset);
        let mut context = UnwindContext::new();
        let Ok(fde) = fde else {
            return Caller::Usual;
        };
        let row = fde.unwind_info_for_address(&frames, &self.bases, &mut context, address);
        match row.map(|row| row.register(gimli::Register(return_register))) {
            Ok(Some(RegisterRule::Undefined)) => Caller::None,
            Ok(Some(RegisterRule::Register(_))) => Caller::InRegister,
            _ => Caller::Usual,
        }
    }
}

/// Location of a frame's return address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    Usual,
    /// Return address in a register, as in `longjmp` on x86-64.
    InRegister,
    /// Nowhere: it is a root.
    None,
}

fn frames(section: &[u8]) -> EhFrame<gimli::EndianSlice<'_, LittleEndian>> {
    let mut frames = EhFrame::new(section, LittleEndian);
    frames.set_address_size(8);
    frames
}
