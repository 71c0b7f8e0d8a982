//! Reader of folded stacks, the exchange format of flame graph tools: see [`read`].

use std::io::{self, BufRead};
use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;

mod line;

use crate::builder::ProfileBuilder;
use crate::filter::Filter;
use crate::frame::FunctionId;
use crate::limits::{MAX_FRAMES, MemoryReservation, OverLimit, ReadingBudget};
use crate::model::Profile;
use crate::pattern::matches_name;
use crate::quality::Quality;
use crate::unit::WeightUnit;
pub use line::LineDamage;
use line::{Count, FoldedLine, MAX_DIGITS, read_line};

/// Error of reading folded stacks.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FoldedError {
    /// Reading failed.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Path of the input.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// No line is a folded stack.
    #[error("{} has no folded stack: line {line} {damage}; the format is `FRAME;FRAME COUNT`", path.display())]
    NoStack {
        /// Path of the input.
        path: PathBuf,
        /// First invalid line, from 1.
        line: u64,
        /// Fault of that line.
        damage: LineDamage,
    },
    /// The input exceeds the memory limit.
    #[error("cannot read {}: {source}", path.display())]
    OverLimit {
        /// Path of the input.
        path: PathBuf,
        /// Limit.
        source: OverLimit,
    },
    /// The file has only comments and blank lines.
    #[error("{} has no folded stack: all lines are blank or comments", path.display())]
    Empty {
        /// Path of the input.
        path: PathBuf,
    },
}

#[derive(Clone, Copy, Debug, Default)]
struct Lines {
    count: u64,
    first: u64,
}

impl Lines {
    fn add(&mut self, line: u64) {
        if self.count == 0 {
            self.first = line;
        }
        self.count += 1;
    }

    /// Returns a warning's subject: `line 3`, or `2 lines (the first is line 3)`.
    fn subject(self) -> String {
        match self.count {
            1 => format!("line {}", self.first),
            n => format!("{n} lines (the first is line {})", self.first),
        }
    }
}

/// Returns true for a folded stack; `None` for a blank line or a comment.
///
/// ```
/// use rprof_profile::folded::is_stack;
///
/// assert_eq!(is_stack(b"main;work 12"), Some(true));
/// assert_eq!(is_stack(b"main;work"), Some(false));
/// assert_eq!(is_stack(b"# main;work 12"), None);
/// ```
pub fn is_stack(line: &[u8]) -> Option<bool> {
    FoldedLine::parse(line).map(|parsed| parsed.is_ok())
}

/// Reads folded stacks: frames separated by `;`, root first, then a space or tab and a count.
///
/// Errors name the `source`. Only the function lists of `filter` apply. Names stay as written;
/// threads and objects are unknown.
///
/// - Skips blank lines and comments (`# `), and other invalid lines with a warning.
/// - If a count has a fraction, multiplies all counts by a power of ten, with a warning.
/// - Of two counts (differential stacks), uses the last one like inferno, with a warning.
/// - Drops callers beyond [`MAX_FRAMES`] frames.
///
/// Memory is linear in the distinct stacks, up to
/// [`READING_MEMORY`](crate::limits::READING_MEMORY).
///
/// # Errors
/// [`FoldedError`], if reading fails, no line is valid, or memory runs out.
///
/// # Examples
///
/// ```
/// use std::path::Path;
///
/// use rprof_profile::Filter;
///
/// let text = "main;work 3\nmain;work;operator new 1\n";
/// let profile = rprof_profile::folded::read(text.as_bytes(), Path::new("x.folded"), &Filter::default())?;
/// assert_eq!(profile.events[0].samples, 4);
/// # Ok::<(), rprof_profile::folded::FoldedError>(())
/// ```
pub fn read(input: impl BufRead, source: &Path, filter: &Filter) -> Result<Profile, FoldedError> {
    read_within(input, source, filter, &ReadingBudget::default())
}

/// Reads like [`read`], with a memory budget that several inputs may share.
///
/// # Errors
/// As [`read`].
pub fn read_within(
    mut input: impl BufRead,
    source: &Path,
    filter: &Filter,
    budget: &ReadingBudget,
) -> Result<Profile, FoldedError> {
    let mut stacks = Stacks::new(source, filter, budget);
    let mut bytes: Vec<u8> = Vec::new();
    let (mut wrong, mut two) = (Lines::default(), Lines::default());
    let mut first_damage = None;
    let mut number = 0u64;
    while let Some(is_whole) =
        read_line(&mut input, &mut bytes).map_err(|error| FoldedError::Read {
            path: source.to_owned(),
            source: error,
        })?
    {
        number += 1;
        let parsed = match is_whole {
            true => FoldedLine::parse(&bytes),
            false => Some(Err(LineDamage::TooLong)),
        };
        let parsed = match parsed {
            None => continue,
            Some(parsed) => parsed.and_then(|line| {
                let count = stacks
                    .count(line.count, number)
                    .ok_or(LineDamage::TooMany)?;
                Ok((line, count))
            }),
        };
        match parsed {
            Ok((line, count)) => {
                if line.has_two {
                    two.add(number);
                }
                stacks
                    .add(line.stack, count)
                    .map_err(|error| FoldedError::OverLimit {
                        path: source.to_owned(),
                        source: error,
                    })?;
            }
            Err(damage) => {
                first_damage.get_or_insert(damage);
                wrong.add(number);
            }
        }
    }
    let file = source.display();
    let mut warnings = Vec::new();
    match first_damage {
        Some(damage) if stacks.lines == 0 => {
            return Err(FoldedError::NoStack {
                path: source.to_owned(),
                line: wrong.first,
                damage,
            });
        }
        Some(damage) => warnings.push(format!(
            "{} of {file} skipped: line {} {damage}; the format is `FRAME;FRAME COUNT`",
            wrong.subject(),
            wrong.first
        )),
        None if stacks.lines == 0 => {
            let path = source.to_owned();
            return Err(FoldedError::Empty { path });
        }
        None => {}
    }
    if two.count > 0 {
        warnings.push(format!(
            "{} of {file} with two counts, as in differential stacks: the last count is used",
            two.subject(),
        ));
    }
    Ok(stacks.finish(warnings))
}

