//! The mappings of one address space at one moment.

use crate::ids::Time;
use crate::mapping::{Mapping, Resolved};
use crate::tree::{Arena, NIL, Root};

/// The mappings of one address space at one moment; cheap to make and to copy.
///
/// Resolve a whole callchain through one view: the process, its address space
/// and the version in force are then looked up once.
#[derive(Clone, Copy, Debug)]
pub struct MapView<'a> {
    arena: &'a Arena,
    root: Root,
    time: Time,
}

impl<'a> MapView<'a> {
    pub(crate) fn new(arena: &'a Arena, root: Root, time: Time) -> Self {
        Self { arena, root, time }
    }

    /// Returns the image at an address. A mapping holds at its own begin time already.
    pub fn resolve(&self, address: u64) -> Option<Resolved> {
        self.mapping_at(address)
            .map(|mapping| Resolved::new(&mapping, address))
    }

    /// Returns the mapping that covers an address.
    pub fn mapping_at(&self, address: u64) -> Option<Mapping> {
        self.arena
            .find(self.root, address)
            .filter(|mapping| mapping.since <= self.time)
    }

    /// Returns all mappings, by ascending address. They are disjoint.
    pub fn mappings(&self) -> impl Iterator<Item = Mapping> + use<'a> {
        let Self { arena, root, time } = *self;
        let mut above = Vec::new();
        let mut node = root;
        std::iter::from_fn(move || {
            while node != NIL {
                above.push(node);
                node = arena.children(node).0;
            }
            let next = above.pop()?;
            node = arena.children(next).1;
            Some(arena.mapping(next))
        })
        .filter(move |mapping| mapping.since <= time)
    }
}
