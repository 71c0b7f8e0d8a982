//! [`Block`]: the compiled rows of a few neighbouring FDEs.

use super::index::{Cies, Slice};
use super::rule::{Cfa, Rule, Saved, Span, Value};
use crate::Arch;
use gimli::{
    BaseAddresses, CfaRule, FrameDescriptionEntry, RegisterRule, UnwindContext, UnwindExpression,
    UnwindSection, UnwindTableRow,
};
use rustc_hash::FxHashMap;
use std::sync::atomic::AtomicU16;

/// Number of FDEs in a block. Fewer make the first lookup cheaper. More share more rules and need
/// fewer cells.
pub(crate) const FDES: usize = 4;

/// Up to this number of rules, duplicates are found by linear search.
const FEW: usize = 24;

/// Maximum number of rows of one FDE. The longest known functions have a few hundred.
const MAX_ROWS: usize = 1 << 13;

/// Index of code without FDE.
const NO_FDE: u16 = u16::MAX;
/// Index of unreadable rows.
const BAD: u16 = u16::MAX - 1;

/// Rows sorted by address: a start relative to the table's base, a rule index and the length of checked
/// code, eight bytes in total. Most functions share a few rules.
#[derive(Debug, Default)]
pub(crate) struct Block {
    pub(crate) starts: Box<[u32]>,
    indices: Box<[u16]>,
    /// Number of bytes from the start of a row whose code agrees with the rule.
    checked: Box<[AtomicU16]>,
    rules: Box<[Rule]>,
    saved: Box<[Saved]>,
    spans: Box<[Span]>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum InBlock<'a> {
    Rule(&'a Rule),
    NoFde,
    Bad,
}

impl Block {
    #[inline]
    pub(crate) fn find(&self, address: u32) -> InBlock<'_> {
        let behind = self.starts.partition_point(|&start| start <= address);
        self.row(behind.wrapping_sub(1))
    }

    #[inline]
    pub(crate) fn row(&self, number: usize) -> InBlock<'_> {
        match self.indices.get(number).copied() {
            None | Some(NO_FDE) => InBlock::NoFde,
            Some(index) => self
                .rules
                .get(usize::from(index))
                .map_or(InBlock::Bad, InBlock::Rule),
        }
    }

    pub(crate) fn checked(&self, number: usize) -> Option<&AtomicU16> {
        self.checked.get(number)
    }

    #[inline]
    pub(crate) fn saved(&self, rule: &Rule) -> &[Saved] {
        let first = rule.first as usize;
        self.saved
            .get(first..first + usize::from(rule.count))
            .unwrap_or(&[])
    }

    pub(crate) fn span(&self, index: u32) -> Option<Span> {
        self.spans.get(index as usize).copied()
    }

    pub(crate) fn rules(&self) -> usize {
        self.rules.len()
    }

    pub(crate) fn heap_size(&self) -> usize {
        size_of_val(&*self.starts)
            + size_of_val(&*self.indices)
            + size_of_val(&*self.checked)
            + size_of_val(&*self.rules)
            + size_of_val(&*self.saved)
            + size_of_val(&*self.spans)
    }
}

pub(crate) struct Compiler<'a, 's, S> {
    pub(crate) section: &'s S,
    pub(crate) bases: &'s BaseAddresses,
    pub(crate) arch: Arch,
    pub(crate) base: u64,
    pub(crate) cies: Cies<'a>,
}

impl<'a, S> Compiler<'a, '_, S>
where
    S: UnwindSection<Slice<'a>>,
{
    pub(crate) fn block(&mut self, offsets: &[u32], end: u32) -> Block {
        let mut fdes = Vec::with_capacity(offsets.len());
        for &offset in offsets {
            let fde = self.section.fde_from_offset(
                self.bases,
                S::Offset::from(offset as usize),
                |section, bases, offset| self.cies.get(section, bases, offset),
            );
            if let Ok(fde) = fde
                && let Some(start) = self.relative(fde.initial_address())
            {
                fdes.push((start, fde));
            }
        }
        let mut context = UnwindContext::new();
        let mut rows = Rows::new(self.arch);
        for (number, (start, fde)) in fdes.iter().enumerate() {
            let next = fdes.get(number + 1).map_or(end, |(next, _)| *next);
            let end = self
                .relative(fde.initial_address().saturating_add(fde.len()))
                .unwrap_or(u32::MAX)
                .min(next);
            self.fde(fde, *start, end, &mut context, &mut rows);
            if end < next {
                rows.push(end, NO_FDE);
            }
        }
        rows.finish()
    }

    fn fde(
        &self,
        fde: &FrameDescriptionEntry<Slice<'a>>,
        start: u32,
        end: u32,
        context: &mut UnwindContext<usize>,
        rows: &mut Rows,
    ) {
        let mut at = start;
        let Ok(mut table) = fde.rows(self.section, self.bases, context) else {
            rows.push(at, BAD);
            return;
        };
        let return_address = fde.cie().return_address_register().0;
        for _ in 0..MAX_ROWS {
            match table.next_row() {
                Ok(Some(row)) => {
                    let Some(first) = self.relative(row.start_address()) else {
                        break;
                    };
                    if first >= end || first < at {
                        break;
                    }
                    let kind = RowKind {
                        signal: fde.is_signal_trampoline(),
                        is_first: first == start,
                    };
                    let index = rows.rule(row, return_address, kind);
                    rows.push(first, index);
                    at = self.relative(row.end_address()).unwrap_or(end);
                }
                Ok(None) => return,
                Err(_) => break,
            }
        }
        if at < end {
            rows.push(at, BAD);
        }
    }

    fn relative(&self, svma: u64) -> Option<u32> {
        u32::try_from(svma.checked_sub(self.base)?).ok()
    }
}

