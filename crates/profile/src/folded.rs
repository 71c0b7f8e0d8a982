//! Reader of folded stacks, the exchange format of flame graph tools: see [`read`].

use std::io::{self, BufRead};
use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;

use crate::builder::ProfileBuilder;
use crate::filter::Filter;
use crate::frame::FunctionId;
use crate::limits::{MAX_FRAMES, OverLimit, Reading, ReadingBudget};
use crate::model::Profile;
use crate::pattern::matches_name;
use crate::quality::Quality;
use crate::unit::WeightUnit;

/// Maximum length of a line in bytes. Longer lines are skipped.
const LONGEST_LINE: usize = 16 << 20;

/// Maximum number of decimal places. Further digits are dropped.
const MAX_DIGITS: u32 = 6;

/// Error of reading folded stacks.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FoldedError {
    /// Reading failed.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// No line is a folded stack.
    #[error("{} has no folded stack: line {line} {damage}; the format is `FRAME;FRAME COUNT`", path.display())]
    NoStack {
        /// The file.
        path: PathBuf,
        /// First invalid line, from 1.
        line: u64,
        /// Fault of that line.
        damage: Damage,
    },
    /// The input exceeds the memory limit.
    #[error("cannot read {}: {source}", path.display())]
    OverLimit {
        /// The file.
        path: PathBuf,
        /// Limit.
        source: OverLimit,
    },
    /// The file has only comments and blank lines.
    #[error("{} has no folded stack: all lines are blank or comments", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
}

/// Reason why a line is not a folded stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// No number follows the last space.
    #[error("has no count after its last space")]
    NoCount,
    /// The line is not UTF-8.
    #[error("is not UTF-8")]
    NotUtf8,
    /// The line exceeds the length limit.
    #[error("is longer than {} MiB", LONGEST_LINE >> 20)]
    TooLong,
    /// The sum of all counts overflows 64 bits.
    #[error("has a count that overflows the 64-bit sum")]
    TooMany,
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

#[derive(Debug, PartialEq)]
struct FoldedLine<'t> {
    stack: &'t str,
    count: Count,
    /// True if the line has two counts, as in differential stacks. The first one is ignored.
    has_two: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Count {
    whole: u64,
    /// Millionths.
    fraction: u64,
    /// Significant decimal places.
    digits: u32,
    is_cut: bool,
}

impl Count {
    fn parse(text: &str) -> Option<Count> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let is_digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
        if !is_digits(whole) || !is_digits(fraction) {
            return None;
        }
        let fraction = fraction.trim_end_matches('0');
        let kept = &fraction[..fraction.len().min(MAX_DIGITS as usize)];
        let kept = kept.trim_end_matches('0');
        Some(Count {
            whole: whole.parse().ok()?,
            fraction: format!("{kept:0<6}").parse().ok()?,
            digits: kept.len() as u32,
            is_cut: fraction.len() > MAX_DIGITS as usize,
        })
    }

    /// Returns the number in units of `10^-digits`; `None` on overflow.
    fn in_units(self, digits: u32) -> Option<u64> {
        let fraction = self.fraction / 10u64.pow(MAX_DIGITS - digits);
        (self.whole.checked_mul(10u64.pow(digits))?).checked_add(fraction)
    }
}

