//! [`CalledFunctions`]: functions without FDE, located by the calls and pointers to them.

use super::elf::{Elf, part};
use super::functions::described;
use super::undescribed::gaps;
use crate::{Arch, TableError};
use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register,
};
use memchr::memchr3_iter;
use object::elf::{
    ET_EXEC, FileHeader64, R_X86_64_RELATIVE, SHF_ALLOC, SHF_EXECINSTR, SHT_PROGBITS,
};
use object::read::elf::{FileHeader, SectionHeader};
use rprof_image::Segments;
use rustc_hash::FxHashSet;
use std::collections::BTreeSet;
use std::ops::Range;

/// Maximum bytes of code to search. Larger images have no called functions: reports of compilers
/// would take half as long again.
const MAX_CODE: u64 = 16 << 20;

/// Maximum number of functions of an image, to limit the time for hostile ones.
const MAX_FUNCTIONS: usize = 1 << 18;

/// Maximum bytes of code to decode, each at most twice.
const MAX_DECODED: usize = 64 << 20;

/// Maximum number of instructions of a function that are followed to find its parts.
const MAX_FOLLOWED: usize = 1 << 14;

const ENDIAN: object::LittleEndian = object::LittleEndian;

/// Bounds of functions in code without FDEs, such as hand-written assembly. For x86-64 images
/// without symbols.
///
/// A function starts where a direct call or tail jump of other code leads, or where a relocation or
/// an instruction takes an address. It ends at the next start, or with the code without FDEs. Code
/// before the first start belongs to none. A split-off part (`.cold`), which other code jumps to, is a
/// function of its own.
#[derive(Debug, Default)]
pub struct CalledFunctions {
    functions: Box<[Range<u64>]>,
}

impl CalledFunctions {
    /// Searches the whole image, at about 1 GB/s. Images of other machines have no called
    /// functions.
    ///
    /// # Errors
    /// [`TableError`] for unusable images.
    pub fn parse(bytes: &[u8]) -> Result<Self, TableError> {
        let elf = Elf::parse(bytes)?;
        let size: u64 = elf.segments.code().map(|segment| segment.file_size).sum();
        if elf.arch != Arch::X86_64 || elf.is_go || size > MAX_CODE {
            return Ok(Self::default());
        }
        let code = |range: &Range<u64>| {
            let (offset, left) = elf.segments.offset_of_svma(range.start)?;
            part(bytes, offset, left.min(range.end - range.start))
        };
        let (segments, plts, entry) = (elf.segments.clone(), elf.plts.clone(), elf.entry);
        let functions = described(Elf::parse(bytes)?);
        let taken = functions.iter().map(|f| (f.start, f.end)).chain(plts);
        let gaps = Gaps(gaps(&segments, taken.collect()));
        if gaps.0.is_empty() {
            return Ok(Self::default());
        }
        let mut search = Search {
            gaps: &gaps,
            starts: BTreeSet::new(),
            new: Vec::new(),
            left: MAX_DECODED,
        };
        search.add(entry);
        let is_fixed = search.add_pointers(bytes, &segments);
        for function in &functions {
            if let Some(code) = code(function) {
                search.add_targets(code, function.start, is_fixed);
            }
        }
        search.add_called(&code);
        search.add_parts(&code);
        search.add_called(&code);
        Ok(search.functions())
    }

    /// Returns the range of the function that contains this SVMA.
    #[must_use]
    pub fn at(&self, svma: u64) -> Option<Range<u64>> {
        let behind = self.functions.partition_point(|f| f.start <= svma);
        let function = self.functions.get(behind.checked_sub(1)?)?;
        function.contains(&svma).then(|| function.clone())
    }

    /// Returns all ranges, by ascending SVMA.
    #[must_use]
    pub fn ranges(&self) -> &[Range<u64>] {
        &self.functions
    }
}

/// Sorted SVMA ranges of code without FDEs.
struct Gaps(Vec<(u64, u64)>);

impl Gaps {
    fn find(&self, svma: u64) -> Option<(u64, u64)> {
        let behind = self.0.partition_point(|(start, _)| *start <= svma);
        let gap = *self.0.get(behind.checked_sub(1)?)?;
        (svma < gap.1).then_some(gap)
    }

    /// Returns true if a jump of one byte may lead from a function to a gap.
    fn is_near(&self, start: u64, end: u64) -> bool {
        const REACH: u64 = 128;
        let first = self
            .0
            .partition_point(|gap| gap.1.saturating_add(REACH) < start);
        (self.0.get(first)).is_some_and(|gap| gap.0 <= end.saturating_add(REACH))
    }

