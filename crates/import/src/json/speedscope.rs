//! Profiles of speedscope (<https://www.speedscope.app/file-format-schema.json>): samples, or start
//! and end events of calls, of one or more threads, with a shared frame table.

use rprof_profile::unit::counted;
use rprof_profile::{FileId, Frame, FrameId, Line, StackId, ThreadId, WeightUnit};
use rustc_hash::FxHashMap;

use super::document::{Document, SpeedscopeFrame, Timeline};
use super::nanoseconds;
use super::value::List;
use crate::collector::{Collector, Row, UNKNOWN};

/// Returns the unit of a profile's values in nanoseconds, or `None` if it is not a time.
fn unit_of(unit: &str) -> Result<Option<f64>, String> {
    Ok(Some(match unit {
        "nanoseconds" => 1.0,
        "microseconds" => 1e3,
        "milliseconds" => 1e6,
        "seconds" => 1e9,
        "none" | "" | "bytes" => return Ok(None),
        other => return Err(format!("unknown unit {other:?}")),
    }))
}

/// Reads all profiles. Each profile is a thread; profiles of the same unit share an event.
pub(super) fn read(document: &Document, out: &mut Collector<'_>) -> Result<(), String> {
    static NO_FRAMES: List<SpeedscopeFrame> = List::EMPTY;
    let frames = document.shared.frames.as_deref().unwrap_or(&NO_FRAMES);
    let profiles = (document.profiles.as_deref()).map_or(&[][..], |list| &list.0[..]);
    let mut is_time = true;
    for profile in profiles {
        is_time &= unit_of(&profile.unit)?.is_some();
    }
    if !is_time {
        out.without_times();
    }
    let mut events: Vec<(&str, usize)> = Vec::new();
    let mut table = Table::new(&frames.0);
    for profile in profiles {
        let unit = unit_of(&profile.unit)?;
        let kind = match (&*profile.unit, unit) {
            (_, Some(_)) => "time",
            ("bytes", None) => "bytes",
            _ => "samples",
        };
        let known = events.iter().find(|(name, _)| *name == kind);
        let event = match known {
            Some((_, event)) => *event,
            None => {
                let event = event(document, kind, out);
                events.push((kind, event));
                event
            }
        };
        out.work(profile.name.len())?;
        let mut reader = Reader {
            event,
            thread: out.thread(None, None, &profile.name, None)?,
            unit,
            is_time,
            start: profile.start.unwrap_or(0.0),
            rest: 0.0,
        };
        match &*profile.kind {
            "evented" => reader.read_events(profile, &mut table, out)?,
            "sampled" | "" => reader.read_samples(profile, &mut table, out)?,
            other => return Err(format!("unknown profile type {other:?}")),
        }
    }
    out.warn(
        "speedscope's format records neither why functions are unnamed nor whether stacks are \
         complete",
    );
    Ok(())
}

/// Adds the event for a kind of values. rprof's own exports store the event name.
fn event(document: &Document, kind: &str, out: &mut Collector<'_>) -> usize {
    let is_ours = document.exporter.starts_with("rprof@") && !document.name.is_empty();
    match (is_ours, kind) {
        (true, "time") => out.event(&document.name, WeightUnit::Nanoseconds),
        (true, _) => out.event(&document.name, WeightUnit::Samples),
        (false, "time") => out.event("cpu-clock", WeightUnit::Nanoseconds),
        (false, "bytes") => out.event("bytes", WeightUnit::Named("bytes".into())),
        (false, _) => out.event("samples", WeightUnit::Samples),
    }
}

/// Tree of stacks, so that each stack is looked up only once.
struct Table<'d> {
    frames: &'d [SpeedscopeFrame],
    known: FxHashMap<i64, FrameId>,
    files: FxHashMap<&'d str, FileId>,
    /// Stacks by caller and frame. 0 is the empty stack.
    nodes: FxHashMap<(u32, i64), u32>,
    of_nodes: Vec<Node>,
}

#[derive(Clone, Copy)]
struct Node {
    caller: u32,
    frame: i64,
    /// The stack, after the first lookup. The inner `None` means the filter drops it.
    stack: Option<Option<StackId>>,
}

/// Size of a node and its table entry in bytes.
const NODE_BYTES: usize = 2 * (size_of::<Node>() + 24);

