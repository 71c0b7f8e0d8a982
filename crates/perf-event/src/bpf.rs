//! [`ContextProgram`]: a BPF program that reads OpenTelemetry's thread context at each sample.
//!
//! The program runs while the sampled thread is interrupted, so it reads the context of exactly
//! that moment. The kernel writes the result as a record of a `bpf-output` event, just before the
//! sample.
//!
//! OTEP 4947 has the layout of the thread context, bpf(2) the calls, and `include/uapi/linux/bpf.h`
//! the numbers.

mod assembler;

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use rprof_records::request_context::{HEADER_BYTES, MAX_ATTRIBUTE_BYTES, PREFIX_BYTES, THREAD};

use crate::limits::LiftedLockLimit;
use crate::{Errno, PerfFd};
use assembler::*;

const MAP_CREATE: u32 = 0;
const MAP_UPDATE_ELEM: u32 = 2;
const MAP_DELETE_ELEM: u32 = 3;
const PROG_LOAD: u32 = 5;
const PROG_TEST_RUN: u32 = 10;

const HASH: u32 = 1;
const PERF_EVENT_ARRAY: u32 = 4;
const PERCPU_ARRAY: u32 = 6;

const PERF_EVENT: u32 = 7;
const RAW_TRACEPOINT: u32 = 17;

const MAP_LOOKUP: i32 = 1;
const PERF_EVENT_OUTPUT: i32 = 25;
const CURRENT_PID_TGID: i32 = 14;
const CURRENT_TASK: i32 = 35;
const PROBE_READ_USER: i32 = 112;
const PROBE_READ_KERNEL: i32 = 113;
const NS_CURRENT_PID_TGID: i32 = 120;

/// Maximum number of processes with a context.
const MAX_PROCESSES: u32 = 4096;

/// Inode of the first pid namespace (`PROC_PID_INIT_INO`), with the kernel's pids.
const FIRST_NAMESPACE: u64 = 0xefff_fffc;

/// Upper limit of the size of `struct task_struct`.
const MAX_TASK: i32 = 16 << 10;

/// Offset of the instruction pointer in a program's context (`struct bpf_perf_event_data`).
const IP: Option<i16> = match () {
    () if cfg!(target_arch = "x86_64") => Some(16 * 8),
    () if cfg!(target_arch = "aarch64") => Some(32 * 8),
    () => None,
};

/// Place of the pointer to the thread context, for all threads of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContextPlace {
    /// The variable is at a distance from the thread pointer, in bytes.
    Static(i64),
    /// The variable is in memory that the thread allocates when it first uses a module.
    Dynamic {
        /// Distance from the thread pointer to the pointer to the module table (DTV), in bytes.
        table: i64,
        /// Offset of the module's entry in the table, in bytes.
        entry: u64,
        /// Number of the module. The table of a thread may be too short for it.
        module: u64,
        /// Distance from the table to the number of its modules, in bytes.
        modules: i64,
        /// Offset in the memory of the module, in bytes.
        offset: u64,
    },
}

/// Processes with a thread context. Shared with the running program.
#[derive(Debug)]
pub struct ContextPlaces(OwnedFd);

impl ContextPlaces {
    /// Sets the place of a process. Its records contain `generation` from then on.
    ///
    /// # Errors
    /// The error of bpf(2), for example E2BIG if too many processes have one.
    pub fn set(&self, pid: u32, generation: u64, place: ContextPlace) -> Result<(), Errno> {
        let mut value = [generation, 0, 0, 0, 0, 0, 0];
        match place {
            ContextPlace::Static(offset) => value[2] = offset.cast_unsigned(),
            ContextPlace::Dynamic {
                table,
                entry,
                module,
                modules,
                offset,
            } => {
                let (table, modules) = (table.cast_unsigned(), modules.cast_unsigned());
                value[1..].copy_from_slice(&[1, offset, table, entry, module, modules]);
            }
        }
        update(self.0.as_fd(), &pid, &value)
    }

