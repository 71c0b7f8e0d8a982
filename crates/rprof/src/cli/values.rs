//! Parsers of option values: sizes, times, lists.

use std::fmt::Display;
use std::ops::{Bound, RangeBounds};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::ValueEnum;
use rprof_counting::metrics::NamedMetric;
use rprof_profile::language::UnknownLanguage;
use rprof_profile::{Language, RequestKey};
use rprof_records::{GENERAL_REGISTERS, RegisterNames};

/// Value of `-F`: samples per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Frequency {
    Hertz(u64),
    Max,
}

/// Value of `--call-graph`: how stacks are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallGraph {
    /// Unwound while recording.
    Auto,
    /// Frame pointers, followed by the kernel.
    Fp,
    /// Stack copies of this many bytes in the file, for the reader to unwind.
    Dwarf(u32),
    /// Last branch records: call stacks recorded by the processor.
    Lbr,
    /// No stacks.
    None,
}

/// Value of `--keep`: files to embed in the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Keep {
    /// Nothing: reports need the files in place
    None,
    /// Perf maps, jitdumps, and programs that reports cannot find by path: deleted, or in
    /// containers
    Auto,
    /// Also all programs and libraries, and jitdumps with code, for reports on another machine
    All,
}

/// Value of `--switch-output`: when to start a new file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SwitchAt {
    /// SIGUSR2 only.
    Signal,
    /// SIGUSR2, and this many bytes of records in a file.
    Bytes(u64),
    /// SIGUSR2, and this much time since the start of the file.
    Time(Duration),
}

/// CPU numbers of one list such as `0-3,8`. A newtype, because clap collects several values into a
/// `Vec`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CpuList(pub(crate) Vec<u32>);

/// Value of `--fail-above`: how much more the second command may take.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Limit {
    /// Limited quantity; `None` for CPU time.
    pub(crate) name: Option<String>,
    /// Maximum increase as a share: 0.05 for 5 %.
    pub(crate) share: f64,
}

/// Value of `--user-regs` and `--intr-regs`: a mask of registers. For the value `?`, parsing fails
/// with the list of registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RegisterList(pub(crate) u64);

/// Returns a parser of whole numbers in `range`, which includes its lower limit.
pub(super) fn number<T>(
    range: impl RangeBounds<T> + Clone + Send + Sync + 'static,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static
where
    T: FromStr + PartialOrd + Display + 'static,
{
    move |text: &str| match text.parse::<T>() {
        Ok(number) if range.contains(&number) => Ok(number),
        _ => Err(match (range.start_bound(), range.end_bound()) {
            (Bound::Included(least), Bound::Included(most)) => {
                format!("expected a number from {least} to {most}")
            }
            (Bound::Included(least), _) => format!("expected a number of at least {least}"),
            _ => "expected a number".to_owned(),
        }),
    }
}

/// Parses a list of registers, or `all`. For `?`, the error message lists the available registers.
pub(super) fn registers(text: &str) -> Result<RegisterList, String> {
    let names = RegisterNames::new(std::env::consts::ARCH);
    let there = || names.names_in(GENERAL_REGISTERS).join(" ");
    match text {
        "all" => Ok(RegisterList(GENERAL_REGISTERS)),
        "?" => Err(format!("available registers: {}", there())),
        list => (names.parse_list(list, GENERAL_REGISTERS).map(RegisterList))
            .map_err(|error| format!("{error}; available: {}", there())),
    }
}

pub(super) fn frequency(text: &str) -> Result<Frequency, String> {
    match text {
        "max" => Ok(Frequency::Max),
        _ => match text.parse() {
            Ok(0) => Err("the frequency must be at least 1".into()),
            Ok(n) => Ok(Frequency::Hertz(n)),
            Err(_) => Err("expected a number or `max`".into()),
        },
    }
}

pub(super) fn call_graph(text: &str) -> Result<CallGraph, String> {
    match text.split_once(',') {
        None if text == "dwarf" => Ok(CallGraph::Dwarf(8192)),
        Some(("dwarf", size)) => match size.parse() {
            // Limit of perf, from the maximum record size.
            Ok(bytes @ 8..=65_528) => Ok(CallGraph::Dwarf(bytes)),
            _ => Err("a stack copy has 8 to 65528 bytes".into()),
        },
        _ => match text {
            "auto" => Ok(CallGraph::Auto),
            "fp" => Ok(CallGraph::Fp),
            "none" | "no" => Ok(CallGraph::None),
            "lbr" => Ok(CallGraph::Lbr),
            _ => Err("expected auto, fp, dwarf[,BYTES], lbr or none".into()),
        },
    }
}

/// Accepts an existing folder. A wrong one would blame the files that are missing there.
pub(super) fn folder(path: PathBuf) -> Result<PathBuf, &'static str> {
    match path.is_dir() {
        true => Ok(path),
        false => Err("there is no such folder"),
    }
}

