//! AArch64 stacks on any machine: the program's calls were traced by instruction
//! (`fixtures/aarch64/make.sh`).

use std::collections::BTreeMap;

use crate::support::Here;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/aarch64");

/// qemu's signal return page.
const NO_FILE: u64 = 1 << 32;

/// Frames by time, innermost first.
type Stacks = BTreeMap<u64, Vec<u64>>;

fn number(text: &str) -> u64 {
    u64::from_str_radix(text, 16).unwrap_or_else(|_| panic!("{text:?} is no address"))
}

fn truth() -> Stacks {
    let text = std::fs::read_to_string(format!("{FOLDER}/tree.truth")).unwrap();
    let line = |line: &str| {
        let (time, addresses) = line.split_once(' ').unwrap();
        let addresses = addresses.split(' ').map(number).collect();
        (time.parse().unwrap(), addresses)
    };
    text.lines().map(line).collect()
}

fn unwound(here: &Here) -> Stacks {
    let script = here.rprof("script --ns -F time,ip --symfs").arg(FOLDER);
    let script = script.arg("-i").arg(format!("{FOLDER}/tree.data")).ok();
    let mut stacks = Stacks::new();
    let mut time = 0;
    for line in script.out().lines().map(str::trim) {
        match line.strip_suffix(':') {
            Some(moment) => {
                let (seconds, rest) = moment.split_once('.').unwrap();
                let seconds: u64 = seconds.parse().unwrap();
                time = seconds * 1_000_000_000 + rest.parse::<u64>().unwrap();
                stacks.insert(time, Vec::new());
            }
            None if line.is_empty() => {}
            None => stacks.get_mut(&time).unwrap().push(number(line)),
        }
    }
    stacks
}

/// Prologues, epilogues, leaves, signed return addresses, handlers: at any instruction.
#[test]
fn aarch64_stacks_are_those_that_the_program_had() {
    let here = Here::new();
    let (truth, unwound) = (truth(), unwound(&here));
    assert!(truth.len() > 500, "{}", truth.len());
    for (time, stack) in &truth {
        let found = unwound.get(time).cloned().unwrap_or_default();
        let is_same = |at: usize| {
            // The first instruction of an interrupted function has the next address.
            let is_interrupted = at > 0 && stack[at - 1] > NO_FILE;
            found[at] == stack[at] || is_interrupted && found[at] == stack[at] + 1
        };
        let is_all = found.len() == stack.len() && (0..stack.len()).all(is_same);
        assert!(is_all, "at {time}: {found:x?} {stack:x?}");
    }
    assert_eq!(unwound.len(), truth.len());
    let handled = |stack: &&Vec<u64>| stack.iter().any(|address| *address > NO_FILE);
    let handlers = truth.values().filter(handled).count();
    assert!(handlers > 50, "{handlers} stacks with a handler");
    let deepest = truth.values().map(Vec::len).max();
    assert!(deepest > Some(20), "{deepest:?} frames");
}

#[test]
fn aarch64_stacks_are_complete_and_named() {
    let here = Here::new();
    let options = format!("--symfs {FOLDER} -i {FOLDER}/tree.data");
    let report = here.report(&options);
    let stacks = &report.quality["stacks"];
    assert!(stacks["total"].as_u64() > Some(500), "{stacks}");
    assert_eq!(stacks["complete"], stacks["total"], "{stacks}");
    let start = report.only().total_share("_start");
    assert!(start > 0.999, "{start} of the samples below _start");
}