    fn end_at(&self, svma: u64) -> u64 {
        self.find(svma).map_or(svma, |(_, end)| end)
    }
}

struct Search<'g> {
    gaps: &'g Gaps,
    starts: BTreeSet<u64>,
    /// Starts whose code was not searched yet.
    new: Vec<u64>,
    /// Bytes that may still be decoded.
    left: usize,
}

impl Search<'_> {
    fn add(&mut self, svma: u64) {
        let has_room = self.starts.len() < MAX_FUNCTIONS;
        if has_room && self.gaps.find(svma).is_some() && self.starts.insert(svma) {
            self.new.push(svma);
        }
    }

    /// Adds the functions that functions without FDE call.
    fn add_called<'c>(&mut self, code: &impl Fn(&Range<u64>) -> Option<&'c [u8]>) {
        while let Some(start) = self.new.pop() {
            let next = self.starts.range(start + 1..).next().copied();
            let end = self.gaps.end_at(start).min(next.unwrap_or(u64::MAX));
            if let Some(code) = code(&(start..end)) {
                self.add_calls(code, start);
            }
        }
    }

    /// Adds the code that functions without FDE jump to, unless a path leads there from the start of the
    /// function before it.
    fn add_parts<'c>(&mut self, code: &impl Fn(&Range<u64>) -> Option<&'c [u8]>) {
        let found = self.functions();
        let mut targets = BTreeSet::new();
        for function in found.ranges() {
            let bytes = code(function).unwrap_or(&[]);
            self.visit(bytes, function.start, |instruction| {
                let target = jump_target(instruction);
                targets.extend(target.filter(|target| !function.contains(target)));
            });
        }
        let mut paths = (0..0, Paths::default());
        for target in targets {
            let Some(function) = found.at(target) else {
                self.add(target);
                continue;
            };
            if paths.0 != function {
                let rest = |at| code(&(at..self.gaps.end_at(at)));
                paths = (function.clone(), Paths::of(function.start, rest));
            }
            if !paths.1.may_lead_to(target) {
                self.add(target);
            }
        }
    }

    fn functions(&self) -> CalledFunctions {
        let mut next = u64::MAX;
        let mut functions = Vec::with_capacity(self.starts.len());
        for start in self.starts.iter().rev() {
            functions.push(*start..self.gaps.end_at(*start).min(next));
            next = *start;
        }
        functions.reverse();
        CalledFunctions {
            functions: functions.into(),
        }
    }

    /// Adds addresses from relocations and, in images of a fixed address, from data. Ignores
    /// missing or damaged sections. Returns true for an image of a fixed address.
    fn add_pointers(&mut self, bytes: &[u8], segments: &Segments) -> bool {
        let Ok(header) = FileHeader64::<object::LittleEndian>::parse(bytes) else {
            return false;
        };
        let Ok(sections) = header.sections(ENDIAN, bytes) else {
            return false;
        };
        let is_fixed = header.e_type(ENDIAN) == ET_EXEC;
        let word = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes);
        for section in sections.iter() {
            if let Ok(Some((relocations, _))) = section.rela(ENDIAN, bytes) {
                for relocation in relocations {
                    if relocation.r_type(ENDIAN, false) == R_X86_64_RELATIVE {
                        self.add(relocation.r_addend.get(ENDIAN).cast_unsigned());
                    }
                }
            }
            let flags = section.sh_flags(ENDIAN);
            let is_data = section.sh_type(ENDIAN) == SHT_PROGBITS
                && flags.contains(SHF_ALLOC)
                && !flags.contains(SHF_EXECINSTR);
            if is_data && is_fixed {
                let data = section.data(ENDIAN, bytes).unwrap_or_default();
                let words = data.chunks_exact(8).filter_map(|bytes| word(bytes).ok());
                words.for_each(|word| self.add(word));
            }
            if let Ok(Some(places)) = section.relr(ENDIAN, bytes) {
                // The word in the file is the address.
                for place in places {
                    let offset = segments.offset_of_svma(place);
                    let value = offset.and_then(|(offset, _)| part(bytes, offset, 8));
                    let value = value.and_then(|value| word(value).ok());
                    value.into_iter().for_each(|value| self.add(value));
                }
            }
        }
        is_fixed
    }

    /// Adds targets of calls, tail jumps and taken addresses of a function with FDE. Decodes it only
    /// if any of its bytes may be such an instruction, or addresses are numbers.
    fn add_targets(&mut self, code: &[u8], start: u64, is_fixed: bool) {
        // call, jmp; the displacement of lea follows one more byte.
        let may_lead_to_gap = memchr3_iter(0xe8, 0xe9, 0x8d, code).any(|at| {
            let at = at + 1 + usize::from(code[at] == 0x8d);
            let Some(Ok(displacement)) = code.get(at..at + 4).map(TryInto::try_into) else {
                return false;
            };
            let next = start.wrapping_add(at as u64 + 4);
            let target = next.wrapping_add_signed(i64::from(i32::from_le_bytes(displacement)));
            self.gaps.find(target).is_some()
        });
        if is_fixed {
            self.decode(code, start, |instruction| {
                target_of(instruction, true).or_else(|| number_in(instruction))
            });
        } else if may_lead_to_gap || self.gaps.is_near(start, start + code.len() as u64) {
            self.decode(code, start, |instruction| target_of(instruction, true));
        }
    }

    /// Adds targets of calls of a function without FDE.
    fn add_calls(&mut self, code: &[u8], start: u64) {
        self.decode(code, start, |instruction| target_of(instruction, false));
    }

    fn decode(&mut self, code: &[u8], start: u64, target: impl Fn(&Instruction) -> Option<u64>) {
        let mut targets = Vec::new();
        self.visit(code, start, |instruction| {
            targets.extend(target(instruction));
        });
        targets.into_iter().for_each(|svma| self.add(svma));
    }

    fn visit(&mut self, code: &[u8], start: u64, mut visit: impl FnMut(&Instruction)) {
        let code = code.get(..self.left).unwrap_or(code);
        self.left -= code.len();
        let mut decoder = Decoder::with_ip(64, code, start, DecoderOptions::NONE);
        let mut instruction = Instruction::default();
        while decoder.can_decode() {
            decoder.decode_out(&mut instruction);
            if instruction.code() == Code::INVALID {
                return;
            }
            visit(&instruction);
        }
    }
}