/// Parses a number of bytes with a unit; a number without one is multiplied by `plain`.
fn bytes(text: &str, plain: u64) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 = (digits.parse()).map_err(|_| "expected a number, perhaps with K, M or G")?;
    let unit = match &text[digits.len()..] {
        "" => plain,
        "B" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return Err("units are B, K, M and G".into()),
    };
    match number.checked_mul(unit) {
        Some(0) => Err("the size must be above 0".into()),
        Some(bytes) => Ok(bytes),
        None => Err("too large".into()),
    }
}

pub(super) fn metric(name: &str) -> Result<&'static NamedMetric, String> {
    NamedMetric::find(name).ok_or_else(|| {
        let names: Vec<&str> = NamedMetric::ALL.iter().map(|metric| metric.name).collect();
        format!("available: {}", names.join(", "))
    })
}

/// Value of `-m`: buffer sizes per CPU in bytes, for samples and for a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BufferSizes {
    /// Ring buffer for samples; `None` for the default.
    pub(crate) samples: Option<usize>,
    /// AUX buffer; `None` for the default.
    pub(crate) trace: Option<usize>,
}

/// Parses the sizes of the ring buffer and the AUX buffer: `N`, `N,N` or `,N`.
pub(super) fn buffer_sizes(text: &str) -> Result<BufferSizes, String> {
    let (samples, trace) = match text.split_once(',') {
        Some((samples, trace)) => (samples, Some(trace)),
        None => (text, None),
    };
    let is_left_open = samples.is_empty() && trace.is_some();
    Ok(BufferSizes {
        samples: match is_left_open {
            true => None,
            false => Some(ring_size(samples)?),
        },
        trace: trace.map(ring_size).transpose()?,
    })
}

/// Parses the size of a ring buffer in pages, or in bytes with a unit. Returns bytes.
fn ring_size(text: &str) -> Result<usize, String> {
    match bytes(text, rustix::param::page_size() as u64)? {
        size if size <= 1 << 32 => Ok(size as usize),
        _ => Err("at most 4 GiB per CPU".into()),
    }
}

pub(super) fn file_size(text: &str) -> Result<u64, String> {
    bytes(text, 1)
}

pub(super) fn trace_id(text: &str) -> Result<String, String> {
    match text.len() == 32 && text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        true => Ok(text.to_ascii_lowercase()),
        false => Err("a trace id has 32 hexadecimal digits".to_owned()),
    }
}

pub(super) fn request_key(text: &str) -> Result<RequestKey, String> {
    match text {
        "" => Err("give trace, span or the name of an attribute".to_owned()),
        "trace" => Ok(RequestKey::Trace),
        "span" => Ok(RequestKey::Span),
        name => Ok(RequestKey::Attribute(name.to_owned())),
    }
}

pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" | "s" => 1.0,
        "ms" => 1e-3,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86400.0,
        _ => return Err("units are ms, s, m, h and d".into()),
    };
    match digits.parse::<f64>() {
        // A thousand years.
        Ok(n) if n.is_finite() && n > 0.0 && n * unit < 3e10 => {
            Ok(Duration::from_secs_f64(n * unit))
        }
        Ok(_) => Err("the time must be above 0 and below 900 years".into()),
        Err(_) => Err("not a number of seconds".into()),
    }
}

