//! Navigation within the views: rows, branches, boxes, times, matches.

use crate::filters::Filter;
use crate::list::List;
use crate::state::{Around, Popup, State, TaskRow};
use crate::tree_list::TreeList;
use crate::view::View;

impl State {
    /// Moves up or down by a row; in the flame graph, to the caller or the widest callee.
    pub(crate) fn go(&mut self, rows: isize) {
        match self.look.view {
            View::Flame => {
                let Some(at) = self.flame.of_node(self.look.flame_node) else {
                    return;
                };
                let next = match rows < 0 {
                    true => self.flame.above(at),
                    false => self.flame.below(at),
                };
                if let Some(next) = next {
                    self.select_box(next.node, next.row);
                } else if rows > 0 && self.flame.is_cut {
                    self.look.flame_offset += 1;
                }
            }
            _ => self.scroll(rows),
        }
    }

    fn select_box(&mut self, node: Option<u32>, row: u32) {
        let height = u32::from(self.screen.body().1).max(1);
        self.look.flame_node = node;
        let offset = self.look.flame_offset;
        // Keeps one row below the selection visible, as the target of the next move.
        self.look.flame_offset = offset
            .min(row)
            .max((row + 2).saturating_sub(height))
            .min(row);
    }

    /// Moves the selection by rows, or scrolls the flame graph.
    pub(crate) fn scroll(&mut self, rows: isize) {
        if let Some(popup) = &mut self.popup {
            let live = self.source.live.is_some();
            let width = usize::from(self.screen.width);
            let (list, len) = match popup {
                Popup::Help(list) => (list, crate::keys::help_lines(live, width).len()),
                Popup::Pick { shares, list, .. } => (list, shares.len()),
                Popup::Page { lines, list, .. } => (list, lines.len()),
            };
            return list.move_by(rows, len);
        }
        match self.look.view {
            View::Flame => {
                let rows = rows.clamp(-1_000_000, 1_000_000) as i32;
                let deepest = match self.flame.is_cut {
                    true => u32::MAX,
                    false => {
                        let rows = self.flame.boxes.last().map_or(0, |last| last.row + 1);
                        rows.saturating_sub(u32::from(self.screen.body().1))
                    }
                };
                let offset = &mut self.look.flame_offset;
                *offset = match rows {
                    1.. => offset.saturating_add(rows.min(50) as u32).min(deepest),
                    _ => offset.saturating_add_signed(rows),
                };
            }
            View::Time => {
                let last = self.screen.width.saturating_sub(1);
                let columns = rows.clamp(-10_000, 10_000) as i16;
                let cursor = self.look.time_cursor.saturating_add_signed(columns);
                self.look.time_cursor = cursor.min(last);
            }
            _ => {
                let len = self.len();
                self.list().move_by(rows, len);
            }
        }
    }

    /// Moves left or right: closes or opens branches, selects neighbours.
    pub(crate) fn sideways(&mut self, is_right: bool) {
        match self.look.view {
            View::Flame => {
                let at = self.flame.of_node(self.look.flame_node);
                if let Some(next) = at.and_then(|at| self.flame.beside(at, is_right)) {
                    self.select_box(next.node, next.row);
                }
            }
            View::Time => {
                let step = if is_right { 1 } else { -1 };
                self.scroll(step);
            }
            View::Tree | View::Calls => {
                let model = std::sync::Arc::clone(&self.model);
                let Some((list, node, first)) = self.selected_branch() else {
                    return;
                };
                let (is_open, parent) = (list.is_open(node), list.calls.parent(node));
                match (is_right, is_open) {
                    (true, false) => list.open(&model, node),
                    (true, true) => self.scroll(1),
                    (false, true) => list.close(node),
                    (false, false) => {
                        let row = parent.and_then(|parent| list.row_of(parent));
                        if let Some(row) = row {
                            self.list().selected = first + row;
                        }
                    }
                }
            }
            _ => {}
        }
    }

    /// Returns the tree and node of the selected row, and the tree's first row.
    fn selected_branch(&mut self) -> Option<(&mut TreeList, u32, usize)> {
        let row = self.place().selected;
        match self.look.view {
            View::Tree => {
                let tree = self.tree.as_mut()?;
                let node = tree.node(row)?;
                Some((tree, node, 0))
            }
            View::Calls => match self.around_row(row)? {
                Around::Center => None,
                Around::Callers(row) => {
                    let (callers, _) = self.around.as_mut()?;
                    let node = callers.node(row)?;
                    Some((callers, node, 0))
                }
                Around::Callees(row) => {
                    let (callers, callees) = self.around.as_mut()?;
                    let (node, first) = (callees.node(row)?, callers.rows.len() + 1);
                    Some((callees, node, first))
                }
            },
            _ => None,
        }
    }