    /// Removes a process.
    pub fn remove(&self, pid: u32) {
        let mut attr = [number(self.0.as_fd()), address(&pid), 0, 0];
        // SAFETY: the key outlives the call, and has the size of the map's keys.
        unsafe { bpf(MAP_DELETE_ELEM, &mut attr) }.ok();
    }
}

/// The program, loaded. It runs for each event that it is attached to.
#[derive(Debug)]
pub struct ContextProgram {
    program: OwnedFd,
    outputs: OwnedFd,
    places: Arc<ContextPlaces>,
    _scratch: OwnedFd,
}

impl ContextProgram {
    /// Loads the program for CPUs with numbers below `cpus`.
    ///
    /// # Errors
    /// The error of bpf(2): EPERM without CAP_BPF and CAP_PERFMON, or above the limit on locked
    /// memory (kernels before 5.11); EINVAL on kernels before 5.10; ENOSYS on architectures other
    /// than x86-64 and AArch64.
    pub fn load(cpus: u32) -> Result<ContextProgram, Errno> {
        match ContextProgram::load_within_limits(cpus) {
            // Before 5.11, maps and programs count as locked memory, even root's.
            Err(Errno::PERM) => {
                let _lifted = LiftedLockLimit::lift().ok_or(Errno::PERM)?;
                ContextProgram::load_within_limits(cpus)
            }
            loaded => loaded,
        }
    }

    fn load_within_limits(cpus: u32) -> Result<ContextProgram, Errno> {
        let ip = IP.ok_or(Errno::NOSYS)?;
        let thread_pointer = thread_pointer_offset()?;
        let namespace = File::open("/proc/self/ns/pid").and_then(|file| file.metadata());
        let namespace = namespace.map_err(|error| errno_of(&error))?;
        let places = create_map(HASH, 4, 56, MAX_PROCESSES)?;
        let outputs = create_map(PERF_EVENT_ARRAY, 4, 4, cpus)?;
        let scratch_bytes = (PREFIX_BYTES + HEADER_BYTES + MAX_ATTRIBUTE_BYTES) as u32;
        let scratch = create_map(PERCPU_ARRAY, 4, scratch_bytes.next_multiple_of(8), 1)?;
        let code = reader(&Reader {
            thread_pointer,
            ip,
            namespace: (kernel_device(namespace.dev()), namespace.ino()),
            places: places.as_raw_fd(),
            outputs: outputs.as_raw_fd(),
            scratch: scratch.as_raw_fd(),
        });
        Ok(ContextProgram {
            program: load(PERF_EVENT, &code)?,
            outputs,
            places: Arc::new(ContextPlaces(places)),
            _scratch: scratch,
        })
    }

    /// Sends the records of a CPU to an event of type `bpf-output` on it, which must be enabled.
    ///
    /// # Errors
    /// The error of bpf(2).
    pub fn send_to(&self, cpu: u32, event: &PerfFd) -> Result<(), Errno> {
        let fd = event.as_fd().as_raw_fd();
        update(self.outputs.as_fd(), &cpu, &fd)
    }

    /// Returns the places of processes.
    pub fn places(&self) -> &Arc<ContextPlaces> {
        &self.places
    }
}

impl AsFd for ContextProgram {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.program.as_fd()
    }
}

fn kernel_device(device: u64) -> u64 {
    u64::from(libc::major(device)) << 20 | u64::from(libc::minor(device))
}

