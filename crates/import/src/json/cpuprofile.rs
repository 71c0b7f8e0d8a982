//! V8's profiles. CPU profiles (`Profiler.Profile` of the Chrome DevTools protocol) have a tree of
//! calls, and one time line of its nodes in microseconds, as `node --cpu-prof` and Chrome write it.
//! Heap profiles (`HeapProfiler.SamplingHeapProfile`, `node --heap-prof`) have a tree of calls with
//! the bytes that are still in use.
//!
//! A sample lasts until the next one, the last one until the end of the profile. Profiles without a
//! time line have counts of samples.

use rprof_profile::unit::counted;
use rprof_profile::{Frame, FrameId, StackId, ThreadId, WeightUnit};
use rustc_hash::FxHashMap;

use super::document::{CallFrame, CallNode, Document, HeapNode, NodeSample};
use super::nanoseconds;
use super::speedscope::FRAME_WORK;
use crate::collector::{Collector, Row, UNKNOWN};

/// Microseconds in nanoseconds.
const MICROSECOND: f64 = 1e3;

/// V8's nodes that are no function.
const NO_FRAME: &str = "(root)";
const IDLE: &str = "(idle)";

/// Object of functions of generated code.
const GENERATED: &str = "[jit]";

/// Event of heap profiles, with the name that writers of pprof use.
const IN_USE: &str = "inuse_space";

pub(super) fn read(document: &Document, out: &mut Collector<'_>) -> Result<(), String> {
    let origin = document.rprof.as_deref();
    let is_time = origin.is_none_or(|origin| origin.unit == "nanoseconds");
    let has_line = !document.samples.0.is_empty();
    if !is_time || !has_line {
        out.without_times();
    }
    let unit = match is_time && has_line {
        true => WeightUnit::Nanoseconds,
        false => WeightUnit::Samples,
    };
    let name = match (origin, has_line) {
        (Some(origin), _) if !origin.event.is_empty() => origin.event.as_str(),
        (_, true) => "cpu-clock",
        (_, false) => "samples",
    };
    let mut tree = Tree::new(&document.nodes.0, origin.is_some(), out)?;
    tree.has_threads = origin.is_some_and(|origin| origin.threads.get() > 1);
    let event = out.event(name, unit);
    if !has_line {
        for (at, node) in document.nodes.0.iter().enumerate() {
            let samples = u64::try_from(node.samples.get()).unwrap_or(0);
            if samples > 0 {
                tree.sample(at, event, samples, samples, None, out)?;
            }
        }
        return Ok(());
    }
    let start = document.start_time.unwrap_or(0.0);
    let line = Line {
        nodes: &document.samples.0,
        deltas: &document.time_deltas.0,
        start,
        end: document.end_time,
        origin: start,
    };
    line.read(&mut tree, event, is_time, out)
}

/// Time line of one tree: the node of each sample. Times are in microseconds.
pub(super) struct Line<'d> {
    pub(super) nodes: &'d [NodeSample],
    /// Time of each sample since the previous one, or since the start.
    pub(super) deltas: &'d [f64],
    pub(super) start: f64,
    pub(super) end: Option<f64>,
    /// Start of the whole input.
    pub(super) origin: f64,
}

impl Line<'_> {
    /// Adds the samples. Without `is_time`, the differences are weights of another unit.
    pub(super) fn read(
        &self,
        tree: &mut Tree<'_>,
        event: usize,
        is_time: bool,
        out: &mut Collector<'_>,
    ) -> Result<(), String> {
        let (nodes, deltas) = (self.nodes, self.deltas);
        if deltas.len() != nodes.len() {
            return Err(format!(
                "it has {} and {}",
                counted(nodes.len() as u64, "sample"),
                counted(deltas.len() as u64, "time difference")
            ));
        }
        let mut now = self.start + deltas.first().copied().unwrap_or(0.0);
        for (nth, NodeSample(node)) in nodes.iter().enumerate() {
            let until = match deltas.get(nth + 1) {
                Some(delta) => now + delta,
                None => self.end.unwrap_or(now),
            };
            let at = tree.by_id.get(&node.get()).copied();
            let at = at.ok_or_else(|| {
                format!(
                    "sample {nth} is of node {}, which does not exist",
                    node.get()
                )
            })?;
            // Clocks of different CPUs let time go back.
            let lasts = (until - now).max(0.0);
            let (weight, time) = match is_time {
                true => (
                    nanoseconds(lasts, MICROSECOND),
                    Some(nanoseconds(now - self.origin, MICROSECOND)),
                ),
                false => (nanoseconds(lasts, 1.0), None),
            };
            tree.sample(at, event, 1, weight, time, out)?;
            now = until;
        }
        Ok(())
    }
}