pub(super) fn delay(text: &str) -> Result<Duration, String> {
    match text.parse::<i64>() {
        Ok(-1) => Err(
            "-1 waits for a --control command, which rprof does not support; \
                       give a number of milliseconds"
                .into(),
        ),
        Ok(ms) if ms >= 0 => Ok(Duration::from_millis(ms as u64)),
        _ => Err("expected a number of milliseconds".into()),
    }
}

pub(super) fn switch_at(text: &str) -> Result<SwitchAt, String> {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    match unit {
        "signal" => Ok(SwitchAt::Signal),
        "B" | "K" | "M" | "G" => bytes(text, 1).map(SwitchAt::Bytes),
        "ms" | "s" | "m" | "h" | "d" => seconds(text).map(SwitchAt::Time),
        _ => Err("expected `signal`, a size such as 100M, or a time such as 30s".into()),
    }
}

pub(super) fn milliseconds(text: &str) -> Result<Duration, String> {
    match text.parse::<u64>() {
        // A year.
        Ok(ms) if (1..=31_536_000_000).contains(&ms) => Ok(Duration::from_millis(ms)),
        _ => Err("expected a number of milliseconds above 0".into()),
    }
}

/// Parses `5%` or `page-faults=1%`; the percent sign is optional. A name may contain `=`.
pub(super) fn limit(text: &str) -> Result<Limit, String> {
    let (name, share) = match text.rsplit_once('=') {
        Some((name, share)) => (Some(name.to_owned()), share),
        None => (None, text),
    };
    match share
        .strip_suffix('%')
        .unwrap_or(share)
        .trim()
        .parse::<f64>()
    {
        Ok(share) if (0.0..=10_000.0).contains(&share) => Ok(Limit {
            name,
            share: share / 100.0,
        }),
        _ => Err("expected a percentage such as `5%`, or `page-faults=1%`".into()),
    }
}

pub(super) fn separator(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"\\t" => Ok(b'\t'),
        [b'"' | b'\n' | b'\r'] => Err("newlines and quotes cannot separate fields".into()),
        [byte] if byte.is_ascii() => Ok(*byte),
        _ => Err("expected one character, such as `,` or `\\t`".into()),
    }
}

pub(super) fn percent(text: &str) -> Result<f64, String> {
    percentage(text).ok_or_else(|| "expected a number from 0 to 100".into())
}

/// Parses a percentage such as `0.5` or `0.5%`.
pub(crate) fn percentage(text: &str) -> Option<f64> {
    let number = text.strip_suffix('%').unwrap_or(text).parse::<f64>();
    number.ok().filter(|share| (0.0..=100.0).contains(share))
}

pub(super) fn language(text: &str) -> Result<Language, UnknownLanguage> {
    text.parse()
}

/// Parses a process or thread ID of a recording; -1 stands for samples without an ID.
pub(super) fn task(text: &str) -> Result<i32, String> {
    text.parse()
        .map_err(|_| "not a process or thread ID".into())
}

pub(super) fn running(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("not a process or thread ID (`ps -eLf` lists them)".into()),
        Ok(id) => Ok(id),
    }
}

/// Parses the ID of a process or thread to record, or any ID of a recording, in two's complement.
pub(super) fn running_or_recorded(text: &str) -> Result<u32, String> {
    task(text).map(i32::cast_unsigned)
}

