//! Address spaces: histories of mappings.

use crate::ids::{MapState, SpaceId, Time};
use crate::mapping::Mapping;
use crate::moment::Span;
use crate::tree::{Arena, NIL, Root};
use crate::view::MapView;

#[derive(Clone, Copy, Debug)]
struct Version {
    time: Time,
    root: Root,
}

/// Pieces and gaps that a late mapping visits, so that floods do not take quadratic time. Normal
/// ones visit two or three.
const LATE_STEPS: usize = 64;

/// An address space under construction.
///
/// ```text
///   address
///      ^        version 0              version 1        version 2
///      |  . . . +-----------------+ +---------------+ +---------->
///      |        |  libc           | |  libc         | |  libc
///      |  . . . +-----------------+ +---------------+ +---------->
///      |             +------------+ +---------------+ +---------->
///      |             |  app       | |  app          | |  app (rest)
///      |             |            | |               | +---------->
///      |             |            | |               | |  jit
///      |             +------------+ +---------------+ +---------->
///      +------------------------------------------------------------> time
///              added in place:       a replacement     a replacement
///              begins later than     elsewhere
///              its version
/// ```
///
/// A change to an existing piece creates the next version. Nothing is unmapped, so later versions
/// cover all addresses of earlier ones.
#[derive(Debug)]
pub(crate) struct Space {
    versions: Vec<Version>,
    /// Times of changes; sorted once finished.
    changes: Vec<Time>,
    /// First node owned by the latest version.
    mark: u32,
    /// Latest mapping or fork. Earlier records are late.
    clock: Time,
    /// Earliest start of a late mapping: the last replacement or fork.
    floor: Time,
    origin: Option<MapState>,
}

impl Space {
    pub(crate) fn new(time: Time, arena: &Arena) -> Self {
        Self {
            versions: vec![Version { time, root: NIL }],
            changes: Vec::new(),
            mark: arena.len(),
            clock: time,
            floor: time,
            origin: None,
        }
    }

    /// Creates a child's copy. Both share all nodes, and own none.
    pub(crate) fn fork(&mut self, id: SpaceId, time: Time, arena: &Arena) -> Self {
        let time = time.max(self.clock);
        self.mark = arena.len();
        self.clock = time;
        self.floor = time;
        let root = self.latest_root();
        Self {
            versions: vec![Version { time, root }],
            changes: Vec::new(),
            mark: self.mark,
            clock: time,
            floor: time,
            origin: match self.changes.len() {
                0 => self.origin,
                epoch => Some(MapState {
                    space: id,
                    epoch: epoch as u32,
                }),
            },
        }
    }

    pub(crate) fn clock(&self) -> Time {
        self.clock
    }

    pub(crate) fn latest_root(&self) -> Root {
        self.versions.last().map_or(NIL, |version| version.root)
    }

    /// Maps `mapping` at its `since`. Returns true for a change.
    pub(crate) fn map(&mut self, arena: &mut Arena, mapping: &Mapping) -> bool {
        if mapping.start >= mapping.end {
            return false;
        }
        if mapping.since < self.clock {
            return self.map_late(arena, mapping);
        }
        let time = mapping.since;
        self.clock = time;
        let root = self.latest_root();
        if arena.overlaps(root, mapping.start, mapping.end) {
            self.floor = time;
            let old = arena.find(root, mapping.start);
            if old.is_some_and(|old| (Mapping { since: time, ..old }) == *mapping) {
                // Seen from recorders that list a process's maps per thread.
                return false;
            }
            if self.versions.last().is_none_or(|last| last.time < time) {
                self.mark = arena.len();
                self.versions.push(Version { time, root });
            }
        }
        self.insert(arena, mapping);
        self.changes.push(time);
        true
    }

    fn map_late(&mut self, arena: &mut Arena, mapping: &Mapping) -> bool {
        let since = mapping.since.max(self.floor);
        let mut at = mapping.start;
        let mut changed = false;
        for _ in 0..LATE_STEPS {
            if at >= mapping.end {
                break;
            }
            let root = self.latest_root();
            if let Some(newer) = arena.find(root, at) {
                at = newer.end;
                continue;
            }
            let next = arena.next_start(root, at).unwrap_or(u64::MAX);
            let end = next.min(mapping.end);
            let free = Mapping {
                start: at,
                end,
                file_offset: mapping.offset_of(at),
                since,
                ..*mapping
            };
            self.insert(arena, &free);
            changed = true;
            at = end;
        }
        if changed {
            self.changes.push(since);
        }
        changed
    }

    fn insert(&mut self, arena: &mut Arena, mapping: &Mapping) {
        let mark = self.mark;
        if let Some(latest) = self.versions.last_mut() {
            latest.root = arena.insert(latest.root, mark, mapping);
        }
    }

    /// Sorts the history. No mappings may follow.
    pub(crate) fn finish(&mut self) {
        self.changes.sort_unstable();
        self.changes.shrink_to_fit();
        self.versions.shrink_to_fit();
    }

    pub(crate) fn versions(&self) -> usize {
        self.versions.len()
    }

    pub(crate) fn epoch(&self, time: Time) -> u32 {
        self.changes.partition_point(|&change| change <= time) as u32
    }

    pub(crate) fn state(&self, id: SpaceId, time: Time) -> MapState {
        self.state_after(id, self.epoch(time) as usize)
    }

    /// Narrows `span` to the state's validity.
    pub(crate) fn steady_state(&self, id: SpaceId, time: Time, span: &mut Span) -> MapState {
        let n = self.changes.partition_point(|&change| change <= time);
        let before = n.checked_sub(1).map(|n| self.changes[n]);
        span.narrow(before, self.changes.get(n).copied());
        self.state_after(id, n)
    }

    fn state_after(&self, id: SpaceId, changes: usize) -> MapState {
        let own = MapState {
            space: id,
            epoch: changes as u32,
        };
        match changes {
            0 => self.origin.unwrap_or(own),
            _ => own,
        }
    }

    fn begun(&self, time: Time) -> usize {
        match &self.versions[..] {
            // As in most processes.
            [only] => usize::from(only.time <= time),
            all => all.partition_point(|version| version.time <= time),
        }
    }

    pub(crate) fn view<'a>(&self, arena: &'a Arena, time: Time) -> MapView<'a> {
        let root = match self.begun(time) {
            0 => NIL,
            n => self.versions[n - 1].root,
        };
        MapView::new(arena, root, time)
    }
}