/// Reads the tree of a heap profile. Objects that V8 does not list count as one sample a call.
pub(super) fn read_heap(
    head: &HeapNode,
    objects: &[NodeSample],
    out: &mut Collector<'_>,
) -> Result<(), String> {
    out.without_times();
    let mut counts: FxHashMap<i64, u64> = FxHashMap::default();
    out.hold(objects.len().saturating_mul(NODE_BYTES))?;
    for NodeSample(node) in objects {
        *counts.entry(node.get()).or_default() += 1;
    }
    let event = out.event(IN_USE, WeightUnit::Bytes);
    let thread = out.thread(None, None, "", None)?;
    // Calls that are still to be read, with their number of callers.
    let (mut waiting, mut path) = (vec![(head, 0)], Vec::new());
    while let Some((node, callers)) = waiting.pop() {
        path.truncate(callers);
        if node.call.name != NO_FRAME {
            path.push(frame(&node.call, false, out)?);
        }
        out.work(FRAME_WORK * path.len())?;
        // The cast saturates, and turns NaN into 0.
        let bytes = node.bytes.unwrap_or(0.0) as u64;
        if bytes > 0 {
            let stack = out.stack(&path)?;
            let samples = counts.get(&node.id.get()).copied().unwrap_or(1);
            out.add(&Row {
                event,
                thread,
                stack,
                samples,
                weight: bytes,
                ..Row::default()
            })?;
        }
        waiting.extend(node.children.0.iter().map(|child| (child, path.len())));
    }
    Ok(())
}

/// Thread of a tree.
#[derive(Clone, Copy, Default)]
pub(super) struct TreeThread<'d> {
    pub(super) pid: Option<i32>,
    pub(super) tid: Option<i32>,
    pub(super) name: &'d str,
    /// Name of the process.
    pub(super) process: Option<&'d str>,
}

pub(super) struct Tree<'d> {
    nodes: &'d [CallNode],
    by_id: FxHashMap<i64, usize>,
    parents: Vec<Option<usize>>,
    /// Frames and stacks of nodes, once needed.
    frames: Vec<Option<FrameId>>,
    stacks: Vec<Option<(Option<ThreadId>, Option<StackId>)>>,
    is_ours: bool,
    has_threads: bool,
    pub(super) thread: TreeThread<'d>,
}

/// Memory for a node in bytes.
const NODE_BYTES: usize = 120;

