//! [`EventSettings`]: terms of any event, such as `/freq=100,call-graph=no/`.

use crate::branch_filter::parse_branch_filter_term;
use crate::error::EventError;
use rprof_records::BranchSampleType;

/// Sampling rate of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SamplingRate {
    /// Samples per second on each busy CPU; the kernel adapts the period.
    Frequency(u64),
    /// Number of events between samples; nanoseconds for clocks.
    Period(u64),
}

/// Stack recording of an event, from its `call-graph` term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventStacks {
    /// `call-graph=no`: none.
    None,
    /// `call-graph=fp`: by frame pointers.
    FramePointers,
    /// `call-graph=dwarf`: by unwinding tables.
    Dwarf,
    /// `call-graph=lbr`: by the CPU's branch records.
    Lbr,
}

/// Settings of one event, from its terms. They override the recording's (perf-record(1), `-e`, "a
/// symbolically formed event").
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventSettings {
    /// `name=`: name of the event in the file.
    pub name: Option<String>,
    /// `freq=` or `period=`; the last one wins.
    pub rate: Option<SamplingRate>,
    /// `call-graph=`: stack recording.
    pub stacks: Option<EventStacks>,
    /// `stack-size=`: bytes of user stack in a sample, for unwinding.
    pub stack_size: Option<u32>,
    /// `max-stack=`: maximum number of addresses in a callchain.
    pub max_stack: Option<u16>,
    /// `inherit` or `no-inherit`: whether children and threads inherit the event.
    pub inherit: Option<bool>,
    /// `time=`: whether samples contain their time, [ignored](crate::Event::ignored_when_sampled)
    /// in recordings.
    pub time: Option<bool>,
    /// `percore`: sum of a core's hardware threads, [ignored](crate::Event::ignored_when_sampled)
    /// in recordings.
    pub percore: bool,
    /// `branch_type=`: branches before each sample; an empty set for none.
    pub branches: Option<BranchSampleType>,
}

/// Names of the terms, for messages.
pub(crate) const TERMS: [&str; 16] = [
    "config",
    "config1",
    "config2",
    "config3",
    "name",
    "period",
    "freq",
    "call-graph",
    "stack-size",
    "max-stack",
    "inherit",
    "no-inherit",
    "no-overwrite",
    "time",
    "percore",
    "branch_type",
];

/// `name` or `name=value`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Term<'a> {
    pub(crate) name: &'a str,
    pub(crate) value: Option<&'a str>,
}

impl Term<'_> {
    pub(crate) fn bad(&self, why: impl Into<String>) -> EventError {
        EventError::TermValue {
            term: self.name.to_owned(),
            value: self.value.unwrap_or_default().to_owned(),
            why: why.into(),
        }
    }

    /// Parses a number. The default is 1.
    pub(crate) fn number(&self) -> Result<u64, EventError> {
        match self.value {
            None => Ok(1),
            Some(text) => number(text).ok_or_else(|| {
                self.bad("give a number of at most 64 bits, decimal or hexadecimal with 0x")
            }),
        }
    }

    /// Parses 0 or 1. The default is 1.
    fn switch(&self) -> Result<bool, EventError> {
        match self.number()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.bad("give 0 or 1")),
        }
    }

    fn number_up_to<T: TryFrom<u64>>(&self, most: &str) -> Result<T, EventError> {
        if self.value.is_none() {
            return Err(self.bad("give a number"));
        }
        T::try_from(self.number()?).map_err(|_| self.bad(format!("the maximum is {most}")))
    }
}

/// Parses a number, decimal or hexadecimal after `0x`.
pub(crate) fn number(text: &str) -> Option<u64> {
    let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None => (text, 10),
    };
    match digits.starts_with('+') {
        true => None,
        false => u64::from_str_radix(digits, radix).ok(),
    }
}

impl EventSettings {
    /// Applies a term. Returns false for other terms.
    ///
    /// # Errors
    /// Returns [`EventError::TermValue`] for invalid values, and for unsupported terms of perf.
    pub(crate) fn apply_term(&mut self, term: &Term<'_>) -> Result<bool, EventError> {
        match term.name {
            "name" => match term.value {
                Some(name) if !name.is_empty() => self.name = Some(name.to_owned()),
                _ => return Err(term.bad("give a name")),
            },
            "period" => self.rate = Some(SamplingRate::Period(rate(term)?)),
            "freq" => self.rate = Some(SamplingRate::Frequency(rate(term)?)),
            "call-graph" => self.stacks = Some(stacks(term)?),
            "stack-size" => self.stack_size = Some(term.number_up_to("4 GiB")?),
            "max-stack" => self.max_stack = Some(term.number_up_to("65535")?),
            "inherit" => self.inherit = Some(term.number()? != 0),
            "no-inherit" => self.inherit = Some(term.number()? == 0),
            "time" => self.time = Some(term.switch()?),
            "percore" => self.percore = term.switch()?,
            "no-overwrite" if term.number()? != 0 => {}
            "overwrite" | "no-overwrite" => {
                return Err(term.bad("overwriting ring buffers are not supported"));
            }
            "aux-output" | "aux-sample-size" => {
                return Err(term.bad("AUX areas are not supported"));
            }
            "branch_type" => {
                let filter = parse_branch_filter_term(term.value.unwrap_or_default());
                self.branches = Some(filter.map_err(|error| term.bad(error.to_string()))?);
            }
            "nr" => return Err(term.bad("the term `nr` is for perf trace")),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn rate(term: &Term<'_>) -> Result<u64, EventError> {
    match (term.value, term.number()?) {
        (None, _) => Err(term.bad("give a number")),
        (Some(_), 0) => Err(term.bad("give at least 1")),
        (Some(_), rate) => Ok(rate),
    }
}

fn stacks(term: &Term<'_>) -> Result<EventStacks, EventError> {
    match term.value.unwrap_or_default() {
        "no" => Ok(EventStacks::None),
        "fp" => Ok(EventStacks::FramePointers),
        "dwarf" => Ok(EventStacks::Dwarf),
        "lbr" => Ok(EventStacks::Lbr),
        _ => Err(term.bad("valid values: no, fp, dwarf, lbr")),
    }
}