struct Stacks<'f> {
    source: &'f Path,
    filter: &'f Filter,
    builder: ProfileBuilder,
    memory: MemoryReservation,
    known: FxHashMap<Box<str>, FunctionId>,
    frames: Vec<FunctionId>,
    lines: u64,
    /// Decimal places of the common unit.
    digits: u32,
    total: u64,
    fractions: Lines,
    cut: Lines,
    deep: u64,
    is_deep: bool,
}

impl<'f> Stacks<'f> {
    fn new(source: &'f Path, filter: &'f Filter, budget: &ReadingBudget) -> Stacks<'f> {
        let mut builder = ProfileBuilder::new().source(source).folded();
        builder.add_event("samples", WeightUnit::Samples);
        Stacks {
            source,
            filter,
            builder,
            memory: MemoryReservation::new(budget),
            known: FxHashMap::default(),
            frames: Vec::new(),
            lines: 0,
            digits: 0,
            total: 0,
            fractions: Lines::default(),
            cut: Lines::default(),
            deep: 0,
            is_deep: false,
        }
    }

    /// Converts a count to the common unit. `None` on overflow.
    fn count(&mut self, count: Count, line: u64) -> Option<u64> {
        if count.digits > 0 {
            self.fractions.add(line);
        }
        let more = count.digits.saturating_sub(self.digits);
        let by = 10u64.pow(more);
        let total = self.total.checked_mul(by);
        // Drops a fraction if the sum would overflow.
        let fits = |total: u64| {
            let count = count.in_units(self.digits + more)?;
            Some((count, total.checked_add(count)?))
        };
        let (counted, total) = match total.and_then(fits) {
            Some(found) => {
                if more > 0 {
                    self.builder.scale(0, by);
                    self.digits += more;
                }
                found
            }
            None => {
                let counted = count.in_units(self.digits)?;
                if more > 0 {
                    self.cut.add(line);
                }
                (counted, self.total.checked_add(counted)?)
            }
        };
        if count.is_cut {
            self.cut.add(line);
        }
        self.total = total;
        Some(counted)
    }

    fn add(&mut self, stack: &str, count: u64) -> Result<(), OverLimit> {
        self.lines += 1;
        let filter = self.filter;
        let leaf = stack.rsplit(';').next().unwrap_or_default();
        let is_any = |patterns: &[String], name: &str| {
            patterns.is_empty() || patterns.iter().any(|pattern| matches_name(pattern, name))
        };
        let is_focused = || stack.split(';').any(|name| is_any(&filter.focus, name));
        if !is_any(&filter.symbols, leaf) || !is_focused() {
            return Ok(());
        }
        let object = self.builder.intern_object("[unknown]");
        let thread = self.builder.intern_thread_name("");
        self.frames.clear();
        let mut names = stack.rsplit(';');
        for name in names.by_ref().take(MAX_FRAMES) {
            let known = self.known.get(name).copied();
            let frame = match known {
                Some(frame) => frame,
                None => {
                    let frame = self.builder.intern_function(Ok(name), object);
                    self.known.insert(name.into(), frame);
                    self.memory.hold(name.len() as u64 + KNOWN_BYTES)?;
                    frame
                }
            };
            self.frames.push(frame);
        }
        self.deep += u64::from(names.next().is_some());
        self.frames.reverse();
        self.is_deep |= self.frames.len() > 1;
        let stack = self.builder.intern_stack(&self.frames);
        self.builder.add_samples(0, thread, stack, count, count);
        self.memory.hold_profile(&self.builder)
    }

    fn finish(mut self, mut warnings: Vec<String>) -> Profile {
        let file = self.source.display();
        if self.fractions.count > 0 {
            let factor = 10u64.pow(self.digits);
            warnings.push(format!(
                "{} of {file} with a fractional count: all counts were multiplied by {factor} to \
                 make them whole",
                self.fractions.subject(),
            ));
        }
        if self.cut.count > 0 {
            warnings.push(format!(
                "{} of {file} with a fractional count: only the first {MAX_DIGITS} decimals were \
                 used",
                self.cut.subject(),
            ));
        }
        if self.deep > 0 {
            warnings.push(cut_stacks(self.deep));
        }
        self.builder.set_callchains(self.is_deep);
        self.memory.keep(&self.builder);
        self.builder.finish_with_quality(Quality {
            warnings,
            ..Quality::default()
        })
    }
}

/// Size of a cache entry without name, in bytes.
const KNOWN_BYTES: u64 = 64;

/// Returns a warning about stacks with more than [`MAX_FRAMES`] frames.
pub fn cut_stacks(count: u64) -> String {
    match count {
        1 => format!("a stack has more than {MAX_FRAMES} frames: its outer callers were dropped"),
        _ => format!(
            "{count} stacks have more than {MAX_FRAMES} frames: their outer callers were dropped"
        ),
    }
}

#[cfg(test)]
mod tests;
