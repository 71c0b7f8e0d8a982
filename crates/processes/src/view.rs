//! Mappings of an address space at a moment.

use crate::ids::Time;
use crate::mapping::{Mapping, Resolved};
use crate::tree::{Arena, NIL, Root};

/// Mappings of an address space at a moment; cheap to create and copy.
///
/// Resolve a callchain through one view, to look up process, space and version only once.
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

    /// Resolves an address. Mappings are valid from their start times on.
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

    /// Returns all mappings, disjoint and sorted by address.
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
