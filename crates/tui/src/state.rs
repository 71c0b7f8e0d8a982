//! [`State`]: the state of all views. Only events change it.

use std::sync::Arc;

use rprof_profile::views::selection::Selection;
use rprof_profile::{FunctionId, TopRow};

use crate::filters::{Filter, FilterKind};
use crate::flame::Flame;
use crate::list::{List, Screen};
use crate::model::{Histogram, Model, Share};
use crate::search::{self, Search};
use crate::source::Source;
use crate::tree_list::TreeList;
use crate::view::View;

/// State of all views of a profile.
///
/// [`update`](State::update) handles an event, and [`draw`](crate::draw) draws the state. Neither
/// performs I/O.
#[derive(Clone, Debug)]
pub struct State {
    pub(crate) source: Source,
    pub(crate) model: Arc<Model>,
    pub(crate) screen: Screen,
    pub(crate) filters: Vec<Filter>,
    pub(crate) search: Option<Search>,
    pub(crate) prompt: Option<Prompt>,
    pub(crate) popup: Option<Popup>,
    pub(crate) message: Option<String>,
    pub(crate) look: Look,
    pub(crate) tree: Option<TreeList>,
    /// True if the tree's weights are outdated. Showing the tree updates them.
    pub(crate) is_tree_stale: bool,
    /// Callers and callees of the central function.
    pub(crate) around: Option<(TreeList, TreeList)>,
    pub(crate) flame: Flame,
    pub(crate) tasks: Vec<TaskRow>,
    pub(crate) histogram: Option<Histogram>,
    pub(crate) is_paused: bool,
    pub(crate) event: Option<usize>,
}

/// View settings other than filters and search. The last Esc resets them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Look {
    pub(crate) view: View,
    pub(crate) sort: Sort,
    pub(crate) is_reversed: bool,
    pub(crate) is_inverted: bool,
    /// Percentages are relative to everything instead of the filtered weight.
    pub(crate) of_all: bool,
    pub(crate) shows_weight: bool,
    pub(crate) limit: f64,
    pub(crate) shows_objects: bool,
    pub(crate) full_names: bool,
    /// Central function of the callers and callees view.
    pub(crate) function: Option<FunctionId>,
    pub(crate) zoom: Option<u32>,
    pub(crate) flame_node: Option<u32>,
    pub(crate) flame_offset: u32,
    pub(crate) lists: [List; 7],
    /// Histogram column of the cursor, and the start of a marked range.
    pub(crate) time_cursor: u16,
    pub(crate) time_mark: Option<u16>,
}

/// Default minimum share of a branch, in percent.
const MIN_BRANCH: f64 = 0.5;

