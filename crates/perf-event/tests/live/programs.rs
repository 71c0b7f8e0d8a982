//! A minimal BPF program, loaded with the system call.

use rprof_testing::skip;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// `BPF_PROG_LOAD` and `BPF_PROG_TYPE_TRACEPOINT` (linux/bpf.h).
const LOAD: libc::c_int = 5;
const TRACEPOINT: u32 = 5;

#[repr(C)]
struct Load {
    kind: u32,
    instructions: u32,
    code: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
}

/// Returns a program that returns 0. Skips the test if loading is not allowed.
#[track_caller]
pub(crate) fn returns_zero() -> Option<OwnedFd> {
    // r0 = 0; exit
    let code: [u64; 2] = [0xb7, 0x95];
    let license = c"GPL";
    let load = Load {
        kind: TRACEPOINT,
        instructions: 2,
        code: code.as_ptr() as u64,
        license: license.as_ptr() as u64,
        log_level: 0,
        log_size: 0,
        log: 0,
        kernel_version: 0,
        flags: 0,
    };
    // SAFETY: the kernel reads `size_of::<Load>()` bytes and the memory behind the pointers, which
    // outlives the call.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, LOAD, &raw const load, size_of::<Load>()) };
    if fd < 0 {
        let error = std::io::Error::last_os_error();
        skip(format!("needs the right to load BPF programs: {error}"));
        return None;
    }
    // SAFETY: the kernel has just returned this descriptor, so it has no other owner.
    Some(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

pub(crate) fn id(program: &OwnedFd) -> u32 {
    let path = format!("/proc/self/fdinfo/{}", program.as_raw_fd());
    let text = std::fs::read_to_string(path).unwrap();
    let id = text.lines().find_map(|line| line.strip_prefix("prog_id:"));
    id.unwrap().trim().parse().unwrap()
}
