//! Compares the timeline with a trivial model: a list of mappings, scanned for each lookup.

use std::collections::HashMap;

use proptest::prelude::*;
use rprof_processes::{
    MapState, NewMapping, Pid, ProcessMapBuilder, Resolved, SpaceId, Tid, Timeline,
};

use crate::map;

const PIDS: i32 = 4;
const TIMES: u64 = 24;
const ADDRESSES: u64 = 48;
const PATHS: [&str; 4] = ["/a", "/b", "/c", "//anon"];

#[derive(Clone, Debug)]
enum Op {
    Map {
        pid: i32,
        start: u64,
        len: u64,
        path: usize,
    },
    Exec {
        pid: i32,
    },
    Fork {
        pid: i32,
        parent: i32,
    },
    Exit {
        pid: i32,
    },
}

fn op() -> impl Strategy<Value = Op> {
    let pid = || 0..PIDS;
    let len = prop_oneof![8 => 0..12u64, 1 => Just(ADDRESSES), 1 => Just(u64::MAX)];
    prop_oneof![
        10 => (pid(), 0..ADDRESSES, len, 0..PATHS.len())
            .prop_map(|(pid, start, len, path)| Op::Map { pid, start, len, path }),
        1 => pid().prop_map(|pid| Op::Exec { pid }),
        2 => (pid(), pid()).prop_map(|(pid, parent)| Op::Fork { pid, parent }),
        1 => pid().prop_map(|pid| Op::Exit { pid }),
    ]
}

fn ops() -> impl Strategy<Value = Vec<(u64, Op)>> {
    let step = prop_oneof![6 => 0..2i64, 1 => -4..0i64, 1 => Just(-100i64)];
    prop::collection::vec((step, op()), 0..60).prop_map(|steps| {
        let mut latest = 0i64;
        let mut out = Vec::new();
        for (step, op) in steps {
            let time = (latest + step).max(0);
            latest = latest.max(time);
            out.push((time as u64, op));
        }
        out
    })
}

#[derive(Clone, Debug)]
struct Mapped {
    since: u64,
    start: u64,
    end: u64,
    path: usize,
    /// Valid only where no earlier list entry is.
    late: bool,
}

impl Mapped {
    fn covers(&self, address: u64) -> bool {
        self.start <= address && address < self.end
    }
}

#[derive(Clone, Debug, Default)]
struct ModelSpace {
    mapped: Vec<Mapped>,
    clock: u64,
    floor: u64,
}

impl ModelSpace {
    fn new(time: u64) -> Self {
        Self {
            mapped: Vec::new(),
            clock: time,
            floor: time,
        }
    }

    fn history(&self, address: u64) -> Vec<&Mapped> {
        let mut history: Vec<&Mapped> = Vec::new();
        for mapped in self.mapped.iter().filter(|m| m.covers(address)) {
            if !mapped.late || history.is_empty() {
                history.push(mapped);
            }
        }
        history
    }

    fn answer(mapped: &Mapped, address: u64) -> (&'static str, u64) {
        let offset = (address - mapped.start).wrapping_add(0x100);
        (PATHS[mapped.path], offset)
    }

    fn resolve(&self, time: u64, address: u64) -> Option<(&'static str, u64)> {
        let history = self.history(address);
        let mapped = history.iter().rev().find(|m| m.since <= time)?;
        Some(Self::answer(mapped, address))
    }
}

#[derive(Default)]
struct Model {
    spaces: HashMap<i32, Vec<(u64, ModelSpace)>>,
}

impl Model {
    fn latest(&mut self, pid: i32) -> &mut ModelSpace {
        let spaces = self
            .spaces
            .entry(pid)
            .or_insert_with(|| vec![(0, ModelSpace::new(0))]);
        &mut spaces.last_mut().expect("never empty").1
    }

