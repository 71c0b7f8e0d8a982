//! [`Annotation`]: a function's instructions and lines with their samples.

use rprof_profile::views::address_hits::AddressHit;
use rprof_records::BuildId;
use rustc_hash::FxHashMap;

use crate::amount::Amount;
use crate::disassembly::Flow;

/// Function with its code and samples.
///
/// Names and paths come from the image, so they may contain any character.
#[derive(Clone, Debug)]
pub struct Annotation {
    /// Name, or the location of unnamed code.
    pub name: String,
    /// Object: a path, or `[kernel.kallsyms]`.
    pub object: String,
    /// Build ID of the object, if recorded.
    pub build_id: Option<BuildId>,
    /// True if the function exists only as inlined calls, which have the instructions.
    pub is_inlined: bool,
    /// Samples of the function.
    pub amount: Amount,
    /// Contiguous pieces of code, sorted by address.
    pub parts: Vec<CodePart>,
    /// Source paths, for [`LineKey::file`].
    pub files: Vec<Box<str>>,
    /// Function names, for [`Place::function`].
    pub functions: Vec<Box<str>>,
    /// Notes for readers about the shown code.
    pub notes: Vec<String>,
    /// Samples by lookup address.
    pub(crate) hits: Vec<AddressHit>,
}

/// Contiguous code of a function.
#[derive(Clone, Debug, Default)]
pub struct CodePart {
    /// Name of the code. Split-off parts and inlining functions have other names than the function.
    pub name: String,
    /// Address of the first byte: SVMA, or AVMA for the kernel and JIT code.
    pub start: u64,
    /// Machine code.
    pub bytes: Vec<u8>,
    /// Instructions by address. For an inlined function, only its own instructions.
    pub instructions: Vec<Instruction>,
    /// Loops with samples, hottest first.
    pub loops: Vec<Loop>,
    /// Samples in this part.
    pub amount: Amount,
}

/// Loop: the code from the target of a backward jump to the jump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loop {
    /// Address of the first instruction.
    pub start: u64,
    /// Address of the backward jump.
    pub end: u64,
    /// Number of instructions from `start` to `end`, including both.
    pub instructions: usize,
    /// Samples in the loop.
    pub amount: Amount,
}

/// Instruction with its samples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Instruction {
    /// Address, in the address space of [`CodePart::start`].
    pub address: u64,
    /// Address, in the address space of profile frames.
    pub lookup: u64,
    /// Length in bytes.
    pub len: usize,
    /// Mnemonic and operands.
    pub text: String,
    /// Control flow after the instruction.
    pub flow: Flow,
    /// Target address of a jump or call.
    pub target: Option<u64>,
    /// Function and offset in bytes at the target, if that is outside of this code.
    pub target_name: Option<(Box<str>, u64)>,
    /// Samples.
    pub amount: Amount,
    /// Source places, outermost first: the function, then each inlined call. Never empty.
    pub places: Vec<Place>,
    /// Index in `places` of the annotated function: 0 unless it was inlined.
    pub own_place: usize,
}

/// Place in the source: function and line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// Index into [`Annotation::functions`].
    pub function: u32,
    /// Line, if known.
    pub line: Option<LineKey>,
}

/// Line of a source file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LineKey {
    /// Index into [`Annotation::files`].
    pub file: u32,
    /// 1-based line number.
    pub line: u32,
}

/// Attribution of inlined code to lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Inlined {
    /// Counts inlined code at the line of the call in the annotated function.
    #[default]
    CallSite,
    /// Counts inlined code at its own source line.
    Definition,
}

impl Instruction {
    /// Returns the line that its samples count for.
    pub fn line(&self, inlined: Inlined) -> Option<LineKey> {
        let place = match inlined {
            Inlined::CallSite => self.places.get(self.own_place),
            Inlined::Definition => self.places.last(),
        };
        place?.line
    }

    /// Returns the calls inlined into the annotated function here, outermost first.
    pub fn inlined(&self) -> &[Place] {
        self.places.get(self.own_place + 1..).unwrap_or_default()
    }
}

impl Annotation {
    /// Iterates over the instructions of all parts.
    pub fn instructions(&self) -> impl Iterator<Item = &Instruction> {
        self.parts.iter().flat_map(|part| &part.instructions)
    }

    /// Returns the samples per line, sorted. In the total, each sample counts once per line.
    pub fn lines(&self, inlined: Inlined) -> Vec<(LineKey, Amount)> {
        let by_lookup = Lookups::of(self);
        let mut sums: FxHashMap<LineKey, Amount> = FxHashMap::default();
        let mut lines = Vec::new();
        let line = |address: u64| by_lookup.find(address)?.line(inlined);
        for hit in &self.hits {
            lines.clear();
            lines.extend(hit.addresses.iter().filter_map(|address| line(*address)));
            lines.sort_unstable();
            lines.dedup();
            let leaf = hit.leaf.and_then(line);
            for line in &lines {
                let amount = Amount::of(hit.weight, hit.samples, leaf == Some(*line));
                *sums.entry(*line).or_default() += amount;
            }
        }
        // Includes lines without samples.
        for instruction in self.instructions() {
            if let Some(line) = instruction.line(inlined) {
                sums.entry(line).or_default();
            }
        }
        let mut lines: Vec<(LineKey, Amount)> = sums.into_iter().collect();
        lines.sort_unstable_by_key(|(line, _)| *line);
        lines
    }

    /// Returns the function name of a place.
    pub fn function(&self, place: &Place) -> &str {
        self.functions
            .get(place.function as usize)
            .map_or("", |name| name)
    }

    /// Returns the file path of a line.
    pub fn file(&self, line: LineKey) -> &str {
        self.files.get(line.file as usize).map_or("", |path| path)
    }
}

/// Instructions sorted by lookup address.
pub(crate) struct Lookups<'a> {
    instructions: Vec<&'a Instruction>,
}

impl<'a> Lookups<'a> {
    fn of(annotation: &'a Annotation) -> Lookups<'a> {
        let mut instructions: Vec<&Instruction> = annotation.instructions().collect();
        instructions.sort_unstable_by_key(|instruction| instruction.lookup);
        Lookups { instructions }
    }

    fn find(&self, address: u64) -> Option<&'a Instruction> {
        let behind = self.instructions.partition_point(|i| i.lookup <= address);
        let found = self.instructions.get(behind.checked_sub(1)?)?;
        (address - found.lookup < found.len as u64).then_some(found)
    }
}

pub(crate) fn weigh(instructions: &mut [Instruction], hits: &[AddressHit]) {
    let at = |instructions: &[Instruction], address: u64| {
        let behind = instructions.partition_point(|i| i.lookup <= address);
        let index = behind.checked_sub(1)?;
        let found = instructions.get(index)?;
        (address - found.lookup < found.len as u64).then_some(index)
    };
    let mut indices = Vec::new();
    for hit in hits {
        indices.clear();
        indices.extend(hit.addresses.iter().filter_map(|a| at(instructions, *a)));
        indices.dedup();
        let leaf = hit.leaf.and_then(|address| at(instructions, address));
        for index in &indices {
            instructions[*index].amount +=
                Amount::of(hit.weight, hit.samples, leaf == Some(*index));
        }
    }
}
