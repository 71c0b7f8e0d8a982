//! Parser of `/proc/PID/smaps` (proc(5)).

use std::ops::Range;

/// Maximum number of mappings read from a process: four times the kernel's default limit.
const MAX_MAPPINGS: usize = 1 << 18;

/// A mapping with its sizes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SizedMapping {
    pub(super) addresses: Range<u64>,
    /// Empty for anonymous memory.
    pub(super) name: Vec<u8>,
    /// Resident bytes.
    pub(super) resident: u64,
    /// Resident bytes in huge pages.
    pub(super) huge: u64,
    pub(super) is_writable: bool,
}

/// Returns the mappings of a process. Skips lines that it cannot parse.
pub(super) fn parse(text: &[u8]) -> Vec<SizedMapping> {
    let mut mappings: Vec<SizedMapping> = Vec::new();
    for line in text.split(|byte| *byte == b'\n') {
        if let Some(mapping) = head(line) {
            if mappings.len() == MAX_MAPPINGS {
                break;
            }
            drop_older(&mut mappings, mapping.addresses.start);
            mappings.push(mapping);
        } else if let (Some((name, bytes)), Some(last)) = (field(line), mappings.last_mut()) {
            match name {
                b"Rss" => last.resident = bytes,
                b"AnonHugePages" | b"ShmemPmdMapped" | b"FilePmdMapped" => {
                    last.huge = last.huge.saturating_add(bytes);
                }
                _ => {}
            }
        }
    }
    mappings
}

/// Removes what lies beyond an address, where a newer mapping begins.
///
/// A mapping that grows while the file is read appears again, with its old and its new end (a heap
/// on Linux 6.18, with all of its memory both times).
fn drop_older(mappings: &mut Vec<SizedMapping>, start: u64) {
    // They are in order of address.
    mappings.truncate(mappings.partition_point(|old| old.addresses.start < start));
    if let Some(last) = mappings.last_mut() {
        last.addresses.end = last.addresses.end.min(start);
    }
}

/// Parses `55e0c0a00000-55e0c0a21000 rw-p 00000000 00:00 0       [heap]`.
fn head(line: &[u8]) -> Option<SizedMapping> {
    let mut rest = line;
    let mut word = || {
        let start = rest.iter().position(|byte| *byte != b' ')?;
        let len = rest[start..].iter().position(|byte| *byte == b' ');
        let end = len.map_or(rest.len(), |len| start + len);
        let word = &rest[start..end];
        rest = &rest[end..];
        std::str::from_utf8(word).ok()
    };
    let (start, end) = word()?.split_once('-')?;
    let number = |digits| u64::from_str_radix(digits, 16).ok();
    let addresses = number(start)?..number(end)?;
    let is_writable = word()?.contains('w');
    // Offset, device and inode.
    for _ in 0..3 {
        word()?;
    }
    let name = rest.iter().position(|byte| *byte != b' ');
    Some(SizedMapping {
        addresses,
        name: name.map_or(&[][..], |at| &rest[at..]).to_vec(),
        is_writable,
        ..SizedMapping::default()
    })
}

/// Parses `Rss:                 132 kB` to the name and bytes.
fn field(line: &[u8]) -> Option<(&[u8], u64)> {
    let colon = line.iter().position(|byte| *byte == b':')?;
    let (name, value) = line.split_at(colon);
    let value = std::str::from_utf8(&value[1..]).ok()?.trim();
    let kib: u64 = value.strip_suffix("kB")?.trim().parse().ok()?;
    Some((name, kib.checked_mul(1024)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_have_their_sizes_and_whole_names() {
        let text = b"\
5581-5592 rw-p 00000000 00:00 0                          [heap]
Size:                132 kB
Rss:                   4 kB
AnonHugePages:      2048 kB
FilePmdMapped:         2 kB
VmFlags: rd wr mr
7f00-7fff r--p 00001000 08:01 77   /tmp/a b (deleted)
Rss:               18446744073709551615 kB
7fff-8000 ---p 00000000 00:00 0 
Rss: nonsense
junk";
        let mappings = parse(text);
        let mapping = |addresses, name: &[u8], resident, huge| SizedMapping {
            is_writable: name == b"[heap]",
            addresses,
            name: name.to_vec(),
            resident,
            huge,
        };
        assert_eq!(
            mappings,
            [
                mapping(0x5581..0x5592, b"[heap]", 4096, 2050 * 1024),
                mapping(0x7f00..0x7fff, b"/tmp/a b (deleted)", 0, 0),
                mapping(0x7fff..0x8000, b"", 0, 0),
            ]
        );
    }
    #[test]
    fn a_mapping_that_grew_meanwhile_counts_once() {
        let text = b"\
1000-2000 r--p 00000000 08:01 77   /bin/app
Rss: 4 kB
5000-9000 rw-p 00000000 00:00 0    [heap]
Rss: 16 kB
5000-d000 rw-p 00000000 00:00 0    [heap]
Rss: 28 kB
c000-f000 rw-p 00000000 00:00 0
Rss: 12 kB";
        let mappings = parse(text);
        let found = mappings
            .iter()
            .map(|one| (one.addresses.clone(), one.resident));
        let found: Vec<_> = found.collect();
        let kib = 1024;
        let wanted = [
            (0x1000..0x2000, 4 * kib),
            (0x5000..0xc000, 28 * kib),
            (0xc000..0xf000, 12 * kib),
        ];
        assert_eq!(found, wanted);
    }
}
