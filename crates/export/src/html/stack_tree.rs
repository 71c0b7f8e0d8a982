//! Tree of all stacks in preorder, heaviest first.

use rprof_profile::views::trie::{NO_NODE, Trie};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Call {
    pub(super) function: u32,
    pub(super) is_inlined: bool,
}

/// Merges nodes with a total below `least` into a sibling of function `rest`. Returns the new tree,
/// and the new index of each node.
pub(super) fn without_small(
    tree: &Trie<Call>,
    totals: &[u64],
    least: u64,
    rest: u32,
) -> (Trie<Call>, Vec<u32>) {
    let mut small_tree = Trie::default();
    let mut image: Vec<u32> = Vec::with_capacity(tree.len());
    let mut is_rest: Vec<bool> = Vec::with_capacity(tree.len());
    let small = Call {
        function: rest,
        is_inlined: false,
    };
    for (number, parent, call) in tree.nodes() {
        let above = image.get(parent as usize).copied().unwrap_or(NO_NODE);
        let is_below_rest = is_rest.get(parent as usize) == Some(&true);
        let is_small = is_below_rest || totals[number as usize] < least;
        image.push(match is_small {
            true if is_below_rest => above,
            true => small_tree.child(above, small),
            false => small_tree.child(above, call),
        });
        is_rest.push(is_small);
    }
    (small_tree, image)
}

/// Sorts the nodes in preorder, siblings by descending weight, then by new function number from
/// `functions`.
pub(super) fn in_preorder(tree: &Trie<Call>, totals: &[u64], functions: &[u32]) -> PageTree {
    let renumbered = |node: u32| {
        let call = tree.call(node);
        let function = functions[call.function as usize];
        Call { function, ..call }
    };
    let key = |node: u32| {
        let call = renumbered(node);
        let weight = u64::MAX - totals[node as usize];
        (weight, call.function, call.is_inlined)
    };
    let order = tree.preorder(|a, b| key(a).cmp(&key(b)));
    let mut place = vec![0; tree.len()];
    let mut depths: Vec<u64> = Vec::with_capacity(tree.len());
    let mut ups = Vec::with_capacity(tree.len());
    for (at, (node, parent)) in (1..).zip(order.nodes.iter().zip(&order.parents)) {
        place[*node as usize] = at;
        let depth = depths.get(*parent as usize).map_or(1, |depth| depth + 1);
        ups.push(depths.last().copied().unwrap_or(0) + 1 - depth);
        depths.push(depth);
    }
    PageTree {
        place,
        ups,
        calls: order.nodes.iter().map(|node| renumbered(*node)).collect(),
    }
}

/// Nodes in preorder. Position 0 is a root, which is no call.
#[derive(Debug)]
pub(super) struct PageTree {
    /// Position of each node, from 1.
    pub(super) place: Vec<u32>,
    /// Levels up from the previous node to the parent, by position without the root.
    pub(super) ups: Vec<u64>,
    pub(super) calls: Vec<Call>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAME: [u32; 10] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9];

    fn tree(stacks: &[(&[u32], u64)]) -> (Trie<Call>, Vec<u64>) {
        let mut tree = Trie::default();
        let mut own = Vec::new();
        for (stack, weight) in stacks {
            let leaf = stack.iter().fold(NO_NODE, |node, function| {
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

    fn text(order: &PageTree) -> String {
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
        let order = in_preorder(&tree, &totals, &SAME);
        assert_eq!(text(&order), "0:1 0:3 0:2 2:2 2:5");
        // Path 1, 2 was inserted second.
        assert_eq!(order.place[1], 4);
    }

    #[test]
    fn small_nodes_are_summed_up_beside_their_siblings() {
        let (whole, own) = tree(&[(&[1, 2, 7], 1), (&[1, 3], 1), (&[1, 4], 9), (&[6], 1)]);
        let (small, image) = without_small(&whole, &whole.totals(&own), 5, 9);
        let mut sums = vec![0; small.len()];
        for (node, own) in own.iter().enumerate() {
            sums[image[node] as usize] += own;
        }
        let totals = small.totals(&sums);
        let order = in_preorder(&small, &totals, &SAME);
        assert_eq!(text(&order), "0:1 0:4 1:9 2:9");
        assert_eq!(sums.iter().sum::<u64>(), 12);
    }
}
