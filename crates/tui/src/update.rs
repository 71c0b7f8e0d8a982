//! Handling of events by the [`State`].

use std::sync::Arc;

use rprof_profile::views::selection::FunctionSet;

use crate::event::{Effect, InputEvent};
use crate::filters::{Filter, FilterKind, Pattern, named};
use crate::keys::{Action, Key, action, help_lines};
use crate::list::{List, Screen};
use crate::model::{Model, Share};
use crate::state::{Look, Popup, Prompt, PromptKind, State, TaskRow};
use crate::view::View;

impl State {
    /// Handles an event. Returns the effects that the caller must perform.
    pub fn update(&mut self, event: InputEvent) -> Vec<Effect> {
        let mut effects = Vec::new();
        match event {
            InputEvent::Key(key) => {
                self.message = None;
                self.key(key, &mut effects);
            }
            InputEvent::Paste(text) => {
                if let Some(prompt) = &mut self.prompt {
                    prompt.text.extend(text.chars().filter(|c| !c.is_control()));
                    self.typed();
                }
            }
            InputEvent::Click(x, y) => self.click(x, y),
            InputEvent::Drag(x, y) => self.drag(x, y),
            InputEvent::Scroll(rows) => self.scroll(rows as isize),
            InputEvent::Resize(width, height) => {
                self.screen = Screen { width, height };
                effects.push(Effect::Redraw);
            }
            InputEvent::Message(text) => self.message = Some(text),
            InputEvent::Page(heading, lines) => {
                self.popup = Some(Popup::Page {
                    heading,
                    lines,
                    list: List::default(),
                });
            }
            InputEvent::Fresh(source) => self.fresh(*source),
        }
        self.settle();
        effects
    }

    fn key(&mut self, key: Key, effects: &mut Vec<Effect>) {
        if key == Key::Ctrl('c') {
            effects.push(Effect::Quit);
            return;
        }
        if self.prompt.is_some() {
            return self.type_key(key);
        }
        let Some(action) = action(key, self.source.live.is_some()) else {
            return;
        };
        if self.popup.is_some() {
            return self.popup_action(action, effects);
        }
        self.act(action, effects);
    }

    fn act(&mut self, action: Action, effects: &mut Vec<Effect>) {
        let page = (self.screen.body().1 as isize).max(1);
        match action {
            Action::Show(View::Calls) => self.show_calls(),
            Action::Show(view) => self.look.view = view,
            Action::NextView => self.look.view = self.look.view.step(1),
            Action::PreviousView => self.look.view = self.look.view.step(View::ALL.len() - 1),
            Action::Up => self.go(-1),
            Action::Down => self.go(1),
            Action::Left => self.sideways(false),
            Action::Right => self.sideways(true),
            Action::PageUp => self.scroll(-page),
            Action::PageDown => self.scroll(page),
            Action::First => self.scroll(isize::MIN),
            Action::Last => self.scroll(isize::MAX),
            Action::Open => self.open(),
            Action::OpenLevel => self.open_below(1),
            Action::OpenEntry => self.open_below(u32::MAX),
            Action::OpenAll => self.open_all(),
            Action::CloseAll => self.close_all(),
            Action::Invert => self.invert(),
            Action::Zoom => self.zoom(),
            Action::Thread => self.toggle(FilterKind::Thread),
            Action::Process => self.toggle(FilterKind::Process),
            Action::Comm => self.toggle(FilterKind::Comm),
            Action::Object => self.toggle(FilterKind::Object),
            Action::Cpu => self.toggle(FilterKind::Cpu),
            Action::Search => self.ask(PromptKind::Search),
            Action::Limit => self.ask(PromptKind::Limit),
            Action::Next => self.find(true, false),
            Action::Previous => self.find(false, false),
            Action::SearchThis => self.search_this(),
            Action::Keep => self.keep(true),
            Action::LeaveOut => self.keep(false),
            Action::Remove => self.remove(),
            Action::Annotate => match self.selected() {
                Some(function) => effects.push(Effect::Annotate(function)),
                None => self.message = Some("select a function first".into()),
            },
            Action::Sort => {
                self.look.sort = self.look.sort.next();
                self.sort_rows();
            }
            Action::Reverse => {
                self.look.is_reversed = !self.look.is_reversed;
                self.sort_rows();
            }
            Action::PercentOf => self.look.of_all = !self.look.of_all,
            Action::Unit => self.look.shows_weight = !self.look.shows_weight,
            Action::NextEvent => self.next_event(),
            Action::Objects => self.look.shows_objects = !self.look.shows_objects,
            Action::FullNames => self.look.full_names = !self.look.full_names,
            Action::Copy => self.copy(effects),
            Action::Pause => {
                self.is_paused = !self.is_paused;
                effects.push(Effect::Pause(self.is_paused));
            }
            Action::Zero => {
                self.is_paused = false;
                effects.push(Effect::Zero);
            }
            Action::Window => effects.push(Effect::Window),
            Action::Write => effects.push(Effect::Write),
            Action::Redraw => effects.push(Effect::Redraw),
            Action::Help => self.popup = Some(Popup::Help(List::default())),
            Action::Back => self.back(),
            Action::Suspend => effects.push(Effect::Suspend),
            Action::Quit => effects.push(Effect::Quit),
        }
    }

