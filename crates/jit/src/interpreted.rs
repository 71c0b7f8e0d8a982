//! [`InterpretedNames`]: addresses for functions without machine code.
//!
//! A callchain is a list of addresses, but functions of an interpreted language have none. So each
//! name gets a range of [`INTERPRETED`], which no process can map. A recording maps that range as
//! anonymous memory and keeps the names as a perf map, so readers treat the functions as JIT code.

use std::fmt::Write;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustc_hash::{FxHashMap, FxHashSet};

/// Addresses (AVMAs) of interpreted functions, in any process.
///
/// User addresses of x86-64 and AArch64 have at most 56 bits, also with the largest page tables,
/// and kernel addresses have the top bit.
pub const INTERPRETED: Range<u64> = 1 << 56..(1 << 56) + SIZE * MAX_NAMES as u64;

/// Path of the mapping record for [`INTERPRETED`].
pub const INTERPRETED_PATH: &[u8] = b"//anon";

/// Bytes per function. The addresses of callchains lie in the middle, because readers look up
/// callers one byte lower.
const SIZE: u64 = 16;

/// Maximum number of distinct names.
const MAX_NAMES: usize = 1 << 20;

/// Memory limit of all names, in bytes.
const MAX_BYTES: usize = 64 << 20;

/// Maximum number of pairs of process and name.
const MAX_USES: usize = 4 << 20;

/// Maximum length of a name, in bytes.
const MAX_NAME: usize = 512;

/// Names of interpreted functions with their addresses, and the processes that use them. Clones
/// share the data.
///
/// # Examples
/// ```
/// use rprof_jit::{InterpretedNames, PerfMap};
///
/// let names = InterpretedNames::default();
/// let address = names.address_of("py::main:app.py:1").expect("the first name has room");
/// names.mark_used(7, &[address]);
/// assert_eq!(names.name_of(address).as_deref(), Some("py::main:app.py:1"));
///
/// let map = PerfMap::parse(names.perf_map(7));
/// assert_eq!(map.lookup(address - 1).unwrap().name, "py::main:app.py:1");
/// ```
#[derive(Clone, Debug, Default)]
pub struct InterpretedNames(Arc<Mutex<Names>>);

#[derive(Debug, Default)]
struct Names {
    numbers: FxHashMap<Arc<str>, u32>,
    names: Vec<Arc<str>>,
    bytes: usize,
    used: FxHashMap<i32, FxHashSet<u32>>,
    uses: usize,
    refused: u64,
}

impl InterpretedNames {
    /// Returns the callchain entry of a name, the same for the same name. Replaces control
    /// characters and truncates long names. `None` at the limit of names.
    #[must_use]
    pub fn address_of(&self, name: &str) -> Option<u64> {
        let mut names = self.names();
        // Known names are clean. Most names are known.
        if let Some(number) = names.numbers.get(name) {
            return Some(address(*number));
        }
        let name = clean(name);
        if let Some(number) = names.numbers.get(&*name) {
            return Some(address(*number));
        }
        let bytes = names.bytes + name.len();
        if names.names.len() == MAX_NAMES || bytes > MAX_BYTES {
            names.refused += 1;
            return None;
        }
        let number = names.names.len() as u32;
        let name = Arc::<str>::from(name);
        names.bytes = bytes;
        names.names.push(Arc::clone(&name));
        names.numbers.insert(name, number);
        Some(address(number))
    }

    /// Returns the name at an address of [`INTERPRETED`].
    #[must_use]
    pub fn name_of(&self, avma: u64) -> Option<Arc<str>> {
        self.names().names.get(number(avma)?).cloned()
    }

    /// Returns the range of the function at an address of [`INTERPRETED`].
    #[must_use]
    pub const fn range_at(avma: u64) -> Range<u64> {
        let start = avma - avma % SIZE;
        start..start.saturating_add(SIZE)
    }

    /// Adds these addresses to the perf map of a process.
    pub fn mark_used(&self, pid: i32, addresses: &[u64]) {
        let mut names = self.names();
        let Names {
            used,
            uses,
            refused,
            ..
        } = &mut *names;
        let of_pid = used.entry(pid).or_default();
        for number in addresses.iter().filter_map(|avma| number(*avma)) {
            if *uses < MAX_USES {
                *uses += usize::from(of_pid.insert(number as u32));
            } else {
                *refused += u64::from(!of_pid.contains(&(number as u32)));
            }
        }
    }

