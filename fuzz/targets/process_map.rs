//! Applies operations to a process map, then tests every lookup. Compares with a simple model:
//! lists of ranges.
//!
//! Input: one byte of options (bit 0: times only rise, and the model is compared; bit 1: huge pages
//! stay), then operations: a byte for type and process, and arguments.

use std::collections::BTreeMap;

use rprof_processes::{
    ImageIdentity, MapView, Mapping, NewMapping, Pid, ProcessMapBuilder, SpaceId, Tid, Timeline,
};
use rprof_records::BuildId;

/// Maximum number of operations. More find nothing new, and the model copies every snapshot.
const MAX_OPERATIONS: usize = 96;

/// Maximum number of times and addresses to look up, evenly spaced.
const MAX_QUESTIONS: usize = 12;

const PATHS: [&[u8]; 12] = [
    b"/a",
    b"/b",
    b"/a (deleted)",
    b"//anon",
    b"[heap]",
    b"[stack]",
    b"[vdso]",
    b"/memfd:x (deleted)",
    b"[kernel.kallsyms]_text",
    b"[module]",
    b"",
    b"/lib/modules/module.ko",
];

pub(crate) fn run(data: &[u8]) {
    let Some((options, data)) = data.split_first() else {
        return;
    };
    let (rising, keep) = (options & 1 != 0, options & 2 != 0);
    let mut input = Input { data, time: 0 };
    let mut builder = ProcessMapBuilder::new();
    builder.keep_huge_pages(keep);
    // The model does not support huge pages that return to their file.
    let mut model = (rising && keep).then(Model::default);
    let (mut times, mut addresses) = (vec![0, u64::MAX], vec![0, u64::MAX]);
    for _ in 0..MAX_OPERATIONS {
        let Some(operation) = input.operation(rising) else {
            break;
        };
        times.extend([operation.time.saturating_sub(1), operation.time]);
        if let What::Map { start, len, .. } = operation.what {
            let end = start.saturating_add(len);
            addresses.extend([start.saturating_sub(1), start, end.saturating_sub(1), end]);
        }
        apply(&mut builder, &operation);
        if let Some(model) = &mut model {
            model.apply(&operation);
        }
    }
    for list in [&mut times, &mut addresses] {
        list.sort_unstable();
        list.dedup();
        let step = list.len().div_ceil(MAX_QUESTIONS).max(1);
        *list = list.iter().copied().step_by(step).collect();
    }
    if let Some(model) = &mut model {
        model.end_of_moment();
    }
    let timeline = builder.finish();
    assert_eq!(timeline.stats().dropped, 0);
    if let Some(model) = &model {
        let kernel = timeline.view(SpaceId::KERNEL, u64::MAX);
        assert_eq!(ranges_of(kernel), model.kernel);
        for (time, pid, ranges) in &model.snapshots {
            let space = timeline
                .space(*pid, *time)
                .expect("a process that was named");
            assert_eq!(
                ranges_of(timeline.view(space, *time)),
                *ranges,
                "{pid:?} at {time}"
            );
        }
    }
    lookups(&timeline, &times, &addresses);
}

#[derive(Debug)]
struct Operation {
    time: u64,
    pid: Pid,
    what: What,
}

#[derive(Debug)]
enum What {
    Map {
        kernel: bool,
        start: u64,
        len: u64,
        offset: u64,
        path: usize,
        identity: ImageIdentity,
        executable: bool,
    },
    Comm {
        tid: Tid,
        exec: bool,
        name: u8,
    },
    Fork {
        parent: Pid,
        tid: Tid,
        parent_tid: Tid,
    },
    Existing {
        parent: Pid,
        tid: Tid,
    },
    Exit {
        tid: Tid,
    },
}

struct Input<'a> {
    data: &'a [u8],
    time: u64,
}

