//! Call trees of the views: created on demand, and updated after filter changes.

use rprof_profile::FunctionId;
use rprof_profile::views::call_branches::CallBranches;
use rprof_profile::views::call_tree::Growth;
use rprof_profile::views::stack_tree::StackTree;

use crate::calls::Calls;
use crate::state::State;
use crate::tree_list::TreeList;
use crate::view::View;

impl State {
    pub(crate) fn weights_changed(&mut self, has_other_frames: bool) {
        self.around = None;
        self.histogram = None;
        self.tasks.clear();
        if let Some(tree) = &mut self.tree {
            match &mut tree.calls {
                Calls::Whole(_) if !has_other_frames => self.is_tree_stale = true,
                _ => self.renew_tree(),
            }
        }
    }

    /// Recreates the tree, and restores open, selected and zoomed nodes that still exist.
    pub(crate) fn renew_tree(&mut self) {
        let Some(mut old) = self.tree.take() else {
            return;
        };
        let selected = old.node(self.look.lists[View::Tree.index()].selected);
        let path = |node: Option<u32>, tree: &TreeList| node.map(|node| tree.calls.path(node));
        let (zoom, flame) = (path(self.look.zoom, &old), path(self.look.flame_node, &old));
        let (selected, open) = (path(selected, &old), old.open_paths());
        old.calls = self.whole_tree();
        self.is_tree_stale = false;
        old.close_all();
        let model = &self.model;
        let mut find = |path: Option<Vec<FunctionId>>| {
            let path = path?;
            let found = old.calls.find(model, &path)?;
            (old.calls.depth(found) as usize + 1 == path.len()).then_some(found)
        };
        (self.look.zoom, self.look.flame_node) = (find(zoom), find(flame));
        let selected = find(selected);
        let open: Vec<u32> = open
            .into_iter()
            .filter_map(|path| find(Some(path)))
            .collect();
        old.open_these(&open);
        old.lay_out(model, self.look.limit, self.model.whole, self.look.zoom);
        let row = selected.and_then(|node| old.row_of(node));
        if let Some(row) = row {
            self.look.lists[View::Tree.index()].selected = row;
        }
        self.tree = Some(old);
    }

    fn whole_tree(&self) -> Calls {
        let model = &self.model;
        match self.look.is_inverted {
            true => Calls::Growing(CallBranches::of_all(
                &model.profile,
                &model.entries,
                model.by,
                Growth::Callers,
            )),
            false => {
                let mut tree = StackTree::of(&model.profile, &model.entries);
                tree.set_weights(&model.entries, model.by);
                Calls::Whole(tree)
            }
        }
    }

    /// Creates the tree of all stacks, or updates outdated weights.
    pub(crate) fn settle_tree(&mut self) {
        let is_stale = std::mem::take(&mut self.is_tree_stale);
        match &mut self.tree {
            None => self.tree = Some(TreeList::new(self.whole_tree())),
            Some(TreeList {
                calls: Calls::Whole(calls),
                ..
            }) if is_stale => calls.set_weights(&self.model.entries, self.model.by),
            Some(_) => {}
        }
    }

    pub(crate) fn look_around(&mut self) {
        let first = || self.model.rows.first().and_then(|row| row.key.function);
        let Some(function) = self.look.function.or_else(first) else {
            return;
        };
        self.look.function = Some(function);
        let (model, limit) = (&self.model, self.look.limit);
        let (mut callers, mut callees) = self.around.take().unwrap_or_else(|| {
            let of = |growth| {
                let entries = &model.entries;
                let tree =
                    CallBranches::of_function(&model.profile, entries, model.by, function, growth);
                TreeList::new(Calls::Growing(tree))
            };
            (of(Growth::Callers), of(Growth::Callees))
        });
        callers.lay_out(model, limit, model.whole, None);
        callees.lay_out(model, limit, model.whole, None);
        self.around = Some((callers, callees));
    }
}