    /// Returns the processes with used names, sorted.
    #[must_use]
    pub fn processes(&self) -> Vec<i32> {
        let mut pids: Vec<i32> = self.names().used.keys().copied().collect();
        pids.sort_unstable();
        pids
    }

    /// Returns the perf map with the used names of a process.
    #[must_use]
    pub fn perf_map(&self, pid: i32) -> Vec<u8> {
        let names = self.names();
        let mut used: Vec<u32> = names
            .used
            .get(&pid)
            .into_iter()
            .flatten()
            .copied()
            .collect();
        used.sort_unstable();
        let mut map = String::new();
        for number in used {
            if let Some(name) = names.names.get(number as usize) {
                let start = address(number) - SIZE / 2;
                // Writing to a string cannot fail.
                let _ = writeln!(map, "{start:x} {SIZE:x} {name}");
            }
        }
        map.into_bytes()
    }

    /// Empties the perf map of a process. Its addresses keep their names.
    pub fn forget(&self, pid: i32) {
        let mut names = self.names();
        let freed = names.used.remove(&pid).map_or(0, |used| used.len());
        names.uses -= freed;
    }

    /// Empties all perf maps. Addresses keep their names.
    pub fn forget_all(&self) {
        let mut names = self.names();
        names.used.clear();
        names.uses = 0;
    }

    /// Returns the number of refused names and uses.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.names().refused
    }

    fn names(&self) -> MutexGuard<'_, Names> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn address(number: u32) -> u64 {
    INTERPRETED.start + u64::from(number) * SIZE + SIZE / 2
}

fn number(avma: u64) -> Option<usize> {
    let offset = avma.checked_sub(INTERPRETED.start)?;
    usize::try_from(offset / SIZE).ok()
}

/// Returns a name that fits into a line: a process chooses it.
fn clean(name: &str) -> String {
    let end = name.floor_char_boundary(MAX_NAME);
    let visible = |c: char| match c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') {
        true => '\u{fffd}',
        false => c,
    };
    let name: String = name
        .get(..end)
        .unwrap_or_default()
        .chars()
        .map(visible)
        .collect();
    // A perf map cannot hold a name of white space.
    match name.trim().is_empty() {
        true => "\u{fffd}".to_owned(),
        false => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PerfMap;

    #[test]
    fn names_of_a_process_cannot_leave_their_line() {
        let names = InterpretedNames::default();
        let long = "ä".repeat(MAX_NAME);
        let hostile = ["a\n1 2 b", "\x1b[31m", "", " \t", &long, "a\u{2028}b"];
        let addresses = hostile.map(|name| names.address_of(name).unwrap());
        names.mark_used(1, &addresses);
        let text = names.perf_map(1);
        let map = PerfMap::parse(text.clone());
        assert_eq!(map.bad_lines(), 0);
        assert!(!text.contains(&0x1b));
        let lines = text.iter().filter(|byte| **byte == b'\n').count();
        assert_eq!(lines, hostile.len());
        for address in addresses {
            let name = names.name_of(address).unwrap();
            assert!(name.len() <= MAX_NAME + 2);
            for lookup in [address - 1, address] {
                assert_eq!(map.lookup(lookup).unwrap().name, &*name);
            }
        }
    }

    #[test]
    fn equal_names_have_one_address_and_each_process_its_own_map() {
        let names = InterpretedNames::default();
        let (a, b) = (
            names.address_of("a").unwrap(),
            names.address_of("b").unwrap(),
        );
        assert_eq!(names.address_of("a"), Some(a));
        assert!(INTERPRETED.contains(&a) && INTERPRETED.contains(&b) && a != b);
        names.mark_used(1, &[a, a]);
        names.mark_used(2, &[b]);
        assert_eq!(names.processes(), [1, 2]);
        assert!(names.perf_map(1).ends_with(b" a\n") && names.perf_map(2).ends_with(b" b\n"));
        names.forget(1);
        assert_eq!(
            (names.processes(), names.perf_map(1)),
            (vec![2], Vec::new())
        );
        assert_eq!(names.name_of(a).as_deref(), Some("a"));
        assert_eq!(names.name_of(INTERPRETED.end), None);
    }
}
