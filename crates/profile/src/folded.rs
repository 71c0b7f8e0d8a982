//! Profiles of folded stacks, the text that flame graph tools exchange: see [`read`].

use std::io::{self, BufRead};
use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;

use crate::builder::ProfileBuilder;
use crate::filter::Filter;
use crate::frame::FrameId;
use crate::model::Profile;
use crate::pattern::matches_name;
use crate::quality::Quality;
use crate::unit::WeightUnit;

/// Most bytes of a line. A longer one is left out, so that memory stays bounded.
const LONGEST_LINE: usize = 16 << 20;

/// Most bytes in which the first stack must end for [`is_folded`] to recognize it.
const LONGEST_START: usize = 1 << 20;

/// Reason for which there is no profile of a text.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FoldedError {
    /// The text could not be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Nothing in it is a folded stack.
    #[error("{} has no folded stack: line {line} {damage}; `FRAME;FRAME COUNT` is wanted", path.display())]
    NoStack {
        /// The file.
        path: PathBuf,
        /// Number of the first wrong line, from 1.
        line: u64,
        /// Fault of the line.
        damage: Damage,
    },
    /// It has comments and blank lines at most.
    #[error("{} has no folded stack: it has no line but blank ones and comments", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
}

/// Reason for which a line is no folded stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// No number stands behind the last space.
    #[error("has no count behind its last space")]
    NoCount,
    /// The bytes are no text.
    #[error("is not UTF-8")]
    NotUtf8,
    /// The line is longer than any stack.
    #[error("is longer than {} MiB", LONGEST_LINE >> 20)]
    TooLong,
    /// The sum of all counts leaves 64 bits.
    #[error("has a count that brings the sum beyond 64 bits")]
    TooMany,
}

/// Number of lines of a kind, and the first of them.
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

    /// Returns the subject of a sentence: `line 3`, or `2 lines (the first is line 3)`.
    fn subject(self) -> String {
        match self.count {
            1 => format!("line {}", self.first),
            n => format!("{n} lines (the first is line {})", self.first),
        }
    }
}

/// A line that is a folded stack.
#[derive(Debug, PartialEq)]
struct FoldedLine<'t> {
    stack: &'t str,
    count: u64,
    /// A fraction other than 0 was cut off.
    is_cut: bool,
    /// A first count, as in differential stacks, was passed over.
    has_two: bool,
}

