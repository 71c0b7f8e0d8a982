//! CPU profiles of V8 in Chrome traces: the Performance panel of Chrome's developer tools, and
//! `Tracing` of the DevTools protocol.
//!
//! A `Profile` event begins a profile and names its thread. `ProfileChunk` events have new nodes of
//! the call tree and samples. Older writers have one `CpuProfile` event. Other events are skipped.

use rprof_profile::WeightUnit;
use rustc_hash::FxHashMap;

use super::cpuprofile::{Line, Tree, TreeThread};
use super::document::{CallNode, Measures, NodeSample, TraceEvent};
use super::value::{List, Number, Scalar};
use crate::collector::Collector;

/// CPU profile of one thread, from all of its events.
#[derive(Default)]
struct ThreadProfile {
    pid: Number,
    tid: Number,
    start: Option<f64>,
    end: Option<f64>,
    nodes: Vec<CallNode>,
    samples: Vec<NodeSample>,
    deltas: Vec<f64>,
}

impl ThreadProfile {
    fn extend(&mut self, event: TraceEvent) {
        let data = event.arguments.0.data.0;
        let profile = data.profile.0;
        let first = |one: Option<f64>, other: Option<f64>| one.or(other);
        // The chunks may come from a thread that samples others.
        if event.name.text() != "ProfileChunk" || self.tid.0.is_none() {
            (self.pid, self.tid) = (event.pid, event.tid);
        }
        let start = first(data.start_time.number(), profile.start_time.number());
        self.start = first(self.start, start);
        let end = first(data.end_time.number(), profile.end_time.number());
        self.end = first(end, self.end);
        self.nodes.extend(profile.nodes.0);
        self.samples.extend(profile.samples.0);
        for deltas in [data.time_deltas, profile.time_deltas]
            .into_iter()
            .flatten()
        {
            let List(deltas): Measures = *deltas;
            self.deltas.extend(deltas);
        }
    }
}

/// Reads the profiles of all threads.
///
/// # Errors
/// The trace has none.
pub(super) fn read(events: List<TraceEvent>, out: &mut Collector<'_>) -> Result<(), String> {
    let List(mut events) = events;
    // Chrome collects the events of each thread in buffers, which it writes in any order.
    events.sort_by(|one, other| {
        let at = |event: &TraceEvent| event.at.number().unwrap_or(0.0);
        at(one).total_cmp(&at(other))
    });
    let mut threads = FxHashMap::default();
    let mut processes = FxHashMap::default();
    let mut profiles: Vec<ThreadProfile> = Vec::new();
    let mut numbers = FxHashMap::default();
    for event in events {
        let (pid, tid) = (event.pid.0, event.tid.0);
        match event.name.text() {
            "thread_name" => {
                threads.insert((pid, tid), event.arguments.0.name);
            }
            "process_name" => {
                processes.insert(pid, event.arguments.0.name);
            }
            _ => {
                let id = match event.name.text() {
                    // Each is a profile of its own.
                    "CpuProfile" => format!("{}", profiles.len()),
                    _ => event.id.text().to_owned(),
                };
                let number = *numbers.entry((pid, id)).or_insert_with(|| {
                    profiles.push(ThreadProfile::default());
                    profiles.len() - 1
                });
                profiles[number].extend(event);
            }
        }
    }
    profiles.retain(|profile| !profile.samples.is_empty());
    if profiles.is_empty() {
        return Err(WITHOUT_SAMPLES.to_owned());
    }
    let starts = profiles.iter().filter_map(|profile| profile.start);
    let origin = starts.min_by(f64::total_cmp).unwrap_or(0.0);
    let event = out.event("cpu-clock", WeightUnit::Nanoseconds);
    for profile in &profiles {
        let mut tree = Tree::new(&profile.nodes, false, out)?;
        let (pid, tid) = (profile.pid.0, profile.tid.0);
        tree.thread = TreeThread {
            pid,
            tid,
            name: threads.get(&(pid, tid)).map_or("", |name| name.text()),
            process: processes.get(&pid).map(Scalar::text),
        };
        let start = profile.start.unwrap_or(origin);
        let line = Line {
            nodes: &profile.samples,
            deltas: &profile.deltas,
            start,
            end: profile.end,
            origin,
        };
        line.read(&mut tree, event, true, out)?;
    }
    Ok(())
}

