//! The vdso of this process. All 64-bit processes of the machine have the same.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// Reads the vdso from memory.
pub(crate) fn read() -> Option<Vec<u8>> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let line = maps.lines().find(|line| line.ends_with("[vdso]"))?;
    let (start, rest) = line.split_once('-')?;
    let (end, _) = rest.split_once(' ')?;
    let number = |hex| u64::from_str_radix(hex, 16).ok();
    let (start, end) = (number(start)?, number(end)?);
    let mut bytes = vec![0; usize::try_from(end.checked_sub(start)?).ok()?];
    let memory = File::open("/proc/self/mem").ok()?;
    memory.read_exact_at(&mut bytes, start).ok()?;
    Some(bytes)
}
