//! Removes AArch64 augmentations that do not affect unwinding.
//!
//! `B` in a CIE means that return addresses are signed with the B key, `G` that frames are tagged
//! (DWARF for the Arm 64-bit Architecture, section 5.2.2; LLVM's `AArch64FrameLowering`). Neither
//! has data. gimli rejects a CIE with unknown letters, and with it all its FDEs.

use super::index::Entry;

/// Removes the letters from all CIEs of a section. `DW_CFA_nop` fills the gap at the end of a CIE.
pub(crate) fn take_out(bytes: &mut [u8], eh: bool) {
    let mut at = 0;
    while let Some(entry) = Entry::read(bytes, at) {
        at = entry.next;
        if !entry.is_cie(eh) {
            continue;
        }
        if let Some(cie) = bytes.get_mut(entry.body..entry.next) {
            take_out_of(cie);
        }
    }
}

/// Removes the letters from a CIE, given from the version field on.
fn take_out_of(cie: &mut [u8]) {
    let Some(text) = cie.get(1..) else { return };
    let Some(end) = text.iter().position(|byte| *byte == 0).map(|len| 1 + len) else {
        return;
    };
    if cie.get(1) != Some(&b'z') {
        return;
    }
    let mut kept = 2;
    for at in 2..end {
        if !matches!(cie[at], b'B' | b'G') {
            cie[kept] = cie[at];
            kept += 1;
        }
    }
    if kept < end {
        cie.copy_within(end.., kept);
        let len = cie.len();
        cie[len - (end - kept)..].fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(augmentation: &[u8]) -> Vec<u8> {
        let mut cie = vec![0, 0, 0, 0, 1];
        cie.extend(augmentation);
        cie.extend([0, 4, 0x78, 30, 1, 0x1b, 0x0c, 31, 0, 0, 0]);
        let mut bytes = (cie.len() as u32).to_le_bytes().to_vec();
        bytes.extend(cie);
        bytes.extend([9, 0, 0, 0, 8, 0, 0, 0, b'z', b'B', 0, 1, 2]);
        bytes
    }

    #[test]
    fn many_letters_take_no_time() {
        let letters = vec![b'B'; 4 << 20];
        let mut bytes = section(&[b"z", &letters[..], b"R"].concat());
        let begun = std::time::Instant::now();
        take_out(&mut bytes, true);
        assert!(begun.elapsed().as_secs() < 20);
        assert_eq!(bytes[4..16], section(b"zR")[4..16]);
    }

    #[test]
    fn the_letters_and_nothing_else() {
        let plain = section(b"zR");
        for (augmentation, letters) in [(&b"zRB"[..], 1), (b"zBR", 1), (b"zGRB", 2), (b"zRBG", 2)] {
            let mut bytes = section(augmentation);
            take_out(&mut bytes, true);
            assert_eq!(bytes[4..16], plain[4..16]);
            assert_eq!(bytes.len(), plain.len() + letters);
            assert_eq!(bytes[bytes.len() - 13..], plain[plain.len() - 13..]);
        }
        for augmentation in [&b"zR"[..], b"eh", b"", b"zRS", b"BB"] {
            let mut bytes = section(augmentation);
            take_out(&mut bytes, true);
            assert_eq!(bytes, section(augmentation));
        }
        // `.debug_frame` marks CIEs differently.
        let mut bytes = section(b"zRB");
        take_out(&mut bytes, false);
        assert_eq!(bytes, section(b"zRB"));
    }
}
