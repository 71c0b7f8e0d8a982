//! Signal trampolines: code that calls `sigreturn` after a signal handler returns. It is detected
//! by its bytes, as `strip` usually removes its symbol.
//!
//! No code calls a trampoline, so the lookup address (return address - 1) is in another function or
//! in padding.

use crate::frames::{Frames, Symbol};
use std::sync::Arc;

const TRAMPOLINES: [(&str, &[u8]); 5] = [
    // mov rax, 15; syscall. glibc, and musl with a 32-bit move.
    ("__restore_rt", &[0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 5]),
    ("__restore_rt", &[0xb8, 15, 0, 0, 0, 0x0f, 5]),
    // mov x8, 139; svc 0. The vdso of AArch64.
    (
        "__kernel_rt_sigreturn",
        &[0x68, 0x11, 0x80, 0xd2, 1, 0, 0, 0xd4],
    ),
    // mov eax, 173; int 0x80. The vdso of i386.
    ("__kernel_rt_sigreturn", &[0xb8, 173, 0, 0, 0, 0xcd, 0x80]),
    // pop eax; mov eax, 119; int 0x80. The same, for handlers without SA_SIGINFO.
    (
        "__kernel_sigreturn",
        &[0x58, 0xb8, 119, 0, 0, 0, 0xcd, 0x80],
    ),
];

pub(crate) const LONGEST: u64 = 9;

/// Returns the trampoline at the start of `code`, which starts at `svma`.
pub(crate) fn find(code: &[u8], svma: u64) -> Option<Frames> {
    let (name, code) = (TRAMPOLINES.iter()).find(|(_, bytes)| code.starts_with(bytes))?;
    let symbol = Symbol {
        name: (*name).into(),
        raw: (*name).into(),
        start: svma,
        size: code.len() as u64,
        module: None,
        located: None,
    };
    Some(Frames::new(Arc::new(symbol), 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trampolines_have_their_names() {
        let name = |code: &[u8]| Some(find(code, 0x1000)?.symbol().name.to_string());
        let glibc = [0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 5, 0x0f, 0x1f];
        assert_eq!(name(&glibc).as_deref(), Some("__restore_rt"));
        assert_eq!(name(&glibc[..8]), None);
        let i386 = [0x58, 0xb8, 119, 0, 0, 0, 0xcd, 0x80];
        assert_eq!(name(&i386).as_deref(), Some("__kernel_sigreturn"));
        let i386 = [0xb8, 173, 0, 0, 0, 0xcd, 0x80];
        assert_eq!(name(&i386).as_deref(), Some("__kernel_rt_sigreturn"));
        assert_eq!(name(&[0x48, 0xc7, 0xc0, 14, 0, 0, 0, 0x0f, 5]), None);
        assert!(
            TRAMPOLINES
                .iter()
                .all(|(_, code)| code.len() as u64 <= LONGEST)
        );
    }

    /// The bytes are constants of this program: data, which nothing executes.
    #[test]
    fn data_with_the_bytes_of_a_trampoline_have_no_name() {
        let path = std::env::current_exe().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let (_, constant) = TRAMPOLINES[0];
        let starts = (bytes.windows(constant.len()).enumerate())
            .filter_map(|(at, window)| (window == constant).then_some(at as u64));
        // A lookup finds what starts behind the byte.
        let offsets: Vec<u64> = starts.map(|at| at - 1).collect();
        assert!(!offsets.is_empty());
        let symbolizer = crate::Symbolizer::builder().locates(false).build();
        let image = crate::ImageKey::file(path.to_str().unwrap());
        for found in symbolizer.resolve_image(&image, &offsets) {
            let name = found.map(|frames| frames.symbol().name.to_string());
            assert_ne!(name.as_deref(), Ok("__restore_rt"));
        }
    }
}
