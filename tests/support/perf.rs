//! Parsers for the output of `perf`.

use std::collections::BTreeMap;
use std::fmt;

use inferno::collapse::Collapse;
use inferno::collapse::perf::Folder;

use super::folded::Folded;
use super::run::Run;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PerfSample {
    /// Thread, time, period, event, with single spaces and without the CPU.
    pub(crate) head: String,
    pub(crate) event: String,
    /// Leaf first.
    pub(crate) frames: Vec<PerfFrame>,
}

/// Frame: `address name+offset (object)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PerfFrame {
    pub(crate) address: String,
    pub(crate) name: String,
    /// In hexadecimal; empty without a name.
    pub(crate) offset: String,
    pub(crate) object: String,
}

impl PerfFrame {
    fn parse(line: &str) -> Option<PerfFrame> {
        let (address, rest) = line.trim().split_once(' ')?;
        let (symbol, object) = rest.rsplit_once(" (")?;
        let (name, offset) = match symbol.rsplit_once("+0x") {
            Some((name, offset)) => (name, offset),
            None => (symbol, ""),
        };
        Some(PerfFrame {
            address: address.into(),
            name: name.into(),
            offset: offset.into(),
            object: object.strip_suffix(')')?.into(),
        })
    }
}

impl fmt::Display for PerfFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.address, self.name)?;
        if !self.offset.is_empty() {
            write!(f, "+0x{}", self.offset)?;
        }
        write!(f, " ({})", self.object)
    }
}

pub(crate) fn perf_samples(run: &Run) -> Vec<PerfSample> {
    let mut samples: Vec<PerfSample> = Vec::new();
    for line in run.out().lines().filter(|line| !line.is_empty()) {
        if let Some(frame) = line.strip_prefix('\t') {
            let frame = PerfFrame::parse(frame);
            let frame = frame.unwrap_or_else(|| panic!("{line:?} is no frame in\n{run}"));
            let sample = samples.last_mut().expect("a stack stands under a sample");
            sample.frames.push(frame);
            continue;
        }
        let words: Vec<_> = (line.split_whitespace())
            .filter(|word| !is_cpu(word))
            .collect();
        // The first word after the time with the same ending: `1234.567890: 1001001 cpu-clock:`.
        let event = words.iter().position(is_time).and_then(|time| {
            let after = words[time + 1..].iter().position(|w| w.ends_with(':'))?;
            Some(time + 1 + after)
        });
        let event = event.unwrap_or_else(|| panic!("{line:?} is no sample in\n{run}"));
        // Without stacks, the only frame is on the same line.
        let frame = PerfFrame::parse(&words[event + 1..].join(" "));
        samples.push(PerfSample {
            event: words[event].trim_end_matches(':').into(),
            head: words[..=event].join(" "),
            frames: frame.into_iter().collect(),
        });
    }
    samples
}

/// perf prints the CPU if it was recorded.
fn is_cpu(word: &str) -> bool {
    let digits = word.strip_prefix('[').and_then(|w| w.strip_suffix(']'));
    digits.is_some_and(|d| d.len() == 3 && d.bytes().all(|b| b.is_ascii_digit()))
}

fn is_time(word: &&str) -> bool {
    let number = word.strip_suffix(':').and_then(|w| w.split_once('.'));
    number.is_some_and(|(s, us)| {
        us.len() == 6 && s.bytes().chain(us.bytes()).all(|b| b.is_ascii_digit())
    })
}

/// Folds with inferno's library behind `inferno-collapse-perf`.
pub(crate) fn fold_samples(samples: &[PerfSample]) -> Folded {
    use fmt::Write;

    let mut script = String::new();
    for sample in samples {
        writeln!(script, "{}", sample.head).expect("memory");
        for frame in &sample.frames {
            writeln!(script, "\t{frame}").expect("memory");
        }
        script.push('\n');
    }
    fold_script(&script)
}

fn fold_script(script: &str) -> Folded {
    let mut out = Vec::new();
    let done = Folder::default().collapse(script.as_bytes(), &mut out);
    done.expect("inferno folds what perf prints");
    let text = String::from_utf8(out).expect("UTF-8");
    let mut stacks = Folded::new();
    for (stack, weight) in text.lines().filter_map(|line| line.rsplit_once(' ')) {
        *stacks.entry(stack.into()).or_default() += weight.parse::<u64>().expect("a weight");
    }
    stacks
}

/// Whole stacks without inlined calls. The default limit is 127 frames.
pub(crate) const PERF_SCRIPT: &str = "script --no-inline --max-stack 9000";

/// Format that [`perf_self_samples`] parses.
pub(crate) const PERF_REPORT: &str = "report --no-children --stdio -F sample,sym -g none";

/// Parses samples by function for each event. All unnamed addresses are merged.
pub(crate) fn perf_self_samples(run: &Run) -> Vec<BTreeMap<String, u64>> {
    let mut events: Vec<BTreeMap<String, u64>> = Vec::new();
    for line in run.out().lines() {
        if line.starts_with("# Samples:") {
            events.push(BTreeMap::new());
        }
        if line.starts_with('#') || line.trim().is_empty() {
            continue;
        }
        // Or the address if there is no name.
        let row = line.trim().split_once(' ').and_then(|(count, symbol)| {
            let (_, name) = symbol.trim().split_once(' ')?;
            Some((count.parse::<u64>().ok()?, name.trim()))
        });
        let (Some((count, name)), Some(event)) = (row, events.last_mut()) else {
            panic!("{line:?} is no row in\n{run}");
        };
        let name = if name.starts_with("0x") {
            "[unknown]"
        } else {
            name
        };
        *event.entry(name.into()).or_default() += count;
    }
    events
}