impl<'d> Table<'d> {
    fn new(frames: &'d [SpeedscopeFrame]) -> Table<'d> {
        Table {
            frames,
            known: FxHashMap::default(),
            files: FxHashMap::default(),
            nodes: FxHashMap::default(),
            of_nodes: vec![Node {
                caller: 0,
                frame: -1,
                stack: Some(None),
            }],
        }
    }

    /// Returns the stack for a frame called by another stack.
    fn below(&mut self, caller: u32, frame: i64, out: &mut Collector<'_>) -> Result<u32, String> {
        if let Some(known) = self.nodes.get(&(caller, frame)) {
            return Ok(*known);
        }
        out.hold(NODE_BYTES)?;
        let number = self.of_nodes.len() as u32;
        self.of_nodes.push(Node {
            caller,
            frame,
            stack: None,
        });
        self.nodes.insert((caller, frame), number);
        Ok(number)
    }

    fn stack(&mut self, node: u32, out: &mut Collector<'_>) -> Result<Option<StackId>, String> {
        if let Some(known) = self.of_nodes[node as usize].stack {
            return Ok(known);
        }
        let mut frames = Vec::new();
        let mut at = node;
        while at != 0 {
            let Node { caller, frame, .. } = self.of_nodes[at as usize];
            frames.push(self.frame(frame, out)?);
            at = caller;
        }
        // Each stack may be one frame deeper than the previous one.
        out.work(FRAME_WORK * frames.len())?;
        frames.reverse();
        let stack = out.stack(&frames)?;
        self.of_nodes[node as usize].stack = Some(stack);
        Ok(stack)
    }

    fn frame(&mut self, number: i64, out: &mut Collector<'_>) -> Result<FrameId, String> {
        if let Some(known) = self.known.get(&number) {
            return Ok(*known);
        }
        let frames = self.frames;
        let frame = usize::try_from(number).ok().and_then(|at| frames.get(at));
        let frame = frame.ok_or_else(|| format!("there is no frame {number}"))?;
        let object = out.object(UNKNOWN, None)?;
        let function = out.function(&frame.name, object)?;
        let small = |number: i64| u32::try_from(number).unwrap_or(0);
        let (line, column) = (small(frame.line.get()), small(frame.column.get()));
        let line = match (&*frame.file, line) {
            ("", _) | (_, 0) => None,
            (file, line) => Some(Line {
                file: match self.files.get(file) {
                    Some(known) => *known,
                    None => {
                        let made = out.file(file)?;
                        self.files.insert(file, made);
                        made
                    }
                },
                line,
                column,
            }),
        };
        let made = out.frame(Frame {
            line,
            ..Frame::of(function)
        })?;
        out.hold(NODE_BYTES)?;
        self.known.insert(number, made);
        Ok(made)
    }
}

/// Work for one frame of a stack, in bytes.
pub(super) const FRAME_WORK: usize = 16;

struct Reader {
    event: usize,
    thread: Option<ThreadId>,
    /// Length of the profile's unit in nanoseconds.
    unit: Option<f64>,
    /// True if all profiles measure time.
    is_time: bool,
    start: f64,
    /// Rounding error so far, so that the sum stays correct.
    rest: f64,
}

impl Reader {
    /// Adds a sample with a weight, at a time in the profile's unit.
    fn add(
        &mut self,
        stack: Option<StackId>,
        weight: f64,
        at: f64,
        out: &mut Collector<'_>,
    ) -> Result<(), String> {
        let exact = weight * self.unit.unwrap_or(1.0) + self.rest;
        let weight = exact.round() as u64;
        self.rest = match (exact - weight as f64).is_finite() {
            true => exact - weight as f64,
            false => 0.0,
        };
        let unit = self.unit.filter(|_| self.is_time);
        out.add(&Row {
            event: self.event,
            thread: self.thread,
            time: unit.map(|unit| nanoseconds(at, unit)),
            stack,
            samples: 1,
            weight,
            ..Row::default()
        })
    }

    fn read_samples(
        &mut self,
        profile: &Timeline,
        table: &mut Table<'_>,
        out: &mut Collector<'_>,
    ) -> Result<(), String> {
        let (stacks, weights) = (&profile.samples.0, &profile.weights.0);
        if !weights.is_empty() && weights.len() != stacks.len() {
            return Err(format!(
                "a profile has {} and {}",
                counted(stacks.len() as u64, "sample"),
                counted(weights.len() as u64, "weight")
            ));
        }
        let mut at = self.start;
        for (nth, frames) in stacks.iter().enumerate() {
            let weight = weights.get(nth).copied().unwrap_or(1.0);
            if weight < 0.0 {
                return Err(format!("sample {nth} has the negative weight {weight}"));
            }
            let mut node = 0;
            // Root first.
            for frame in &frames.0 {
                node = table.below(node, frame.get(), out)?;
            }
            // An empty stack means that the thread did not run.
            if node != 0 {
                let stack = table.stack(node, out)?;
                self.add(stack, weight, at, out)?;
            }
            at += weight;
        }
        Ok(())
    }

