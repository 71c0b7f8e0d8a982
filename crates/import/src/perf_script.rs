//! Text of `perf script`, and of `rprof script`: a line for each sample, and one for each frame, leaf first.
//!
//! ```text
//! sh  1234/1235 [001]  12.345678:     250000 cpu-clock:
//!         7f12 __libc_read+0x12 (/usr/lib/libc.so.6)
//!         4010 main+0x10 (/usr/bin/sh)
//! ```
//!
//! Samples without frames have them on the first line. Process id, CPU and period may lack; lines of other records are
//! passed over.

use std::path::Path;

use rprof_profile::{Frame, FrameAddress, FrameId, Profile, WeightUnit};
use rustc_hash::FxHashMap;

use crate::ImportOptions;
use crate::collector::{Collector, MOST_FRAMES, Row};

/// First line of a sample.
#[derive(Debug, Default, PartialEq)]
struct Head<'t> {
    comm: &'t str,
    pid: Option<i32>,
    tid: i32,
    cpu: Option<u32>,
    /// Nanoseconds.
    time: Option<u64>,
    period: Option<u64>,
    event: &'t str,
    /// Text behind the event: a frame, or a tracepoint's payload.
    rest: &'t str,
}

/// Returns true if a text has the first line of a sample within its first ones.
pub(crate) fn is_perf_script(start: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(match std::str::from_utf8(start) {
        Ok(_) => start,
        // A character may be cut at the end.
        Err(error) => &start[..error.valid_up_to()],
    }) else {
        return false;
    };
    let lines = text
        .lines()
        .filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    lines.take(5).any(|line| Head::parse(line).is_some())
}

