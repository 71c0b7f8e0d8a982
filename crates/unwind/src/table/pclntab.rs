//! Parses the Go runtime's list of functions (`.gopclntab`), which stripped programs have too.
//!
//! Source: `runtime/symtab.go` (`pcHeader`), `debug/gosym/pclntab.go`.

/// Maximum number of functions. The largest programs have about 500,000.
const MAX_FUNCTIONS: usize = 4 << 20;

#[derive(Clone, Copy)]
enum Version {
    /// Since Go 1.2.
    Go12,
    /// Since Go 1.16.
    Go116,
    /// Since Go 1.18, with offsets from the start of the text.
    Go118,
}

/// Returns the start SVMAs of all functions, ascending; none if the format is unknown. `text` is
/// the start of the text, which some formats omit.
pub(super) fn starts(section: &[u8], text: u64) -> Vec<u64> {
    parse(section, text).unwrap_or_default()
}

fn parse(section: &[u8], text: u64) -> Option<Vec<u64>> {
    let version = match u32::from_le_bytes(*section.first_chunk()?) {
        0xffff_fffb => Version::Go12,
        0xffff_fffa => Version::Go116,
        0xffff_fff0 | 0xffff_fff1 => Version::Go118,
        _ => return None,
    };
    let word = |at: usize| Some(u64::from_le_bytes(*section.get(at..)?.first_chunk()?));
    // After the magic number and four bytes: number of functions, in newer formats number of files,
    // and table offsets.
    let header = |number: usize| word(8 + 8 * number);
    if section.get(7) != Some(&8) {
        return None;
    }
    let count = usize::try_from(header(0)?).ok()?.min(MAX_FUNCTIONS);
    let table = match version {
        Version::Go12 => section.get(16..)?,
        Version::Go116 => section.get(usize::try_from(header(6)?).ok()?..)?,
        Version::Go118 => section.get(usize::try_from(header(7)?).ok()?..)?,
    };
    let mut starts: Vec<u64> = match version {
        Version::Go12 | Version::Go116 => {
            let entries = table.as_chunks::<16>().0.iter().take(count);
            let start = |entry: &[u8; 16]| entry.first_chunk().map(|w| u64::from_le_bytes(*w));
            entries.filter_map(start).collect()
        }
        Version::Go118 => {
            let base = header(2).filter(|base| *base != 0).unwrap_or(text);
            let entries = table.as_chunks::<8>().0.iter().take(count);
            let start = |entry: &[u8; 8]| entry.first_chunk().map(|w| u32::from_le_bytes(*w));
            (entries.filter_map(start))
                .map(|offset| base.wrapping_add(offset.into()))
                .collect()
        }
    };
    starts.sort_unstable();
    starts.dedup();
    Some(starts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(magic: u32, words: &[u64], table: &[u8]) -> Vec<u8> {
        let mut list = magic.to_le_bytes().to_vec();
        list.extend([0, 0, 1, 8]);
        list.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        list.extend(table);
        list
    }

    #[test]
    fn all_forms() {
        let wide: Vec<u8> = [0x1000_u64, 7, 0x1020, 8, 0x1100, 0]
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        let narrow: Vec<u8> = [0_u32, 7, 0x20, 8, 0x100, 0]
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        let expected = [0x1000, 0x1020];
        assert_eq!(starts(&list(0xffff_fffb, &[2], &wide), 0), expected);
        let at = 8 + 7 * 8;
        let words = [2, 1, 0, 0, 0, 0, at];
        assert_eq!(starts(&list(0xffff_fffa, &words, &wide), 0), expected);
        let at = 8 + 8 * 8;
        for (base, text) in [(0x1000, 0), (0, 0x1000)] {
            for magic in [0xffff_fff0, 0xffff_fff1] {
                let words = [2, 1, base, 0, 0, 0, 0, at];
                assert_eq!(starts(&list(magic, &words, &narrow), text), expected);
            }
        }
        assert_eq!(starts(&list(0xffff_ffff, &[2], &wide), 0), []);
    }

    #[test]
    fn damage_leaves_what_is_there() {
        let whole = list(
            0xffff_fff0,
            &[u64::MAX, 1, 0x1000, 0, 0, 0, 0, 72],
            &[0; 80],
        );
        assert_eq!(starts(&whole, 0), [0x1000]);
        for len in 0..whole.len() {
            assert!(starts(&whole[..len], 0).len() <= 1);
        }
        let far = list(0xffff_fff0, &[1, 1, 0, 0, 0, 0, 0, u64::MAX], &[]);
        assert_eq!(starts(&far, 0), []);
    }
}