impl Default for Look {
    fn default() -> Look {
        Look {
            view: View::Functions,
            sort: Sort::Own,
            is_reversed: false,
            is_inverted: false,
            of_all: false,
            shows_weight: false,
            limit: MIN_BRANCH,
            shows_objects: true,
            full_names: false,
            function: None,
            zoom: None,
            flame_node: None,
            flame_offset: 0,
            lists: [List::default(); 7],
            time_cursor: 0,
            time_mark: None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sort {
    Own,
    Total,
    Samples,
    Name,
}

impl Sort {
    pub(crate) fn next(self) -> Sort {
        match self {
            Sort::Own => Sort::Total,
            Sort::Total => Sort::Samples,
            Sort::Samples => Sort::Name,
            Sort::Name => Sort::Own,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Prompt {
    pub(crate) kind: PromptKind,
    pub(crate) text: String,
    pub(crate) error: Option<String>,
    /// Search and selection before the prompt.
    pub(crate) before: (Option<Search>, List),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PromptKind {
    Search,
    Limit,
}

#[derive(Clone, Debug)]
pub(crate) enum Popup {
    Help(List),
    /// Choice of a thread, process, thread name, object or CPU.
    Pick {
        heading: &'static str,
        shares: Vec<Share>,
        list: List,
    },
    Page {
        heading: String,
        lines: Vec<String>,
        list: List,
    },
}

#[derive(Clone, Debug)]
pub(crate) enum TaskRow {
    Heading(&'static str),
    Share(Share),
}

impl State {
    /// Creates the state with the first view, for a screen of this size.
    pub fn new(source: Source, width: u16, height: u16) -> State {
        let profile = Arc::clone(&source.profile);
        let mut state = State {
            model: Arc::new(Model::new(profile, source.event, source.weight)),
            message: source.hint.clone(),
            source,
            screen: Screen { width, height },
            filters: Vec::new(),
            search: None,
            prompt: None,
            popup: None,
            look: Look::default(),
            tree: None,
            is_tree_stale: false,
            around: None,
            flame: Flame::default(),
            tasks: Vec::new(),
            histogram: None,
            is_paused: false,
            event: None,
        };
        if state.source.by_total {
            state.look.sort = Sort::Total;
        }
        state.sort_rows();
        state.settle();
        state
    }

    pub(crate) fn base(&self) -> u64 {
        match self.look.of_all {
            true => self.model.all,
            false => self.model.whole,
        }
    }

    pub(crate) fn list(&mut self) -> &mut List {
        &mut self.look.lists[self.look.view.index()]
    }

    pub(crate) fn place(&self) -> List {
        self.look.lists[self.look.view.index()]
    }

    pub(crate) fn len(&self) -> usize {
        match self.look.view {
            View::Functions => self.model.rows.len(),
            View::Tree => self.tree.as_ref().map_or(0, |tree| tree.rows.len()),
            View::Calls => match &self.around {
                Some((callers, callees)) => callers.rows.len() + 1 + callees.rows.len(),
                None => 0,
            },
            View::Threads => self.tasks.len(),
            View::Verdict => self.verdict().len(),
            View::Flame | View::Time => 0,
        }
    }

    pub(crate) fn verdict(&self) -> Vec<String> {
        let width = usize::from(self.screen.width);
        self.source.verdict(width.saturating_sub(2))
    }

    pub(crate) fn selected(&self) -> Option<FunctionId> {
        let row = self.place().selected;
        match self.look.view {
            View::Functions => self.model.rows.get(row)?.key.function,
            View::Tree => {
                let tree = self.tree.as_ref()?;
                Some(tree.calls.function(tree.node(row)?))
            }
            View::Flame => {
                let tree = self.tree.as_ref()?;
                Some(tree.calls.function(self.look.flame_node?))
            }
            View::Calls => match self.around_row(row)? {
                Around::Center => self.look.function,
                Around::Callers(row) => {
                    let (callers, _) = self.around.as_ref()?;
                    Some(callers.calls.function(callers.node(row)?))
                }
                Around::Callees(row) => {
                    let (_, callees) = self.around.as_ref()?;
                    Some(callees.calls.function(callees.node(row)?))
                }
            },
            View::Threads | View::Time | View::Verdict => None,
        }
    }

    /// Maps a row of the callers and callees view.
    pub(crate) fn around_row(&self, row: usize) -> Option<Around> {
        let (callers, callees) = self.around.as_ref()?;
        let above = callers.rows.len();
        match row.checked_sub(above) {
            None => Some(Around::Callers(row)),
            Some(0) => Some(Around::Center),
            Some(below) => (below <= callees.rows.len()).then(|| Around::Callees(below - 1)),
        }
    }

    pub(crate) fn sort_rows(&mut self) {
        let at = self.look.lists[View::Functions.index()].selected;
        let selected = self.model.rows.get(at).map(|row| row.key);
        self.sort_rows_selecting(selected.filter(|_| at > 0));
    }

    pub(crate) fn sort_rows_selecting(&mut self, selected: Option<rprof_profile::RowKey>) {
        let sort = self.look.sort;
        let key = |row: &TopRow| {
            let (a, b) = match sort {
                Sort::Own => (row.self_weight, row.total_weight),
                Sort::Total => (row.total_weight, row.self_weight),
                Sort::Samples => (row.self_samples, row.total_samples),
                Sort::Name => (0, 0),
            };
            (u64::MAX - a, u64::MAX - b)
        };
        let profile = Arc::clone(&self.model.profile);
        let model = Arc::make_mut(&mut self.model);
        // Ties are sorted by name, whatever the previous order.
        model.rows.clone_from(&model.by_name);
        let rows = &mut model.rows;
        if sort == Sort::Name {
            let name = |row: &TopRow| {
                let function = profile.function(row.key.function?);
                function.name.as_deref().ok().map(str::to_owned)
            };
            rows.sort_by_cached_key(name);
        } else {
            rows.sort_by_key(key);
        }
        if self.look.is_reversed {
            rows.reverse();
        }
        if let Some(selected) = selected {
            let is_it = |row: &TopRow| row.key == selected;
            if let Some(at) = self.model.rows.iter().position(is_it) {
                self.look.lists[View::Functions.index()].selected = at;
            }
        }
    }

    pub(crate) fn filters_changed(&mut self) {
        let at = self.look.lists[View::Functions.index()].selected;
        let selected = (self.model.rows.get(at).map(|row| row.key)).filter(|_| at > 0);
        let has_other_frames = Arc::make_mut(&mut self.model).filter(&self.filters);
        self.sort_rows_selecting(selected);
        if let Some(search) = &mut self.search {
            measure(search, &self.model);
        }
        self.weights_changed(has_other_frames);
    }

    /// Creates missing data of the view, and scrolls to the selection.
    pub(crate) fn settle(&mut self) {
        let (_, height) = self.screen.body();
        match self.look.view {
            View::Tree | View::Flame => self.settle_tree(),
            View::Calls => self.look_around(),
            View::Threads if self.tasks.is_empty() => self.tasks = self.task_rows(),
            View::Time => {
                let width = usize::from(self.screen.width);
                let parts = self
                    .histogram
                    .as_ref()
                    .map(|histogram| histogram.counts.len());
                if parts != Some(width.max(1)) {
                    self.histogram = self.model.histogram(&self.filters, width);
                }
                let last = self.screen.width.saturating_sub(1);
                self.look.time_cursor = self.look.time_cursor.min(last);
                self.look.time_mark = self.look.time_mark.map(|mark| mark.min(last));
            }
            _ => {}
        }
        if let Some(tree) = &mut self.tree {
            match self.look.view {
                View::Tree => {
                    let (limit, whole) = (self.look.limit, self.model.whole);
                    tree.lay_out(&self.model, limit, whole, self.look.zoom);
                }
                View::Flame => {
                    let look = &mut self.look;
                    let rows = look.flame_offset + u32::from(height);
                    let zoom = look.zoom;
                    let width = self.screen.width;
                    self.flame = Flame::lay_out(&mut tree.calls, &self.model, zoom, width, rows);
                    let shown = self.flame.of_node(look.flame_node);
                    if shown.is_none() {
                        look.flame_node = look.zoom;
                    }
                }
                _ => {}
            }
        }
        let len = self.len();
        self.list().settle(len, usize::from(height));
    }

    fn task_rows(&self) -> Vec<TaskRow> {
        let model = &self.model;
        let lists = [
            ("processes", model.processes()),
            ("threads", model.threads()),
            ("names of threads", model.comms()),
            ("objects", model.objects()),
            ("CPUs", model.cpus(&self.filters)),
        ];
        let mut rows = Vec::new();
        for (heading, shares) in lists.into_iter().filter(|(_, shares)| !shares.is_empty()) {
            rows.push(TaskRow::Heading(heading));
            rows.extend(shares.into_iter().map(TaskRow::Share));
        }
        rows
    }

    /// Adds a filter. It replaces a filter of the same kind, except for stack filters.
    pub(crate) fn push_filter(&mut self, filter: Filter) {
        if filter.kind != FilterKind::Stacks {
            self.filters.retain(|set| set.kind != filter.kind);
        }
        self.filters.push(filter);
        self.filters_changed();
    }

    /// Sets the search. An empty text ends it.
    ///
    /// # Errors
    /// Returns a message if the expression is invalid.
    pub(crate) fn set_search(&mut self, text: &str, exact: Option<String>) -> Result<(), String> {
        if text.is_empty() {
            self.search = None;
            return Ok(());
        }
        let regex = search::compile(text)?;
        let mut search = Search {
            text: text.to_owned(),
            functions: search::matching(&self.model.profile, &regex),
            count: 0,
            weight: 0,
            exact,
        };
        measure(&mut search, &self.model);
        self.search = Some(search);
        Ok(())
    }

    pub(crate) fn is_match(&self, function: FunctionId) -> bool {
        let search = self.search.as_ref();
        search.is_some_and(|search| search.functions.get(function.0 as usize) == Some(&true))
    }
}

pub(crate) fn measure(search: &mut Search, model: &Model) {
    let is_match = |row: &&TopRow| {
        let function = row.key.function;
        function.is_some_and(|id| search.functions.get(id.0 as usize) == Some(&true))
    };
    search.count = model.rows.iter().filter(is_match).count();
    search.weight =
        Selection::weight_with(&model.profile, &model.entries, model.by, &search.functions);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Around {
    /// Row index among the callers.
    Callers(usize),
    Center,
    /// Row index among the callees.
    Callees(usize),
}