impl Input<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.data.split_first()?;
        self.data = rest;
        Some(*first)
    }

    /// Reads a number: usually a few pages, sometimes huge, sometimes arbitrary.
    fn number(&mut self) -> Option<u64> {
        let byte = self.byte()?;
        Some(match byte {
            0..=0xbf => u64::from(byte) << 12,
            0xc0..=0xdf => u64::from(byte - 0xc0) << 21,
            0xe0..=0xef => u64::MAX - u64::from(byte - 0xe0),
            0xf0..=0xf7 => u64::from(self.byte()?) | u64::from(byte - 0xf0) << 61,
            _ => {
                let (eight, rest) = self.data.split_first_chunk::<8>()?;
                self.data = rest;
                u64::from_le_bytes(*eight)
            }
        })
    }

    fn pid(&mut self) -> Option<i32> {
        Some(match self.byte()? {
            0xff => -1,
            0xfe => i32::MIN,
            byte => i32::from(byte & 7),
        })
    }

    fn operation(&mut self, rising: bool) -> Option<Operation> {
        let what = self.byte()?;
        let time = match rising {
            true => self.time.saturating_add(u64::from(what >> 6)),
            false => match what >> 6 {
                3 => self.number()?,
                step => self.time.saturating_add(u64::from(step)),
            },
        };
        self.time = time;
        let pid = Pid(self.pid()?);
        let what = match what & 0x0f {
            0..=6 => What::Map {
                kernel: what & 0x30 == 0x30,
                start: self.number()?,
                len: self.number()?,
                offset: self.number()?,
                path: usize::from(self.byte()?) % PATHS.len(),
                identity: self.identity()?,
                executable: what & 0x10 == 0,
            },
            7..=9 => What::Comm {
                tid: Tid(self.pid()?),
                exec: what & 0x10 != 0,
                name: self.byte()?,
            },
            10..=12 => What::Fork {
                parent: Pid(self.pid()?),
                tid: Tid(self.pid()?),
                parent_tid: Tid(self.pid()?),
            },
            13 => What::Existing {
                parent: Pid(self.pid()?),
                tid: Tid(self.pid()?),
            },
            _ => What::Exit {
                tid: Tid(self.pid()?),
            },
        };
        Some(Operation { time, pid, what })
    }

    fn identity(&mut self) -> Option<ImageIdentity> {
        let byte = self.byte()?;
        Some(match byte & 3 {
            0 | 1 => ImageIdentity::PathOnly,
            2 => ImageIdentity::Inode {
                major: 8,
                minor: u32::from(byte >> 7),
                inode: u64::from(byte >> 2 & 3),
                generation: u64::from(byte >> 4 & 1),
            },
            _ => match BuildId::new(&[byte >> 2; 20][..usize::from(byte >> 3) % 21]) {
                Some(id) => ImageIdentity::BuildId(id),
                None => ImageIdentity::PathOnly,
            },
        })
    }
}

fn apply(builder: &mut ProcessMapBuilder, operation: &Operation) {
    let (time, pid) = (operation.time, operation.pid);
    match operation.what {
        What::Map {
            kernel,
            start,
            len,
            offset,
            path,
            identity,
            executable,
        } => {
            let new = NewMapping {
                start,
                len,
                file_offset: offset,
                path: PATHS[path],
                identity,
                executable,
            };
            match kernel {
                true => builder.handle_kernel_mmap(time, &new),
                false => builder.handle_mmap(time, pid, &new),
            }
        }
        What::Comm { tid, exec, name } => match exec {
            true => builder.handle_exec(time, pid, tid, &[name; 3]),
            false => builder.handle_rename(time, pid, tid, &[name; 3]),
        },
        What::Fork {
            parent,
            tid,
            parent_tid,
        } => builder.handle_fork(time, pid, tid, parent, parent_tid),
        What::Existing { parent, tid } => builder.handle_found(pid, tid, parent),
        What::Exit { tid } => builder.handle_exit(time, pid, tid),
    }
}

/// Start, end, file offset at the start, executable. Adjacent ranges of the same file are merged,
/// because splits do not matter.
type Range = (u64, u64, u64, bool);

fn ranges_of(view: MapView<'_>) -> Vec<Range> {
    let of = |m: Mapping| (m.start, m.end, m.file_offset, m.executable);
    view.mappings().map(of).collect()
}

/// Mappings as sorted lists, for each time.
#[derive(Default)]
struct Model {
    time: u64,
    now: BTreeMap<Pid, Vec<Range>>,
    kernel: Vec<Range>,
    snapshots: Vec<(u64, Pid, Vec<Range>)>,
}

impl Model {
    fn end_of_moment(&mut self) {
        for (pid, ranges) in &self.now {
            self.snapshots.push((self.time, *pid, ranges.clone()));
        }
    }