    pub(crate) fn open(&mut self) {
        match self.look.view {
            View::Functions => self.show_calls(),
            View::Tree | View::Calls => {
                let model = std::sync::Arc::clone(&self.model);
                if let Some((list, node, _)) = self.selected_branch() {
                    match list.is_open(node) {
                        true => list.close(node),
                        false => list.open(&model, node),
                    }
                }
            }
            View::Flame => self.zoom(),
            View::Threads => {
                let row = self.place().selected;
                if let Some(TaskRow::Share(share)) = self.tasks.get(row) {
                    let filter = share.filter.clone();
                    let is_set = (self.filters.iter())
                        .any(|set| set.kind == filter.kind && set.label == filter.label);
                    match is_set {
                        true => {
                            self.filters.retain(|set| set.kind != filter.kind);
                            self.filters_changed();
                        }
                        false => self.push_filter(filter),
                    }
                }
            }
            View::Time => self.mark_time(),
            View::Verdict => {}
        }
    }

    /// Marks the start of a time range, or filters by the range that ends here.
    fn mark_time(&mut self) {
        let cursor = self.look.time_cursor;
        let Some(histogram) = &self.histogram else {
            self.message = Some("samples have no times here".into());
            return;
        };
        match self.look.time_mark.take() {
            None => self.look.time_mark = Some(cursor),
            Some(mark) => {
                let (from, _) = histogram.times_of(usize::from(mark.min(cursor)));
                let (_, to) = histogram.times_of(usize::from(mark.max(cursor)));
                let filter = Filter::time(histogram.first, from, to.min(histogram.last));
                self.push_filter(filter);
            }
        }
    }

    pub(crate) fn show_calls(&mut self) {
        let selected = self.selected();
        if let Some(function) = selected.filter(|new| Some(*new) != self.look.function) {
            self.look.function = Some(function);
            self.around = None;
        }
        let is_new = self.look.view != View::Calls || self.around.is_none();
        self.look.view = View::Calls;
        self.settle();
        if let (true, Some((callers, _))) = (is_new, &self.around) {
            self.look.lists[View::Calls.index()].selected = callers.rows.len();
        }
    }

    pub(crate) fn zoom(&mut self) {
        let node = match self.look.view {
            View::Flame => self.look.flame_node,
            View::Tree => {
                let row = self.place().selected;
                self.tree.as_ref().and_then(|tree| tree.node(row))
            }
            _ => return,
        };
        self.look.zoom = node.filter(|node| self.look.zoom != Some(*node));
        if self.look.view == View::Tree {
            *self.list() = List::default();
            if let (Some(tree), Some(node)) = (&mut self.tree, self.look.zoom) {
                tree.open(&self.model, node);
            }
        }
    }

    pub(crate) fn invert(&mut self) {
        self.look.is_inverted = !self.look.is_inverted;
        (self.look.zoom, self.look.flame_node) = (None, None);
        self.look.flame_offset = 0;
        self.look.lists[View::Tree.index()] = List::default();
        self.tree = None;
    }

    pub(crate) fn open_below(&mut self, levels: u32) {
        let model = std::sync::Arc::clone(&self.model);
        let (limit, whole) = (self.look.limit, self.model.whole);
        if let Some((list, node, _)) = self.selected_branch() {
            list.open_below(&model, Some(node), limit, whole, levels);
        }
    }

    pub(crate) fn open_all(&mut self) {
        let (limit, whole, view) = (self.look.limit, self.model.whole, self.look.view);
        let model = &self.model;
        let all = match (view, &mut self.tree, &mut self.around) {
            (View::Tree, Some(tree), _) => vec![tree],
            (View::Calls, _, Some((callers, callees))) => vec![callers, callees],
            _ => Vec::new(),
        };
        for list in all {
            list.open_below(model, None, limit, whole, u32::MAX);
        }
    }

    pub(crate) fn close_all(&mut self) {
        let view = self.look.view;
        let all = match (view, &mut self.tree, &mut self.around) {
            (View::Tree, Some(tree), _) => vec![tree],
            (View::Calls, _, Some((callers, callees))) => vec![callers, callees],
            _ => Vec::new(),
        };
        for list in all {
            list.close_all();
        }
    }

