//! Phases of a single thread in a program with several, short processes, and causes that machine
//! code shows.

use rprof_export::clean::{clean, shell_word, shorten};
use rprof_export::names::CleanNames;
use rprof_profile::{FunctionId, ThreadId};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::sentence::{Explanation, Sentence, Topic};
use crate::stacks::{MAX_NAME, Stacks, part_text, share_text, time_text};

/// Intervals of the recording.
const INTERVALS: u64 = 100;

/// Fewest samples of an interval, on average, that show the number of threads.
const MIN_SAMPLES: u64 = 4;

/// Share of the time that is worth a sentence, in percent.
const WORTH: f64 = 20.0;

/// Processes that are worth a sentence.
const MANY_PROCESSES: usize = 20;

/// Machine code with most of the time of a function.
#[derive(Clone, Debug, PartialEq)]
pub struct HotCode {
    /// Name of the function. May contain any character.
    pub function: String,
    /// Share of the CPU time in the loop, or at the instruction, in percent.
    pub share: f64,
    /// Number of instructions of the loop.
    pub instructions: usize,
    /// Cause of the time.
    pub cause: CodeCause,
    /// Number of threads with samples in the function.
    pub threads: usize,
}

/// Cause of the time of a function, as its hottest machine code shows it. Texts are instructions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CodeCause {
    /// The loop has a hint to the processor that it waits: `pause`.
    Hint(String),
    /// The loop reads memory and changes nothing, so it runs until other code changes the memory.
    Watches,
    /// An atomic instruction, without operands: `lock xadd`.
    Atomic(String),
    /// A division or square root.
    Division(String),
    /// A load whose address is its own result of the round before.
    Chain(String),
    /// A load of another kind.
    Load(String),
    /// Accesses to memory that the loop writes, not by atomic instructions: the operand.
    Write(String),
    /// Arithmetic of floating-point numbers.
    Float(String),
    /// The first instructions behind conditional jumps.
    Branches,
}

impl Explanation {
    /// Adds sentences about machine code, for causes that names do not show.
    #[must_use]
    pub fn with_code(self, code: &[HotCode]) -> Explanation {
        self.with_sentences(code.iter().filter_map(HotCode::sentence))
    }
}

impl HotCode {
    /// Returns the sentence; `None` if the code has no sure cause.
    pub(crate) fn sentence(&self) -> Option<Sentence> {
        use CodeCause::{Atomic, Branches, Chain, Division, Float, Hint, Load, Watches, Write};
        let function = shorten(&clean(&self.function), MAX_NAME).into_owned();
        let share = share_text(self.share);
        let in_loop = format!(
            "{share} of the CPU time is in a loop of {} instructions of {function}",
            self.instructions
        );
        let at = |what: &str, text: &str| {
            format!(
                "{share} of the CPU time is at {what} `{}` of {function}",
                clean(text)
            )
        };
        let text = match &self.cause {
            Hint(hint) => format!(
                "{in_loop} with `{}`: it waits for another thread and uses the CPU meanwhile (a \
                 spin lock). A mutex lets others run.",
                clean(hint)
            ),
            Watches => format!(
                "{in_loop} that reads memory and changes nothing: it waits until other code changes \
                 the memory, and uses the CPU meanwhile (a spin loop). A mutex or condition \
                 variable lets others run."
            ),
            Atomic(text) if self.threads > 1 => format!(
                "{}, which {} threads run. It is slow if several CPUs write to the same 64 bytes: a \
                 counter or lock of all, or false sharing.",
                at("the atomic instruction", text),
                self.threads
            ),
            Division(text) => {
                let what = match text.contains("sqrt") {
                    true => "square roots such as",
                    false => "divisions such as",
                };
                let is_of_integers = ["div ", "idiv ", "udiv ", "sdiv "];
                let by_constant = match is_of_integers.iter().any(|name| text.starts_with(name)) {
                    true => " Compilers turn a division by a constant into a multiplication.",
                    false => "",
                };
                format!(
                    "{}, which take several times as long as multiplications.{by_constant}",
                    at(what, text)
                )
            }
            Chain(text) => format!(
                "{}, which needs the result of the round before as its address (a list or tree): \
                 each waits for the one before. Arrays have no such order.",
                at("the load", text)
            ),
            Load(text) => format!(
                "{}. It may wait for memory that is in no cache: `rprof stat -e cache-misses` counts \
                 that.",
                at("the load", text)
            ),
            Write(operand) if self.threads > 1 => format!(
                "{share} of the CPU time is at accesses to `{}` in {function}, which {} threads run. \
                 Several CPUs may write to the same 64 bytes (false sharing): `perf c2c record` \
                 shows that.",
                clean(operand),
                self.threads
            ),
            Float(text) => format!(
                "{}. They may wait for earlier results, or the numbers may be denormal (almost \
                 zero), which is slow: `rprof stat A ::: B` compares runs with other numbers.",
                at("calculations such as", text)
            ),
            Branches => format!(
                "{share} of the CPU time is at the first instructions behind conditional jumps of \
                 {function}. The processor may guess these jumps wrong: `rprof stat -e \
                 branch-misses` counts that."
            ),
            Atomic(_) | Write(_) => return None,
        };
        Some(Sentence {
            topic: Topic::Why,
            text,
            command: format!("annotate {}", shell_word(self.function.as_bytes())),
            importance: self.share + 100.0,
        })
    }
}