    fn read_events(
        &mut self,
        profile: &Timeline,
        table: &mut Table<'_>,
        out: &mut Collector<'_>,
    ) -> Result<(), String> {
        let (mut node, mut since) = (0, self.start);
        for (nth, event) in profile.events.0.iter().enumerate() {
            let at = event.at.unwrap_or(since);
            if at < since {
                return Err(format!("event {nth} is earlier than the one before it"));
            }
            if node != 0 && at > since {
                let stack = table.stack(node, out)?;
                self.add(stack, at - since, since, out)?;
            }
            since = at;
            let frame = event.frame.get();
            node = match &*event.kind {
                "O" => table.below(node, frame, out)?,
                "C" if node != 0 && table.of_nodes[node as usize].frame == frame => {
                    table.of_nodes[node as usize].caller
                }
                "C" => {
                    return Err(format!(
                        "event {nth} closes frame {frame}, which is not the innermost one"
                    ));
                }
                other => {
                    return Err(format!("event {nth} has type {other:?} instead of O or C"));
                }
            };
        }
        // Calls without an end event extend to the end of the profile.
        let end = profile.end.unwrap_or(since);
        if node != 0 && end > since {
            let stack = table.stack(node, out)?;
            self.add(stack, end - since, since, out)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use rprof_profile::Profile;

    use crate::{ImportOptions, ReadingBudget};

    fn read_within(text: &str, memory: u64) -> Result<Profile, String> {
        let options = ImportOptions {
            columns: true,
            budget: ReadingBudget::new(memory),
            ..ImportOptions::default()
        };
        super::super::read(&mut text.as_bytes(), Path::new("x.json"), &options)
            .map_err(|error| error.to_string())
    }

    fn read(text: &str) -> Result<Profile, String> {
        read_within(text, 64 << 20)
    }

    /// Returns a document with these profiles, and the frames `main`, `work` and `deep`.
    fn document(profiles: &str) -> String {
        format!(
            r#"{{"$schema":"https://www.speedscope.app/file-format-schema.json","name":"x",
                "profiles":[{profiles}],
                "shared":{{"frames":[{{"name":"main","file":"x.c","line":3,"col":null}},{{"name":"work"}},{{"name":"deep"}}]}}}}"#
        )
    }

    /// Returns samples and weights by event, thread and stack.
    fn stacks(profile: &Profile) -> BTreeMap<String, (u64, u64)> {
        let of = |entry: &rprof_profile::AggregatedStack| {
            let names: Vec<&str> = (profile.stack(entry.stack))
                .map(|id| profile.function(id).name.as_deref().unwrap_or("?"))
                .collect();
            let event = &profile.events[entry.event].name;
            let name = format!("{event} {} {}", profile.comm(entry.thread), names.join(";"));
            (name, (entry.samples, entry.weight))
        };
        profile.aggregated.iter().map(of).collect()
    }

    fn expected<const N: usize>(all: [(&str, (u64, u64)); N]) -> BTreeMap<String, (u64, u64)> {
        all.map(|(name, sums)| (name.to_owned(), sums)).into()
    }

    #[test]
    fn sampled_profiles_of_several_threads_are_read() {
        let text = document(
            r#"{"type":"sampled","name":"a","unit":"milliseconds","startValue":1,"endValue":9,
                "samples":[[0],[0,1],[],[0,1]],"weights":[1,2,5,0.5]},
               {"type":"sampled","name":"b","unit":"seconds","startValue":0,"endValue":1,"samples":[[0,1]],"weights":[1]}"#,
        );
        let profile = read(&text).unwrap();
        assert_eq!(
            stacks(&profile),
            expected([
                ("cpu-clock a main", (1, 1_000_000)),
                ("cpu-clock a main;work", (2, 2_500_000)),
                ("cpu-clock b main;work", (1, 1_000_000_000)),
            ])
        );
        // The empty stack is idle time.
        let mut times = profile.samples.as_ref().unwrap().times().to_vec();
        times.sort_unstable();
        assert_eq!(times, [0, 1_000_000, 2_000_000, 9_000_000]);
        let main = profile.frames(profile.aggregated[0].stack).next().unwrap();
        assert_eq!(profile.frame(main).line.unwrap().line, 3);
    }