    fn back(&mut self) {
        // Removing an invisible mark is not a step.
        let mark = self.look.time_mark.take();
        if mark.is_some() && self.look.view == View::Time || self.search.take().is_some() {
            return;
        }
        if self.look.zoom.take().is_some() {
            self.look.flame_offset = 0;
            return;
        }
        if self.filters.pop().is_some() {
            return self.filters_changed();
        }
        if self.look.is_inverted {
            self.tree = None;
        }
        self.look = Look::default();
        self.around = None;
        if let Some(tree) = &mut self.tree {
            tree.close_all();
        }
        self.sort_rows();
    }

    fn popup_action(&mut self, action: Action, effects: &mut Vec<Effect>) {
        let live = self.source.live.is_some();
        let page = (self.screen.body().1 as isize).max(1);
        let width = usize::from(self.screen.width);
        let Some(popup) = &mut self.popup else {
            return;
        };
        let (list, len) = match popup {
            Popup::Help(list) => (list, help_lines(live, width).len()),
            Popup::Pick { shares, list, .. } => (list, shares.len()),
            Popup::Page { lines, list, .. } => (list, lines.len()),
        };
        match action {
            Action::Up => list.move_by(-1, len),
            Action::Down => list.move_by(1, len),
            Action::PageUp => list.move_by(-page, len),
            Action::PageDown => list.move_by(page, len),
            Action::First => list.move_by(isize::MIN, len),
            Action::Last => list.move_by(isize::MAX, len),
            Action::Open => {
                if let Some(Popup::Pick { shares, list, .. }) = self.popup.take()
                    && let Some(share) = shares.into_iter().nth(list.selected)
                {
                    self.push_filter(share.filter);
                }
            }
            Action::Redraw => effects.push(Effect::Redraw),
            Action::Suspend => effects.push(Effect::Suspend),
            Action::Back | Action::Help | Action::Quit => self.popup = None,
            _ => {}
        }
    }

    fn ask(&mut self, kind: PromptKind) {
        self.prompt = Some(Prompt {
            kind,
            text: String::new(),
            error: None,
            before: (self.search.clone(), self.place()),
        });
    }

    fn type_key(&mut self, key: Key) {
        let Some(prompt) = &mut self.prompt else {
            return;
        };
        match key {
            Key::Char(c) if !c.is_control() => prompt.text.push(c),
            Key::Ctrl('u') => prompt.text.clear(),
            Key::Backspace if !prompt.text.is_empty() => {
                prompt.text.pop();
            }
            Key::Esc | Key::Backspace => {
                if let Some(prompt) = self.prompt.take() {
                    let (search, list) = prompt.before;
                    self.search = search;
                    *self.list() = list;
                }
                return;
            }
            Key::Enter => return self.accept(),
            _ => return,
        }
        self.typed();
    }

    fn typed(&mut self) {
        let Some(prompt) = self.prompt.clone() else {
            return;
        };
        let error = match prompt.kind {
            PromptKind::Search => match self.set_search(&prompt.text, None) {
                Ok(()) => {
                    *self.list() = prompt.before.1;
                    self.find(true, true);
                    None
                }
                Err(error) => Some(error),
            },
            PromptKind::Limit => match limit(&prompt.text) {
                Some(_) => None,
                None => Some("give a share in percent, such as 0.5".to_owned()),
            },
        };
        // A search without a match keeps the selection. No message hides the share.
        self.message = None;
        if let Some(prompt) = &mut self.prompt {
            prompt.error = error;
        }
    }

    fn accept(&mut self) {
        let Some(prompt) = self.prompt.take() else {
            return;
        };
        match (prompt.kind, prompt.error) {
            (_, Some(error)) => self.message = Some(error),
            (PromptKind::Search, None) => {
                if prompt.text.is_empty() {
                    self.search = None;
                }
            }
            (PromptKind::Limit, None) => {
                if let Some(share) = limit(&prompt.text) {
                    self.look.limit = share;
                }
            }
        }
    }

    /// Removes the filter of a kind, or sets it from the selection, or shows a choice.
    fn toggle(&mut self, kind: FilterKind) {
        let count = self.filters.len();
        self.filters.retain(|set| set.kind != kind);
        if self.filters.len() < count {
            return self.filters_changed();
        }
        let row = self.place().selected;
        if self.look.view == View::Threads
            && let Some(TaskRow::Share(share)) = self.tasks.get(row)
            && share.filter.kind == kind
        {
            let filter = share.filter.clone();
            return self.push_filter(filter);
        }
        if let (FilterKind::Object, Some(function), false) =
            (kind, self.selected(), self.model.profile.is_folded)
        {
            let object = self.model.profile.function(function).object;
            return self.push_filter(Filter::object(&self.model.profile, object));
        }
        self.pick(kind);
    }