#[derive(Clone, Default)]
struct Interval {
    threads: FxHashMap<ThreadId, u64>,
    functions: FxHashMap<FunctionId, u64>,
    samples: u64,
}

pub(crate) fn sentences(stacks: &Stacks<'_>) -> Vec<Sentence> {
    let mut found: Vec<Sentence> = processes(stacks).into_iter().collect();
    found.extend(single(stacks));
    found
}

fn processes(stacks: &Stacks<'_>) -> Option<Sentence> {
    let mut weights: FxHashMap<i32, u64> = FxHashMap::default();
    for entry in stacks.entries() {
        let pid = stacks.profile.thread(entry.thread).pid?;
        *weights.entry(pid).or_default() += entry.weight;
    }
    let is_time = stacks.noun() == "the CPU time";
    if weights.len() < MANY_PROCESSES || !is_time {
        return None;
    }
    let heaviest = weights.values().max().copied().unwrap_or_default();
    if 2 * heaviest > stacks.whole {
        // The average would say nothing about it.
        return None;
    }
    let mean = stacks.whole / weights.len() as u64;
    Some(Sentence {
        topic: Topic::Threads,
        text: format!(
            "{} processes have samples, with {} of sampled CPU time each on average.",
            weights.len(),
            time_text(mean)
        ),
        command: "report --no-children --sort pid".to_owned(),
        importance: 90.0,
    })
}

fn heaviest_process(stacks: &Stacks<'_>) -> Option<i32> {
    let mut weights: FxHashMap<Option<i32>, u64> = FxHashMap::default();
    for entry in stacks.entries() {
        let pid = stacks.profile.thread(entry.thread).pid;
        *weights.entry(pid).or_default() += entry.weight;
    }
    let order = |(pid, weight): &(&Option<i32>, &u64)| (std::cmp::Reverse(**weight), **pid);
    *weights.iter().min_by_key(order)?.0
}

/// Finds the time when one thread of the heaviest process ran alone, if others ran at other times.
fn single(stacks: &Stacks<'_>) -> Option<Sentence> {
    let profile = stacks.profile;
    let streams = profile.streams.as_ref()?;
    let (first, last) = profile.time?;
    let length = (last.saturating_sub(first) / INTERVALS).max(1);
    let heaviest = heaviest_process(stacks);
    let mut intervals = vec![Interval::default(); INTERVALS as usize];
    let mut samples = 0u64;
    for sample in streams.iter() {
        let entry = profile.aggregated.get(sample.entry as usize)?;
        if entry.event != stacks.event || profile.thread(entry.thread).pid != heaviest {
            continue;
        }
        let at = sample.time.saturating_sub(first) / length;
        let interval = &mut intervals[at.min(INTERVALS - 1) as usize];
        *interval.threads.entry(entry.thread).or_default() += sample.weight;
        interval.samples += 1;
        samples += 1;
        let user = profile
            .stack(entry.stack)
            .rev()
            .find(|id| !stacks.is_library(*id));
        if let Some(function) = user {
            *interval.functions.entry(function).or_default() += sample.weight;
        }
    }
    if samples < INTERVALS * MIN_SAMPLES {
        return None;
    }
    // A thread ran in an interval if it used a tenth of it.
    let running = |interval: &Interval| {
        (interval.threads.iter())
            .filter(|(_, weight)| **weight * 10 >= length)
            .map(|(thread, _)| *thread)
            .collect::<FxHashSet<ThreadId>>()
    };
    let most = intervals
        .iter()
        .map(|interval| running(interval).len())
        .max()?;
    let parallel = intervals
        .iter()
        .filter(|interval| running(interval).len() > 1)
        .count();
    if most < 2 || parallel < 5 {
        return None;
    }
    let mut alone: FxHashMap<ThreadId, u64> = FxHashMap::default();
    let mut functions: FxHashMap<FunctionId, u64> = FxHashMap::default();
    let mut count = 0u64;
    for interval in &intervals {
        let threads = running(interval);
        if let (1, Some(thread)) = (threads.len(), threads.iter().next()) {
            count += 1;
            *alone.entry(*thread).or_default() += 1;
            for (function, weight) in &interval.functions {
                *functions.entry(*function).or_default() += weight;
            }
        }
    }
    let share = 100.0 * count as f64 / INTERVALS as f64;
    if share < WORTH {
        return None;
    }
    let thread = alone
        .iter()
        .min_by_key(|(id, count)| (std::cmp::Reverse(**count), id.0))?
        .0;
    let comm = CleanNames::new(profile).comm(profile.thread(*thread).comm);
    let mut text = format!(
        "For {} of {} only one thread ran ({comm}), and up to {most} at other times",
        share_text(share),
        time_text(last - first)
    );
    let whole: u64 = functions.values().sum();
    let function = functions
        .iter()
        .min_by_key(|(id, weight)| (std::cmp::Reverse(**weight), id.0));
    if let Some((function, weight)) = function {
        let part = 100.0 * *weight as f64 / whole.max(1) as f64;
        text += &format!(
            "; it spent {} in {}",
            part_text(part),
            stacks.name(*function)
        );
    }
    Some(Sentence {
        topic: Topic::Threads,
        text: text + ".",
        command: format!(
            "report --no-children --comm {}",
            shell_word(comm.as_bytes())
        ),
        importance: 100.0 + share,
    })
}

