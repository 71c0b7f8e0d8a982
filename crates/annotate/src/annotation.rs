//! [`Annotation`]: a function's instructions and lines, with the samples of each.

use rprof_profile::address_hits::AddressHit;
use rprof_records::BuildId;
use rustc_hash::FxHashMap;

use crate::amount::Amount;
use crate::disassembly::Flow;

/// Function with its code, and the samples of each instruction.
///
/// Names and paths are those of the image: they may hold any character.
#[derive(Clone, Debug)]
pub struct Annotation {
    /// Name, or where code without one lies.
    pub name: String,
    /// Object, by path or as `[kernel.kallsyms]`.
    pub object: String,
    /// Build-id of the object, if the recording has it.
    pub build_id: Option<BuildId>,
    /// True if it was seen only where it was inlined into others: instructions are those of these calls.
    pub is_inlined: bool,
    /// Samples of the function.
    pub amount: Amount,
    /// Contiguous pieces of code, by address.
    pub parts: Vec<Part>,
    /// Paths of the source files that [places](Place) name.
    pub files: Vec<Box<str>>,
    /// Names of the functions that [places](Place) name.
    pub functions: Vec<Box<str>>,
    /// Sentences on what a reader should know of the code shown.
    pub notes: Vec<String>,
    /// Samples, by the lookup addresses that they were at.
    pub(crate) hits: Vec<AddressHit>,
}

/// Contiguous code of a function.
#[derive(Clone, Debug, Default)]
pub struct Part {
    /// Name of the code, which is another than the function's for what a compiler split off, or inlined elsewhere.
    pub name: String,
    /// Address of its first byte, as listings of the image have it: SVMA; of the kernel and of JIT code, AVMA.
    pub start: u64,
    /// Machine code.
    pub bytes: Vec<u8>,
    /// Instructions by address. Of a function that was inlined into this code, its own alone.
    pub instructions: Vec<Instruction>,
    /// Loops with samples, the hottest first.
    pub loops: Vec<Loop>,
    /// Samples in it.
    pub amount: Amount,
}

/// Loop: the code between the target of a jump backward and the jump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loop {
    /// Address of its first instruction.
    pub start: u64,
    /// Address of the jump backward.
    pub end: u64,
    /// Number of instructions.
    pub instructions: usize,
    /// Samples taken in it.
    pub amount: Amount,
}

/// Instruction with its samples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Instruction {
    /// Address, as [`Part::start`].
    pub address: u64,
    /// Address as frames of the profile have it.
    pub lookup: u64,
    /// Length in bytes.
    pub len: usize,
    /// Mnemonic and operands.
    pub text: String,
    /// Target of the instruction, if it is a jump or a call.
    pub flow: Flow,
    /// Address of a jump's or call's target.
    pub target: Option<u64>,
    /// Function at the target, and the distance from its start in bytes, where the target is outside of this code.
    pub target_name: Option<(Box<str>, u64)>,
    /// Samples.
    pub amount: Amount,
    /// Places in the source, outermost first: in the function, and in each call inlined into the one before. Never empty.
    pub places: Vec<Place>,
    /// Index in `places` of the annotated function, 0 unless it was inlined.
    pub own_place: usize,
}

/// Place in the source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// Function: an index into [`Annotation::functions`].
    pub function: u32,
    /// Line, if it is known.
    pub line: Option<LineKey>,
}

/// Line of a source file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LineKey {
    /// File: an index into [`Annotation::files`].
    pub file: u32,
    /// Line, from 1.
    pub line: u32,
}

/// Line that inlined code counts for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Inlined {
    /// The line of the function from which it was called.
    #[default]
    CallSite,
    /// The line on which it is written.
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

    /// Returns the places of the calls inlined into the annotated function here, outermost first.
    pub fn inlined(&self) -> &[Place] {
        self.places.get(self.own_place + 1..).unwrap_or_default()
    }
}

impl Annotation {
    /// Iterates over the instructions of all parts.
    pub fn instructions(&self) -> impl Iterator<Item = &Instruction> {
        self.parts.iter().flat_map(|part| &part.instructions)
    }

    /// Returns the samples of each line, by file and line. A sample whose stack is in a line several times counts once for its
    /// total.
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
        // Lines without samples are lines of the function too.
        for instruction in self.instructions() {
            if let Some(line) = instruction.line(inlined) {
                sums.entry(line).or_default();
            }
        }
        let mut lines: Vec<(LineKey, Amount)> = sums.into_iter().collect();
        lines.sort_unstable_by_key(|(line, _)| *line);
        lines
    }

    /// Returns the name of a function that a place names.
    pub fn function(&self, place: &Place) -> &str {
        self.functions
            .get(place.function as usize)
            .map_or("", |name| name)
    }

    /// Returns the path of a file that a line is of.
    pub fn file(&self, line: LineKey) -> &str {
        self.files.get(line.file as usize).map_or("", |path| path)
    }
}

/// Instructions by the addresses that frames have.
pub(crate) struct Lookups<'a> {
    instructions: Vec<&'a Instruction>,
}

impl<'a> Lookups<'a> {
    fn of(annotation: &'a Annotation) -> Lookups<'a> {
        let mut instructions: Vec<&Instruction> = annotation.instructions().collect();
        instructions.sort_unstable_by_key(|instruction| instruction.lookup);
        Lookups { instructions }
    }

    /// Returns the instruction that covers a lookup address.
    fn find(&self, address: u64) -> Option<&'a Instruction> {
        let behind = self.instructions.partition_point(|i| i.lookup <= address);
        let found = self.instructions.get(behind.checked_sub(1)?)?;
        (address - found.lookup < found.len as u64).then_some(found)
    }
}

/// Adds samples to the instructions that they were at.
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
