//! [`Calls`]: the trees that views show, from the root or towards the callers, behind one face.

use rprof_profile::FunctionId;
use rprof_profile::call_branches::CallBranches;
use rprof_profile::stack_tree::StackTree;

use crate::model::Model;

/// A tree of calls.
#[derive(Clone, Debug)]
pub(crate) enum Calls {
    /// All of it is there.
    Whole(StackTree),
    /// Nodes are made as they are looked at.
    Growing(CallBranches),
}

impl Calls {
    /// Weight of everything in it.
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

    /// Returns the weight of what ends at a node; for a growing tree once its [children](Self::children) were asked for.
    pub(crate) fn own(&self, node: u32) -> u64 {
        match self {
            Calls::Whole(tree) => tree.own(node),
            Calls::Growing(tree) => tree.own(node),
        }
    }

    /// Returns the children of a node with weight, or the outermost nodes: those of a whole tree by name, as a flame graph
    /// has them, those of a growing one by weight.
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

    /// Returns the children of a node, the heaviest first.
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

    /// Returns the node at the end of a path from the outermost one, or the last one of it that there is.
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