#[cfg(test)]
mod tests {
    use rprof_profile::{Profile, ProfileBuilder, ProfileSample, Thread, WeightUnit};

    use super::*;

    const MILLISECOND: u64 = 1_000_000;

    /// Returns a second of `main`, with `worker` beside it at the end.
    fn profile(alone: u64) -> Profile {
        let mut builder = ProfileBuilder::new().streams(true);
        let event = builder.add_event("cpu-clock", WeightUnit::Nanoseconds);
        let object = builder.intern_object("/bin/app");
        let prepare = builder.intern_function(Ok("prepare"), object);
        let compute = builder.intern_function(Ok("compute"), object);
        let stacks = [prepare, compute].map(|id| builder.intern_stack(&[id]));
        let threads = ["main", "worker"].map(|name| {
            let comm = builder.intern_comm(name);
            builder.intern_thread(Thread {
                pid: Some(7),
                tid: Some(if name == "main" { 7 } else { 8 }),
                comm,
                process_comm: None,
                request: None,
            })
        });
        for time in 0..1000 {
            for (nth, thread) in threads.into_iter().enumerate() {
                if nth == 1 && time < alone {
                    continue;
                }
                builder.add_sample(ProfileSample {
                    time: time * MILLISECOND,
                    cpu: None,
                    thread,
                    stack: stacks[usize::from(time >= alone)],
                    event,
                    weight: MILLISECOND,
                });
            }
        }
        builder.set_time(Some((0, 1000 * MILLISECOND)));
        builder.finish()
    }

    fn said(profile: &Profile) -> Option<String> {
        let stacks = Stacks::of_cpu(profile).expect("samples");
        sentences(&stacks)
            .into_iter()
            .next()
            .map(|sentence| sentence.text)
    }

    #[test]
    fn time_of_one_thread_before_several_is_reported() {
        let text = said(&profile(600)).expect("a sentence");
        assert_eq!(
            text,
            "For 60% of 1.00 s only one thread ran (main), and up to 2 at other times; it spent all of it in prepare."
        );
    }

    #[test]
    fn code_with_a_sure_cause_has_a_sentence() {
        let said = |cause, threads| {
            let code = HotCode {
                function: "take(int)".to_owned(),
                share: 71.2,
                instructions: 4,
                cause,
                threads,
            };
            code.sentence()
        };
        let spin = said(CodeCause::Hint("pause".to_owned()), 1).expect("a sentence");
        assert!(
            spin.text
                .starts_with("71% of the CPU time is in a loop of 4 instructions of take(int)")
        );
        assert_eq!(spin.command, "annotate 'take(int)'");
        for cause in [CodeCause::Atomic, CodeCause::Write] {
            let shared = said(cause("lock xadd".to_owned()), 2).expect("a sentence");
            assert!(shared.text.contains("false sharing"), "{}", shared.text);
            assert_eq!(said(cause("lock xadd".to_owned()), 1), None);
        }
        let root = said(CodeCause::Division("sqrtsd xmm0,xmm1".to_owned()), 1);
        let root = root.expect("a sentence").text;
        assert!(root.contains("at square roots such as `sqrtsd xmm0,xmm1` of take(int), which"));
    }

    #[test]
    fn programs_that_are_parallel_or_have_one_thread_have_no_phases() {
        assert_eq!(said(&profile(100)), None);
        assert_eq!(said(&profile(1000)), None);
    }
}