impl<'d> Tree<'d> {
    pub(super) fn new(
        nodes: &'d [CallNode],
        is_ours: bool,
        out: &mut Collector<'_>,
    ) -> Result<Tree<'d>, String> {
        out.hold(nodes.len().saturating_mul(NODE_BYTES))?;
        let mut by_id: FxHashMap<i64, usize> = FxHashMap::default();
        for (at, node) in nodes.iter().enumerate() {
            let id = node.id.get();
            if by_id.insert(id, at).is_some() {
                return Err(format!("two nodes have the id {id}"));
            }
        }
        let mut parents = vec![None; nodes.len()];
        for (at, node) in nodes.iter().enumerate() {
            if let Some(parent) = by_id
                .get(&node.parent.get())
                .filter(|parent| **parent != at)
            {
                parents[at] = Some(*parent);
            }
            for child in &node.children.0 {
                let Some(child) = by_id.get(&child.get()) else {
                    return Err(format!(
                        "node {} has a child {} that does not exist",
                        node.id.get(),
                        child.get()
                    ));
                };
                parents[*child] = Some(at);
            }
        }
        Ok(Tree {
            nodes,
            by_id,
            parents,
            frames: vec![None; nodes.len()],
            stacks: vec![None; nodes.len()],
            is_ours,
            has_threads: false,
            thread: TreeThread::default(),
        })
    }

    fn sample(
        &mut self,
        at: usize,
        event: usize,
        samples: u64,
        weight: u64,
        time: Option<u64>,
        out: &mut Collector<'_>,
    ) -> Result<(), String> {
        if matches!(&*self.nodes[at].call.name, NO_FRAME | IDLE) {
            return Ok(());
        }
        let (thread, stack) = match self.stacks[at] {
            Some(known) => known,
            None => {
                let made = self.stack(at, out)?;
                self.stacks[at] = Some(made);
                made
            }
        };
        out.add(&Row {
            event,
            thread,
            time,
            stack,
            samples,
            weight,
            ..Row::default()
        })
    }

    fn stack(
        &mut self,
        leaf: usize,
        out: &mut Collector<'_>,
    ) -> Result<(Option<ThreadId>, Option<StackId>), String> {
        let mut path = Vec::new();
        let mut at = Some(leaf);
        while let Some(node) = at {
            if path.len() == self.nodes.len() {
                return Err(format!(
                    "the callers of node {} form a circle",
                    self.nodes[leaf].id.get()
                ));
            }
            path.push(node);
            at = self.parents[node];
        }
        // Each stack may be one frame deeper than the previous one.
        out.work(FRAME_WORK * path.len())?;
        path.reverse();
        let is_root = |node: &usize| self.nodes[*node].call.name == NO_FRAME;
        let mut path = &path[usize::from(path.first().is_some_and(is_root))..];
        let thread = match path {
            [thread, calls @ ..] if self.has_threads => {
                path = calls;
                TreeThread {
                    name: &self.nodes[*thread].call.name,
                    ..TreeThread::default()
                }
            }
            _ => self.thread,
        };
        let thread = out.thread(thread.pid, thread.tid, thread.name, thread.process)?;
        let mut frames = Vec::with_capacity(path.len());
        for node in path {
            let frame = match self.frames[*node] {
                Some(known) => known,
                None => {
                    let made = frame(&self.nodes[*node].call, self.is_ours, out)?;
                    self.frames[*node] = Some(made);
                    made
                }
            };
            frames.push(frame);
        }
        Ok((thread, out.stack(&frames)?))
    }
}

/// Returns the frame of a call. `is_ours`: rprof wrote it.
fn frame(call: &CallFrame, is_ours: bool, out: &mut Collector<'_>) -> Result<FrameId, String> {
    let number = |number: i64| u32::try_from(number.saturating_add(1)).unwrap_or(0);
    let (line, column) = (number(call.line.get()), number(call.column.get()));
    let function = match (is_ours, &*call.url) {
        (true, url) => {
            let object = out.object(if url.is_empty() { UNKNOWN } else { url }, None)?;
            out.function(&call.name, object)?
        }
        // V8's own parts: `(garbage collector)`, `(program)`.
        (false, "") => {
            let object = out.object(UNKNOWN, None)?;
            out.function(&call.name, object)?
        }
        // As V8 writes it into perf maps, so that views know its language.
        (false, url) => {
            let object = out.object(GENERATED, None)?;
            out.function(&format!("JS:{} {url}:{line}:{column}", call.name), object)?
        }
    };
    out.frame(Frame {
        start_line: line,
        ..Frame::of(function)
    })
}

#[cfg(test)]
pub(super) mod tests {
    use std::path::Path;

    use rprof_profile::Profile;

    use crate::{ImportOptions, ReadingBudget};

    pub(in crate::json) fn read(text: &str) -> Result<Profile, String> {
        let options = ImportOptions {
            columns: true,
            budget: ReadingBudget::new(64 << 20),
            ..ImportOptions::default()
        };
        super::super::read(&mut text.as_bytes(), Path::new("x.cpuprofile"), &options)
            .map_err(|error| error.to_string())
    }

    fn node(id: u32, name: &str, children: &str) -> String {
        format!(
            r#"{{"id":{id},"callFrame":{{"functionName":"{name}","scriptId":"5","url":"/x/a.js","lineNumber":1,"columnNumber":4}},"hitCount":1,"children":[{children}]}}"#
        )
    }

    /// Returns `stack: samples weight` lines.
    pub(in crate::json) fn stacks(profile: &Profile) -> Vec<String> {
        let mut lines: Vec<String> = (profile.aggregated.iter())
            .map(|entry| {
                let names: Vec<&str> = (profile.stack(entry.stack))
                    .map(|id| profile.function(id).name.as_deref().unwrap_or("?"))
                    .collect();
                format!("{}: {} {}", names.join(";"), entry.samples, entry.weight)
            })
            .collect();
        lines.sort();
        lines
    }

