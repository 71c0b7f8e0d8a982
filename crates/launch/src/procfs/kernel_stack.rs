//! [`KernelPlace`]: the kernel function that blocks a thread.

use std::fs;

use super::Procfs;

/// Kernel functions in which the cgroup freezer holds a thread, in versions 2 and 1. Version 2 is
/// inlined into `get_signal` in Linux 6.18.
const FREEZER: [&str; 3] = ["do_freezer_trap", "get_signal", "__refrigerator"];

/// Maximum number of functions read from one stack.
const MAX_FUNCTIONS: usize = 64;

/// Position in a kernel function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelPlace {
    /// Function name, as in `/proc/kallsyms`.
    pub function: String,
    /// Offset in bytes from the function's start.
    pub offset: u64,
    /// Size of the function in bytes, if known. It identifies one of several functions of the same
    /// name.
    pub size: Option<u64>,
}

impl Procfs {
    /// Returns true if the cgroup freezer holds a thread. Its state is S or D, as if it slept. False
    /// without permission for `/proc/TID/wchan` (PTRACE_MODE_READ).
    pub(crate) fn is_frozen(&self, tid: u32) -> bool {
        let channel = fs::read_to_string(self.folder(tid).join("wchan"));
        channel.is_ok_and(|channel| FREEZER.contains(&channel.trim()))
    }

    /// Returns the kernel functions on the stack of a blocked thread, innermost first, without the
    /// scheduler's. Reads `/proc/TID/stack` (CAP_SYS_ADMIN), or else the innermost one from
    /// `/proc/TID/wchan` (PTRACE_MODE_READ). Empty for a runnable thread, or without permission.
    pub fn kernel_stack(&self, tid: u32) -> Vec<KernelPlace> {
        let read = |name: &str| fs::read_to_string(self.folder(tid).join(name)).unwrap_or_default();
        // A runnable thread may still show the stack of its last wait.
        let channel = read("wchan");
        let channel = channel.trim();
        if channel.is_empty() || channel == "0" {
            return Vec::new();
        }
        let stack: Vec<KernelPlace> = read("stack")
            .lines()
            .filter_map(parse_place)
            .take(MAX_FUNCTIONS)
            .collect();
        match stack.is_empty() {
            false => stack,
            true => vec![KernelPlace {
                function: channel.to_owned(),
                offset: 0,
                size: None,
            }],
        }
    }
}

/// Parses `[<0>] futex_do_wait+0x46/0x90 [module]`.
fn parse_place(line: &str) -> Option<KernelPlace> {
    let place = line.split_ascii_whitespace().nth(1)?;
    let (function, within) = place.rsplit_once('+')?;
    let (offset, size) = within.split_once('/')?;
    let number = |text: &str| u64::from_str_radix(text.strip_prefix("0x")?, 16).ok();
    Some(KernelPlace {
        function: function.to_owned(),
        offset: number(offset)?,
        size: Some(number(size)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made_up(wchan: &str, stack: &str) -> (tempfile::TempDir, Procfs) {
        let folder = tempfile::tempdir().unwrap();
        let proc = Procfs::new(folder.path());
        fs::create_dir(proc.folder(7)).unwrap();
        fs::write(proc.folder(7).join("wchan"), wchan).unwrap();
        fs::write(proc.folder(7).join("stack"), stack).unwrap();
        (folder, proc)
    }

    #[test]
    fn a_stack_is_read_innermost_first() {
        let text = "[<0>] futex_do_wait+0x46/0x90\n[<0>] ext4_x.part.0+0x1/0x20 [ext4]\ngarbage\n[<0>] x+y/z\n";
        let (_folder, proc) = made_up("futex_do_wait", text);
        let place = |function: &str, offset, size| KernelPlace {
            function: function.into(),
            offset,
            size: Some(size),
        };
        assert_eq!(
            proc.kernel_stack(7),
            [
                place("futex_do_wait", 0x46, 0x90),
                place("ext4_x.part.0", 1, 0x20)
            ]
        );
    }

    #[test]
    fn a_stack_that_may_not_be_read_leaves_the_channel() {
        let (_folder, proc) = made_up("do_poll.constprop.0", "");
        let found = proc.kernel_stack(7);
        assert_eq!(
            (found.len(), &*found[0].function, found[0].size),
            (1, "do_poll.constprop.0", None)
        );
    }

    #[test]
    fn a_thread_that_runs_has_no_place() {
        for channel in ["0", ""] {
            let (_folder, proc) = made_up(channel, "[<0>] stale+0x1/0x2\n");
            assert_eq!(proc.kernel_stack(7), []);
        }
        assert_eq!(Procfs::default().kernel_stack(u32::MAX), []);
    }

    #[test]
    fn a_child_that_sleeps_is_found_in_the_kernel() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let proc = Procfs::default();
        let start = std::time::Instant::now();
        let is_asleep = |places: &[KernelPlace]| {
            places
                .iter()
                .any(|place| place.function.contains("nanosleep"))
        };
        let mut places = proc.kernel_stack(child.id());
        while !is_asleep(&places) && start.elapsed().as_secs() < 20 {
            std::thread::sleep(std::time::Duration::from_millis(5));
            places = proc.kernel_stack(child.id());
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(is_asleep(&places), "{places:?}");
    }
}