impl<'t> Head<'t> {
    fn parse(line: &'t str) -> Option<Head<'t>> {
        if line.starts_with(['\t', '#']) {
            return None;
        }
        let mut head = Head::default();
        // The time is the first word of digits, a dot, digits and a colon; what stands before it is the thread.
        let (before, time, mut behind) = split_at_time(line)?;
        head.time = Some(time);
        let mut before = before.trim_end();
        if let Some(rest) = before.strip_suffix(']')
            && let Some((rest, cpu)) = rest.rsplit_once('[')
            && let Ok(cpu) = cpu.parse()
        {
            head.cpu = Some(cpu);
            before = rest.trim_end();
        }
        let (comm, ids) = before.rsplit_once(char::is_whitespace)?;
        match ids.split_once('/') {
            Some((pid, tid)) => {
                head.pid = Some(pid.parse().ok()?);
                head.tid = tid.parse().ok()?;
            }
            None => head.tid = ids.parse().ok()?,
        }
        head.comm = comm.trim();
        behind = behind.trim_start();
        if let Some((word, rest)) = behind.split_once(char::is_whitespace)
            && let Ok(period) = word.parse()
        {
            head.period = Some(period);
            behind = rest.trim_start();
        }
        // The event ends with a colon before a space or the end; names of tracepoints have one within.
        let end = behind
            .find(": ")
            .or_else(|| behind.trim_end().strip_suffix(':').map(str::len))?;
        head.event = &behind[..end];
        head.rest = behind[end + 1..].trim();
        let is_event = !head.event.is_empty() && !head.event.contains(char::is_whitespace);
        is_event.then_some(head)
    }
}

/// Splits a line at its time. Returns what stands before and behind it.
fn split_at_time(line: &str) -> Option<(&str, u64, &str)> {
    let mut from = 0;
    while let Some(colon) = line[from..].find(": ").map(|at| from + at) {
        let word = line[..colon]
            .rfind(char::is_whitespace)
            .map_or(0, |at| at + 1);
        if let Some(time) = time(&line[word..colon])
            && word > 0
        {
            return Some((&line[..word], time, &line[colon + 1..]));
        }
        from = colon + 2;
    }
    None
}

/// Returns the nanoseconds of `12.345678`.
fn time(text: &str) -> Option<u64> {
    let (seconds, fraction) = text.split_once('.')?;
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_digits(seconds) || !is_digits(fraction) || fraction.len() > 9 {
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

/// A frame: address, function, and the object in brackets.
#[derive(Debug, PartialEq)]
struct FrameLine<'t> {
    address: u64,
    function: &'t str,
    object: &'t str,
    is_inlined: bool,
}

impl<'t> FrameLine<'t> {
    fn parse(line: &'t str) -> Option<FrameLine<'t>> {
        let line = line.trim();
        let (address, rest) = line.split_once(char::is_whitespace)?;
        let address = u64::from_str_radix(address, 16).ok()?;
        let rest = rest.trim();
        let (function, object) = match rest.strip_suffix(')') {
            Some(rest) => match rest.rfind(" (") {
                Some(at) => (&rest[..at], &rest[at + 2..]),
                None => (rest, "[unknown]"),
            },
            None => (rest, "[unknown]"),
        };
        let is_inlined = object == "inlined";
        // The offset in it.
        let function = match function.rfind("+0x") {
            Some(at) if at > 0 => &function[..at],
            _ => function,
        };
        Some(FrameLine {
            address,
            function,
            object,
            is_inlined,
        })
    }
}

pub(crate) fn read(
    bytes: &[u8],
    source: &Path,
    options: &ImportOptions,
) -> Result<Profile, String> {
    let text = String::from_utf8_lossy(bytes);
    let mut out = Collector::new(source, options, true);
    let mut events: FxHashMap<&str, usize> = FxHashMap::default();
    let mut head: Option<Head<'_>> = None;
    let mut lines: Vec<FrameLine<'_>> = Vec::new();
    let (mut samples, mut other) = (0u64, 0u64);
    // A blank line after the last block.
    for line in text.lines().chain([""]) {
        if line.trim().is_empty() {
            if let Some(head) = head.take() {
                sample(&head, &lines, &mut events, &mut out)?;
                samples += 1;
            }
            lines.clear();
            continue;
        }
        if line.starts_with('#') {
            continue;
        }
        if let Some(frame) = head.as_ref().and_then(|_| FrameLine::parse(line))
            && line.starts_with(char::is_whitespace)
        {
            // The leaf stands first; callers beyond the limit are left out in any case.
            if lines.len() <= MOST_FRAMES {
                lines.push(frame);
            }
            continue;
        }
        match Head::parse(line) {
            Some(next) => {
                // Samples without callchains have no blank line between them.
                if let Some(head) = head.take() {
                    sample(&head, &lines, &mut events, &mut out)?;
                    samples += 1;
                }
                lines.clear();
                lines.extend(FrameLine::parse(next.rest));
                head = Some(next);
            }
            None => other += 1,
        }
    }
    if samples == 0 {
        return Err("it has no sample".to_owned());
    }
    if other > 0 {
        out.warn(format!(
            "{other} lines that are neither samples nor frames are passed over"
        ));
    }
    out.warn("perf script's text does not tell why functions lack names, nor whether stacks are complete");
    Ok(out.finish())
}

fn sample<'t>(
    head: &Head<'t>,
    lines: &[FrameLine<'t>],
    events: &mut FxHashMap<&'t str, usize>,
    out: &mut Collector<'_>,
) -> Result<(), String> {
    let event = match events.get(head.event) {
        Some(event) => *event,
        None => {
            let event = out.event(head.event, WeightUnit::of_event(head.event));
            events.insert(head.event, event);
            event
        }
    };
    let mut frames: Vec<FrameId> = Vec::with_capacity(lines.len());
    // Inlined calls are marked as such in place of their object, which is that of the function around them.
    let mut object_name = "[unknown]";
    let mut depth = 0;
    for (nth, line) in lines.iter().enumerate().rev() {
        match line.is_inlined {
            true => depth += 1,
            false => (depth, object_name) = (0, line.object),
        }
        let object = out.object(object_name, None)?;
        let function = out.function(line.function, object)?;
        let address = match nth {
            0 => FrameAddress::InstructionPointer(line.address),
            _ => FrameAddress::ReturnAddress(line.address),
        };
        frames.push(out.frame(Frame {
            address: Some(address),
            inline_depth: depth,
            ..Frame::of(function)
        })?);
    }
    let stack = out.stack(&frames)?;
    out.add(&Row {
        event,
        pid: head.pid,
        tid: Some(head.tid),
        comm: head.comm,
        cpu: head.cpu,
        time: head.time,
        stack,
        samples: 1,
        weight: head.period.unwrap_or(1),
        ..Row::default()
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_lines_of_all_forms_are_read() {
        let head =
            Head::parse("my prog:1  1234/1235 [001]  12.345678:     250000 cpu-clock:u: ").unwrap();
        let wanted = Head {
            comm: "my prog:1",
            pid: Some(1234),
            tid: 1235,
            cpu: Some(1),
            time: Some(12_345_678_000),
            period: Some(250_000),
            event: "cpu-clock:u",
            rest: "",
        };
        assert_eq!(head, wanted);
        let tracepoint =
            "swapper     0 [000]  1.000000001: sched:sched_switch: prev_comm=a next: b";
        let head = Head::parse(tracepoint).unwrap();
        assert_eq!(
            (head.event, head.tid, head.period),
            ("sched:sched_switch", 0, None)
        );
        let flat = "perf 9 5.5: 7 cycles: ffffffff81000000 native_write+0x4 ([kernel.kallsyms])";
        let head = Head::parse(flat).unwrap();
        let frame = FrameLine::parse(head.rest).unwrap();
        assert_eq!(
            (frame.function, frame.object),
            ("native_write", "[kernel.kallsyms]")
        );
        for line in [
            "",
            "# x 1 2.5: 3 cycles:",
            "hello world",
            "main;work 12",
            "a: b: c:",
            "x y 1.5: 3 cycles:",
        ] {
            assert_eq!(Head::parse(line), None, "{line}");
        }
    }

    #[test]
    fn frames_keep_names_with_spaces_and_brackets() {
        let frame =
            FrameLine::parse("\t  55d operator new(unsigned long)+0x1a (/usr/lib/libstdc++.so.6)")
                .unwrap();
        assert_eq!(
            (frame.address, frame.function),
            (0x55d, "operator new(unsigned long)")
        );
        let inlined = FrameLine::parse("\t 10 core::hint::black_box (inlined)").unwrap();
        assert!(inlined.is_inlined);
        let unknown = FrameLine::parse("\t 7f00 [unknown] ([unknown])").unwrap();
        assert_eq!(
            (unknown.function, unknown.object),
            ("[unknown]", "[unknown]")
        );
    }
}