    /// Selects the next or previous match in the view. With `here`, the selected row counts too.
    pub(crate) fn find(&mut self, is_forward: bool, here: bool) {
        if self.search.is_none() {
            return;
        }
        let (at, count) = match self.look.view {
            View::Flame => {
                let node = self.look.flame_node;
                let at = self.flame.boxes.iter().position(|shown| shown.node == node);
                (at.unwrap_or(0), self.flame.boxes.len())
            }
            _ => (self.place().selected, self.len()),
        };
        let is_match = |row: usize| {
            self.function_of_row(row)
                .is_some_and(|id| self.is_match(id))
        };
        let first = usize::from(!here);
        let mut steps = first..count + first;
        let found = steps.find_map(|step| {
            let row = match is_forward {
                true => (at + step) % count,
                false => (at + count * 2 - step) % count,
            };
            is_match(row).then_some(row)
        });
        match (found, self.look.view) {
            (Some(row), View::Flame) => {
                if let Some(shown) = self.flame.boxes.get(row).copied() {
                    self.select_box(shown.node, shown.row);
                }
            }
            (Some(row), _) => self.list().selected = row,
            (None, View::Tree) => self.find_closed(),
            (None, _) => self.message = Some("no match here".into()),
        }
    }

    /// Opens the tree down to the first match whose share reaches the limit.
    fn find_closed(&mut self) {
        let (limit, whole) = (self.look.limit, self.model.whole);
        let functions = self.search.as_ref().map(|search| search.functions.clone());
        let found = match (&mut self.tree, functions) {
            (Some(tree), Some(functions)) => {
                let node = tree.find_closed(&self.model, &functions, limit, whole);
                if let Some(node) = node {
                    tree.reveal(node);
                    tree.lay_out(&self.model, limit, whole, self.look.zoom);
                }
                node.and_then(|node| tree.row_of(node))
            }
            _ => None,
        };
        match found {
            Some(row) => self.list().selected = row,
            None => self.message = Some("no match here".into()),
        }
    }

    fn function_of_row(&self, row: usize) -> Option<rprof_profile::FunctionId> {
        match self.look.view {
            View::Functions => self.model.rows.get(row)?.key.function,
            View::Tree => {
                let tree = self.tree.as_ref()?;
                Some(tree.calls.function(tree.node(row)?))
            }
            View::Flame => {
                let node = self.flame.boxes.get(row)?.node?;
                Some(self.tree.as_ref()?.calls.function(node))
            }
            View::Calls => {
                let (callers, callees) = self.around.as_ref()?;
                match self.around_row(row)? {
                    Around::Center => self.look.function,
                    Around::Callers(row) => Some(callers.calls.function(callers.node(row)?)),
                    Around::Callees(row) => Some(callees.calls.function(callees.node(row)?)),
                }
            }
            View::Threads | View::Time | View::Verdict => None,
        }
    }

    pub(crate) fn click(&mut self, x: u16, y: u16) {
        let (top, height) = self.screen.body();
        if let Some(popup) = &mut self.popup {
            if let Popup::Pick { shares, list, .. } = popup
                && let Some(row) = y.checked_sub(top + 1)
            {
                list.selected =
                    (list.offset + usize::from(row)).min(shares.len().saturating_sub(1));
            }
            return;
        }
        if self.screen.tabs() == Some(y) {
            let spans = crate::draw::tab_spans(self.screen.width);
            let hit = spans
                .into_iter()
                .find(|(_, from, to)| (*from..*to).contains(&x));
            match hit {
                Some((View::Calls, ..)) => self.show_calls(),
                Some((view, ..)) => self.look.view = view,
                None => {}
            }
            return;
        }
        if self.screen.heading() == Some(y) && self.look.view == View::Functions {
            let Some(sort) = crate::draw::sort_at(self, x) else {
                return;
            };
            match self.look.sort == sort {
                true => self.look.is_reversed = !self.look.is_reversed,
                false => (self.look.sort, self.look.is_reversed) = (sort, false),
            }
            return self.sort_rows();
        }
        let Some(row) = y.checked_sub(top).filter(|row| *row < height) else {
            return;
        };
        match self.look.view {
            View::Flame => {
                let row = self.look.flame_offset + u32::from(row);
                match self.flame.at(row, x) {
                    Some(hit) if hit.node == self.look.flame_node => self.zoom(),
                    Some(hit) => self.look.flame_node = hit.node,
                    None => {}
                }
            }
            View::Time => {
                self.look.time_cursor = x;
                self.look.time_mark = None;
            }
            _ => {
                let list = self.place();
                let row = list.offset + usize::from(row);
                if row < self.len() {
                    match row == list.selected {
                        true => self.open(),
                        false => self.list().selected = row,
                    }
                }
            }
        }
    }

    pub(crate) fn drag(&mut self, x: u16, _: u16) {
        if self.look.view == View::Time && self.popup.is_none() {
            self.look.time_mark.get_or_insert(self.look.time_cursor);
            self.look.time_cursor = x;
        }
    }
}
