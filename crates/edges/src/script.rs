//! Reads stacks from the output of `rprof script` or `perf script`.

use std::ops::Range;

/// Fields to print: `-F` of both programs. Inlined calls must be off (`--no-inline`).
pub const FIELDS: &str = "comm,pid,tid,time,ip,dso";

/// Addresses from here on belong to the kernel.
const KERNEL: u64 = 1 << 63;

/// Addresses that stand for functions of interpreted languages, which have no machine code.
const INTERPRETED: Range<u64> = 1 << 56..1 << 57;

/// One frame as printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    /// Offset in the object's file, else address in memory.
    pub(crate) address: u64,
    pub(crate) object: &'a str,
}

impl Line<'_> {
    pub(crate) fn is_kernel(self) -> bool {
        let is_user = ["[vdso]", "[unknown]", "[heap]", "[stack]", "[anon]"].contains(&self.object);
        self.address >= KERNEL || (self.object.starts_with('[') && !is_user)
    }

    fn parse(line: &str) -> Option<Line<'_>> {
        let (address, object) = line.trim_start().split_once(' ')?;
        let object = object.trim().strip_prefix('(')?.strip_suffix(')')?;
        let address = u64::from_str_radix(address, 16).ok()?;
        Some(Line { address, object })
    }
}

/// Iterates over the stacks: name of the thread, and frames from the innermost.
///
/// Functions of interpreted languages are left out. A sampled instruction behind one is recorded one
/// byte higher, like a return address.
pub(crate) fn stacks(text: &str) -> impl Iterator<Item = (&str, Vec<Line<'_>>)> {
    let mut lines = text.lines().peekable();
    std::iter::from_fn(move || {
        let head = lines.find(|line| !line.trim().is_empty())?;
        let mut frames: Vec<Line<'_>> = Vec::new();
        let mut is_behind = false;
        while let Some(line) = lines.next_if(|line| line.starts_with([' ', '\t'])) {
            let Some(line) = Line::parse(line) else {
                continue;
            };
            if INTERPRETED.contains(&line.address) {
                is_behind = true;
                continue;
            }
            let is_sampled = !line.is_kernel() && frames.iter().all(|frame| frame.is_kernel());
            let moved = u64::from(is_behind && is_sampled);
            frames.push(Line {
                address: line.address.wrapping_sub(moved),
                ..line
            });
        }
        Some((name(head), frames))
    })
}

/// Returns the thread's name, in front of `PID/TID TIME:`.
fn name(head: &str) -> &str {
    without_last_word(without_last_word(head))
}

fn without_last_word(text: &str) -> &str {
    let text = text.trim();
    text.rsplit_once(' ')
        .map_or(text, |(before, _)| before.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interpreted_functions_are_no_frames_and_move_the_sampled_instruction() {
        let text = "python3 1/1 2.0:\n\t ffffffff81000000 ([kernel.kallsyms])\n\t 100000000000108 (//anon)\n\t 11 (/p)\n\t \
                    100000000000208 (//anon)\n\t 21 (/p)\n";
        let (_, frames) = stacks(text).next().unwrap();
        let addresses: Vec<u64> = frames.iter().map(|frame| frame.address).collect();
        assert_eq!(addresses, [0xffff_ffff_8100_0000, 0x10, 0x21]);
    }

    #[test]
    fn stacks_have_their_frames_and_the_names_of_threads() {
        let text = "two words    7/8      183.585462: \n\
            \t            1288 (/tmp/a b (deleted))\n\
            \tffffffff81000000 ([kernel.kallsyms])\n\
            \n\
            next 9/9 183.6: \n\
            \t              12 ([vdso])\n";
        let found: Vec<_> = stacks(text).collect();
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].0, "two words");
        let first = Line {
            address: 0x1288,
            object: "/tmp/a b (deleted)",
        };
        assert_eq!(found[0].1[0], first);
        assert!(!found[0].1[0].is_kernel() && found[0].1[1].is_kernel());
        assert_eq!(found[1].0, "next");
        assert!(!found[1].1[0].is_kernel());
    }
}
