//! [`KernelFunctions`]: addresses of the kernel's functions, by name.
//!
//! /proc names the functions of a sleeping thread, but a callchain needs addresses. A separate
//! thread reads `/proc/kallsyms`, which takes some 50 ms.

use std::io::BufRead;
use std::thread::JoinHandle;

use rprof_launch::procfs::KernelPlace;

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Function {
    name: Box<str>,
    address: u64,
    /// Bytes to the next symbol.
    size: u64,
}

/// Addresses of kernel functions by name; empty if the kernel hides them (`kernel.kptr_restrict`).
#[derive(Debug, Default)]
pub(super) struct KernelFunctions {
    functions: Vec<Function>,
    reading: Option<JoinHandle<Vec<Function>>>,
}

impl KernelFunctions {
    pub(super) fn load(&mut self) {
        if self.reading.is_some() || !self.functions.is_empty() {
            return;
        }
        let thread = std::thread::Builder::new().name("rprof-kallsyms".into());
        self.reading = thread.spawn(running).ok();
    }

    pub(super) fn wait(&mut self) {
        if let Some(reading) = self.reading.take() {
            self.functions = reading.join().unwrap_or_default();
        }
    }

    pub(super) fn is_loading(&self) -> bool {
        self.reading.is_some()
    }

    pub(super) fn take_if_ready(&mut self) {
        if self.reading.as_ref().is_some_and(JoinHandle::is_finished) {
            self.wait();
        }
    }

    /// Returns the address of a place. Among functions of the same name, it prefers the place's
    /// size.
    pub(super) fn address(&self, place: &KernelPlace) -> Option<u64> {
        let name = &*place.function;
        let first = (self.functions).partition_point(|function| *function.name < *name);
        let same =
            || (self.functions[first..].iter()).take_while(move |function| *function.name == *name);
        let fits = |function: &&Function| Some(function.size) == place.size;
        let function = same().find(fits).or_else(|| same().next())?;
        function.address.checked_add(place.offset)
    }
}

fn running() -> Vec<Function> {
    let Ok(list) = std::fs::File::open("/proc/kallsyms") else {
        return Vec::new();
    };
    parse(std::io::BufReader::with_capacity(64 << 10, list))
}

/// Parses a list and sorts it by name. Skips hidden addresses, which are zero.
fn parse(list: impl BufRead) -> Vec<Function> {
    let mut symbols: Vec<(u64, Option<Box<str>>)> = Vec::new();
    for line in list.lines() {
        let Ok(line) = line else {
            break;
        };
        let mut words = line.split_ascii_whitespace();
        let address = words
            .next()
            .and_then(|word| u64::from_str_radix(word, 16).ok());
        let (Some(address), Some(kind), Some(name)) = (address, words.next(), words.next()) else {
            continue;
        };
        if address == 0 {
            continue;
        }
        let is_code = matches!(kind, "t" | "T" | "w" | "W");
        symbols.push((address, is_code.then(|| name.into())));
    }
    symbols.sort_by_key(|(address, _)| *address);
    let mut functions = Vec::new();
    // The next higher address: several symbols may share one address.
    let (mut behind, mut last) = (0, 0);
    for (address, name) in symbols.into_iter().rev() {
        if address != last {
            (behind, last) = (last, address);
        }
        functions.extend(name.map(|name| Function {
            name,
            address,
            size: behind.saturating_sub(address),
        }));
    }
    functions.sort_unstable();
    functions
}

#[cfg(test)]
mod tests {
    use super::*;

    fn functions(list: &str) -> KernelFunctions {
        KernelFunctions {
            functions: parse(list.as_bytes()),
            reading: None,
        }
    }

    fn place(function: &str, offset: u64, size: Option<u64>) -> KernelPlace {
        KernelPlace {
            function: function.to_owned(),
            offset,
            size,
        }
    }

    #[test]
    fn a_place_has_the_address_of_its_function() {
        let list = functions(
            "ffffffff81000000 T _stext\nffffffff81000100 t wait\nffffffff81000100 T alias\n\
             ffffffff81000180 D data\nffffffffc0000000 t wait\t[module]\nffffffffc0000040 t last\t[module]\nx\n",
        );
        let at = |place| list.address(&place);
        assert_eq!(
            at(place("wait", 0x10, Some(0x80))),
            Some(0xffff_ffff_8100_0110)
        );
        assert_eq!(
            at(place("alias", 0, Some(0x80))),
            Some(0xffff_ffff_8100_0100)
        );
        assert_eq!(
            at(place("wait", 4, Some(0x40))),
            Some(0xffff_ffff_c000_0004)
        );
        assert_eq!(at(place("wait", 0, None)), Some(0xffff_ffff_8100_0100));
        assert_eq!(at(place("data", 0, None)), None);
        assert_eq!(at(place("wait", u64::MAX, None)), None);
    }

    #[test]
    fn hidden_addresses_are_none() {
        let list = functions("0000000000000000 T _stext\n0000000000000000 t wait\n");
        assert_eq!(list.address(&place("wait", 0x10, None)), None);
    }
}