pub(super) fn cpus(text: &str) -> Result<CpuList, String> {
    (rprof_events::cpus::parse_list(text).map(CpuList)).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_outside_its_range_is_refused_with_the_limits() {
        let runs = number::<u32>(1..=1000);
        assert_eq!((runs("1"), runs("1000")), (Ok(1), Ok(1000)));
        for wrong in ["", "x", "-1", "0", "1001", "99999999999", "1.5"] {
            let message = "expected a number from 1 to 1000".to_owned();
            assert_eq!(runs(wrong), Err(message), "{wrong}");
        }
        let message = "expected a number of at least 1".to_owned();
        assert_eq!(number::<u64>(1..)("0"), Err(message));
    }

    #[test]
    fn percentages_may_have_their_sign() {
        let parsed = ["0.5", "0.5%", "100%", "0"].map(percentage);
        assert_eq!(parsed, [Some(0.5), Some(0.5), Some(100.0), Some(0.0)]);
        for wrong in ["", "%", "101%", "-1", "5%%", "5 %", "NaN", "x%"] {
            assert_eq!(percentage(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn registers_are_named_as_perf_names_them() {
        if GENERAL_REGISTERS == 0 {
            return;
        }
        let all = registers("all");
        assert_eq!(all, Ok(RegisterList(GENERAL_REGISTERS)));
        let listed = registers("?").unwrap_err();
        assert!(listed.starts_with("available registers: "), "{listed}");
        let names = listed.rsplit_once(": ").unwrap().1.replace(' ', ",");
        assert_eq!(registers(&names.to_lowercase()), all);
        assert!(
            registers("xyz")
                .unwrap_err()
                .contains("unknown register `xyz`")
        );
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(file_size("100"), Ok(100));
        assert_eq!(file_size("2K"), Ok(2048));
        assert_eq!(file_size("1G"), Ok(1 << 30));
        assert_eq!(ring_size("2"), Ok(2 * rustix::param::page_size()));
        for text in ["", "K", "0", "0M", "1T", "1k", "-1", "1.5M", "99999999999G"] {
            assert!(file_size(text).is_err(), "{text:?}");
        }
        assert!(ring_size("5G").is_err());
        let page = rustix::param::page_size();
        let sizes = |samples, trace| Ok(BufferSizes { samples, trace });
        assert_eq!(buffer_sizes("2"), sizes(Some(2 * page), None));
        assert_eq!(buffer_sizes("2,1M"), sizes(Some(2 * page), Some(1 << 20)));
        assert_eq!(buffer_sizes(",1M"), sizes(None, Some(1 << 20)));
        for text in ["", "1,", ",", "1,2,3"] {
            assert!(buffer_sizes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn limits_have_names_or_are_of_cpu_time() {
        let limit = |text| limit(text).map(|limit| (limit.name, limit.share));
        assert_eq!(limit("5%"), Ok((None, 0.05)));
        assert_eq!(
            limit("cpu/event=1/=0.5"),
            Ok((Some("cpu/event=1/".to_owned()), 0.005))
        );
        for text in ["", "x", "-1%", "nan", "a=", "5%%"] {
            assert!(limit(text).is_err(), "{text:?}");
        }
        assert_eq!((separator(";"), separator("\\t")), (Ok(b';'), Ok(b'\t')));
        for text in ["", "ab", "\"", "\n", "é"] {
            assert!(separator(text).is_err(), "{text:?}");
        }
        assert_eq!(milliseconds("20"), Ok(Duration::from_millis(20)));
        assert!(milliseconds("0").is_err() && milliseconds("1.5").is_err());
    }

    #[test]
    fn shares_are_of_a_whole() {
        assert_eq!(percent("0.5"), Ok(0.5));
        assert_eq!((percent("100"), percent("5%")), (Ok(100.0), Ok(5.0)));
        for text in ["", "-1", "101", "nan", "inf", "5%%"] {
            assert!(percent(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn times_have_units_and_fractions() {
        assert_eq!(seconds("0.25"), Ok(Duration::from_millis(250)));
        assert_eq!(seconds("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(seconds("2m"), Ok(Duration::from_secs(120)));
        for text in ["", "0", "-1", "nan", "inf", "1e300", "1w", "s"] {
            assert!(seconds(text).is_err(), "{text:?}");
        }
        assert_eq!(delay("20"), Ok(Duration::from_millis(20)));
        assert!(delay("-1").unwrap_err().contains("--control"));
    }

    #[test]
    fn a_switch_is_by_signal_size_or_time() {
        assert_eq!(switch_at("signal"), Ok(SwitchAt::Signal));
        assert_eq!(switch_at("1M"), Ok(SwitchAt::Bytes(1 << 20)));
        assert_eq!(switch_at("1m"), Ok(SwitchAt::Time(Duration::from_secs(60))));
        assert_eq!(
            switch_at("1.5s"),
            Ok(SwitchAt::Time(Duration::from_millis(1500)))
        );
        for text in ["", "5", "0s", "0K", "M", "SIGUSR1"] {
            assert!(switch_at(text).is_err(), "{text:?}");
        }
    }
}