/// Message for a trace without a profile.
const WITHOUT_SAMPLES: &str = "it is a Chrome trace without samples of V8 (ProfileChunk events): \
                               record it with JavaScript samples, or open it in speedscope and \
                               export it there";

#[cfg(test)]
mod tests {
    use crate::json::cpuprofile::tests::{read, stacks};

    const CHUNKS: &str = r#"
        {"args":{"data":{"cpuProfile":{"nodes":[{"callFrame":{"functionName":"g","url":"/a.js",
          "lineNumber":4,"columnNumber":0},"id":3,"parent":2}],"samples":[3,2]},
          "timeDeltas":[20,30],"endTime":1090}},"id":"0x1","name":"ProfileChunk","ph":"P","pid":7,
          "tid":9,"ts":30},
        {"args":{"data":[1],"name":5},"name":"Other","ph":"X","pid":7,"tid":8,"ts":1},
        {"args":"none","name":"More","ph":"I","pid":7,"tid":8,"ts":2},
        {"args":{"data":{"cpuProfile":{"nodes":[{"callFrame":{"functionName":"(root)"},"id":1},
          {"callFrame":{"functionName":"f","url":"/a.js","lineNumber":1,"columnNumber":4},"id":2,
          "parent":1}],"samples":[2]},"timeDeltas":[10],"lines":[2]}},"id":"0x1",
          "name":"ProfileChunk","ph":"P","pid":7,"tid":9,"ts":20},
        {"args":{"data":{"startTime":1000}},"id":"0x1","name":"Profile","ph":"P","pid":7,"tid":8,
          "ts":10},
        {"args":{"name":"Worker"},"name":"thread_name","ph":"M","pid":7,"tid":8,"ts":0}"#;

    #[test]
    fn chunks_in_any_order_are_one_profile_of_the_thread_that_began_it() {
        let wanted = [
            "JS:f /a.js:2:5: 2 50000",
            "JS:f /a.js:2:5;JS:g /a.js:5:1: 1 30000",
        ];
        for text in [
            format!(r#"{{"traceEvents":[{CHUNKS}],"metadata":{{}}}}"#),
            format!("\n [{CHUNKS}]\n"),
            // Writers may omit the end of the list.
            format!("[{CHUNKS}"),
            format!("[{CHUNKS},\n"),
            format!("[{CHUNKS},\n]"),
        ] {
            let profile = read(&text).unwrap();
            assert_eq!(stacks(&profile), wanted);
            assert_eq!(&*profile.comms[profile.threads[0].comm as usize], "Worker");
            let times = profile.samples.as_ref().unwrap().times().to_vec();
            assert_eq!(times, [10_000, 30_000, 60_000]);
        }
    }

    #[test]
    fn lists_that_end_within_an_event_or_go_on_are_damaged() {
        for (text, why) in [
            (format!("[{}", &CHUNKS[..CHUNKS.len() - 20]), "event 6: EOF"),
            (format!("[{CHUNKS}]["), "text follows"),
            (format!("[{CHUNKS}] {{}}"), "text follows"),
            (format!("[{CHUNKS} 5"), "follows event 6"),
            (format!("[{CHUNKS},,"), "follows event 6"),
            (format!("[{CHUNKS}{{}}]"), "follows event 6"),
        ] {
            let error = read(&text).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn traces_without_samples_are_refused() {
        for text in [
            r#"{"traceEvents":[{"name":"a","ph":"X"}]}"#,
            r#"[{"name":"a","ph":"X"}]"#,
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains("without samples of V8"), "{error}");
        }
    }
}