    fn pick(&mut self, kind: FilterKind) {
        let model: &Model = &self.model;
        let (heading, shares): (_, Vec<Share>) = match kind {
            FilterKind::Thread => ("threads", model.threads()),
            FilterKind::Process => ("processes", model.processes()),
            FilterKind::Comm => ("names of threads", model.comms()),
            FilterKind::Object => ("objects", model.objects()),
            FilterKind::Cpu => ("CPUs", model.cpus(&self.filters)),
            FilterKind::Time | FilterKind::Stacks => return,
        };
        match shares.is_empty() {
            true => self.message = Some(format!("these samples have no {heading}")),
            false => {
                self.popup = Some(Popup::Pick {
                    heading,
                    shares,
                    list: List::default(),
                });
            }
        }
    }

    fn search_this(&mut self) {
        let Some(function) = self.selected() else {
            return;
        };
        let name = self.model.name(function);
        let raw = self.model.profile.function(function).name.clone();
        // A search is case-sensitive only if the text contains capitals.
        let text = match name.chars().any(char::is_uppercase) {
            true => format!("^{}$", regex::escape(&name)),
            false => format!("^(?-i:{})$", regex::escape(&name)),
        };
        let exact = raw.ok().map(String::from);
        if let Err(error) = self.set_search(&text, exact) {
            self.message = Some(error);
        }
    }

    /// Keeps or removes the stacks with a match.
    fn keep(&mut self, has_to: bool) {
        if let Some((functions, pattern, words)) = self.chosen() {
            self.push_filter(Filter::stacks(functions, has_to, pattern, words));
        }
    }

    fn remove(&mut self) {
        if let Some((functions, pattern, _)) = self.chosen() {
            self.push_filter(Filter::removal(functions, pattern));
        }
    }

    /// Returns the matches of the search, which this ends, or else the selected function. Also
    /// returns the pattern, and the equivalent value of `--focus`.
    fn chosen(&mut self) -> Option<(FunctionSet, Pattern, Option<String>)> {
        if let Some(search) = self.search.take() {
            // `--focus` can express only plain text.
            let is_plain = regex::escape(&search.text) == search.text
                && search.text.chars().any(char::is_uppercase);
            let words = (search.exact).or_else(|| is_plain.then(|| format!("*{}*", search.text)));
            return Some((search.functions, Pattern::Regex(search.text), words));
        }
        let Some(function) = self.selected() else {
            self.message = Some("select a function, or search for some".into());
            return None;
        };
        let profile = &self.model.profile;
        let Ok(name) = &profile.function(function).name else {
            self.message = Some("this function has no name".into());
            return None;
        };
        let name = name.to_string();
        Some((
            named(profile, &name),
            Pattern::Name(name.clone()),
            Some(name),
        ))
    }

    fn copy(&mut self, effects: &mut Vec<Effect>) {
        let Some(function) = self.selected() else {
            return;
        };
        let name = self.model.name(function);
        self.message = Some(format!("copied, if the terminal allows it: {name}"));
        effects.push(Effect::Copy(name));
    }

    fn next_event(&mut self) {
        let events = &self.model.profile.events;
        let after = |step| (self.model.event + step) % events.len();
        let mut others = (1..events.len()).map(after);
        let Some(event) = others.find(|event| events[*event].samples > 0) else {
            self.message = Some("there is no other event with samples".into());
            return;
        };
        self.event = Some(event);
        self.fresh(self.source.clone());
    }

    fn fresh(&mut self, mut source: crate::Source) {
        let has_chosen = |event: &usize| *event < source.profile.events.len();
        source.event = self.event.filter(has_chosen).unwrap_or(source.event);
        let is_same = source.generation == self.source.generation;
        if !is_same {
            // All ids have changed.
            self.filters.clear();
            let view = self.look.view;
            self.look = Look {
                view,
                ..Look::default()
            };
            (self.tree, self.around) = (None, None);
        }
        let at = self.look.lists[View::Functions.index()].selected;
        let selected = (self.model.rows.get(at).map(|row| row.key)).filter(|_| at > 0);
        let profile = Arc::clone(&source.profile);
        let mut model = Model::new(profile, source.event, source.weight);
        self.source = source;
        for filter in &mut self.filters {
            filter.renew(&model.profile);
        }
        if !self.filters.is_empty() {
            model.filter(&self.filters);
        }
        self.model = Arc::new(model);
        if let Some(search) = self.search.take() {
            self.set_search(&search.text, search.exact).ok();
        }
        self.sort_rows_selecting(selected);
        (self.around, self.histogram) = (None, None);
        self.tasks.clear();
        self.renew_tree();
    }
}

fn limit(text: &str) -> Option<f64> {
    let share: f64 = text.trim().trim_end_matches('%').parse().ok()?;
    (0.0..=100.0).contains(&share).then_some(share)
}