    #[test]
    fn a_sample_lasts_until_the_next() {
        let root = r#"{"id":1,"callFrame":{"functionName":"(root)","url":"","lineNumber":-1,"columnNumber":-1},"children":[2,4]}"#;
        let idle = r#"{"id":4,"callFrame":{"functionName":"(idle)","url":""}}"#;
        let nodes = [root, &node(2, "f", "3"), &node(3, "", ""), idle].join(",");
        // Time goes back once.
        let text = format!(
            r#"{{"nodes":[{nodes}],"startTime":1000,"endTime":1100,"samples":[2,3,4,3,1],"timeDeltas":[10,20,30,-5,15]}}"#
        );
        let profile = read(&text).unwrap();
        assert_eq!(
            stacks(&profile),
            [
                "JS:f /x/a.js:2:5: 1 20000",
                "JS:f /x/a.js:2:5;JS: /x/a.js:2:5: 2 45000"
            ]
        );
        let times = profile.samples.as_ref().unwrap().times().to_vec();
        assert_eq!(times, [10_000, 30_000, 55_000]);
    }

    #[test]
    fn counts_stand_for_a_missing_time_line() {
        let profile = read(&format!(
            r#"{{"nodes":[{},{}]}}"#,
            node(1, "f", "2"),
            node(2, "g", "")
        ));
        let stacks = stacks(&profile.unwrap());
        assert_eq!(
            stacks,
            [
                "JS:f /x/a.js:2:5: 1 1",
                "JS:f /x/a.js:2:5;JS:g /x/a.js:2:5: 1 1"
            ]
        );
    }

    #[test]
    fn bytes_in_use_belong_to_the_call_that_allocated_them() {
        // V8 samples up to 128 calls of a stack.
        let mut deep =
            r#"{"callFrame":{"functionName":"leaf","url":""},"selfSize":7,"id":9,"children":[]}"#
                .to_owned();
        for id in 100..228 {
            let call = r#""callFrame":{"functionName":"f","url":""},"selfSize":0"#;
            deep = format!(r#"{{{call},"id":{id},"children":[{deep}]}}"#);
        }
        let call = r#"{"functionName":"g","url":"/x/a.js","lineNumber":1,"columnNumber":4}"#;
        let leaf = format!(r#"{{"callFrame":{call},"selfSize":64,"id":2,"children":[]}}"#);
        let profile = read(&format!(
            r#"{{"head":{{"callFrame":{{"functionName":"(root)"}},"selfSize":0,"id":1,"children":[{leaf},{deep}]}},
              "samples":[{{"size":32,"nodeId":2,"ordinal":1}},{{"size":32,"nodeId":2,"ordinal":2}}]}}"#
        ));
        let profile = profile.unwrap();
        let deep = format!("{}leaf: 1 7", "f;".repeat(128));
        assert_eq!(stacks(&profile), ["JS:g /x/a.js:2:5: 2 64", &*deep]);
        assert_eq!(profile.events[0].unit, rprof_profile::WeightUnit::Bytes);
    }

    #[test]
    fn damaged_trees_are_refused() {
        let circle = [node(1, "f", "2"), node(2, "g", "1")].join(",");
        for (text, wanted) in [
            (
                format!(r#"{{"nodes":[{circle}],"samples":[2],"timeDeltas":[0],"endTime":9}}"#),
                "form a circle",
            ),
            (
                format!(
                    r#"{{"nodes":[{}],"samples":[1,1],"timeDeltas":[0]}}"#,
                    node(1, "f", "")
                ),
                "2 samples and 1 time difference",
            ),
            (
                format!(
                    r#"{{"nodes":[{}],"samples":[9],"timeDeltas":[0]}}"#,
                    node(1, "f", "")
                ),
                "node 9, which does not exist",
            ),
            (
                format!(
                    r#"{{"nodes":[{},{}],"samples":[1],"timeDeltas":[0]}}"#,
                    node(1, "f", ""),
                    node(1, "g", "")
                ),
                "two nodes have the id 1",
            ),
            (
                format!(r#"{{"nodes":[{}]}}"#, node(1, "f", "7")),
                "a child 7 that does not exist",
            ),
        ] {
            let error = read(&text).unwrap_err();
            assert!(error.contains(wanted), "{error}");
        }
    }
}
