//! Store of mappings: height-balanced search trees with structural sharing.
//!
//! All trees live in one [`Arena`]; a root's index identifies its tree. Pieces are disjoint and
//! sorted by start. Nodes from a change's *mark* on belong to this tree and change in place. Older
//! nodes may be shared (by an earlier version or a fork) and are copied first. So a snapshot only
//! moves the mark.
//!
//! The AVL trees are based on `join` (Blelloch, Ferizovic and Sun, "Just Join for Parallel Ordered
//! Sets", 2016). The height is at most 1.44 log2(n), so recursion is shallow: 46 at 2^32 nodes.

use crate::ids::{ImageId, Time};
use crate::mapping::Mapping;

pub(crate) type Root = u32;

pub(crate) const NIL: Root = u32::MAX;

/// Part of a node that searches read on the way down, four per cache line.
#[derive(Clone, Copy, Debug)]
struct Key {
    start: u64,
    left: Root,
    right: Root,
}

/// Rest of a piece, read once found.
#[derive(Clone, Copy, Debug)]
struct Piece {
    end: u64,
    file_offset: u64,
    since: Time,
    image: ImageId,
    executable: bool,
    height: u8,
}

#[derive(Debug, Default)]
pub(crate) struct Arena {
    keys: Vec<Key>,
    pieces: Vec<Piece>,
}

impl Arena {
    /// Number of nodes, and mark of a fully shared tree.
    pub(crate) fn len(&self) -> u32 {
        self.keys.len() as u32
    }

    pub(crate) fn shrink(&mut self) {
        self.keys.shrink_to_fit();
        self.pieces.shrink_to_fit();
    }

    pub(crate) fn find(&self, root: Root, address: u64) -> Option<Mapping> {
        let mut node = root;
        let mut last = NIL;
        while node != NIL {
            // Avoids a branch: the direction is unpredictable, and a misprediction costs more than
            // the step.
            let key = self.keys[node as usize];
            let right = key.start <= address;
            last = std::hint::select_unpredictable(right, node, last);
            node = std::hint::select_unpredictable(right, key.right, key.left);
        }
        if last == NIL || self.pieces[last as usize].end <= address {
            return None;
        }
        Some(self.mapping(last))
    }

    pub(crate) fn next_start(&self, root: Root, address: u64) -> Option<u64> {
        let mut node = root;
        let mut next = None;
        while node != NIL {
            let key = &self.keys[node as usize];
            if key.start > address {
                next = Some(key.start);
                node = key.left;
            } else {
                node = key.right;
            }
        }
        next
    }

    /// Returns true if a piece overlaps the non-empty `start..end`.
    pub(crate) fn overlaps(&self, root: Root, start: u64, end: u64) -> bool {
        self.find(root, start).is_some() || self.next_start(root, start).is_some_and(|s| s < end)
    }

    pub(crate) fn mapping(&self, node: Root) -> Mapping {
        let key = &self.keys[node as usize];
        let piece = &self.pieces[node as usize];
        Mapping {
            start: key.start,
            end: piece.end,
            file_offset: piece.file_offset,
            image: piece.image,
            executable: piece.executable,
            since: piece.since,
        }
    }

    pub(crate) fn children(&self, node: Root) -> (Root, Root) {
        let key = &self.keys[node as usize];
        (key.left, key.right)
    }

    /// Inserts a mapping, and cuts overlapped ones. Returns the new root.
    ///
    /// Adds at most a constant times the height in nodes. Without overlap, adds one node to a fully
    /// owned tree.
    pub(crate) fn insert(&mut self, root: Root, mark: u32, mapping: &Mapping) -> Root {
        let mut edit = Edit { arena: self, mark };
        let (mut left, rest) = edit.split(root, mapping.start);
        let (middle, mut right) = edit.split(rest, mapping.end);
        let mut remainder = None;
        if let Some((others, last)) = edit.split_last(left) {
            let old = edit.arena.mapping(last);
            if old.end > mapping.start {
                let kept = edit.add(&Mapping {
                    end: mapping.start,
                    ..old
                });
                left = edit.join(others, kept, NIL);
                remainder = old.from(mapping.end);
            } else {
                left = edit.join(others, last, NIL);
            }
        }
        if middle != NIL {
            let last = edit.arena.last(middle);
            remainder = edit.arena.mapping(last).from(mapping.end);
        }
        if let Some(old) = remainder {
            let kept = edit.add(&old);
            right = edit.join(NIL, kept, right);
        }
        let new = edit.add(mapping);
        edit.join(left, new, right)
    }