    fn apply(&mut self, time: u64, op: &Op) {
        match *op {
            Op::Map {
                pid,
                start,
                len,
                path,
            } => {
                let end = start.saturating_add(len);
                let space = self.latest(pid);
                if start == end {
                    return;
                }
                let late = time < space.clock;
                if !late {
                    space.clock = time;
                    if space.mapped.iter().any(|m| m.start < end && start < m.end) {
                        space.floor = time;
                    }
                }
                space.mapped.push(Mapped {
                    since: if late { time.max(space.floor) } else { time },
                    start,
                    end,
                    path,
                    late,
                });
            }
            Op::Exec { pid } => {
                if time >= self.latest(pid).clock {
                    let spaces = self.spaces.get_mut(&pid).expect("just made");
                    spaces.push((time, ModelSpace::new(time)));
                }
            }
            Op::Fork { pid, parent } if pid == parent => {
                self.latest(pid);
            }
            Op::Fork { pid, parent } => {
                if self.spaces.contains_key(&pid) && time < self.latest(pid).clock {
                    return;
                }
                let mut space = ModelSpace::new(time);
                if self.spaces.contains_key(&parent) {
                    let parent = self.latest(parent);
                    parent.clock = parent.clock.max(time);
                    parent.floor = parent.clock;
                    space = parent.clone();
                }
                let lives = self.spaces.entry(pid).or_default();
                lives.push((space.clock, space));
            }
            Op::Exit { pid } => {
                self.latest(pid);
            }
        }
    }

    fn space(&self, pid: i32, time: u64) -> Option<&ModelSpace> {
        let spaces = self.spaces.get(&pid)?;
        let found = spaces.iter().rev().find(|(since, _)| *since <= time)?;
        Some(&found.1)
    }
}

fn build(ops: &[(u64, Op)]) -> (Timeline, Model) {
    let mut model = Model::default();
    let mut builder = ProcessMapBuilder::new();
    for (time, op) in ops {
        model.apply(*time, op);
        match *op {
            Op::Map {
                pid,
                start,
                len,
                path,
            } => {
                let new: NewMapping<'_> = map(PATHS[path], start, len);
                builder.handle_mmap(*time, Pid(pid), &new);
            }
            Op::Exec { pid } => builder.handle_exec(*time, Pid(pid), Tid(pid), b"x"),
            Op::Fork { pid, parent } => {
                builder.handle_fork(*time, Pid(pid), Tid(pid), Pid(parent), Tid(parent));
            }
            Op::Exit { pid } => builder.handle_exit(*time, Pid(pid), Tid(pid)),
        }
    }
    (builder.finish(), model)
}

fn named(timeline: &Timeline, found: Option<Resolved>) -> Option<(&str, u64)> {
    let found = found?;
    let path = &timeline.image(found.image)?.path;
    Some((std::str::from_utf8(path).ok()?, found.offset_in_file))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn answers_are_those_of_the_model(ops in ops()) {
        let (timeline, model) = build(&ops);
        for pid in 0..PIDS {
            for time in 0..TIMES {
                let space = model.space(pid, time);
                prop_assert_eq!(timeline.space(Pid(pid), time).is_some(), space.is_some());
                for address in (0..ADDRESSES + 14).chain([u64::MAX - 1, u64::MAX]) {
                    let found = timeline.resolve(Pid(pid), time, address);
                    let expected = space.and_then(|space| space.resolve(time, address));
                    prop_assert_eq!(named(&timeline, found), expected, "{} {} {}", pid, time, address);
                }
            }
        }
    }

    /// The callchain interner of an analysis relies on this.
    #[test]
    fn equal_states_answer_alike(ops in ops()) {
        let (timeline, _) = build(&ops);
        let mut seen: HashMap<MapState, Vec<_>> = HashMap::new();
        for pid in 0..PIDS {
            for time in 0..TIMES {
                let Some(space) = timeline.space(Pid(pid), time) else { continue };
                let view = timeline.view(space, time);
                let mappings: Vec<_> = view.mappings().collect();
                prop_assert!(mappings.windows(2).all(|pair| pair[0].end <= pair[1].start));
                let state = timeline.state(space, time);
                let known = seen.entry(state).or_insert_with(|| mappings.clone());
                prop_assert_eq!(&*known, &mappings);
            }
        }
    }

    #[test]
    fn moments_hold_as_long_as_they_say(ops in ops()) {
        let (timeline, _) = build(&ops);
        for pid in 0..PIDS {
            for tid in [Tid(pid), Tid(99)] {
                for time in 0..TIMES {
                    let moment = timeline.moment(Pid(pid), tid, time);
                    prop_assert!((moment.since..=moment.last).contains(&time));
                    for t in [moment.since, time, moment.last.min(2 * TIMES)] {
                        let space = timeline.space(Pid(pid), t);
                        prop_assert_eq!(moment.space, space, "{} {}..{}", t, moment.since, moment.last);
                        prop_assert_eq!(moment.user, space.map(|s| timeline.state(s, t)));
                        prop_assert_eq!(moment.kernel, timeline.state(SpaceId::KERNEL, t));
                        prop_assert_eq!(moment.comm, timeline.comm_id(Pid(pid), tid, t));
                    }
                }
            }
        }
    }
}
