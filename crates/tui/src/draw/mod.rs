//! Draws the [`State`] into a buffer.

mod figures;
mod flame;
mod popup;
mod rows;
mod time;

use ratatui::buffer::Buffer;
use rprof_profile::unit::inflected;

use crate::filters::command_line;
use crate::state::{PromptKind, Sort, State};
use crate::text::{Theme, put};
use crate::view::View;

/// Draws the state into a buffer with origin (0, 0). Performs no I/O and changes no state.
pub fn draw(state: &State, theme: Theme, buffer: &mut Buffer) {
    let width = usize::from(state.screen.width);
    if let Some(row) = state.screen.title() {
        title(state, theme, buffer, row);
    }
    if let Some(row) = state.screen.tabs() {
        tabs(state, theme, buffer, row);
    }
    match (&state.popup, state.look.view) {
        (Some(popup), _) => popup::draw(state, popup, theme, buffer),
        (None, View::Flame) => flame::draw(state, theme, buffer),
        (None, View::Time) => time::draw(state, theme, buffer),
        (None, _) => rows::draw(state, theme, buffer),
    }
    if let Some(row) = state.screen.status() {
        status(state, theme, buffer, row);
    }
    if let Some(row) = state.screen.command() {
        let command = match state.source.live {
            // No command reproduces a live view.
            Some(_) => LIVE_KEYS.to_owned(),
            None => {
                let event = state
                    .event
                    .map(|event| state.model.names().event(event).into_owned());
                let event = event.map(|name| ["--event".to_owned(), name]);
                let words = state.source.command.iter().cloned();
                let words: Vec<String> = words.chain(event.into_iter().flatten()).collect();
                command_line(&words, &state.filters)
            }
        };
        put(buffer, (0, row), width, &command, theme.dim());
    }
}

const LIVE_KEYS: &str = " Space pause   w window or everything   z from zero   W write perf.data";

fn title(state: &State, theme: Theme, buffer: &mut Buffer, row: u16) {
    let width = usize::from(state.screen.width);
    let (source, model) = (&state.source, &state.model);
    let mut words = vec![source.title.clone()];
    if let Some(event) = model.profile.events.get(model.event) {
        words.push(model.names().event(model.event).into_owned());
        let samples = inflected(event.samples, "sample");
        words.push(format!("{} {samples}", event.samples));
    }
    words.extend((!source.about.is_empty()).then(|| source.about.clone()));
    words.extend(state.is_paused.then(|| "[paused]".to_owned()));
    let title = format!(" {}", words.join("  "));
    let Some(live) = &source.live else {
        put(buffer, (0, row), width, &title, theme.bold());
        return;
    };
    let corner = live.corner.chars().count() + 1;
    let room = width.saturating_sub(corner + 1);
    let shown = rprof_export::clean::shorten(&title, room);
    put(buffer, (0, row), room, &shown, theme.bold());
    let x = width.saturating_sub(corner) as u16;
    put(buffer, (x, row), corner, &live.corner, theme.dim());
}

/// Returns the views with the first column of their name and the column after it.
pub(crate) fn tab_spans(width: u16) -> Vec<(View, u16, u16)> {
    let is_short = width < 70;
    let mut x = 1;
    (View::ALL.into_iter().enumerate())
        .map(|(index, view)| {
            let text = tab_text(index, view, is_short);
            let from = x;
            x += text.chars().count() as u16 + 2;
            (view, from, x - 1)
        })
        .collect()
}

fn tab_text(index: usize, view: View, is_short: bool) -> String {
    match is_short {
        true => (index + 1).to_string(),
        false => format!("{} {}", index + 1, view.name()),
    }
}

fn tabs(state: &State, theme: Theme, buffer: &mut Buffer, row: u16) {
    let width = state.screen.width;
    let mut end = 0;
    for (index, (view, from, to)) in tab_spans(width).into_iter().enumerate() {
        let text = tab_text(index, view, width < 70);
        let (text, style, x) = match view == state.look.view {
            true => (format!("[{text}]"), theme.selected(), from - 1),
            false => (text, ratatui::style::Style::new(), from),
        };
        put(buffer, (x, row), usize::from(width), &text, style);
        end = to;
    }
    let mut words: Vec<&str> = state.filters.iter().map(|filter| &*filter.label).collect();
    let zoom = state.look.zoom.and_then(|node| {
        let tree = state.tree.as_ref()?;
        Some(format!(
            "zoom {}",
            state.model.name(tree.calls.function(node))
        ))
    });
    words.extend(zoom.as_deref());
    if state.look.is_inverted {
        words.push("inverted");
    }
    if !words.is_empty() {
        let text = format!("filter: {}", words.join(" › "));
        let room = usize::from(width.saturating_sub(end + 1));
        let shown = rprof_export::clean::shorten(&text, room);
        put(buffer, (end + 1, row), room, &shown, theme.told());
    }
}

fn status(state: &State, theme: Theme, buffer: &mut Buffer, row: u16) {
    let width = usize::from(state.screen.width);
    let found = |text: &str| match &state.search {
        None => format!("/{text}"),
        Some(search) => {
            let share = figures::share(search.weight, state.model.whole);
            let functions = inflected(search.count as u64, "function");
            format!(
                "/{text}   {} {functions}, {share}% of samples",
                search.count
            )
        }
    };
    if let Some(prompt) = &state.prompt {
        let error = prompt.error.as_ref().map(|error| format!("   {error}"));
        let error = error.unwrap_or_default();
        let text = match prompt.kind {
            PromptKind::Search => found(&format!("{}_", prompt.text)),
            PromptKind::Limit => format!("minimum share in percent: {}_", prompt.text),
        };
        put(
            buffer,
            (0, row),
            width,
            &format!("{text}{error}"),
            theme.bold(),
        );
        return;
    }
    let text = match (&state.message, &state.search) {
        (Some(message), _) => rprof_export::clean::clean(message).into_owned(),
        (None, Some(search)) => found(&rprof_export::clean::clean(&search.text)),
        (None, None) => figures::of_selection(state),
    };
    let hints = "? help  Esc back  q quit";
    let room = width.saturating_sub(hints.len() + 2);
    match room > 30 {
        true => {
            put(buffer, (0, row), room, &text, theme.told());
            let x = (width - hints.len() - 1) as u16;
            put(buffer, (x, row), hints.len(), hints, theme.dim());
        }
        false => {
            put(buffer, (0, row), width, &text, theme.told());
        }
    }
}

/// Returns the sort order for a click on a column heading.
pub(crate) fn sort_at(state: &State, x: u16) -> Option<Sort> {
    let x = usize::from(x);
    match x {
        0..figures::TOTAL => Some(Sort::Own),
        figures::TOTAL..figures::SAMPLES => Some(Sort::Total),
        figures::SAMPLES..figures::SINCE_START => Some(Sort::Samples),
        _ => (x >= figures::name_column(state)).then_some(Sort::Name),
    }
}