#[derive(Clone, Copy)]
struct RowKind {
    signal: bool,
    /// True if the row begins with the function.
    is_first: bool,
}

#[derive(PartialEq, Eq, Hash)]
struct Key {
    cfa: Cfa,
    return_address: Value,
    signal: bool,
    has_frame_at_start: bool,
    saved: Vec<Saved>,
}

struct Rows {
    arch: Arch,
    starts: Vec<u32>,
    indices: Vec<u16>,
    rules: Vec<Rule>,
    saved: Vec<Saved>,
    spans: Vec<Span>,
    /// Indices of all rules after the first few.
    known: FxHashMap<Key, u16>,
    registers: Vec<Saved>,
    known_spans: FxHashMap<Span, u32>,
}

impl Rows {
    fn new(arch: Arch) -> Self {
        Self {
            arch,
            starts: Vec::with_capacity(FDES * 16),
            indices: Vec::with_capacity(FDES * 16),
            rules: Vec::with_capacity(FDES * 8),
            saved: Vec::with_capacity(FDES * 32),
            spans: Vec::new(),
            known: FxHashMap::default(),
            registers: Vec::with_capacity(8),
            known_spans: FxHashMap::default(),
        }
    }

    fn finish(self) -> Block {
        Block {
            checked: self.starts.iter().map(|_| AtomicU16::new(0)).collect(),
            starts: self.starts.into(),
            indices: self.indices.into(),
            rules: self.rules.into(),
            saved: self.saved.into(),
            spans: self.spans.into(),
        }
    }

    fn push(&mut self, start: u32, index: u16) {
        if self.indices.last() == Some(&index) {
            return;
        }
        if self.starts.last() == Some(&start) {
            self.starts.pop();
            self.indices.pop();
            return self.push(start, index);
        }
        self.starts.push(start);
        self.indices.push(index);
    }

    fn rule(&mut self, row: &UnwindTableRow<usize>, return_address: u16, kind: RowKind) -> u16 {
        let signal = kind.signal;
        let cfa = match row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => {
                match (self.register(register.0), i32::try_from(*offset)) {
                    (Some(register), Ok(offset)) => Cfa::Register(register, offset),
                    _ => Cfa::Bad,
                }
            }
            CfaRule::Expression(expression) => {
                self.span(expression).map_or(Cfa::Bad, Cfa::Expression)
            }
        };
        let word = self.arch.word_size() as i32;
        let has_frame_at_start = kind.is_first
            && matches!(cfa, Cfa::Register(register, size) if register == self.arch.sp() && size > word);
        let mut of_return = Value::Default;
        self.registers.clear();
        for (register, rule) in row.registers() {
            let is_return_address = register.0 == return_address;
            let tracked = self.register(register.0);
            if !is_return_address && tracked.is_none() {
                continue;
            }
            let value = self.value(rule);
            if is_return_address {
                of_return = value;
            }
            if let Some(register) = tracked {
                self.registers.push(Saved { register, value });
            }
        }
        (self.registers).sort_unstable_by_key(|saved| saved.register);
        let is_same = |rule: &Rule| {
            let first = rule.first as usize;
            let saved = self.saved.get(first..first + usize::from(rule.count));
            (rule.cfa, rule.return_address, rule.signal) == (cfa, of_return, signal)
                && rule.has_frame_at_start == has_frame_at_start
                && saved == Some(self.registers.as_slice())
        };
        if let Some(index) = self.rules.iter().take(FEW).position(is_same) {
            return index as u16;
        }
        let next = u16::try_from(self.rules.len()).unwrap_or(BAD).min(BAD);
        if self.rules.len() >= FEW {
            let key = Key {
                cfa,
                return_address: of_return,
                signal,
                has_frame_at_start,
                saved: self.registers.clone(),
            };
            if let Some(&index) = self.known.get(&key) {
                return index;
            }
            if next != BAD {
                self.known.insert(key, next);
            }
        }
        if next == BAD {
            return BAD;
        }
        self.rules.push(Rule {
            cfa,
            return_address: of_return,
            signal,
            has_frame_at_start,
            first: u32::try_from(self.saved.len()).unwrap_or(u32::MAX),
            count: self.registers.len() as u8,
        });
        self.saved.extend_from_slice(&self.registers);
        next
    }

    fn value(&mut self, rule: &RegisterRule<usize>) -> Value {
        let narrow = |offset: &i64| i32::try_from(*offset);
        match rule {
            RegisterRule::Undefined => Value::Undefined,
            RegisterRule::SameValue => Value::Same,
            RegisterRule::Offset(offset) => narrow(offset).map_or(Value::Bad, Value::AtCfa),
            RegisterRule::ValOffset(offset) => narrow(offset).map_or(Value::Bad, Value::CfaPlus),
            RegisterRule::Register(other) => {
                self.register(other.0).map_or(Value::Bad, Value::Register)
            }
            RegisterRule::Expression(expression) => {
                self.span(expression).map_or(Value::Bad, Value::At)
            }
            RegisterRule::ValExpression(expression) => {
                self.span(expression).map_or(Value::Bad, Value::Expression)
            }
            _ => Value::Bad,
        }
    }

    fn register(&self, register: u16) -> Option<u8> {
        self.arch
            .tracks(register)
            .then(|| u8::try_from(register).ok())
            .flatten()
    }

    fn span(&mut self, expression: &UnwindExpression<usize>) -> Option<u32> {
        let span = Span {
            offset: u32::try_from(expression.offset).ok()?,
            len: u32::try_from(expression.length).ok()?,
        };
        let next = u32::try_from(self.spans.len()).ok()?;
        let index = *self.known_spans.entry(span).or_insert(next);
        if index == next {
            self.spans.push(span);
        }
        Some(index)
    }
}
