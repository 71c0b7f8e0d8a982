//! Tree of all stacks, in preorder.

use rustc_hash::FxHashMap;

/// Node of a tree that grows: the call of a function from the node above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Call {
    /// Number of the function.
    pub(super) function: u32,
    /// True if the call was inlined into its caller.
    pub(super) is_inlined: bool,
}

/// Tree that grows by stacks. Node 0 is the root, which is no call; a node's number is higher than its parent's.
#[derive(Debug, Default)]
pub(super) struct StackTree {
    children: FxHashMap<(u32, u32), u32>,
    /// Parent and call of the nodes from 1 on.
    nodes: Vec<(u32, Call)>,
}

impl StackTree {
    /// Returns the node of a call from a node.
    pub(super) fn child(&mut self, parent: u32, call: Call) -> u32 {
        let key = (parent, call.function << 1 | u32::from(call.is_inlined));
        let nodes = &mut self.nodes;
        *self.children.entry(key).or_insert_with(|| {
            nodes.push((parent, call));
            nodes.len() as u32
        })
    }

    /// Iterates over the nodes from 1 on: their number, parent and call.
    pub(super) fn nodes(&self) -> impl DoubleEndedIterator<Item = (u32, u32, Call)> + '_ {
        let nodes = self.nodes.iter().enumerate();
        nodes.map(|(at, (parent, call))| (at as u32 + 1, *parent, *call))
    }

    /// Number of nodes, with the root.
    pub(super) fn len(&self) -> usize {
        self.nodes.len() + 1
    }

    /// Sums up the weights of nodes with those of the nodes below.
    pub(super) fn totals(&self, own: &[u64]) -> Vec<u64> {
        let mut totals = own.to_vec();
        totals.resize(self.len(), 0);
        for (number, parent, _) in self.nodes().rev() {
            let total = totals[number as usize];
            let above = &mut totals[parent as usize];
            *above = above.saturating_add(total);
        }
        totals
    }

    /// Gives all functions new numbers. No child is added afterwards.
    pub(super) fn renumber(&mut self, functions: &[u32]) {
        self.children.clear();
        for (_, call) in &mut self.nodes {
            call.function = functions[call.function as usize];
        }
    }

    /// Puts each node whose total is below `least` into one node of `rest` beside it. Returns the new tree, and the new number
    /// of each node.
    pub(super) fn without_small(
        &self,
        totals: &[u64],
        least: u64,
        rest: u32,
    ) -> (StackTree, Vec<u32>) {
        let mut tree = StackTree::default();
        let mut image = vec![0; self.len()];
        let mut is_rest = vec![false; self.len()];
        let small = Call {
            function: rest,
            is_inlined: false,
        };
        for (number, parent, call) in self.nodes() {
            let (number, parent) = (number as usize, parent as usize);
            is_rest[number] = is_rest[parent] || totals[number] < least;
            image[number] = match is_rest[number] {
                true if is_rest[parent] => image[parent],
                true => tree.child(image[parent], small),
                false => tree.child(image[parent], call),
            };
        }
        (tree, image)
    }

    /// Puts the nodes into preorder, of the children of a node the heaviest first, then by number of the function.
    pub(super) fn in_preorder(&self, totals: &[u64]) -> Preorder {
        let mut children: Vec<u32> = (1..=self.nodes.len() as u32).collect();
        let key = |number: &u32| {
            let (parent, call) = self.nodes[*number as usize - 1];
            let weight = u64::MAX - totals[*number as usize];
            (parent, weight, call.function, call.is_inlined)
        };
        children.sort_by_cached_key(key);
        // Where the children of each node begin.
        let mut first = vec![0usize; self.len() + 1];
        for (_, parent, _) in self.nodes() {
            first[parent as usize + 1] += 1;
        }
        for at in 1..first.len() {
            first[at] += first[at - 1];
        }
        let of = |node: u32| &children[first[node as usize]..first[node as usize + 1]];
        let mut order = Preorder {
            place: vec![0; self.len()],
            ups: Vec::with_capacity(self.nodes.len()),
            calls: Vec::with_capacity(self.nodes.len()),
        };
        let mut pile: Vec<(u32, u64)> = of(0).iter().rev().map(|child| (*child, 1)).collect();
        let mut above = 0;
        while let Some((node, depth)) = pile.pop() {
            order.ups.push(above + 1 - depth);
            order.calls.push(self.nodes[node as usize - 1].1);
            order.place[node as usize] = order.calls.len() as u32;
            above = depth;
            pile.extend(of(node).iter().rev().map(|child| (*child, depth + 1)));
        }
        order
    }
}

/// Nodes in preorder, without the root.
#[derive(Debug)]
pub(super) struct Preorder {
    /// By node: its place in the order, from 1 on; 0 for the root.
    pub(super) place: Vec<u32>,
    /// By place: levels to go up from the node before to this node's parent.
    pub(super) ups: Vec<u64>,
    /// By place: the call.
    pub(super) calls: Vec<Call>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(stacks: &[(&[u32], u64)]) -> (StackTree, Vec<u64>) {
        let mut tree = StackTree::default();
        let mut own = Vec::new();
        for (stack, weight) in stacks {
            let leaf = stack.iter().fold(0, |node, function| {
                let call = Call {
                    function: *function,
                    is_inlined: false,
                };
                tree.child(node, call)
            });
            own.resize(tree.len(), 0);
            own[leaf as usize] += weight;
        }
        (tree, own)
    }

    fn text(order: &Preorder) -> String {
        let nodes = order.ups.iter().zip(&order.calls);
        let words: Vec<String> = nodes
            .map(|(up, call)| format!("{up}:{}", call.function))
            .collect();
        words.join(" ")
    }

    #[test]
    fn heavy_children_come_first() {
        let (tree, own) = tree(&[(&[1, 2], 1), (&[1, 3, 2], 4), (&[5], 2), (&[1, 3], 1)]);
        let totals = tree.totals(&own);
        assert_eq!(totals[0], 8);
        let order = tree.in_preorder(&totals);
        assert_eq!(text(&order), "0:1 0:3 0:2 2:2 2:5");
        // The node of 1, 2 came second and is fourth.
        assert_eq!(order.place[2], 4);
    }

    #[test]
    fn small_nodes_are_summed_up_beside_their_siblings() {
        let (whole, own) = tree(&[(&[1, 2, 7], 1), (&[1, 3], 1), (&[1, 4], 9), (&[6], 1)]);
        let (small, image) = whole.without_small(&whole.totals(&own), 5, 99);
        let mut sums = vec![0; small.len()];
        for (node, own) in own.iter().enumerate() {
            sums[image[node] as usize] += own;
        }
        let totals = small.totals(&sums);
        assert_eq!(text(&small.in_preorder(&totals)), "0:1 0:4 1:99 2:99");
        assert_eq!(totals[0], 12);
    }
}
