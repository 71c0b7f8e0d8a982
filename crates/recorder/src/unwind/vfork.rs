//! [`VforkChildren`]: finds stacks that another process may have changed.
//!
//! A child of vfork(2) runs on its parent's stack, and the parent waits. execve(2) lets the parent
//! continue shortly before it removes the stack from the child. A copy between these moments mixes
//! the callers of both. In the kernel, both moments are in one function.
//!
//! Source: `begin_new_exec` in `fs/exec.c` (`flush_old_exec` before Linux 5.8), `mm_release` in
//! `kernel/fork.c`.

use std::io::BufRead;
use std::ops::Range;

use rprof_processes::Pid;
use rprof_unwind::{Arch, Registers};
use rustc_hash::FxHashSet;

const NAMES: [&str; 2] = ["begin_new_exec", "flush_old_exec"];

/// DWARF number of rax, and its value during a system call.
const RAX: u8 = 0;
const ENOSYS: u64 = (-38_i64).cast_unsigned();

/// Processes that were forked during the recording, and have not executed a program since.
#[derive(Debug, Default)]
pub(super) struct VforkChildren {
    forked: FxHashSet<Pid>,
    /// Address range of the kernel's function, once it was needed. `None` inside: hidden.
    function: Option<Option<Range<u64>>>,
}

impl VforkChildren {
    pub(super) fn handle_fork(&mut self, pid: Pid) {
        self.forked.insert(pid);
    }

    /// Handles an exec, or the end of a process.
    pub(super) fn forget(&mut self, pid: Pid) {
        self.forked.remove(&pid);
    }

    /// Returns true if the parent may already have changed the copied stack. `kernel` is the sample's
    /// kernel callchain.
    pub(super) fn shares_stack(&mut self, pid: Pid, user: &Registers, kernel: &[u64]) -> bool {
        let is_in_call = user.arch() != Arch::X86_64 || user.get(RAX) == Some(ENOSYS);
        if !is_in_call || !self.forked.contains(&pid) {
            return false;
        }
        let function = self.function.get_or_insert_with(|| {
            let list = std::fs::File::open("/proc/kallsyms").ok()?;
            find(std::io::BufReader::with_capacity(64 << 10, list))
        });
        (function.as_ref()).is_some_and(|function| kernel.iter().any(|at| function.contains(at)))
    }
}

/// Returns the range of the function in a list of the kernel's symbols. Reads no further, since the
/// kernel takes some 50 ms to write the list.
fn find(list: impl BufRead) -> Option<Range<u64>> {
    let mut start = None;
    for line in list.lines() {
        let line = line.ok()?;
        let mut words = line.split_ascii_whitespace();
        let address = u64::from_str_radix(words.next()?, 16).ok()?;
        match start {
            Some(start) if address > start => return Some(start..address),
            Some(_) => {}
            None if address == 0 => return None,
            None => {
                let name = words.nth(1)?;
                start = NAMES.contains(&name).then_some(address);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_forked_processes_inside_exec_share_a_stack() {
        let mut children = VforkChildren {
            function: Some(Some(0x100..0x200)),
            ..VforkChildren::default()
        };
        let mut user = Registers::new(Arch::X86_64, 0x1000, 0x7000);
        user.set(RAX, ENOSYS);
        let shares = |children: &mut VforkChildren, chain: &[u64]| {
            children.shares_stack(Pid(7), &user, chain)
        };
        let (inside, before) = ([0x90, 0x1ff, 0x300], [0x90, 0x200, 0x300]);
        assert!(!shares(&mut children, &inside), "not forked");
        children.handle_fork(Pid(7));
        assert!(shares(&mut children, &inside));
        assert!(!shares(&mut children, &before));
        assert!(!children.shares_stack(Pid(8), &user, &inside));
        let page_fault = Registers::new(Arch::X86_64, 0x1000, 0x7000);
        assert!(!children.shares_stack(Pid(7), &page_fault, &inside));
        children.forget(Pid(7));
        assert!(!children.shares_stack(Pid(7), &user, &inside));
    }

    #[test]
    fn the_function_ends_at_the_next_symbol() {
        let list = "ffffffff81000000 T _stext\nffffffff81000100 T begin_new_exec\n\
                    ffffffff81000100 t alias\nffffffff81000180 t next\n";
        assert_eq!(
            find(list.as_bytes()),
            Some(0xffff_ffff_8100_0100..0xffff_ffff_8100_0180)
        );
        let hidden = "0000000000000000 T _stext\n0000000000000000 T begin_new_exec\n";
        assert_eq!(find(hidden.as_bytes()), None);
        assert_eq!(find("ffffffff81000000 T _stext\n".as_bytes()), None);
        assert_eq!(find("x\n".as_bytes()), None);
    }
}
