//! The vdso: an ELF image without a file, mapped by the kernel into every process.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// Maximum length in bytes. Real ones have one to three pages.
const MAX_LEN: usize = 1 << 20;

/// Returns a copy of this process's own `[vdso]`. `None` if there is none or it is damaged.
///
/// It also describes other processes whose vdso has the same build-id; 32-bit ones have another.
///
/// Source: `vdso(7)`, `getauxval(3)`; the length comes from `/proc/self/maps`.
#[must_use]
pub fn vdso_image() -> Option<Vec<u8>> {
    // SAFETY: getauxval reads the auxiliary vector that the C library keeps; any key is allowed.
    let start = unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) };
    // File names need not be UTF-8.
    let maps = std::fs::read("/proc/self/maps").ok()?;
    let len = mapping_len(&String::from_utf8_lossy(&maps), start)?;
    // SAFETY: the kernel lists `start..start + len` as a readable mapping of this process, named
    // [vdso]. It maps the vdso once at exec, read-only, and nothing in this process unmaps it.
    let bytes = unsafe { std::slice::from_raw_parts(start as *const u8, len) };
    Some(bytes.to_vec())
}

/// Returns a copy of a process's vdso, mapped at these addresses. `None` if unreadable.
///
/// For 32-bit programs, since this process has only its own: see [`vdso_image`].
#[must_use]
pub fn vdso_of_process(pid: u32, range: Range<u64>) -> Option<Vec<u8>> {
    let len = usize::try_from(range.end.checked_sub(range.start)?).ok()?;
    let mut bytes = vec![0; (len <= MAX_LEN).then_some(len)?];
    let memory = File::open(format!("/proc/{pid}/mem")).ok()?;
    memory.read_exact_at(&mut bytes, range.start).ok()?;
    bytes.starts_with(b"\x7fELF").then_some(bytes)
}

/// Returns the function and offset at an address of the vsyscall page of x86-64, which is fixed and
/// in no file.
///
/// Source: `arch/x86/entry/vsyscall/vsyscall_emu_64.S`, and the names of its targets in kernels
/// before 3.1.
#[must_use]
pub fn vsyscall(address: u64) -> Option<(&'static str, u64)> {
    const PAGE: u64 = 0xffff_ffff_ff60_0000;
    const FUNCTIONS: [&str; 3] = ["vgettimeofday", "vtime", "vgetcpu"];
    let inside = address.checked_sub(PAGE)?;
    let index = usize::try_from(inside / 1024).ok()?;
    Some((FUNCTIONS.get(index)?, inside % 1024))
}

fn mapping_len(maps: &str, start: u64) -> Option<usize> {
    let named = maps.lines().filter(|line| line.ends_with("[vdso]"));
    let of = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let (low, high) = words.next()?.split_once('-')?;
        let low = u64::from_str_radix(low, 16).ok()?;
        let high = u64::from_str_radix(high, 16).ok()?;
        let len = usize::try_from(high.checked_sub(low)?).ok()?;
        let is_readable = words.next()?.starts_with('r');
        (start != 0 && low == start && len <= MAX_LEN && is_readable).then_some(len)
    };
    named.into_iter().find_map(of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vsyscall_page() {
        assert_eq!(vsyscall(0xffff_ffff_ff60_0009), Some(("vgettimeofday", 9)));
        assert_eq!(vsyscall(0xffff_ffff_ff60_0400), Some(("vtime", 0)));
        assert_eq!(vsyscall(0xffff_ffff_ff60_0bff), Some(("vgetcpu", 0x3ff)));
        assert_eq!(vsyscall(0xffff_ffff_ff60_0c00), None);
        assert_eq!(vsyscall(0xffff_ffff_ff5f_ffff), None);
        assert_eq!(vsyscall(u64::MAX), None);
    }

    #[test]
    fn vdso_of_a_process_is_its_own() {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let Some(line) = maps.lines().find(|line| line.ends_with("[vdso]")) else {
            return;
        };
        let (low, high) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
        let hex = |text| u64::from_str_radix(text, 16).unwrap();
        let range = hex(low)..hex(high);
        let pid = std::process::id();
        assert_eq!(vdso_of_process(pid, range.clone()), vdso_image());
        // Past its end, another image or nothing is mapped.
        assert_eq!(vdso_of_process(pid, range.start + 1..range.end), None);
        assert_eq!(vdso_of_process(pid, 0..4096), None);
        assert_eq!(vdso_of_process(pid, 0..u64::MAX), None);
    }

    #[test]
    fn mapping_line() {
        let maps = "7ffc1000-7ffc3000 r-xp 00000000 00:00 0   [vdso]\n";
        assert_eq!(mapping_len(maps, 0x7ffc_1000), Some(0x2000));
        assert_eq!(mapping_len(maps, 0x7ffc_2000), None);
        assert_eq!(mapping_len("", 0), None);
        let other = "7f001000-7f003000 r--p 00000000 fe:00 7 /tmp/[vdso]\n";
        let both = format!("{other}{maps}");
        assert_eq!(mapping_len(&both, 0x7ffc_1000), Some(0x2000));
    }
}