/// Instructions on the paths from the start of a function.
#[derive(Default)]
struct Paths {
    seen: FxHashSet<u64>,
    /// True if a path goes through a jump table, or is too long.
    is_open: bool,
}

impl Paths {
    /// Follows the code, also through parts that lie elsewhere. `code` returns the code from an SVMA on.
    fn of<'c>(start: u64, code: impl Fn(u64) -> Option<&'c [u8]>) -> Self {
        let mut paths = Self::default();
        let mut waiting = vec![start];
        while let Some(at) = waiting.pop() {
            let Some(rest) = code(at) else {
                continue;
            };
            for instruction in &mut Decoder::with_ip(64, rest, at, DecoderOptions::NONE) {
                if instruction.is_invalid() || !paths.seen.insert(instruction.ip()) {
                    break;
                }
                if paths.seen.len() >= MAX_FOLLOWED {
                    paths.is_open = true;
                    return paths;
                }
                waiting.extend(jump_target(&instruction));
                let flow = instruction.flow_control();
                paths.is_open |= flow == FlowControl::IndirectBranch;
                let ends = matches!(
                    flow,
                    FlowControl::UnconditionalBranch
                        | FlowControl::IndirectBranch
                        | FlowControl::Return
                        | FlowControl::Exception
                );
                if ends {
                    break;
                }
            }
        }
        paths
    }

    fn may_lead_to(&self, svma: u64) -> bool {
        self.is_open || self.seen.contains(&svma)
    }
}

fn jump_target(instruction: &Instruction) -> Option<u64> {
    let is_jump = matches!(
        instruction.flow_control(),
        FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch
    );
    is_jump.then(|| instruction.near_branch_target())
}

/// Returns the target of a direct call. With `all`, also of a jump, and an address that `lea`
/// takes.
fn target_of(instruction: &Instruction, all: bool) -> Option<u64> {
    match instruction.flow_control() {
        FlowControl::Call => Some(instruction.near_branch_target()),
        FlowControl::UnconditionalBranch if all => Some(instruction.near_branch_target()),
        FlowControl::Next if all && instruction.mnemonic() == Mnemonic::Lea => {
            let is_relative = instruction.memory_base() == Register::RIP;
            is_relative.then(|| instruction.ip_rel_memory_address())
        }
        _ => None,
    }
    .filter(|target| *target != 0)
}

/// Returns a 32-bit number in an instruction, which is an address in code of a fixed address.
fn number_in(instruction: &Instruction) -> Option<u64> {
    let is_number = |operand: &u32| {
        let kind = instruction.op_kind(*operand);
        matches!(kind, OpKind::Immediate32 | OpKind::Immediate32to64)
    };
    let operand = (0..instruction.op_count()).find(is_number)?;
    Some(instruction.immediate(operand))
}