    fn apply(&mut self, operation: &Operation) {
        if operation.time > self.time {
            self.end_of_moment();
            self.time = operation.time;
        }
        let pid = operation.pid;
        match operation.what {
            What::Map {
                kernel,
                start,
                len,
                offset,
                executable,
                ..
            } => {
                let ranges = match kernel {
                    true => &mut self.kernel,
                    false => self.now.entry(pid).or_default(),
                };
                let end = start.saturating_add(len);
                if start == end {
                    return;
                }
                let mut left = Vec::new();
                for (s, e, o, x) in ranges.drain(..) {
                    if s < start {
                        left.push((s, e.min(start), o, x));
                    }
                    if e > end {
                        let s2 = s.max(end);
                        left.push((s2, e, o.wrapping_add(s2 - s), x));
                    }
                }
                left.push((start, end, offset, executable));
                left.sort_unstable();
                *ranges = left;
            }
            What::Comm { exec, .. } => {
                let ranges = self.now.entry(pid).or_default();
                if exec {
                    ranges.clear();
                }
            }
            What::Fork { parent, .. } if parent == pid => {
                self.now.entry(pid).or_default();
            }
            What::Fork { parent, .. } => {
                let ranges = self.now.get(&parent).cloned().unwrap_or_default();
                self.now.insert(pid, ranges);
            }
            What::Existing { .. } | What::Exit { .. } => {
                self.now.entry(pid).or_default();
            }
        }
    }
}

fn lookups(timeline: &Timeline, times: &[u64], addresses: &[u64]) {
    for space in (0..timeline.stats().spaces as u32).map(SpaceId) {
        // Two moments in the same state have the same mappings.
        let mut states = BTreeMap::new();
        for &time in times {
            let view = timeline.view(space, time);
            let mappings: Vec<Mapping> = view.mappings().collect();
            disjoint(timeline, &mappings, time);
            if timeline
                .processes()
                .iter()
                .any(|p| p.spaces().contains(&(time, space)))
            {
                let state = timeline.state(space, time);
                let before = states.insert(state, mappings.clone());
                assert!(before.is_none_or(|before| before == mappings));
            }
            for &address in addresses {
                let found = view.mapping_at(address);
                let at = mappings.partition_point(|m| m.end <= address);
                let expected = mappings.get(at).filter(|m| m.start <= address);
                assert_eq!(found.as_ref(), expected);
                let resolved = timeline.resolve_in(space, time, address);
                assert_eq!(view.resolve(address), resolved);
                assert_eq!(resolved.map(|r| r.mapping_start), found.map(|m| m.start));
                if let (Some(resolved), Some(found)) = (resolved, found) {
                    let expected = (found.file_offset).wrapping_add(address - found.start);
                    assert_eq!(resolved.offset_in_file, expected);
                }
            }
        }
    }
    for process in timeline.processes() {
        assert!(process.exit.is_none_or(|exit| exit >= process.start));
        assert!(process.spaces().is_sorted());
        let pid = process.pid;
        for &time in times {
            let Some(space) = timeline.space(pid, time) else {
                assert!(time < process.start);
                continue;
            };
            let _ = timeline
                .process(pid, time)
                .expect("it has an address space");
            for &address in addresses {
                let strict = timeline.resolve(pid, time, address);
                assert_eq!(strict, timeline.resolve_in(space, time, address));
            }
        }
    }
    for thread in timeline.threads() {
        assert!(thread.exit.is_none_or(|exit| exit >= thread.start));
        assert!(thread.names().is_sorted_by_key(|(since, _)| *since));
        for &time in times {
            if let Some(comm) = timeline.comm_id(thread.pid, thread.tid, time) {
                assert_eq!(timeline.comm_name(comm).map(<[u8]>::len), Some(3));
            }
            let _ = timeline.thread(thread.pid, thread.tid, time);
        }
    }
}

fn disjoint(timeline: &Timeline, mappings: &[Mapping], time: u64) {
    for mapping in mappings {
        assert!(mapping.start < mapping.end);
        assert!(mapping.since <= time);
        assert!(timeline.image(mapping.image).is_some());
    }
    for pair in mappings.windows(2) {
        assert!(pair[0].end <= pair[1].start);
    }
}