    #[test]
    fn evented_profiles_are_read() {
        let event = |kind: &str, frame: u32, at: f64| {
            format!(r#"{{"type":"{kind}","frame":{frame},"at":{at}}}"#)
        };
        let events = [
            event("O", 0, 1.0),
            event("O", 1, 2.0),
            event("O", 1, 2.5),
            event("C", 1, 3.0),
            event("C", 1, 4.0),
            event("O", 2, 4.0),
        ]
        .join(",");
        let of = |events: &str| {
            read(&document(&format!(
                r#"{{"type":"evented","name":"t","unit":"microseconds","startValue":0,"endValue":6,"events":[{events}]}}"#
            )))
        };
        assert_eq!(
            stacks(&of(&events).unwrap()),
            expected([
                ("cpu-clock t main", (1, 1000)),
                ("cpu-clock t main;work", (2, 1500)),
                ("cpu-clock t main;work;work", (1, 500)),
                ("cpu-clock t main;deep", (1, 2000)),
            ])
        );
        for (events, wanted) in [
            (event("C", 0, 1.0), "event 0 closes frame 0"),
            (event("X", 0, 1.0), "instead of O or C"),
            (
                event("O", 0, 3.0) + "," + &event("C", 0, 1.0),
                "event 1 is earlier",
            ),
            (event("O", 7, 3.0), "there is no frame 7"),
        ] {
            let error = of(&events).unwrap_err();
            assert!(error.contains(wanted), "{error}");
        }
    }

    #[test]
    fn values_that_are_no_time_are_events_of_their_own() {
        let of = |unit: &str| {
            format!(
                r#"{{"type":"sampled","name":"a","unit":"{unit}","samples":[[0],[1],[2]],"weights":[0.5,0.5,2]}}"#
            )
        };
        let text = document(&[of("bytes"), of("none"), of("seconds")].join(","));
        let profile = read(&text).unwrap();
        let events: Vec<_> = (profile.events.iter())
            .map(|event| (&*event.name, event.unit.as_str(), event.weight))
            .collect();
        assert_eq!(
            events,
            [
                ("bytes", "bytes", 3),
                ("samples", "samples", 3),
                ("cpu-clock", "ns", 3_000_000_000)
            ]
        );
        assert!(
            read(&document(&of("parsecs")))
                .unwrap_err()
                .contains("unknown unit")
        );
    }

    #[test]
    fn what_is_empty_or_wrong_is_an_error() {
        for (text, wanted) in [
            (document(""), "it has no sample"),
            (
                r#"{"shared":{"frames":[]},"profiles":[]}"#.to_owned(),
                "it has no sample",
            ),
            (
                document(r#"{"type":"sampled","samples":[[]],"weights":[1]}"#),
                "it has no sample",
            ),
            (
                document(r#"{"type":"sampled","samples":[[0]],"weights":[1,2]}"#),
                "1 sample and 2 weights",
            ),
            (
                document(r#"{"type":"sampled","samples":[[3]],"weights":[1]}"#),
                "no frame 3",
            ),
            (
                document(r#"{"type":"sampled","samples":[[0],[0]],"weights":[5,-3]}"#),
                "sample 1 has the negative weight -3",
            ),
            (document(r#"{"type":"other"}"#), "unknown profile type"),
            ("{\"a\":1}".to_owned(), "no profile of the Firefox Profiler"),
            (
                r#"{"meta":{"version":30},"threads":[]}"#.to_owned(),
                "Firefox's unprocessed format",
            ),
            (r#"{"traceEvents":[{"ph":"B"}]}"#.to_owned(), "Chrome trace"),
        ] {
            let error = read(&text).unwrap_err();
            assert!(error.contains(wanted), "{text}: {error}");
        }
        // Other key order, and no schema.
        let text = r#"{"profiles":[{"weights":[2],"samples":[[0]],"type":"sampled","name":"a","unit":"none"}],"shared":{"frames":[{"name":"f"}]}}"#;
        assert_eq!(
            stacks(&read(text).unwrap()),
            expected([("samples a f", (1, 2))])
        );
    }

    #[test]
    fn stacks_without_end_end_at_the_budget() {
        let calls: String = (0..100_000)
            .map(|nth| format!(r#"{{"type":"O","frame":0,"at":{nth}}},"#))
            .collect();
        let text = document(&format!(
            r#"{{"type":"evented","name":"t","unit":"none","events":[{}]}}"#,
            calls.trim_end_matches(',')
        ));
        let error = read_within(&text, 16 << 20).unwrap_err();
        assert!(error.contains("more than"), "{error}");
    }
}
