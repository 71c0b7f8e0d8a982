//! Popups: keys, choices and text pages.

use ratatui::buffer::Buffer;
use ratatui::style::Style;
use rprof_export::clean::clean;

use super::figures::amount;
use crate::keys::help_lines;
use crate::list::List;
use crate::state::{Popup, State};
use crate::text::{Theme, put};

pub(super) fn draw(state: &State, popup: &Popup, theme: Theme, buffer: &mut Buffer) {
    let width = usize::from(state.screen.width);
    let (top, height) = state.screen.body();
    let (heading, lines, list, selects) = match popup {
        Popup::Help(list) => {
            let lines = help_lines(state.source.live.is_some(), width);
            ("keys: Esc closes".to_owned(), lines, *list, false)
        }
        Popup::Pick {
            heading,
            shares,
            list,
        } => {
            let line = |share: &crate::model::Share| {
                format!(
                    "{} {:>9}  {}",
                    amount(state, share.weight),
                    share.samples,
                    share.label
                )
            };
            let lines = shares.iter().map(line).collect();
            (format!("{heading}: Enter keeps one"), lines, *list, true)
        }
        Popup::Page {
            heading,
            lines,
            list,
        } => (heading.clone(), lines.clone(), *list, false),
    };
    put(buffer, (0, top), width, &clean(&heading), theme.heading());
    let rows = usize::from(height.saturating_sub(1));
    let mut list: List = list;
    list.settle(lines.len(), rows);
    let offset = match selects {
        true => list.offset,
        // Pages scroll as a whole.
        false => list.selected.min(lines.len().saturating_sub(rows)),
    };
    for (y, (index, line)) in (top + 1..top + height).zip(lines.iter().enumerate().skip(offset)) {
        let style = match selects && index == list.selected {
            true => theme.selected(),
            false => Style::new(),
        };
        put(buffer, (0, y), width, &clean(line), style);
    }
}
