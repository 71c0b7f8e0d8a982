//! [`Line`]: the first line of a sample, with any selection of `perf script -F`.
//!
//! perf prints the fields in this order: command, ids, CPU, misc, time of day, time, period, event.
//! All are optional. Their form distinguishes them: a time is digits, a period, digits and a colon;
//! an event ends in a colon.

/// First line of a sample.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Head<'t> {
    pub(super) comm: &'t str,
    pub(super) pid: Option<i32>,
    pub(super) tid: Option<i32>,
    pub(super) cpu: Option<u32>,
    /// Nanoseconds.
    pub(super) time: Option<u64>,
    pub(super) period: Option<u64>,
    /// Empty if missing.
    pub(super) event: &'t str,
    /// Text after the event: a frame, a tracepoint's payload, or other fields.
    pub(super) rest: &'t str,
    /// True if the line is a sample even without frames: it has a tid, and a time or an event, or a
    /// CPU and a time.
    pub(super) is_certain: bool,
}

/// Line that is not blank, a comment, or a frame.
#[derive(Debug, PartialEq)]
pub(super) enum Line<'t> {
    /// Sample, or a possible sample that needs frames to follow.
    Sample(Head<'t>),
    /// Other record, as printed by `--show-task-events` and similar options.
    Record,
}

/// Minimum width of perf's period column.
const PERIOD_COLUMNS: usize = 10;

/// Maximum thread id of Linux (`PID_MAX_LIMIT`).
const MAX_TID: u64 = 1 << 22;

/// Prefix of perf's record names.
const RECORD: &str = "PERF_RECORD_";