impl<'t> FoldedLine<'t> {
    /// Parses a line like flamegraph.pl and inferno; `None` for blank lines and comments.
    fn parse(line: &'t [u8]) -> Option<Result<FoldedLine<'t>, Damage>> {
        let Ok(line) = std::str::from_utf8(line) else {
            return Some(Err(Damage::NotUtf8));
        };
        let line = line.trim();
        if line.is_empty() || line == "#" || line.starts_with("# ") {
            return None;
        }
        let Some((stack, count)) = split_count(line) else {
            return Some(Err(Damage::NoCount));
        };
        let first = split_count(stack);
        Some(Ok(FoldedLine {
            stack: first.map_or(stack, |(stack, _)| stack),
            count,
            has_two: first.is_some(),
        }))
    }
}

/// Splits off the count after the last space or tab.
fn split_count(line: &str) -> Option<(&str, Count)> {
    let at = memchr::memrchr2(b' ', b'\t', line.as_bytes())?;
    Some((line[..at].trim_end(), Count::parse(&line[at + 1..])?))
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
/// Messages name the `source`. Only the function lists of `filter` apply (leaf and focus). Names
/// stay as written; threads and objects are unknown.
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
            false => Some(Err(Damage::TooLong)),
        };
        let parsed = match parsed {
            None => continue,
            Some(parsed) => parsed.and_then(|line| {
                let count = stacks.count(line.count, number).ok_or(Damage::TooMany)?;
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
    memory: Reading,
    /// Cache by name: few names make up many frames.
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
            memory: Reading::new(budget),
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

    /// Converts a count to the common unit, which shrinks for fractions. `None` on overflow of the
    /// sum.
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
        // Folded text has no data about the recording or about unnamed frames.
        self.builder.finish_with_quality(Quality {
            warnings,
            ..Quality::default()
        })
    }
}

/// Size of a cache entry without name, in bytes.
const KNOWN_BYTES: u64 = 64;

/// Warning about stacks with more than [`MAX_FRAMES`] frames.
pub fn cut_stacks(count: u64) -> String {
    match count {
        1 => format!("a stack has more than {MAX_FRAMES} frames: its outer callers were dropped"),
        _ => format!(
            "{count} stacks have more than {MAX_FRAMES} frames: their outer callers were dropped"
        ),
    }
}

/// Reads a line without its end. Returns `false` if the line is too long and therefore truncated,
/// and `None` at the end of the input.
fn read_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<Option<bool>> {
    line.clear();
    let (mut any, mut is_whole) = (false, true);
    loop {
        let chunk = match input.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            chunk => chunk?,
        };
        if chunk.is_empty() {
            return Ok(any.then_some(is_whole));
        }
        any = true;
        let end = memchr::memchr(b'\n', chunk);
        let part = &chunk[..end.unwrap_or(chunk.len())];
        is_whole &= line.len() + part.len() <= LONGEST_LINE;
        if is_whole {
            line.extend_from_slice(part);
        }
        let used = end.map_or(chunk.len(), |at| at + 1);
        input.consume(used);
        if end.is_some() {
            return Ok(Some(is_whole));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn profile(text: &[u8]) -> Result<Profile, FoldedError> {
        read(text, Path::new("x.folded"), &Filter::default())
    }

    fn stacks(profile: &Profile) -> BTreeMap<String, u64> {
        let of = |entry: &crate::AggregatedStack| {
            let names = (profile.stack(entry.stack))
                .map(|id| profile.function(id).name.as_deref().unwrap())
                .collect::<Vec<_>>();
            assert_eq!(entry.samples, entry.weight);
            (names.join(";"), entry.samples)
        };
        profile.aggregated.iter().map(of).collect()
    }

    fn expected<const N: usize>(stacks: [(&str, u64); N]) -> BTreeMap<String, u64> {
        stacks.map(|(stack, n)| (stack.to_owned(), n)).into()
    }

    #[test]
    fn stacks_and_names_come_out_as_they_went_in() {
        let text = "main;f(int) const;operator new 3\n\n# a comment\nalone 2\n\
                    main;f(int) const;operator new 4\r\n;;x 1\n#pragma 5";
        let profile = profile(text.as_bytes()).unwrap();
        let of = expected([
            ("main;f(int) const;operator new", 7),
            ("alone", 2),
            (";;x", 1),
            ("#pragma", 5),
        ]);
        assert_eq!(stacks(&profile), of);
        assert_eq!(
            (profile.events[0].samples, profile.events[0].weight),
            (15, 15)
        );
        assert_eq!(profile.events[0].unit, WeightUnit::Samples);
        assert!(profile.has_callchains);
        assert_eq!(profile.quality, Quality::default());
    }

    #[test]
    fn of_two_counts_the_last_one_counts_as_in_inferno() {
        let profile = profile(b"a;b 10 5\na;c 3\na;d 2.0\n").unwrap();
        let of = expected([("a;b", 5), ("a;c", 3), ("a;d", 2)]);
        assert_eq!(stacks(&profile), of);
        let [two] = &profile.quality.warnings[..] else {
            panic!("{:?}", profile.quality.warnings);
        };
        assert!(
            two.starts_with("line 1 of x.folded with two counts"),
            "{two}"
        );
    }

    #[test]
    fn fractions_keep_their_shares() {
        for (text, wanted, told) in [
            (
                "a;b 0.5\na;c 0.25\n",
                [("a;b", 50), ("a;c", 25)],
                "multiplied by 100",
            ),
            (
                "a;b 3\na;c 1.5\n",
                [("a;b", 30), ("a;c", 15)],
                "multiplied by 10 ",
            ),
            (
                "a;b 2.\na;c 0.000001\n",
                [("a;b", 2_000_000), ("a;c", 1)],
                "by 1000000",
            ),
            (
                "a;b\t1\na;c\t0.1234567\n",
                [("a;b", 1_000_000), ("a;c", 123_456)],
                "by 1000000",
            ),
            // The sum leaves no room for a fraction.
            (
                "a;b 18446744073709551610\na;c 1.5\n",
                [("a;b", u64::MAX - 5), ("a;c", 1)],
                "only the first 6 decimals",
            ),
        ] {
            let profile = profile(text.as_bytes()).unwrap();
            assert_eq!(stacks(&profile), expected(wanted), "{text}");
            let sum = wanted.iter().map(|(_, count)| count).sum::<u64>();
            assert_eq!(
                (profile.events[0].samples, profile.events[0].weight),
                (sum, sum)
            );
            let warnings = profile.quality.warnings.join("\n");
            assert!(warnings.contains(told), "{warnings}");
        }
    }

    #[test]
    fn a_tab_stands_before_a_count_as_a_space_does() {
        let profile = profile(b"a;b\t12\na;c \t 8\na;operator new\t3\n").unwrap();
        let of = expected([("a;b", 12), ("a;c", 8), ("a;operator new", 3)]);
        assert_eq!(stacks(&profile), of);
        assert_eq!(profile.quality, Quality::default());
    }

    #[test]
    fn of_a_stack_without_end_the_callers_are_left_out() {
        let text = format!("{}leaf 3\n", "f;".repeat(1 << 20));
        let profile = profile(text.as_bytes()).unwrap();
        let [entry] = &profile.aggregated[..] else {
            panic!("{:?}", profile.aggregated);
        };
        assert_eq!(profile.depth(entry.stack), MAX_FRAMES);
        let leaf = profile.stack(entry.stack).last().unwrap();
        assert_eq!(profile.function(leaf).name.as_deref(), Ok("leaf"));
        assert!(profile.quality.warnings[0].contains("more than 4096 frames"));
    }

    #[test]
    fn memory_is_bounded_by_the_budget() {
        let text: String = (0..40_000).map(|n| format!("main;f{n};g{n} 1\n")).collect();
        let of = |bytes| {
            read_within(
                text.as_bytes(),
                Path::new("x"),
                &Filter::default(),
                &ReadingBudget::new(bytes),
            )
        };
        let error = of(1 << 20).unwrap_err();
        assert!(matches!(error, FoldedError::OverLimit { .. }), "{error}");
        assert!(error.to_string().contains("more than 1 MiB"), "{error}");
        assert_eq!(of(64 << 20).unwrap().aggregated.len(), 40_000);
    }

    #[test]
    fn wrong_lines_are_counted_and_the_others_kept() {
        let mut text = b"a;b 1\nno count\n\xff;b 2\na;c 18446744073709551615\n".to_vec();
        text.extend(vec![b'x'; LONGEST_LINE]);
        text.extend(b" 1\na;b 99999999999999999999\na;c 4");
        let profile = profile(&text).unwrap();
        assert_eq!(stacks(&profile), expected([("a;b", 1), ("a;c", 4)]));
        let warnings = &profile.quality.warnings;
        assert_eq!(
            warnings[..],
            [
                "5 lines (the first is line 2) of x.folded skipped: line 2 has no count after its \
                 last space; the format is `FRAME;FRAME COUNT`"
            ]
        );
    }

    #[test]
    fn each_damage_is_told() {
        for (text, damage) in [
            (&b"\n\nmain;work"[..], "line 3 has no count"),
            (b"main;work -3", "line 1 has no count"),
            (b"main;work .5", "line 1 has no count"),
            (b"7", "line 1 has no count"),
            (b"main;\xff 3", "line 1 is not UTF-8"),
            (b"# only\n\n", "all lines are blank or comments"),
            (
                &vec![b'x'; LONGEST_LINE + 1],
                "line 1 is longer than 16 MiB",
            ),
        ] {
            let error = profile(text).unwrap_err().to_string();
            assert!(
                error.starts_with("x.folded has no folded stack: "),
                "{error}"
            );
            assert!(error.contains(damage), "{error}");
        }
    }

    #[test]
    fn leaves_are_chosen_by_name() {
        let text = b"main;work 3\nmain 2\nwork;main 1\n";
        let filter = Filter {
            symbols: vec!["main".to_owned()],
            ..Filter::default()
        };
        let profile = read(&text[..], Path::new("x"), &filter).unwrap();
        assert_eq!(stacks(&profile), expected([("main", 2), ("work;main", 1)]));
        let filter = Filter {
            focus: vec!["w?rk".to_owned()],
            ..Filter::default()
        };
        let profile = read(&text[..], Path::new("x"), &filter).unwrap();
        let focused = [("main;work", 3), ("work;main", 1)];
        assert_eq!(stacks(&profile), expected(focused));
    }
}
