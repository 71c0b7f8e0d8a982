//! V8's CPU profiles (`.cpuprofile`), which Chrome's developer tools and VS Code open.
//!
//! Source: `Profiler.Profile` of the Chrome DevTools protocol. A tree of calls, and one time line of
//! nodes in microseconds. The format has one thread: several threads follow each other, heaviest
//! first, each below a node of its own, without the time off the CPU between samples. A single
//! thread has its gaps as `(idle)`. Weights that are not times count as microseconds.
//!
//! The additional key `rprof` has the event, its unit and the number of threads. Other readers
//! ignore it.

use std::collections::BTreeMap;
use std::io::{self, Write};

use rprof_profile::{FrameId, FrameListId, FunctionId, Profile};
use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::frame_text::unnamed;
use crate::json_writer::{JsonWriter, number};
use crate::names::{CleanName, CleanNames};
use crate::options::ReportOptions;
use crate::timelines::{Timeline, Timelines};

/// Function of a node. Numbers of lines and columns begin at 0; -1 if unknown.
#[derive(Clone, Serialize)]
#[serde(rename_all = "camelCase")]
struct CallFrame {
    function_name: String,
    script_id: &'static str,
    /// Source file, or the object of a function without one.
    url: String,
    line_number: i64,
    column_number: i64,
    /// True for machine code: its frames have lines.
    #[serde(skip)]
    is_native: bool,
}

impl CallFrame {
    fn named(name: &str) -> CallFrame {
        CallFrame {
            function_name: name.to_owned(),
            script_id: "0",
            url: String::new(),
            line_number: -1,
            column_number: -1,
            is_native: false,
        }
    }
}

/// Samples of a line.
#[derive(Serialize)]
struct Ticks {
    line: u32,
    ticks: u64,
}

struct Node {
    frame: usize,
    samples: u64,
    children: Vec<u32>,
    lines: BTreeMap<u32, u64>,
}

/// Additional facts for rprof. Other readers ignore them.
#[derive(Serialize)]
struct Origin {
    event: String,
    /// Unit of the weights, which other readers take for microseconds.
    unit: &'static str,
    /// Number of threads. Several have nodes of their own.
    threads: usize,
}

/// Start of the profile, in microseconds. Chrome's developer tools (156) take 0 for a missing time,
/// and then have negative sums and no range.
const START: u64 = 1;

/// The root, whose id is 1.
const ROOT: u32 = 0;

/// Writes the samples of the main event.
///
/// # Errors
/// Fails if the writer does.
pub fn write(profile: &Profile, options: &ReportOptions, out: &mut dyn Write) -> io::Result<()> {
    let event = profile.main_event();
    let timelines = Timelines::new(profile, event.unwrap_or_default(), options.rows.weight);
    let threads = event.map_or_else(Vec::new, |_| timelines.threads());
    let has_threads = threads.len() > 1;
    let mut tree = Tree::new(profile);
    let mut samples = Samples {
        is_time: timelines.is_time,
        ..Samples::default()
    };
    for thread in &threads {
        let root = match has_threads {
            true => tree.child(ROOT, ChildKey::Thread(thread.name.clone())),
            false => ROOT,
        };
        let nodes = tree.add(root, thread);
        for run in timelines.runs(thread) {
            let node = match run.stack {
                Some(stack) => nodes.get(&stack).copied().unwrap_or(root),
                None if has_threads => continue,
                None => tree.child(ROOT, ChildKey::Idle),
            };
            samples.add(node, run.weight);
        }
    }
    let mut json = JsonWriter::new(out);
    json.begin()?;
    tree.write(&mut json)?;
    json.value("startTime", &START)?;
    json.value("endTime", &(START + samples.end()))?;
    let ids = samples.nodes.iter().map(|node| u64::from(*node) + 1);
    json.column_with("samples", ids, number)?;
    json.column_with("timeDeltas", samples.deltas.iter().copied(), number)?;
    let name = event.map(|event| CleanNames::new(profile).event(event).into_owned());
    let origin = Origin {
        event: name.unwrap_or_default(),
        unit: match timelines.is_time {
            true => "nanoseconds",
            false => "none",
        },
        threads: threads.len(),
    };
    json.value("rprof", &origin)?;
    json.end()?;
    json.finish()?.flush()
}

/// Time line of nodes. A sample lasts until the next one, so its weight is the next difference.
#[derive(Default)]
struct Samples {
    nodes: Vec<u32>,
    deltas: Vec<u64>,
    /// Sum of the weights.
    sum: u64,
    /// End of the last sample but one, in microseconds.
    last: u64,
    /// True if weights are nanoseconds.
    is_time: bool,
}

impl Samples {
    fn add(&mut self, node: u32, weight: u64) {
        let now = self.end();
        self.nodes.push(node);
        // Errors do not add up.
        self.deltas.push(now - self.last);
        self.last = now;
        self.sum = self.sum.saturating_add(weight);
    }

    /// Returns the end of the last sample in microseconds.
    fn end(&self) -> u64 {
        match self.is_time {
            true => self.sum / 1000,
            false => self.sum,
        }
    }
}