impl<'t> FoldedLine<'t> {
    /// Parses a line as inferno does; `None` for a blank line or a comment.
    fn parse(line: &'t [u8]) -> Option<Result<FoldedLine<'t>, Damage>> {
        let Ok(line) = std::str::from_utf8(line) else {
            return Some(Err(Damage::NotUtf8));
        };
        let line = line.trim();
        if line.is_empty() || line == "#" || line.starts_with("# ") {
            return None;
        }
        let Some((stack, count, is_cut)) = split_count(line) else {
            return Some(Err(Damage::NoCount));
        };
        let first = split_count(stack);
        Some(Ok(FoldedLine {
            stack: first.map_or(stack, |(stack, ..)| stack),
            count,
            is_cut,
            has_two: first.is_some(),
        }))
    }
}

/// Splits off the count behind the last space, and returns whether it lost a fraction.
fn split_count(line: &str) -> Option<(&str, u64, bool)> {
    let (stack, number) = line.rsplit_once(' ')?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let is_digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if !is_digits(whole) || !is_digits(fraction) {
        return None;
    }
    let is_cut = fraction.bytes().any(|b| b != b'0');
    Some((stack.trim_end(), whole.parse().ok()?, is_cut))
}

/// Returns whether a text is folded stacks, judged by its first line that is neither blank nor a
/// comment; `None` if `start`, the text's beginning, does not have all of that line. `at_end` says
/// that nothing follows `start`.
///
/// ```
/// use rprof_profile::folded::is_folded;
///
/// assert_eq!(is_folded(b"main;work 12\n", false), Some(true));
/// assert_eq!(is_folded(b"main;wo", false), None);
/// assert_eq!(is_folded(b"PERFILE2", true), Some(false));
/// ```
pub fn is_folded(start: &[u8], at_end: bool) -> Option<bool> {
    let is_all = at_end || start.len() >= LONGEST_START;
    for line in start.split_inclusive(|byte| *byte == b'\n') {
        if !line.ends_with(b"\n") && !at_end {
            break;
        }
        if let Some(parsed) = FoldedLine::parse(line) {
            return Some(parsed.is_ok());
        }
    }
    is_all.then_some(false)
}

/// Reads folded stacks: lines of frames, root first, with `;` between them, then a space and a
/// count. `source` is used in messages. Of a `filter` the functions count: that of the leaf, and those
/// anywhere in a stack.
///
/// Names are kept as they stand, threads and objects are unknown. Blank lines and comments (`# `)
/// are skipped. As in inferno, fractions of counts are cut off, and of two counts, as differential
/// stacks have them, the last one counts; warnings tell of both. Lines that are no stack are left
/// out, and a warning tells their number and the first of them. Memory is linear in the distinct
/// stacks.
///
/// # Errors
/// [`FoldedError`], where reading fails or no line is right.
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
pub fn read(
    mut input: impl BufRead,
    source: &Path,
    filter: &Filter,
) -> Result<Profile, FoldedError> {
    let mut builder = ProfileBuilder::new().source(source).folded();
    let event = builder.add_event("samples", WeightUnit::Samples);
    let thread = builder.intern_thread_name("");
    let object = builder.intern_object("[unknown]");
    let (mut bytes, mut frames): (Vec<u8>, Vec<FrameId>) = Default::default();
    // Few names make up many frames: most are known, and need no copy to be looked up.
    let mut known: FxHashMap<Box<str>, FrameId> = FxHashMap::default();
    let (mut wrong, mut cut, mut two) = (Lines::default(), Lines::default(), Lines::default());
    let mut first_damage = None;
    let (mut number, mut stacks, mut total, mut is_deep) = (0u64, 0u64, 0u64, false);
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
                total = total.checked_add(line.count).ok_or(Damage::TooMany)?;
                Ok(line)
            }),
        };
        let line = match parsed {
            Ok(line) => line,
            Err(damage) => {
                first_damage.get_or_insert(damage);
                wrong.add(number);
                continue;
            }
        };
        stacks += 1;
        if line.is_cut {
            cut.add(number);
        }
        if line.has_two {
            two.add(number);
        }
        let leaf = line.stack.rsplit(';').next().unwrap_or_default();
        let is_any = |patterns: &[String], name: &str| {
            patterns.is_empty() || patterns.iter().any(|pattern| matches_name(pattern, name))
        };
        let is_focused = || {
            line.stack
                .split(';')
                .any(|name| is_any(&filter.focus, name))
        };
        if !is_any(&filter.symbols, leaf) || !is_focused() || !filter.wants_leaf(leaf) {
            continue;
        }
        frames.clear();
        for name in line.stack.split(';') {
            let frame = known.get(name).copied().unwrap_or_else(|| {
                let frame = builder.intern_function(Ok(name), object).into();
                known.insert(name.into(), frame);
                frame
            });
            frames.push(frame);
        }
        is_deep |= frames.len() > 1;
        let stack = builder.intern_stack(&frames);
        builder.add_samples(event, thread, stack, line.count, line.count);
    }
    let mut warnings = Vec::new();
    match first_damage {
        Some(damage) if stacks == 0 => {
            return Err(FoldedError::NoStack {
                path: source.to_owned(),
                line: wrong.first,
                damage,
            });
        }
        Some(damage) => warnings.push(format!(
            "{} of {} left out as no folded stack: line {} {damage}; `FRAME;FRAME COUNT` is wanted",
            wrong.subject(),
            source.display(),
            wrong.first
        )),
        None if stacks == 0 => {
            let path = source.to_owned();
            return Err(FoldedError::Empty { path });
        }
        None => {}
    }
    if two.count > 0 {
        warnings.push(format!(
            "{} of {} with two counts, as differential stacks have them: the last one counts",
            two.subject(),
            source.display()
        ));
    }
    if cut.count > 0 {
        warnings.push(format!(
            "{} of {} with a fraction of a count, which is cut off: scale the counts up to keep it",
            cut.subject(),
            source.display()
        ));
    }
    builder.set_callchains(is_deep);
    // Of how the stacks were made, and of names that they lack, folded text says nothing.
    Ok(builder.finish_with_quality(Quality {
        warnings,
        ..Quality::default()
    }))
}

/// Reads a line without its end. Returns false for one that is too long, of which `line` has the
/// beginning, and `None` at the end of the text.
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
        let end = chunk.iter().position(|byte| *byte == b'\n');
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

    /// Counts by stack.
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
    fn counts_are_read_as_inferno_reads_them() {
        let profile = profile(b"a;b 10 5\na;c 3.75\na;d 2.0\n").unwrap();
        let of = expected([("a;b", 5), ("a;c", 3), ("a;d", 2)]);
        assert_eq!(stacks(&profile), of);
        let [two, cut] = &profile.quality.warnings[..] else {
            panic!("{:?}", profile.quality.warnings);
        };
        assert!(
            two.starts_with("line 1 of x.folded with two counts"),
            "{two}"
        );
        assert!(
            cut.starts_with("line 2 of x.folded with a fraction"),
            "{cut}"
        );
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
                "5 lines (the first is line 2) of x.folded left out as no folded stack: line 2 has no \
                 count behind its last space; `FRAME;FRAME COUNT` is wanted"
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
            (b"# only\n\n", "no line but blank ones and comments"),
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

    #[test]
    fn the_first_line_tells_folded_text() {
        let of = |text: &str| is_folded(text.as_bytes(), false);
        assert_eq!(of("# c\n\nmain;f 1\nx"), Some(true));
        assert_eq!(of("comm 12 4.5: 1 cycles:\nmain;f 1\n"), Some(false));
        assert_eq!(of("# c\nmain;f 1"), None);
        assert_eq!(is_folded(b"main;f 1", true), Some(true));
        assert_eq!(is_folded(b"", true), Some(false));
        assert_eq!(of(&"x".repeat(LONGEST_START)), Some(false));
    }
}
