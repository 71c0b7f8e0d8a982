//! Parser of `/proc/PID/maps` (proc_pid_maps(5)).

use super::mapping::{
    ExistingMapping, MAP_HUGETLB, MAP_PRIVATE, MAP_SHARED, PROT_EXEC, PROT_READ, PROT_WRITE,
    mmap2_name,
};
use std::io::{self, BufRead, BufReader, Read};

/// Appends all executable mappings to `into`. Skips invalid lines.
///
/// # Errors
/// Returns read errors, such as `EACCES` for another user's process.
pub(super) fn read(text: impl Read, into: &mut Vec<ExistingMapping>) -> io::Result<()> {
    let mut lines = BufReader::with_capacity(64 << 10, text);
    let mut line = Vec::new();
    loop {
        line.clear();
        if lines.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let mapping = parse(line.strip_suffix(b"\n").unwrap_or(&line));
        into.extend(mapping.filter(|mapping| mapping.prot & PROT_EXEC != 0));
    }
}

/// Parses `start-end rwxp offset major:minor inode      name`.
fn parse(line: &[u8]) -> Option<ExistingMapping> {
    let mut rest = line;
    let mut word = || {
        let end = rest.iter().position(|byte| *byte == b' ')?;
        let word = std::str::from_utf8(&rest[..end]).ok()?;
        rest = &rest[end + 1..];
        Some(word)
    };
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let short = |text: &str| u32::from_str_radix(text, 16).ok();
    let (start, end) = word()?.split_once('-')?;
    let rights = word()?.as_bytes();
    let offset = hex(word()?)?;
    let (major, minor) = word()?.split_once(':')?;
    // Without a name, the inode may end the line.
    let inode = match word() {
        Some(inode) => inode,
        None => std::str::from_utf8(std::mem::take(&mut rest)).ok()?,
    };
    let name = rest.trim_ascii_start();
    let right = |place: usize, letter, bit| {
        if rights.get(place) == Some(&letter) {
            bit
        } else {
            0
        }
    };
    let shared = rights.get(3) == Some(&b's');
    let huge = name.starts_with(b"/anon_hugepage");
    Some(ExistingMapping {
        start: hex(start)?,
        end: hex(end)?,
        offset,
        prot: right(0, b'r', PROT_READ) | right(1, b'w', PROT_WRITE) | right(2, b'x', PROT_EXEC),
        flags: if shared { MAP_SHARED } else { MAP_PRIVATE } | if huge { MAP_HUGETLB } else { 0 },
        device: (short(major)?, short(minor)?),
        inode: inode.parse().ok()?,
        build_id: None,
        path: mmap2_name(&without_escapes(name)),
    })
}

/// Decodes `\012` in a name. The kernel escapes nothing else, not even the backslash (`seq_path(m,
/// path, "\n")` in fs/proc/task_mmu.c).
fn without_escapes(name: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some((first, behind)) = rest.split_first() {
        rest = match rest.strip_prefix(b"\\012") {
            Some(behind) => {
                out.push(b'\n');
                behind
            }
            None => {
                out.push(*first);
                behind
            }
        };
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Vec<ExistingMapping> {
        let mut found = Vec::new();
        read(text.as_bytes(), &mut found).unwrap();
        found
    }

    #[test]
    fn lines_of_every_kind_are_parsed() {
        let text = "\
55d0c0a00000-55d0c0a28000 r--p 00000000 fe:01 1234                       /usr/bin/a b
55d0c0a28000-55d0c0a99000 r-xp 00028000 fe:01 1234                       /usr/bin/a b
7f0000000000-7f0000200000 rwxp 00000000 00:00 0 
7f0000200000-7f0000400000 rwxp 00000000 00:0f 77                         /anon_hugepage (deleted)
7f0000400000-7f0000401000 r-xs 00001000 00:01 2049                       /memfd:jit (deleted)
7f0000401000-7f0000402000 r-xp 00000000 fd:00 9                          /tmp/line\\012break\\040 (deleted)
7f0000402000-7f0000403000 rwxp 00000000 00:00 0                          [anon:v8]
7ffc1f5f0000-7ffc1f5f2000 r-xp 00000000 00:00 0                          [vdso]
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
";
        let found = all(text);
        let paths: Vec<&[u8]> = found.iter().map(|m| &m.path[..]).collect();
        let expected: [&[u8]; 8] = [
            b"/usr/bin/a b",
            b"//anon",
            b"/anon_hugepage (deleted)",
            b"/memfd:jit (deleted)",
            b"/tmp/line\nbreak\\040 (deleted)",
            b"//anon",
            b"[vdso]",
            b"[vsyscall]",
        ];
        assert_eq!(paths, expected);
        assert_eq!(
            found[0],
            ExistingMapping {
                start: 0x55d0c0a28000,
                end: 0x55d0c0a99000,
                offset: 0x28000,
                prot: PROT_READ | PROT_EXEC,
                flags: MAP_PRIVATE,
                device: (0xfe, 1),
                inode: 1234,
                build_id: None,
                path: b"/usr/bin/a b".to_vec(),
            }
        );
        assert_eq!(found[2].flags, MAP_PRIVATE | MAP_HUGETLB);
        assert_eq!((found[3].flags, found[3].offset), (MAP_SHARED, 0x1000));
    }

    #[test]
    fn lines_that_cannot_be_parsed_are_skipped() {
        for text in [
            "",
            "\n",
            "x",
            "1-2 r-xp",
            "g-h r-xp 0 0:0 0 ",
            "1-2 r-xp 0 00 0",
            "1-2 r-xp 0 0:0 ",
        ] {
            assert_eq!(all(text), [], "{text:?}");
        }
        let found = all("1-2 r-xp 0 0:0 0");
        assert_eq!(found[0].path, b"//anon");
    }
}