#[derive(Clone, PartialEq, Eq, Hash)]
enum ChildKey {
    Function(FunctionId),
    Thread(String),
    Idle,
}

struct Tree<'p> {
    profile: &'p Profile,
    nodes: Vec<Node>,
    frames: Vec<CallFrame>,
    of_functions: FxHashMap<FunctionId, usize>,
    children: FxHashMap<(u32, ChildKey), u32>,
}

impl<'p> Tree<'p> {
    fn new(profile: &'p Profile) -> Tree<'p> {
        let mut tree = Tree {
            profile,
            nodes: Vec::new(),
            frames: vec![CallFrame::named("(root)")],
            of_functions: FxHashMap::default(),
            children: FxHashMap::default(),
        };
        tree.push(0);
        tree
    }

    fn push(&mut self, frame: usize) -> u32 {
        self.nodes.push(Node {
            frame,
            samples: 0,
            children: Vec::new(),
            lines: BTreeMap::new(),
        });
        self.nodes.len() as u32 - 1
    }

    fn child(&mut self, parent: u32, key: ChildKey) -> u32 {
        let place = (parent, key);
        if let Some(known) = self.children.get(&place) {
            return *known;
        }
        let frame = match &place.1 {
            ChildKey::Function(id) => self.of_functions.get(id).copied().unwrap_or(0),
            ChildKey::Thread(name) => self.fixed(name),
            ChildKey::Idle => self.fixed("(idle)"),
        };
        let made = self.push(frame);
        self.nodes[parent as usize].children.push(made);
        self.children.insert(place, made);
        made
    }

    fn fixed(&mut self, name: &str) -> usize {
        self.frames.push(CallFrame::named(name));
        self.frames.len() - 1
    }

    /// Adds the stacks of a thread. Returns their innermost nodes.
    fn add(&mut self, root: u32, thread: &Timeline) -> FxHashMap<(FrameListId, FrameListId), u32> {
        let profile = self.profile;
        let mut nodes = FxHashMap::default();
        for entry in thread
            .entries
            .iter()
            .filter_map(|at| profile.aggregated.get(*at))
        {
            let mut node = root;
            let mut line = None;
            for id in profile.frames(entry.stack) {
                node = self.function(node, id);
                line = profile.frame(id).line.filter(|line| line.line > 0);
            }
            let leaf = &mut self.nodes[node as usize];
            leaf.samples += entry.samples;
            if let Some(line) = line.filter(|_| self.frames[leaf.frame].is_native) {
                *leaf.lines.entry(line.line).or_default() += entry.samples;
            }
            nodes.insert(profile.lists(entry.stack), node);
        }
        nodes
    }

    fn function(&mut self, parent: u32, id: FrameId) -> u32 {
        let function = self.profile.frame(id).function;
        let number = match self.of_functions.get(&function) {
            Some(known) => *known,
            None => {
                self.frames.push(self.call_frame(function));
                let made = self.frames.len() - 1;
                self.of_functions.insert(function, made);
                made
            }
        };
        let frame = self.profile.frame(id);
        let call = &mut self.frames[number];
        // The object is the place of a function without a known line.
        if let Some(line) = frame
            .line
            .filter(|_| call.line_number < 0 && frame.start_line > 0)
        {
            call.url = CleanName::new(&self.profile.files[line.file.0 as usize]).into_owned();
            call.line_number = i64::from(frame.start_line) - 1;
        }
        self.child(parent, ChildKey::Function(function))
    }

    fn call_frame(&self, id: FunctionId) -> CallFrame {
        let profile = self.profile;
        let names = CleanNames::new(profile);
        let function = profile.function(id);
        let source = function.source.as_deref();
        let name = match (source, names.own_function(id)) {
            (Some(source), _) => CleanName::new(&source.name).into_owned(),
            (None, Some(name)) => name.into_owned(),
            (None, None) => unnamed(profile, function.object),
        };
        let file = source.and_then(|source| source.file);
        let from_one = |number: Option<u32>| number.map_or(-1, |number| i64::from(number) - 1);
        CallFrame {
            url: match file {
                Some(file) => CleanName::new(&profile.files[file.0 as usize]).into_owned(),
                None => names.object(function.object).into_owned(),
            },
            line_number: from_one(source.map(|source| source.line)),
            column_number: from_one(source.map(|source| source.column)),
            is_native: source.is_none(),
            ..CallFrame::named(&name)
        }
    }

    fn write<W: Write>(&self, json: &mut JsonWriter<W>) -> io::Result<()> {
        json.key("nodes")?;
        json.begin_list()?;
        for (node, id) in self.nodes.iter().zip(1u64..) {
            json.begin()?;
            json.value_with("id", id, number)?;
            json.value("callFrame", &self.frames[node.frame])?;
            json.value_with("hitCount", node.samples, number)?;
            let children = node.children.iter().map(|child| u64::from(*child) + 1);
            json.column_with("children", children, number)?;
            if !node.lines.is_empty() {
                let ticks = node.lines.iter().map(|(line, ticks)| Ticks {
                    line: *line,
                    ticks: *ticks,
                });
                json.column("positionTicks", ticks)?;
            }
            json.end()?;
        }
        json.end_list()
    }
}