    fn last(&self, mut node: Root) -> Root {
        loop {
            match self.keys[node as usize].right {
                NIL => return node,
                right => node = right,
            }
        }
    }

    fn height(&self, root: Root) -> u8 {
        if root == NIL {
            0
        } else {
            self.pieces[root as usize].height
        }
    }
}

struct Edit<'a> {
    arena: &'a mut Arena,
    mark: u32,
}

impl Edit<'_> {
    fn height(&self, root: Root) -> u8 {
        self.arena.height(root)
    }

    fn children(&self, node: Root) -> (Root, Root) {
        self.arena.children(node)
    }

    fn add(&mut self, mapping: &Mapping) -> Root {
        let node = self.arena.len();
        self.arena.keys.push(Key {
            start: mapping.start,
            left: NIL,
            right: NIL,
        });
        self.arena.pieces.push(Piece {
            end: mapping.end,
            file_offset: mapping.file_offset,
            since: mapping.since,
            image: mapping.image,
            executable: mapping.executable,
            height: 1,
        });
        node
    }

    /// Copies a node that may be shared.
    fn link(&mut self, node: Root, left: Root, right: Root) -> Root {
        let own = if node >= self.mark {
            node
        } else {
            let (key, piece) = (
                self.arena.keys[node as usize],
                self.arena.pieces[node as usize],
            );
            let copy = self.arena.len();
            self.arena.keys.push(key);
            self.arena.pieces.push(piece);
            copy
        };
        let height = 1 + self.height(left).max(self.height(right));
        let key = &mut self.arena.keys[own as usize];
        key.left = left;
        key.right = right;
        self.arena.pieces[own as usize].height = height;
        own
    }

    fn rotate_left(&mut self, node: Root) -> Root {
        let (left, pivot) = self.children(node);
        let (inner, outer) = self.children(pivot);
        let lower = self.link(node, left, inner);
        self.link(pivot, lower, outer)
    }

    fn rotate_right(&mut self, node: Root) -> Root {
        let (pivot, right) = self.children(node);
        let (outer, inner) = self.children(pivot);
        let lower = self.link(node, inner, right);
        self.link(pivot, outer, lower)
    }

    /// Joins `left`, `node` and `right`, in order.
    fn join(&mut self, left: Root, node: Root, right: Root) -> Root {
        let (hl, hr) = (self.height(left), self.height(right));
        if hl > hr + 1 {
            self.join_right(left, node, right)
        } else if hr > hl + 1 {
            self.join_left(left, node, right)
        } else {
            self.link(node, left, right)
        }
    }

    /// The `left` tree is higher by more than one.
    fn join_right(&mut self, left: Root, node: Root, right: Root) -> Root {
        let (ll, lr) = self.children(left);
        if self.height(lr) <= self.height(right) + 1 {
            let joined = self.link(node, lr, right);
            if self.height(joined) <= self.height(ll) + 1 {
                return self.link(left, ll, joined);
            }
            let joined = self.rotate_right(joined);
            let top = self.link(left, ll, joined);
            return self.rotate_left(top);
        }
        let joined = self.join_right(lr, node, right);
        let top = self.link(left, ll, joined);
        if self.height(joined) <= self.height(ll) + 1 {
            top
        } else {
            self.rotate_left(top)
        }
    }

    /// The `right` tree is higher by more than one.
    fn join_left(&mut self, left: Root, node: Root, right: Root) -> Root {
        let (rl, rr) = self.children(right);
        if self.height(rl) <= self.height(left) + 1 {
            let joined = self.link(node, left, rl);
            if self.height(joined) <= self.height(rr) + 1 {
                return self.link(right, joined, rr);
            }
            let joined = self.rotate_left(joined);
            let top = self.link(right, joined, rr);
            return self.rotate_right(top);
        }
        let joined = self.join_left(left, node, rl);
        let top = self.link(right, joined, rr);
        if self.height(joined) <= self.height(rr) + 1 {
            top
        } else {
            self.rotate_right(top)
        }
    }

    /// Splits into pieces that start below `at`, and others.
    fn split(&mut self, root: Root, at: u64) -> (Root, Root) {
        if root == NIL {
            return (NIL, NIL);
        }
        let (left, right) = self.children(root);
        if self.arena.keys[root as usize].start < at {
            let (middle, rest) = self.split(right, at);
            (self.join(left, root, middle), rest)
        } else {
            let (rest, middle) = self.split(left, at);
            (rest, self.join(middle, root, right))
        }
    }

    fn split_last(&mut self, root: Root) -> Option<(Root, Root)> {
        if root == NIL {
            return None;
        }
        let (left, right) = self.children(root);
        match self.split_last(right) {
            None => Some((left, root)),
            Some((others, last)) => Some((self.join(left, root, others), last)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(start: u64, end: u64) -> Mapping {
        Mapping {
            start,
            end,
            file_offset: start * 10,
            image: ImageId(0),
            executable: true,
            since: 0,
        }
    }

    fn check(arena: &Arena, root: Root) -> Vec<(u64, u64)> {
        fn walk(arena: &Arena, root: Root, out: &mut Vec<(u64, u64)>) -> u8 {
            if root == NIL {
                return 0;
            }
            let (left, right) = arena.children(root);
            let hl = walk(arena, left, out);
            let mapping = arena.mapping(root);
            out.push((mapping.start, mapping.end));
            let hr = walk(arena, right, out);
            assert!(hl.abs_diff(hr) <= 1, "unbalanced");
            assert_eq!(arena.height(root), 1 + hl.max(hr));
            1 + hl.max(hr)
        }
        let mut out = Vec::new();
        walk(arena, root, &mut out);
        assert!(out.iter().all(|(start, end)| start < end));
        assert!(out.windows(2).all(|pair| pair[0].1 <= pair[1].0));
        out
    }

    #[test]
    fn nodes_are_small() {
        assert_eq!(size_of::<Key>(), 16);
        assert_eq!(size_of::<Piece>(), 32);
    }

    #[test]
    fn cutting_from_all_sides() {
        let mut arena = Arena::default();
        let mut root = NIL;
        for (start, end) in [(0, 10), (20, 30), (40, 50)] {
            root = arena.insert(root, 0, &piece(start, end));
        }
        let inside = arena.insert(root, arena.len(), &piece(22, 25));
        assert_eq!(
            check(&arena, inside),
            [(0, 10), (20, 22), (22, 25), (25, 30), (40, 50)]
        );
        assert_eq!(arena.find(inside, 27).map(|m| m.file_offset), Some(205));
        let across = arena.insert(root, arena.len(), &piece(5, 45));
        assert_eq!(check(&arena, across), [(0, 5), (5, 45), (45, 50)]);
        let all = arena.insert(root, arena.len(), &piece(0, 100));
        assert_eq!(check(&arena, all), [(0, 100)]);
        assert_eq!(check(&arena, root), [(0, 10), (20, 30), (40, 50)]);
    }

    #[test]
    fn adding_costs_one_node_and_stays_balanced() {
        let mut arena = Arena::default();
        let mut root = NIL;
        for i in 0..2_000u64 {
            // A permutation of 0..2000, partly ascending.
            let at = if i < 1_000 { i } else { 2_999 - i };
            root = arena.insert(root, 0, &piece(at * 4, at * 4 + 3));
        }
        assert_eq!(arena.len(), 2_000);
        assert_eq!(check(&arena, root).len(), 2_000);
        assert!(arena.height(root) <= 16);
        assert_eq!(arena.find(root, 4_003), None);
        assert_eq!(arena.next_start(root, 4_003), Some(4_004));
        assert!(arena.overlaps(root, 4_003, 4_005));
        assert!(!arena.overlaps(root, 4_003, 4_004));
    }

    #[test]
    fn replacing_costs_a_path() {
        let mut arena = Arena::default();
        let mut root = NIL;
        for i in 0..10_000u64 {
            root = arena.insert(root, 0, &piece(i * 4, i * 4 + 4));
        }
        let before = arena.len();
        let mark = before;
        let wide = arena.insert(root, mark, &piece(10, 39_990));
        assert!(arena.len() - before < 150, "{}", arena.len() - before);
        assert_eq!(check(&arena, wide).len(), 7);
        assert_eq!(check(&arena, root).len(), 10_000);
    }
}