impl<'t> Line<'t> {
    /// Parses a line. Returns `None` for other lines.
    pub(super) fn parse(line: &'t str) -> Option<Line<'t>> {
        Line::parse_as(line, true)
    }

    /// Parses a line. `has_ids` tells whether the text prints tids. If not, a number at the end of
    /// the command is part of it.
    pub(super) fn parse_as(line: &'t str, has_ids: bool) -> Option<Line<'t>> {
        let line = line.trim_end();
        if line.is_empty() || line.starts_with(['\t', '#']) {
            return None;
        }
        let head = match split_at_time(line) {
            Some((before, time, behind)) => {
                if behind.trim_start().starts_with(RECORD) {
                    return Some(Line::Record);
                }
                let mut head = Head::of_thread(before, has_ids);
                head.time = Some(time);
                head.take_event(behind);
                head
            }
            None => {
                if line.starts_with(RECORD) || line.contains(" PERF_RECORD_") {
                    return Some(Line::Record);
                }
                Head::without_time(line, has_ids)
            }
        };
        let is_known = head.time.is_some() || !head.event.is_empty();
        let is_certain = match head.tid {
            Some(_) => is_known,
            None => head.cpu.is_some() && head.time.is_some(),
        };
        Some(Line::Sample(Head { is_certain, ..head }))
    }
}

impl<'t> Head<'t> {
    /// Parses the fields before the time: command, ids, CPU, misc and time of day.
    fn of_thread(before: &'t str, has_ids: bool) -> Head<'t> {
        let mut head = Head::default();
        let mut rest = before.trim();
        // From right to left, because a command may contain spaces and digits.
        loop {
            let word = word_at_end(rest);
            if let Some(cpu) = (word.strip_prefix('[')).and_then(|word| word.strip_suffix(']'))
                && let Ok(cpu) = cpu.parse()
            {
                head.cpu = Some(cpu);
                rest = rest[..rest.len() - word.len()].trim_end();
                continue;
            }
            let Some((left, word)) = last_word(rest) else {
                break;
            };
            if is_misc(word)
                && (left.ends_with(']') || ids(last_word(left).map_or(left, |w| w.1)).is_some())
            {
                rest = left;
                continue;
            }
            // The time of day follows the date.
            if is_hour(word)
                && let Some((left, day)) = last_word(left)
                && is_day(day)
            {
                rest = left;
                continue;
            }
            break;
        }
        let (comm, word) = last_word(rest).unwrap_or(("", rest));
        match ids(word).filter(|_| has_ids) {
            Some((pid, tid)) => (head.comm, head.pid, head.tid) = (comm, pid, Some(tid)),
            None => head.comm = rest,
        }
        head
    }

    /// Parses the fields after the time or thread: period, event, and the rest.
    fn take_event(&mut self, behind: &'t str) {
        let behind = behind.trim();
        let (word, rest) = behind
            .split_once(char::is_whitespace)
            .unwrap_or((behind, ""));
        let period = word.parse::<u64>().ok();
        let of_event = match period {
            Some(_) => rest.trim_start(),
            None => behind,
        };
        if let Some((event, rest)) = split_event(of_event) {
            (self.period, self.event, self.rest) = (period, event, rest.trim());
            return;
        }
        // Digits may also be an address.
        let is_address = period.is_some() && super::FrameLine::parse(of_event).is_none();
        match period {
            Some(_) if !is_address || of_event.is_empty() => {
                (self.period, self.rest) = (period, of_event);
            }
            _ => self.rest = behind,
        }
    }

    fn without_time(line: &'t str, has_ids: bool) -> Head<'t> {
        // Finds the first word that ends in a colon and follows a thread.
        let mut from = 0;
        while let Some(at) = line[from..].find(':').map(|at| from + at) {
            from = at + 1;
            if !ends_word(&line[from..]) {
                continue;
            }
            let start = at - word_at_end(&line[..at]).len();
            let mut before = line[..start].trim_end();
            let mut period = None;
            // Of two numbers the second is the period, unless it is too narrow. Then the first is
            // part of the command's name, as in `pool 2 17`.
            let (left, word) = before
                .rsplit_once(char::is_whitespace)
                .unwrap_or(("", before));
            if let Ok(number) = word.parse::<u64>() {
                let left = left.trim_end();
                let width = before.len() - left.len() - usize::from(!left.is_empty());
                let above = word_at_end(left);
                let follows = above.starts_with('[')
                    || is_misc(above)
                    || ids(above).is_some_and(|(pid, _)| pid.is_some());
                if width >= PERIOD_COLUMNS || follows || number > MAX_TID {
                    (before, period) = (left, Some(number));
                }
            }
            let head = Head::of_thread(before, has_ids);
            let (event, rest) = (&line[start..at], line[from..].trim());
            if head.tid.is_some() || !event.is_empty() && is_behind_an_event(rest) {
                return Head {
                    period,
                    event,
                    rest,
                    ..head
                };
            }
        }
        // Only a thread, or a thread with a frame.
        let whole = Head::of_thread(line, has_ids);
        if whole.tid.is_some() || !has_ids {
            return whole;
        }
        let mut from = line.len() - line.trim_start().len();
        while let Some(at) = line[from..].find(char::is_whitespace).map(|at| from + at) {
            let behind = line[at..].trim_start();
            let start = line.len() - behind.len();
            from = start;
            let word = behind.split(char::is_whitespace).next().unwrap_or("");
            if ids(word).is_some() {
                let head = Head::of_thread(&line[..start + word.len()], has_ids);
                let mut rest = line[start + word.len()..].trim_start();
                let mut cpu = None;
                if let Some((number, behind)) =
                    rest.strip_prefix('[').and_then(|r| r.split_once(']'))
                    && let Ok(number) = number.parse()
                {
                    (cpu, rest) = (Some(number), behind.trim_start());
                }
                return Head { rest, cpu, ..head };
            }
            if word.is_empty() {
                break;
            }
        }
        whole
    }
}

/// Returns true for text that follows an event without a thread: nothing, a frame or an address.
fn is_behind_an_event(rest: &str) -> bool {
    let is_address = !rest.contains(' ') && u64::from_str_radix(rest, 16).is_ok();
    rest.is_empty() || is_address || super::FrameLine::is_proof(rest)
}

fn ends_word(behind: &str) -> bool {
    behind.chars().next().is_none_or(char::is_whitespace)
}

/// Returns the word at the end of a text; empty if there is whitespace.
fn word_at_end(text: &str) -> &str {
    text.rsplit(char::is_whitespace).next().unwrap_or("")
}

/// Splits off the last word; `None` if there is one word at most.
fn last_word(text: &str) -> Option<(&str, &str)> {
    let (left, word) = text.trim_end().rsplit_once(char::is_whitespace)?;
    Some((left.trim_end(), word))
}

/// Parses pid and tid from `1234/1235`, or the tid from `1235`.
fn ids(word: &str) -> Option<(Option<i32>, i32)> {
    match word.split_once('/') {
        Some((pid, tid)) => Some((Some(pid.parse().ok()?), tid.parse().ok()?)),
        None => Some((None, word.parse().ok()?)),
    }
}

/// Returns true for a word of `-F +misc`: CPU modes, and the kind of switch.
fn is_misc(word: &str) -> bool {
    (1..=4).contains(&word.len()) && word.bytes().all(|byte| b"KUHGgESpPM".contains(&byte))
}

/// Returns true for a date of `-F +tod`.
fn is_day(word: &str) -> bool {
    let mut parts = word.split('-').map(is_number);
    word.matches('-').count() == 2 && parts.all(|is_number| is_number)
}

/// Returns true for a time of `-F +tod`.
fn is_hour(word: &str) -> bool {
    let mut parts = word.split([':', '.']).map(is_number);
    word.matches(':').count() == 2 && parts.all(|is_number| is_number)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Splits `EVENT: REST`. The event ends with a colon before a space or the end. Names of
/// tracepoints contain a colon.
fn split_event(text: &str) -> Option<(&str, &str)> {
    let end = text
        .find(": ")
        .or_else(|| text.strip_suffix(':').map(str::len))?;
    let event = &text[..end];
    // perf's prefix of unnamed events.
    let word = event.strip_prefix("raw ").unwrap_or(event);
    let is_event = !word.is_empty() && !word.contains(char::is_whitespace);
    is_event.then(|| (event, &text[end + 1..]))
}

/// Splits a line at its time. Returns the text before and after it.
fn split_at_time(line: &str) -> Option<(&str, u64, &str)> {
    let mut from = 0;
    while let Some(colon) = line[from..].find(':').map(|at| from + at) {
        from = colon + 1;
        if !ends_word(&line[from..]) {
            continue;
        }
        let word = word_at_end(&line[..colon]);
        if let Some(time) = time(word) {
            return Some((&line[..colon - word.len()], time, &line[from..]));
        }
    }
    None
}

/// Parses `12.345678` to nanoseconds.
fn time(text: &str) -> Option<u64> {
    let (seconds, fraction) = text.split_once('.')?;
    if !is_number(seconds) || !is_number(fraction) || fraction.len() > 9 {
        return None;
    }
    let scale = 10u64.pow(9 - fraction.len() as u32);
    let nanoseconds = fraction.parse::<u64>().ok()? * scale;
    seconds
        .parse::<u64>()
        .ok()?
        .checked_mul(1_000_000_000)?
        .checked_add(nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_of_any_width_end_words() {
        for blank in ["\u{a0}", "\u{3000}", "\u{85}"] {
            let line = format!("foo{blank}bar: baz 1");
            assert!(Line::parse(&line).is_some(), "{line}");
            let line = format!("w 7{blank}1.5: 1 cycles: ");
            let Some(Line::Sample(head)) = Line::parse(&line) else {
                panic!("{line}");
            };
            assert_eq!((head.time, head.event), (Some(1_500_000_000), "cycles"));
        }
    }

    /// Quadratic scanning of these lines would take minutes.
    #[test]
    fn long_lines_of_colons_and_brackets_are_read_in_one_pass() {
        for part in [
            ":", "a:b::c", ": ", "x: ", "] y: ", "[1] y: ", "a(b: ", "1/2 [0] ",
        ] {
            let line = part.repeat((1 << 18) / part.len());
            assert!(Line::parse(&line).is_some());
            assert!(Line::parse_as(&line, false).is_some());
        }
    }

    fn sample(line: &str) -> Head<'_> {
        match Line::parse(line) {
            Some(Line::Sample(head)) => head,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn first_lines_of_all_fields_are_read() {
        let head = sample("my prog:1  1234/1235 [001]  12.345678:     250000 cpu-clock:u: ");
        let wanted = Head {
            comm: "my prog:1",
            pid: Some(1234),
            tid: Some(1235),
            cpu: Some(1),
            time: Some(12_345_678_000),
            period: Some(250_000),
            event: "cpu-clock:u",
            rest: "",
            is_certain: true,
        };
        assert_eq!(head, wanted);
        let tracepoint =
            "swapper     0 [000]  1.000000001: sched:sched_switch: prev_comm=a next: b";
        let head = sample(tracepoint);
        assert_eq!(
            (head.event, head.tid, head.period),
            ("sched:sched_switch", Some(0), None)
        );
        assert_eq!(head.rest, "prev_comm=a next: b");
        let flat = "perf 9 5.5: 7 cycles: ffffffff81000000 native_write+0x4 ([kernel.kallsyms])";
        let rest = sample(flat).rest;
        assert_eq!(
            rest,
            "ffffffff81000000 native_write+0x4 ([kernel.kallsyms])"
        );
    }

    #[test]
    fn a_number_at_the_end_of_a_command_is_no_thread() {
        let of = |line| {
            let head = sample(line);
            (head.comm, head.tid, head.period)
        };
        assert_eq!(
            of("my pool 2 23773 cycles: "),
            ("my pool 2", Some(23773), None)
        );
        assert_eq!(
            of("my pool 2 23773       1001 cycles: "),
            ("my pool 2", Some(23773), Some(1001))
        );
        assert_eq!(
            of("my pool 2 1/23773 1001 cycles: "),
            ("my pool 2", Some(23773), Some(1001))
        );
        assert_eq!(
            of("w 23773 1234567890123 cycles: "),
            ("w", Some(23773), Some(1_234_567_890_123))
        );
    }

    #[test]
    fn each_field_may_lack() {
        // Command, thread, CPU, time, period, event.
        let of = |line| {
            let head = sample(line);
            (
                head.comm,
                head.tid,
                head.cpu,
                head.time.is_some(),
                head.period,
                head.event,
            )
        };
        for (line, wanted) in [
            (
                "w 17 U       708.39:    1001 cpu-clock:ppp:      ",
                ("w", Some(17), None, true, Some(1001), "cpu-clock:ppp"),
            ),
            (
                "w 17 [003] K 708.39:  cycles: ",
                ("w", Some(17), Some(3), true, None, "cycles"),
            ),
            (
                "w 17 2026-11-28 05:55:01.123456   708.39:  cycles: ",
                ("w", Some(17), None, true, None, "cycles"),
            ),
            (
                "w 17   708.39:    1001 ",
                ("w", Some(17), None, true, Some(1001), ""),
            ),
            ("w 17   708.39: ", ("w", Some(17), None, true, None, "")),
            (
                "w   708.39: cycles: ",
                ("w", None, None, true, None, "cycles"),
            ),
            (
                "  17   708.39: cycles: ",
                ("", Some(17), None, true, None, "cycles"),
            ),
            ("  708.39: cycles: ", ("", None, None, true, None, "cycles")),
            (
                "w 17 cpu-clock:ppp: ",
                ("w", Some(17), None, false, None, "cpu-clock:ppp"),
            ),
            (
                "w 17       1001 cpu-clock:ppp: ",
                ("w", Some(17), None, false, Some(1001), "cpu-clock:ppp"),
            ),
            (
                "w 16/17 [000]  1001 cycles: ",
                ("w", Some(17), Some(0), false, Some(1001), "cycles"),
            ),
            ("w 16/17 [000] ", ("w", Some(17), Some(0), false, None, "")),
            ("w 17 ", ("w", Some(17), None, false, None, "")),
            ("w ", ("w", None, None, false, None, "")),
            // Commands with blanks, digits, colons and brackets.
            (
                "Web Content 2 17 [000]  1.5: 9 cycles: ",
                ("Web Content 2", Some(17), Some(0), true, Some(9), "cycles"),
            ),
            (
                "kworker/0:1 17  1.5: 9 cycles: ",
                ("kworker/0:1", Some(17), None, true, Some(9), "cycles"),
            ),
            (
                "12 17  1.5: 9 cycles: ",
                ("12", Some(17), None, true, Some(9), "cycles"),
            ),
            (
                ":17 17  1.5: 9 cycles: ",
                (":17", Some(17), None, true, Some(9), "cycles"),
            ),
            (
                "a [1] 17  1.5: 9 cycles: ",
                ("a [1]", Some(17), None, true, Some(9), "cycles"),
            ),
            (
                "pool 3: x 17  1.5: 9 cycles: ",
                ("pool 3: x", Some(17), None, true, Some(9), "cycles"),
            ),
            (
                "raw 17  1.5: 9 raw 0x1a8: ",
                ("raw", Some(17), None, true, Some(9), "raw 0x1a8"),
            ),
            (
                "swapper -1  1.5: 9 cycles: ",
                ("swapper", Some(-1), None, true, Some(9), "cycles"),
            ),
        ] {
            assert_eq!(of(line), wanted, "{line}");
        }
    }

    #[test]
    fn a_frame_may_stand_on_the_first_line() {
        for line in [
            "   w   17   708.39:    1001 cycles:    1130 leaf_one+0x13 (/opt/w)",
            "   w   17   708.39: cycles:    1130 leaf_one+0x13 (/opt/w)",
            "   w   17   708.39:    1130 leaf_one+0x13 (/opt/w)",
            "   w   17  cycles:    1130 leaf_one+0x13 (/opt/w)",
            "   w   17     1130 leaf_one+0x13 (/opt/w)",
            "   w   17 [001]    1130 leaf_one+0x13 (/opt/w)",
        ] {
            let head = sample(line);
            assert_eq!((head.comm, head.tid), ("w", Some(17)), "{line}");
            assert_eq!(head.rest, "1130 leaf_one+0x13 (/opt/w)", "{line}");
        }
    }

    #[test]
    fn other_records_are_no_samples() {
        for line in [
            "w 17  708.39: PERF_RECORD_COMM exec: w:17/17",
            "swapper 0 0.000000: PERF_RECORD_MMAP -1/0: [0xf(0x1) @ 0xf]: x [kernel.kallsyms]_text",
            "w 17 PERF_RECORD_FORK(17:17):(1:1)",
            "PERF_RECORD_LOST lost 5",
        ] {
            assert_eq!(Line::parse(line), Some(Line::Record), "{line}");
        }
        for line in ["", "# x 1 2.5: 3 cycles:", "\t 10 main (/x)"] {
            assert_eq!(Line::parse(line), None, "{line}");
        }
        for line in [
            "hello world",
            "main;work 12",
            "a: b: c:",
            "x y 1.5: 3 cycles:",
        ] {
            assert!(!sample(line).is_certain, "{line}");
        }
    }
}
