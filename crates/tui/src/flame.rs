//! [`Flame`]: flame graph layout in terminal cells.

use crate::calls::Calls;
use crate::model::Model;

/// Boxes that are at least one cell wide, and marks for the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flame {
    /// Boxes by row from the root, then from left to right.
    pub(crate) boxes: Vec<FlameBox>,
    /// Rows and columns of cells with boxes that are too narrow.
    pub(crate) marks: Vec<(u32, u16)>,
    pub(crate) hidden: u64,
    /// True if more rows follow below.
    pub(crate) is_cut: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FlameBox {
    /// Node; `None` for the root.
    pub(crate) node: Option<u32>,
    /// Distance from the root, in rows.
    pub(crate) row: u32,
    /// First column, and the column after the last.
    pub(crate) x: u16,
    pub(crate) end: u16,
}

impl Flame {
    /// Lays out a tree in `width` columns and `rows` rows. With `zoom`, that node and its callers
    /// have the full width.
    ///
    /// Edges are rounded cumulative weights, so gaps do not accumulate.
    pub(crate) fn lay_out(
        calls: &mut Calls,
        model: &Model,
        zoom: Option<u32>,
        width: u16,
        rows: u32,
    ) -> Flame {
        let mut flame = Flame::default();
        let above: Vec<u32> = match zoom {
            None => Vec::new(),
            Some(zoom) => std::iter::successors(Some(zoom), |node| calls.parent(*node)).collect(),
        };
        let everything = std::iter::once(None).chain(above.iter().rev().map(|node| Some(*node)));
        for (row, node) in (0..rows).zip(everything) {
            flame.boxes.push(FlameBox {
                node,
                row,
                x: 0,
                end: width,
            });
        }
        let whole = match zoom {
            None => calls.whole(),
            Some(zoom) => calls.total(zoom),
        };
        if whole == 0 {
            return flame;
        }
        let edge = |weight: u64| {
            let exact = u128::from(weight) * u128::from(width) * 2 + u128::from(whole);
            (exact / (u128::from(whole) * 2)) as u16
        };
        // Nodes with unplaced children, and the weight to the left of these children.
        let mut level: Vec<(Option<u32>, u64)> = vec![(zoom, 0)];
        let mut row = above.len() as u32 + 1;
        while !level.is_empty() {
            let mut next = Vec::new();
            for (node, start) in level {
                let mut left = start;
                for child in calls.children(model, node) {
                    let right = left.saturating_add(calls.total(child));
                    let (x, end) = (edge(left), edge(right).min(width));
                    if row >= rows {
                        flame.is_cut = true;
                    } else if x < end {
                        flame.boxes.push(FlameBox {
                            node: Some(child),
                            row,
                            x,
                            end,
                        });
                        next.push((Some(child), left));
                    } else {
                        flame.hidden = flame.hidden.saturating_add(calls.total(child));
                        let x = x.min(width.saturating_sub(1));
                        if flame.marks.last() != Some(&(row, x)) {
                            flame.marks.push((row, x));
                        }
                    }
                    left = right;
                }
            }
            if row >= rows {
                break;
            }
            row += 1;
            level = next;
        }
        flame
    }

    pub(crate) fn of_node(&self, node: Option<u32>) -> Option<FlameBox> {
        self.boxes.iter().find(|shown| shown.node == node).copied()
    }

    pub(crate) fn at(&self, row: u32, x: u16) -> Option<FlameBox> {
        let is_there = |shown: &&FlameBox| shown.row == row && (shown.x..shown.end).contains(&x);
        self.boxes.iter().find(is_there).copied()
    }

    pub(crate) fn below(&self, of: FlameBox) -> Option<FlameBox> {
        let is_below =
            |shown: &&FlameBox| shown.row == of.row + 1 && shown.x >= of.x && shown.end <= of.end;
        let below = self.boxes.iter().filter(is_below);
        // `max_by_key` returns the last of equal elements, so reversing selects the first.
        below.rev().max_by_key(|shown| shown.end - shown.x).copied()
    }

    pub(crate) fn above(&self, of: FlameBox) -> Option<FlameBox> {
        self.at(of.row.checked_sub(1)?, of.x)
    }

    pub(crate) fn beside(&self, of: FlameBox, is_right: bool) -> Option<FlameBox> {
        let mut row = self.boxes.iter().filter(|shown| shown.row == of.row);
        match is_right {
            true => row.find(|shown| shown.x >= of.end).copied(),
            false => row.rfind(|shown| shown.end <= of.x).copied(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{folded, model};
    use proptest::prelude::*;
    use rprof_profile::views::stack_tree::StackTree;

    fn calls(model: &Model) -> Calls {
        let mut tree = StackTree::of(&model.profile, &model.entries);
        tree.set_weights(&model.entries, model.by);
        Calls::Whole(tree)
    }

    #[test]
    fn narrow_boxes_are_marked_and_their_weight_is_told() {
        let model = model(folded("a;b 96\na;c 1\na;d 1\na;e 1\nf 1\n"));
        let flame = Flame::lay_out(&mut calls(&model), &model, None, 20, 10);
        let boxes: Vec<_> = flame.boxes.iter().map(|b| (b.row, b.x, b.end)).collect();
        assert_eq!(boxes, [(0, 0, 20), (1, 0, 20), (2, 0, 19), (2, 19, 20)]);
        assert_eq!(flame.hidden, 3);
        assert_eq!(flame.marks.len(), 2, "{:?}", flame.marks);
    }

    proptest! {
        /// Boxes do not overlap, lie within their caller's box, and match their weight to within a
        /// cell.
        #[test]
        fn boxes_lie_in_their_callers(
            stacks in prop::collection::vec((prop::collection::vec(0u8..6, 1..6), 1u64..50), 1..30),
            width in 1u16..150,
        ) {
            let line = |(stack, weight): &(Vec<u8>, u64)| {
                let frames: Vec<String> = stack.iter().map(|f| format!("f{f}")).collect();
                format!("{} {weight}\n", frames.join(";"))
            };
            let model = model(folded(&stacks.iter().map(line).collect::<String>()));
            let mut calls = calls(&model);
            let flame = Flame::lay_out(&mut calls, &model, None, width, 50);
            for (index, shown) in flame.boxes.iter().enumerate() {
                prop_assert!(shown.x < shown.end && shown.end <= width);
                if let Some(node) = shown.node {
                    let exact = calls.total(node) as f64 * f64::from(width) / calls.whole() as f64;
                    prop_assert!((f64::from(shown.end - shown.x) - exact).abs() <= 1.0);
                    let caller = flame.of_node(calls.parent(node)).unwrap();
                    prop_assert!(caller.x <= shown.x && shown.end <= caller.end);
                }
                for other in &flame.boxes[index + 1..] {
                    prop_assert!(other.row != shown.row || other.x >= shown.end);
                }
            }
        }
    }
}
