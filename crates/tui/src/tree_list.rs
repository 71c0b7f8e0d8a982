//! [`TreeList`]: a call tree as a list of rows with open and closed branches.

use rprof_export::rows::percent;
use rprof_export::shown_branches;
use rprof_profile::views::selection::FunctionSet;
use rustc_hash::FxHashSet;

use crate::calls::Calls;
use crate::model::Model;

/// Maximum number of rows. A last row reports the rest.
const MAX_ROWS: usize = 100_000;

/// Maximum number of open nodes to restore in a new tree.
const MAX_PATHS: usize = 500;

pub(crate) const MAX_INDENT: u16 = 40;

#[derive(Clone, Debug)]
pub(crate) struct TreeList {
    pub(crate) calls: Calls,
    open: FxHashSet<u32>,
    pub(crate) rows: Vec<TreeRow>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TreeRow {
    Node {
        node: u32,
        indent: u16,
        has_children: bool,
        is_open: bool,
    },
    /// Summary of hidden branches.
    Rest {
        count: usize,
        weight: u64,
        indent: u16,
    },
}

impl TreeList {
    pub(crate) fn new(calls: Calls) -> TreeList {
        TreeList {
            calls,
            open: FxHashSet::default(),
            rows: Vec::new(),
        }
    }

    /// Creates the rows. An open node has a row for each child that is [shown](shown_branches) at
    /// this limit, heaviest first. `whole` is the base of the limit.
    ///
    /// An unbranched chain is not indented further. With `zoom`, only that node and its descendants
    /// have rows.
    pub(crate) fn lay_out(&mut self, model: &Model, limit: f64, whole: u64, zoom: Option<u32>) {
        enum Step {
            Node(u32, u16),
            Rest(usize, u64, u16),
        }
        self.rows.clear();
        let mut pile = Vec::new();
        let calls = &mut self.calls;
        let put = |calls: &mut Calls, pile: &mut Vec<Step>, node: Option<u32>, indent: u16| {
            let children = calls.heaviest(model, node);
            let weights: Vec<u64> = children.iter().map(|child| calls.total(*child)).collect();
            let of_node = match node {
                Some(node) => calls.total(node),
                None => weights
                    .iter()
                    .fold(0u64, |sum, weight| sum.saturating_add(*weight)),
            };
            let shown = shown_branches(&weights, of_node, whole, limit);
            let is_chain = children.len() == 1 && node.is_some();
            let indent = match node {
                None => 0,
                Some(_) if is_chain => indent,
                Some(_) => (indent + 2).min(MAX_INDENT),
            };
            let rest = &children[shown..];
            if !rest.is_empty() {
                let weight = rest
                    .iter()
                    .fold(0u64, |sum, child| sum.saturating_add(calls.total(*child)));
                pile.push(Step::Rest(rest.len(), weight, indent));
            }
            pile.extend(
                children[..shown]
                    .iter()
                    .rev()
                    .map(|child| Step::Node(*child, indent)),
            );
        };
        match zoom {
            Some(node) => pile.push(Step::Node(node, 0)),
            None => put(calls, &mut pile, None, 0),
        }
        while let Some(step) = pile.pop() {
            if self.rows.len() >= MAX_ROWS {
                self.rows.push(TreeRow::Rest {
                    count: pile.len() + 1,
                    weight: 0,
                    indent: 0,
                });
                break;
            }
            match step {
                Step::Rest(count, weight, indent) => self.rows.push(TreeRow::Rest {
                    count,
                    weight,
                    indent,
                }),
                Step::Node(node, indent) => {
                    let has_children = !calls.children(model, Some(node)).is_empty();
                    let is_open = has_children && self.open.contains(&node);
                    self.rows.push(TreeRow::Node {
                        node,
                        indent,
                        has_children,
                        is_open,
                    });
                    if is_open {
                        put(calls, &mut pile, Some(node), indent);
                    }
                }
            }
        }
    }

    pub(crate) fn node(&self, row: usize) -> Option<u32> {
        match self.rows.get(row)? {
            TreeRow::Node { node, .. } => Some(*node),
            TreeRow::Rest { .. } => None,
        }
    }

    pub(crate) fn row_of(&self, node: u32) -> Option<usize> {
        let is_it =
            |row: &TreeRow| matches!(row, TreeRow::Node { node: shown, .. } if *shown == node);
        self.rows.iter().position(is_it)
    }

    pub(crate) fn is_open(&self, node: u32) -> bool {
        self.open.contains(&node)
    }

    pub(crate) fn close(&mut self, node: u32) {
        self.open.remove(&node);
    }

    pub(crate) fn close_all(&mut self) {
        self.open.clear();
    }

    /// Returns the paths of open nodes, at most [`MAX_PATHS`].
    pub(crate) fn open_paths(&self) -> Vec<Vec<rprof_profile::FunctionId>> {
        let open = self.open.iter().take(MAX_PATHS);
        open.map(|node| self.calls.path(*node)).collect()
    }

    pub(crate) fn open_these(&mut self, nodes: &[u32]) {
        self.open.extend(nodes);
    }

    /// Opens a node, and continues while there is only one child.
    pub(crate) fn open(&mut self, model: &Model, node: u32) {
        let mut at = node;
        loop {
            self.open.insert(at);
            match self.calls.children(model, Some(at))[..] {
                [child] => at = child,
                _ => break,
            }
        }
    }

    pub(crate) fn reveal(&mut self, node: u32) {
        let up = |node: &u32| self.calls.parent(*node);
        let above: Vec<u32> = std::iter::successors(self.calls.parent(node), up).collect();
        self.open.extend(above);
    }

    /// Returns the first node of one of these functions, heaviest branches first. Skips branches
    /// below the limit, and stops descending after [`MAX_ROWS`] nodes.
    pub(crate) fn find_closed(
        &mut self,
        model: &Model,
        functions: &FunctionSet,
        limit: f64,
        whole: u64,
    ) -> Option<u32> {
        let mut pile = self.calls.heaviest(model, None);
        pile.reverse();
        let mut looked_at = 0;
        while let Some(node) = pile.pop() {
            looked_at += 1;
            if percent(self.calls.total(node), whole) < limit || looked_at > MAX_ROWS {
                continue;
            }
            let function = self.calls.function(node);
            if functions.get(function.0 as usize) == Some(&true) {
                return Some(node);
            }
            let below = self.calls.heaviest(model, Some(node));
            pile.extend(below.into_iter().rev());
        }
        None
    }

    /// Opens the descendants of a node, or everything, to a depth of `levels`. Skips branches below
    /// the limit.
    pub(crate) fn open_below(
        &mut self,
        model: &Model,
        node: Option<u32>,
        limit: f64,
        whole: u64,
        levels: u32,
    ) {
        let first = match node {
            Some(node) => vec![node],
            None => self.calls.children(model, None),
        };
        let mut pile: Vec<(u32, u32)> = first.into_iter().map(|node| (node, levels)).collect();
        let mut opened = 0;
        while let Some((node, levels)) = pile.pop() {
            if levels == 0 || opened >= MAX_ROWS || percent(self.calls.total(node), whole) < limit {
                continue;
            }
            opened += 1;
            self.open.insert(node);
            let children = self.calls.children(model, Some(node));
            pile.extend(children.into_iter().map(|child| (child, levels - 1)));
        }
    }
}
