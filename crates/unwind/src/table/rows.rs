//! Compiled rows in a readable form, for tools and tests.

use super::cfi::{Cfi, Found, RuleRef};
use super::{UnwindTable, rule};
use std::fmt;

/// One row: how to unwind from any instruction of an address range.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Row<'a> {
    /// SVMA of the first byte.
    pub start: u64,
    /// SVMA after the last byte; `u64::MAX` for the very last row.
    pub end: u64,
    /// Rule of the row. `None` if it is unreadable.
    pub rule: Option<RowRule<'a>>,
}

/// The rules of one row.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RowRule<'a> {
    /// Canonical frame address.
    pub cfa: CfaRule<'a>,
    /// Return address.
    pub return_address: RegisterRule<'a>,
    /// General registers, ascending by DWARF number.
    pub registers: Vec<(u8, RegisterRule<'a>)>,
    /// True if signal handlers return to this code.
    pub signal: bool,
}

/// Rule for the canonical frame address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CfaRule<'a> {
    /// A register, by DWARF number, plus an offset in bytes.
    Register(u8, i32),
    /// The value of a DWARF expression.
    Expression(&'a [u8]),
    /// The rule makes no sense or is not supported.
    Bad,
}

/// Rule for a register's value in the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RegisterRule<'a> {
    /// No rule.
    Default,
    /// Lost.
    Undefined,
    /// Still in the register.
    Same,
    /// In memory, at this offset from the canonical frame address.
    AtCfa(i32),
    /// The canonical frame address plus this offset.
    CfaPlus(i32),
    /// In another register.
    Register(u8),
    /// In memory, at the address that a DWARF expression gives.
    At(&'a [u8]),
    /// The value of a DWARF expression.
    Expression(&'a [u8]),
    /// The rule makes no sense or is not supported.
    Bad,
}

/// Iterator over the rows of a table.
#[derive(Debug)]
pub struct Rows<'a> {
    base: u64,
    sections: Vec<&'a Cfi>,
    section: usize,
    block: usize,
    row: usize,
}

impl<'a> Rows<'a> {
    pub(super) fn new(table: &'a UnwindTable) -> Self {
        Self {
            base: table.base,
            sections: table.sections().collect(),
            section: 0,
            block: 0,
            row: 0,
        }
    }
}

impl<'a> Iterator for Rows<'a> {
    type Item = Row<'a>;

    fn next(&mut self) -> Option<Row<'a>> {
        loop {
            let cfi = *self.sections.get(self.section)?;
            if self.block >= cfi.blocks() {
                self.section += 1;
                self.block = 0;
                continue;
            }
            let block = cfi.block(self.block)?;
            let Some(&start) = block.starts.get(self.row) else {
                self.block += 1;
                self.row = 0;
                continue;
            };
            let number = self.row;
            self.row += 1;
            let end = block.starts.get(self.row).copied().or_else(|| {
                let next = cfi.block(self.block + 1)?;
                next.starts.first().copied()
            });
            let rule = match cfi.found(block, block.row(number)) {
                Found::NoFde => continue,
                Found::Bad => None,
                Found::Rule(rule) => Some(row_rule(rule)),
            };
            return Some(Row {
                start: self.base.wrapping_add(start.into()),
                end: end.map_or(u64::MAX, |end| self.base.wrapping_add(end.into())),
                rule,
            });
        }
    }
}

fn row_rule(rule: RuleRef<'_>) -> RowRule<'_> {
    let value = |value: rule::Value| match value {
        rule::Value::Default => RegisterRule::Default,
        rule::Value::Undefined => RegisterRule::Undefined,
        rule::Value::Same => RegisterRule::Same,
        rule::Value::AtCfa(offset) => RegisterRule::AtCfa(offset),
        rule::Value::CfaPlus(offset) => RegisterRule::CfaPlus(offset),
        rule::Value::Register(register) => RegisterRule::Register(register),
        rule::Value::At(index) => rule
            .expression(index)
            .map_or(RegisterRule::Bad, RegisterRule::At),
        rule::Value::Expression(index) => rule
            .expression(index)
            .map_or(RegisterRule::Bad, RegisterRule::Expression),
        rule::Value::Bad => RegisterRule::Bad,
    };
    RowRule {
        cfa: match rule.rule.cfa {
            rule::Cfa::Register(register, offset) => CfaRule::Register(register, offset),
            rule::Cfa::Expression(index) => rule
                .expression(index)
                .map_or(CfaRule::Bad, CfaRule::Expression),
            rule::Cfa::Bad => CfaRule::Bad,
        },
        return_address: value(rule.rule.return_address),
        registers: rule
            .saved()
            .iter()
            .map(|saved| (saved.register, value(saved.value)))
            .collect(),
        signal: rule.rule.signal,
    }
}

impl fmt::Display for CfaRule<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Register(register, offset) => write!(formatter, "r{register}{offset:+}"),
            Self::Expression(_) => formatter.write_str("exp"),
            Self::Bad => formatter.write_str("bad"),
        }
    }
}

impl fmt::Display for RegisterRule<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => formatter.write_str("-"),
            Self::Undefined => formatter.write_str("u"),
            Self::Same => formatter.write_str("s"),
            Self::AtCfa(offset) => write!(formatter, "c{offset:+}"),
            Self::CfaPlus(offset) => write!(formatter, "v{offset:+}"),
            Self::Register(register) => write!(formatter, "r{register}"),
            Self::At(_) => formatter.write_str("exp"),
            Self::Expression(_) => formatter.write_str("vexp"),
            Self::Bad => formatter.write_str("bad"),
        }
    }
}

impl fmt::Display for Row<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:016x} {:016x}", self.start, self.end)?;
        let Some(rule) = &self.rule else {
            return formatter.write_str(" cannot be read");
        };
        write!(formatter, " cfa={} ra={}", rule.cfa, rule.return_address)?;
        for (register, value) in &rule.registers {
            write!(formatter, " r{register}={value}")?;
        }
        if rule.signal {
            formatter.write_str(" signal")?;
        }
        Ok(())
    }
}
