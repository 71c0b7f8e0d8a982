//! Histogram of samples over time.

use ratatui::buffer::Buffer;
use rprof_profile::unit::inflected;

use crate::filters::FilterKind;
use crate::state::State;
use crate::text::{Theme, put};

/// Bars in eighths of a cell.
const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

pub(super) fn draw(state: &State, theme: Theme, buffer: &mut Buffer) {
    let (top, height) = state.screen.body();
    let Some(histogram) = &state.histogram else {
        let text = "no times of single samples: the input is several files, or folded stacks";
        put(
            buffer,
            (1, top),
            usize::from(state.screen.width),
            text,
            theme.told(),
        );
        return;
    };
    if let Some(row) = state.screen.heading() {
        let seconds = (histogram.last - histogram.first) as f64 / 1e9;
        let text =
            format!(" samples over {seconds:.3} s; Enter at start and end of a range filters");
        put(
            buffer,
            (0, row),
            usize::from(state.screen.width),
            &text,
            theme.dim(),
        );
    }
    let most = histogram.counts.iter().max().copied().unwrap_or(0).max(1);
    let cursor = state.look.time_cursor;
    let marked = state
        .look
        .time_mark
        .map(|mark| mark.min(cursor)..=mark.max(cursor));
    let filtered = state
        .filters
        .iter()
        .find(|filter| filter.kind == FilterKind::Time);
    for (x, count) in (0u16..).zip(&histogram.counts) {
        let eighths = (u128::from(*count) * u128::from(height) * 8).div_ceil(u128::from(most));
        let is_filtered = filtered.is_some_and(|filter| {
            let (from, to) = histogram.times_of(usize::from(x));
            match filter.condition() {
                Some(rprof_profile::views::selection::Condition::Time(first, last)) => {
                    *first <= to && from <= *last
                }
                _ => false,
            }
        });
        let style = match &marked {
            _ if x == cursor => theme.selected(),
            Some(marked) if marked.contains(&x) => theme.matched(),
            _ if is_filtered => theme.told(),
            _ => ratatui::style::Style::new(),
        };
        for line in 0..height {
            let below = u128::from(height - 1 - line) * 8;
            let eighths = eighths.saturating_sub(below).min(8) as usize;
            let bar = match (theme.ascii, eighths) {
                (true, 0) => ' ',
                (true, _) => '#',
                (false, eighths) => BARS[eighths],
            };
            if let Some(cell) = buffer.cell_mut((x, top + line)) {
                cell.set_char(bar).set_style(style);
            }
        }
    }
}

pub(super) fn of_cursor(state: &State) -> String {
    let Some(histogram) = &state.histogram else {
        return String::new();
    };
    let cursor = usize::from(state.look.time_cursor);
    let mark = state.look.time_mark.map_or(cursor, usize::from);
    let (first, last) = (mark.min(cursor), mark.max(cursor));
    let (from, _) = histogram.times_of(first);
    let (_, to) = histogram.times_of(last);
    let counts = histogram.counts.get(first..=last).unwrap_or_default();
    let count: u64 = counts.iter().sum();
    let since = |time: u64| (time - histogram.first) as f64 / 1e9;
    let samples = inflected(count, "sample");
    format!(
        "{:.3} to {:.3} s: {count} {samples}",
        since(from),
        since(to.min(histogram.last))
    )
}
