//! [`Calls`]: common interface of root-down and caller trees.

use rprof_profile::FunctionId;
use rprof_profile::views::call_branches::CallBranches;
use rprof_profile::views::stack_tree::StackTree;

use crate::model::Model;

#[derive(Clone, Debug)]
pub(crate) enum Calls {
    /// Complete tree.
    Whole(StackTree),
    /// Tree that creates nodes on access.
    Growing(CallBranches),
}

impl Calls {
    pub(crate) fn whole(&self) -> u64 {
        match self {
            Calls::Whole(tree) => tree.whole(),
            Calls::Growing(tree) => tree.whole(),
        }
    }

    pub(crate) fn function(&self, node: u32) -> FunctionId {
        match self {
            Calls::Whole(tree) => tree.function(node),
            Calls::Growing(tree) => tree.function(node),
        }
    }

    pub(crate) fn parent(&self, node: u32) -> Option<u32> {
        match self {
            Calls::Whole(tree) => tree.parent(node),
            Calls::Growing(tree) => tree.parent(node),
        }
    }

    pub(crate) fn depth(&self, node: u32) -> u32 {
        match self {
            Calls::Whole(tree) => tree.depth(node),
            Calls::Growing(tree) => tree.depth(node),
        }
    }

    pub(crate) fn total(&self, node: u32) -> u64 {
        match self {
            Calls::Whole(tree) => tree.total(node),
            Calls::Growing(tree) => tree.total(node),
        }
    }

    /// Returns the self weight of a node. A growing tree needs a call of [children](Self::children)
    /// first.
    pub(crate) fn own(&self, node: u32) -> u64 {
        match self {
            Calls::Whole(tree) => tree.own(node),
            Calls::Growing(tree) => tree.own(node),
        }
    }

    /// Returns the children of a node that have weight, or the outermost nodes. A whole tree sorts
    /// them by name, as flame graphs do; a growing one by weight.
    pub(crate) fn children(&mut self, model: &Model, node: Option<u32>) -> Vec<u32> {
        match self {
            Calls::Whole(tree) => {
                let weighty = tree.children(node).filter(|child| tree.total(*child) > 0);
                weighty.collect()
            }
            Calls::Growing(tree) => tree
                .children(&model.profile, &model.entries, node)
                .collect(),
        }
    }

    pub(crate) fn heaviest(&mut self, model: &Model, node: Option<u32>) -> Vec<u32> {
        let mut children = self.children(model, node);
        if let Calls::Whole(tree) = self {
            children.sort_by_key(|child| std::cmp::Reverse(tree.total(*child)));
        }
        children
    }

    /// Returns the functions from the outermost node to this one.
    pub(crate) fn path(&self, node: u32) -> Vec<FunctionId> {
        let up = |node: &u32| self.parent(*node);
        let mut path: Vec<FunctionId> = std::iter::successors(Some(node), up)
            .map(|node| self.function(node))
            .collect();
        path.reverse();
        path
    }

    /// Follows a path from the outermost node. Returns the last node that exists.
    pub(crate) fn find(&mut self, model: &Model, path: &[FunctionId]) -> Option<u32> {
        let mut at = None;
        for function in path {
            let children = self.children(model, at);
            match children
                .into_iter()
                .find(|child| self.function(*child) == *function)
            {
                Some(child) => at = Some(child),
                None => break,
            }
        }
        at
    }
}