fn errno_of(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

/// Returns the offset of the thread pointer in the kernel's task.
///
/// It depends on the kernel's configuration. So a program searches the task for this thread's
/// thread pointer, and another thread must find its own at the same offset.
fn thread_pointer_offset() -> Result<i32, Errno> {
    let find = || {
        let program = load(RAW_TRACEPOINT, &finder(thread_pointer()))?;
        run(program.as_fd())
    };
    let first = find()?;
    let second = std::thread::spawn(find).join().map_err(|_| Errno::IO)??;
    match i32::try_from(first) {
        Ok(offset) if offset > 0 && first == second => Ok(offset),
        _ => Err(Errno::NOSYS),
    }
}

/// Returns the thread pointer of this thread; 0 if unsupported.
fn thread_pointer() -> u64 {
    let pointer: u64;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the ABI of x86-64 puts the thread pointer itself at its address, and the instruction
    // only reads it.
    unsafe {
        std::arch::asm!("mov {}, fs:0", out(reg) pointer, options(nostack, readonly, preserves_flags));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the instruction only reads a register.
    unsafe {
        std::arch::asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nostack, nomem, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        pointer = 0;
    }
    pointer
}

/// Returns the program that searches the current task for a word. It returns the offset, or 0.
fn finder(wanted: u64) -> Vec<Instruction> {
    let mut a = Assembler::default();
    let (next, found, skip) = (a.label(), a.label(), a.label());
    a.call(CURRENT_TASK);
    a.copy(6, 0);
    a.set(7, 0);
    a.set_64(8, wanted);
    a.bind(next);
    a.copy(9, 6);
    a.add_register(9, 7);
    a.read_word(PROBE_READ_KERNEL, 9, skip);
    a.load(LOAD_64, 1, (FRAME, -16));
    a.jump_if_other(JUMP_IF_EQUAL, (1, 8), found);
    a.bind(skip);
    a.add(7, 8);
    a.jump_if(JUMP_IF_LESS, 7, MAX_TASK, next);
    a.set(0, 0);
    a.exit();
    a.bind(found);
    a.copy(0, 7);
    a.exit();
    a.finish()
}

struct Reader {
    thread_pointer: i32,
    ip: i16,
    namespace: (u64, u64),
    places: i32,
    outputs: i32,
    scratch: i32,
}

/// Returns the program that reads the context. It returns 1: the kernel drops the sample otherwise.
fn reader(of: &Reader) -> Vec<Instruction> {
    let mut a = Assembler::default();
    let done = a.label();
    // The sample's registers stay in register 6.
    a.copy(6, 1);
    find_place(&mut a, of, done);
    find_record(&mut a, of, done);
    copy_record(&mut a, of, done);
    copy_attributes(&mut a);
    send_record(&mut a, of);
    a.jump(done);
    a.bind(done);
    a.set(0, 1);
    a.exit();
    a.finish()
}

fn find_place(a: &mut Assembler, of: &Reader, done: Label) {
    // Pid as this process sees it: containers have no pids for each other.
    if of.namespace.1 == FIRST_NAMESPACE {
        a.call(CURRENT_PID_TGID);
        a.emit(SHIFT_RIGHT, (0, 0), 0, 32);
        a.emit(STORE_32, (FRAME, 0), -4, 0);
    } else {
        a.set_64(1, of.namespace.0);
        a.set_64(2, of.namespace.1);
        a.copy(3, FRAME);
        a.add(3, -8);
        a.set(4, 8);
        a.call(NS_CURRENT_PID_TGID);
        a.jump_if(JUMP_IF_NOT_EQUAL, 0, 0, done);
    }
    a.set_map(1, of.places);
    a.copy(2, FRAME);
    a.add(2, -4);
    a.call(MAP_LOOKUP);
    a.jump_if(JUMP_IF_EQUAL, 0, 0, done);
    a.copy(7, 0);
}

/// Puts the address of the thread's record into register 8, using the place in register 7.
fn find_record(a: &mut Assembler, of: &Reader, done: Label) {
    let is_static = a.label();
    a.call(CURRENT_TASK);
    a.add(0, of.thread_pointer);
    a.read_word(PROBE_READ_KERNEL, 0, done);
    a.load(LOAD_64, 8, (FRAME, -16));
    a.load(LOAD_64, 1, (7, 8));
    a.jump_if(JUMP_IF_EQUAL, 1, 0, is_static);
    a.load(LOAD_64, 1, (7, 24));
    a.add_register(8, 1);
    a.read_word(PROBE_READ_USER, 8, done);
    a.load(LOAD_64, 8, (FRAME, -16));
    // A thread that has not used the module may have a shorter table.
    a.copy(9, 8);
    a.load(LOAD_64, 1, (7, 48));
    a.add_register(9, 1);
    a.read_word(PROBE_READ_USER, 9, done);
    a.load(LOAD_64, 1, (FRAME, -16));
    a.load(LOAD_64, 2, (7, 40));
    a.jump_if_other(JUMP_IF_LESS, (1, 2), done);
    a.load(LOAD_64, 1, (7, 32));
    a.add_register(8, 1);
    a.read_word(PROBE_READ_USER, 8, done);
    a.load(LOAD_64, 8, (FRAME, -16));
    // Memory of the module: none yet, or not allocated (`TLS_DTV_UNALLOCATED`).
    a.jump_if(JUMP_IF_EQUAL, 8, 0, done);
    a.jump_if(JUMP_IF_EQUAL, 8, -1, done);
    a.bind(is_static);
    a.load(LOAD_64, 1, (7, 16));
    a.add_register(8, 1);
    a.read_word(PROBE_READ_USER, 8, done);
    a.load(LOAD_64, 8, (FRAME, -16));
    a.jump_if(JUMP_IF_EQUAL, 8, 0, done);
}

/// Copies the fixed part of the record in register 8 to scratch memory, with the thread and the
/// sample's address. Register 9 then has its address.
fn copy_record(a: &mut Assembler, of: &Reader, done: Label) {
    let header = PREFIX_BYTES as i16;
    a.set(1, 0);
    a.store((FRAME, -24), 1);
    a.set_map(1, of.scratch);
    a.copy(2, FRAME);
    a.add(2, -24);
    a.call(MAP_LOOKUP);
    a.jump_if(JUMP_IF_EQUAL, 0, 0, done);
    a.copy(9, 0);
    a.copy(1, 9);
    a.add(1, PREFIX_BYTES as i32);
    a.set(2, HEADER_BYTES as i32);
    a.copy(3, 8);
    a.call(PROBE_READ_USER);
    a.jump_if(JUMP_IF_NOT_EQUAL, 0, 0, done);
    a.load(LOAD_8, 1, (9, header + 24));
    a.jump_if(JUMP_IF_NOT_EQUAL, 1, 1, done);
    a.set(1, THREAD as i32);
    a.store((9, 0), 1);
    a.load(LOAD_64, 1, (7, 0));
    a.store((9, 8), 1);
    a.load(LOAD_64, 1, (6, of.ip));
    a.store((9, 16), 1);
}

/// Copies the attributes after the record's fixed part. Register 7 then has their size: 0 if they
/// are too large or unreadable.
fn copy_attributes(a: &mut Assembler) {
    let header = PREFIX_BYTES as i16;
    let (bare, emit) = (a.label(), a.label());
    a.load(LOAD_16, 7, (9, header + 26));
    a.jump_if(JUMP_IF_GREATER, 7, MAX_ATTRIBUTE_BYTES as i32, bare);
    a.copy(1, 9);
    a.add(1, (PREFIX_BYTES + HEADER_BYTES) as i32);
    a.copy(2, 7);
    a.copy(3, 8);
    a.add(3, HEADER_BYTES as i32);
    a.call(PROBE_READ_USER);
    a.jump_if(JUMP_IF_EQUAL, 0, 0, emit);
    a.bind(bare);
    a.set(7, 0);
    a.bind(emit);
}

fn send_record(a: &mut Assembler, of: &Reader) {
    a.copy(1, 6);
    a.set_map(2, of.outputs);
    // `BPF_F_CURRENT_CPU`
    a.set_64(3, 0xffff_ffff);
    a.copy(4, 9);
    a.copy(5, 7);
    a.add(5, (PREFIX_BYTES + HEADER_BYTES) as i32);
    a.call(PERF_EVENT_OUTPUT);
}

/// Calls bpf(2) with the fields of an attr (`union bpf_attr`) as words. Little-endian: the first of
/// two 32-bit fields is the lower half.
///
/// # Safety
/// The attr must match the command, and its addresses must be valid as the command requires.
unsafe fn bpf<const N: usize>(command: u32, attr: &mut [u64; N]) -> Result<libc::c_int, Errno> {
    // SAFETY: see above.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, attr.as_mut_ptr(), 8 * N) };
    match libc::c_int::try_from(result) {
        Ok(result) if result >= 0 => Ok(result),
        _ => Err(errno_of(&io::Error::last_os_error())),
    }
}

fn number(fd: BorrowedFd<'_>) -> u64 {
    u64::from(fd.as_raw_fd().cast_unsigned())
}

fn address<T: ?Sized>(value: &T) -> u64 {
    std::ptr::from_ref(value).addr() as u64
}

fn pair(first: u32, second: u32) -> u64 {
    u64::from(second) << 32 | u64::from(first)
}

/// Calls bpf(2) for a new descriptor.
///
/// # Safety
/// See [`bpf`]. The command must return a descriptor.
unsafe fn open<const N: usize>(command: u32, mut attr: [u64; N]) -> Result<OwnedFd, Errno> {
    // SAFETY: see above.
    let fd = unsafe { bpf(command, &mut attr) }?;
    // SAFETY: the call returned a new descriptor, which the kernel opens with O_CLOEXEC.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn create_map(kind: u32, key: u32, value: u32, entries: u32) -> Result<OwnedFd, Errno> {
    // SAFETY: type, sizes and number; the attr has no addresses.
    unsafe { open(MAP_CREATE, [pair(kind, key), pair(value, entries), 0]) }
}

/// Sets a key's value. `T` must have the size of the map's values.
fn update<T>(map: BorrowedFd<'_>, key: &u32, value: &T) -> Result<(), Errno> {
    let mut attr = [number(map), address(key), address(value), 0];
    // SAFETY: key and value outlive the call, and have the sizes of the map.
    unsafe { bpf(MAP_UPDATE_ELEM, &mut attr) }.map(drop)
}

fn load(kind: u32, code: &[Instruction]) -> Result<OwnedFd, Errno> {
    // The helpers are for GPL programs only.
    let license = c"GPL".to_bytes_with_nul();
    let count = code.len() as u32;
    let attr = [pair(kind, count), address(code), address(license), 0, 0, 0];
    // SAFETY: code and license outlive the call.
    unsafe { open(PROG_LOAD, attr) }
}

fn run(program: BorrowedFd<'_>) -> Result<u32, Errno> {
    let mut attr = [0; 9];
    attr[0] = number(program);
    // SAFETY: the attr has no addresses.
    unsafe { bpf(PROG_TEST_RUN, &mut attr) }?;
    Ok((attr[0] >> 32) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumps_lead_to_their_labels() {
        let code = finder(7);
        let next = code.iter().position(|one| one.code == JUMP_IF_LESS);
        let next = next.expect("the loop");
        let target = next as i64 + 1 + i64::from(code[next].offset);
        assert_eq!(
            code[target as usize].code, 0xbf,
            "the copy that starts a round"
        );
        assert!(
            reader(&Reader {
                thread_pointer: 8,
                ip: 128,
                namespace: (4, 5),
                places: 3,
                outputs: 4,
                scratch: 5,
            })
            .iter()
            .all(|one| one.code != 0x05 || one.offset >= 0)
        );
    }

    #[test]
    fn the_kernel_accepts_the_program() {
        rprof_testing::needs!(Root);
        let program = match ContextProgram::load(4) {
            Ok(program) => program,
            // Without BPF, or with a kernel that forbids these helpers.
            Err(Errno::NOSYS | Errno::PERM) => {
                rprof_testing::skip("a kernel with BPF");
                return;
            }
            Err(errno) => panic!("{errno}"),
        };
        let places = [
            ContextPlace::Static(-8),
            ContextPlace::Dynamic {
                table: 8,
                entry: 32,
                module: 2,
                modules: -16,
                offset: 0,
            },
        ];
        for place in places {
            let set = program.places().set(std::process::id(), 1, place);
            set.expect("set");
        }
        program.places().remove(std::process::id());
    }
}
