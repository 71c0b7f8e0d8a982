//! Finds the code object around an instruction.
//!
//! A function of microseconds is in no look. But a register or slot of the sample has its next
//! instruction, which since 3.11 lies in the code object itself, behind the object's header.

use super::codes::Codes;
use super::snapshot::{PAGE, ranges};
use crate::MemoryRead;

/// Minimum number of bytes that are searched before an instruction. Longer functions have a gap
/// until a look finds them.
const BEFORE: u64 = PAGE;

/// Maximum number of instructions of a stack that are searched.
const MAX_INSTRUCTIONS: usize = 8;

/// Instructions without a known code object, and the reads before them.
#[derive(Debug)]
pub(super) struct Instructions {
    addresses: Vec<u64>,
    pub(super) reads: Vec<MemoryRead>,
}

impl Instructions {
    /// Requests the memory before these instructions, as far as their code objects are unknown.
    pub(super) fn new(words: impl Iterator<Item = u64>, codes: &Codes) -> Self {
        let mut addresses: Vec<u64> = words.filter(|word| codes.wants_search(*word)).collect();
        addresses.sort_unstable();
        addresses.dedup();
        addresses.truncate(MAX_INSTRUCTIONS);
        let before = |address: &u64| {
            let page = address - address % PAGE;
            (page.saturating_sub(BEFORE), *address)
        };
        let reads = ranges(addresses.iter().map(before).collect());
        Self { addresses, reads }
    }

    /// Returns the nearest object before each instruction that may be its code object, and the
    /// instructions without one.
    pub(super) fn objects(&self, codes: &Codes) -> (Vec<u64>, Vec<u64>) {
        let (mut objects, mut missing) = (Vec::new(), Vec::new());
        for address in &self.addresses {
            match object_before(*address, &self.reads, codes) {
                Some(object) => objects.push(object),
                None => missing.push(*address),
            }
        }
        (objects, missing)
    }
}

fn object_before(instruction: u64, reads: &[MemoryRead], codes: &Codes) -> Option<u64> {
    let before = reads.iter().rev().filter(|read| {
        let page = instruction - instruction % PAGE;
        (page.saturating_sub(BEFORE)..instruction).contains(&read.address)
    });
    for read in before {
        let len = read.get()?.len().min((instruction - read.address) as usize);
        // A header on two pages is not found.
        let mut offsets = (0..len).step_by(8).rev();
        if let Some(offset) = offsets.find(|offset| codes.is_header(read, *offset)) {
            let may_contain = codes.may_contain(read, offset, instruction);
            return may_contain.then_some(read.address + offset as u64);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::layout::Layout;
    use super::*;

    const CODE_TYPE: u64 = 0x20_0000;
    const CODE: u64 = 0x10_0f80;

    /// Returns memory with these words; all other ones are 0.
    fn read(reads: &mut [MemoryRead], words: &[(u64, u64)]) {
        for read in reads {
            read.is_read = true;
            for (address, word) in words {
                if let Some(at) = address.checked_sub(read.address)
                    && let Some(bytes) = read.bytes.get_mut(at as usize..at as usize + 8)
                {
                    bytes.copy_from_slice(&word.to_le_bytes());
                }
            }
        }
    }

    fn object(instruction: u64, words: &[(u64, u64)]) -> Option<u64> {
        let codes = Codes::new(Layout::of(12).unwrap(), CODE_TYPE);
        let mut wanted = Instructions::new([instruction, 1, 0x7].into_iter(), &codes);
        read(&mut wanted.reads, words);
        let (objects, missing) = wanted.objects(&codes);
        assert_eq!(objects.len() + missing.len(), 1);
        objects.first().copied()
    }

    #[test]
    fn the_nearest_header_before_an_instruction_is_that_of_its_code_object() {
        let header = |at: u64, references: u64, size: u64| {
            [(at, references), (at + 8, CODE_TYPE), (at + 16, size)]
        };
        let instructions = CODE + 192;
        let code = header(CODE, 3, 100);
        // On the same page, and on the next one.
        assert_eq!(object(instructions, &code), Some(CODE));
        assert_eq!(object(instructions + 198, &code), Some(CODE));
        assert_eq!(object(instructions + 202, &code), None, "behind its end");
        assert_eq!(object(instructions - 2, &code), None, "before its first");
        let freed = header(CODE, 0x7fff_0000_1000, 100);
        assert_eq!(object(instructions, &freed), None, "no count of references");
        let other = [code, header(CODE + 64, 3, 4)].concat();
        assert_eq!(object(instructions + 100, &other), None, "another object");
        assert_eq!(object(instructions + 2 * PAGE, &code), None, "too far");
    }

    #[test]
    fn no_memory_leads_to_a_panic() {
        let codes = Codes::new(Layout::of(12).unwrap(), 0);
        for word in [0, 2, PAGE, PAGE + 2, 1 << 52, u64::MAX - 1] {
            let mut wanted = Instructions::new([word].into_iter(), &codes);
            read(&mut wanted.reads, &[]);
            assert!(wanted.objects(&codes).0.is_empty());
        }
    }
}
