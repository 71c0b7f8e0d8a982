//! Views that are lists of rows: functions, trees, threads, the verdict.

use ratatui::buffer::Buffer;
use ratatui::style::Style;
use rprof_export::rows::percent;
use rprof_profile::FunctionId;

use super::figures::{SAMPLES, SINCE_START, TOTAL, amount, name_column, share, shows_since_start};
use crate::calls::Calls;
use crate::state::{Around, Sort, State, TaskRow};
use crate::text::{Theme, fitted, put};
use crate::tree_list::{MAX_INDENT, TreeList, TreeRow};
use crate::view::View;

pub(super) fn draw(state: &State, theme: Theme, buffer: &mut Buffer) {
    let width = usize::from(state.screen.width);
    let (list, len) = (state.place(), state.len());
    if let Some(row) = state.screen.heading() {
        put(buffer, (0, row), width, &heading(state), theme.heading());
        let place = format!(" {}/{len} ", (list.selected + 1).min(len));
        let x = width.saturating_sub(place.len());
        if x > 40 {
            put(buffer, (x as u16, row), place.len(), &place, theme.dim());
        }
    }
    let (top, height) = state.screen.body();
    for line in 0..height {
        let row = list.offset + usize::from(line);
        if row >= len {
            break;
        }
        let y = top + line;
        one(state, theme, buffer, row, y);
        if row == list.selected {
            let x = buffer.area.right().min(state.screen.width);
            for x in 0..x {
                if let Some(cell) = buffer.cell_mut((x, y)) {
                    cell.set_style(theme.selected());
                }
            }
        }
    }
    if len == 0 {
        let text = match state.look.view {
            View::Verdict => "no data about the recording's quality",
            View::Threads => "this profile does not separate threads",
            _ => "no samples",
        };
        put(buffer, (1, top), width, text, theme.told());
    }
}

fn heading(state: &State) -> String {
    let unit = if state.look.shows_weight { "" } else { "%" };
    let mark = |sort: Sort| match (state.look.sort == sort, state.look.is_reversed) {
        (false, _) => ' ',
        (true, false) => '↓',
        (true, true) => '↑',
    };
    match state.look.view {
        View::Functions => format!(
            "{:>7}{}{:>8}{}{:>9}{} {}{}symbol",
            format!("self{unit}"),
            mark(Sort::Own),
            format!("total{unit}"),
            mark(Sort::Total),
            "samples",
            mark(Sort::Samples),
            match shows_since_start(state) {
                true => " all: self    total ",
                false => "",
            },
            mark(Sort::Name),
        ),
        View::Tree if state.look.is_inverted => {
            format!(
                "{:>8}   leaf functions, and their callers",
                format!("total{unit}")
            )
        }
        View::Tree => format!(
            "{:>8} {:>8}   calls",
            format!("total{unit}"),
            format!("self{unit}")
        ),
        View::Calls => format!(
            "{:>8}   callers above, callees below",
            format!("total{unit}")
        ),
        View::Threads => format!("{:>8} {:>9}", format!("weight{unit}"), "samples"),
        _ => String::new(),
    }
}

fn one(state: &State, theme: Theme, buffer: &mut Buffer, row: usize, y: u16) {
    let width = usize::from(state.screen.width);
    match state.look.view {
        View::Functions => {
            let Some(top) = state.model.rows.get(row) else {
                return;
            };
            number(state, theme, buffer, (0, y), top.self_weight);
            number(state, theme, buffer, (TOTAL as u16, y), top.total_weight);
            let samples = format!("{:>9}", top.self_samples);
            put(buffer, (SAMPLES as u16, y), 9, &samples, Style::new());
            if let Some(function) = top.key.function {
                since_start(state, theme, buffer, function, y);
                name(state, theme, buffer, (name_column(state), y), function);
            }
        }
        View::Tree => {
            if let Some(tree) = &state.tree {
                branch(state, theme, buffer, tree, row, y);
            }
        }
        View::Calls => {
            let Some((callers, callees)) = &state.around else {
                return;
            };
            match state.around_row(row) {
                Some(Around::Callers(row)) => branch(state, theme, buffer, callers, row, y),
                Some(Around::Callees(row)) => branch(state, theme, buffer, callees, row, y),
                Some(Around::Center) => center(state, theme, buffer, y),
                None => {}
            }
        }
        View::Threads => match state.tasks.get(row) {
            Some(TaskRow::Heading(text)) => {
                put(buffer, (1, y), width, text, theme.bold());
            }
            Some(TaskRow::Share(share)) => {
                number(state, theme, buffer, (0, y), share.weight);
                let samples = format!("{:>9}", share.samples);
                put(buffer, (9, y), 9, &samples, Style::new());
                put(
                    buffer,
                    (20, y),
                    width.saturating_sub(20),
                    &share.label,
                    Style::new(),
                );
            }
            None => {}
        },
        View::Verdict => {
            if let Some(line) = state.verdict().get(row) {
                put(buffer, (1, y), width.saturating_sub(1), line, Style::new());
            }
        }
        View::Flame | View::Time => {}
    }
}

fn since_start(state: &State, theme: Theme, buffer: &mut Buffer, function: FunctionId, y: u16) {
    let live = state
        .source
        .live
        .as_ref()
        .filter(|_| shows_since_start(state));
    let Some(sums) = live.and_then(|live| live.since_start.get(state.model.event)) else {
        return;
    };
    let (own, total, whole) = sums.of(function);
    for (x, part) in [(SINCE_START, own), (SINCE_START + 10, total)] {
        let style = theme.heat(percent(part, whole));
        let text = format!("{:>8}%", share(part, whole));
        put(buffer, (x as u16, y), 9, &text, style);
    }
}

fn number(state: &State, theme: Theme, buffer: &mut Buffer, at: (u16, u16), weight: u64) {
    let style = theme.heat(percent(weight, state.base()));
    put(buffer, at, 8, &amount(state, weight), style);
}

fn name(
    state: &State,
    theme: Theme,
    buffer: &mut Buffer,
    (x, y): (usize, u16),
    function: FunctionId,
) {
    let width = usize::from(state.screen.width);
    let object = match state.look.shows_objects && width >= 60 {
        true => state.model.object(function),
        false => String::new(),
    };
    let full = state.look.full_names;
    let object = rprof_export::clean::shorten(&object, width / 4).into_owned();
    let room = width.saturating_sub(x);
    let object_width = object.chars().count();
    let gap = if object.is_empty() {
        0
    } else {
        object_width + 2
    };
    let style = match state.is_match(function) {
        true => theme.matched(),
        false => Style::new(),
    };
    let name = fitted(&state.model.name(function), room.saturating_sub(gap), full);
    let end = put(buffer, (x as u16, y), room, &name, style);
    let object_x = width.saturating_sub(object_width);
    if !object.is_empty() && usize::from(end) < object_x {
        put(
            buffer,
            (object_x as u16, y),
            object_width,
            &object,
            theme.dim(),
        );
    }
}

fn branch(state: &State, theme: Theme, buffer: &mut Buffer, tree: &TreeList, row: usize, y: u16) {
    let is_whole = matches!(tree.calls, Calls::Whole(_));
    let x = if is_whole { 18 } else { 9 };
    match tree.rows.get(row) {
        Some(TreeRow::Node {
            node,
            indent,
            has_children,
            is_open,
        }) => {
            number(state, theme, buffer, (0, y), tree.calls.total(*node));
            if is_whole {
                number(state, theme, buffer, (9, y), tree.calls.own(*node));
            }
            let mark = match (has_children, is_open) {
                (false, _) => ' ',
                (true, false) => theme.mark('▸'),
                (true, true) => theme.mark('▾'),
            };
            let depth = match *indent == MAX_INDENT {
                true => format!("{} ", tree.calls.depth(*node)),
                false => String::new(),
            };
            let x = x + usize::from(*indent);
            let end = put(
                buffer,
                (x as u16, y),
                14,
                &format!("{mark} {depth}"),
                Style::new(),
            );
            name(
                state,
                theme,
                buffer,
                (usize::from(end), y),
                tree.calls.function(*node),
            );
        }
        Some(TreeRow::Rest {
            count,
            weight,
            indent,
        }) => {
            number(state, theme, buffer, (0, y), *weight);
            let text = format!("{} {count} more, each lighter", theme.mark('…'));
            let x = x + usize::from(*indent) + 2;
            put(
                buffer,
                (x as u16, y),
                usize::from(state.screen.width),
                &text,
                theme.dim(),
            );
        }
        None => {}
    }
}

fn center(state: &State, theme: Theme, buffer: &mut Buffer, y: u16) {
    let Some(function) = state.look.function else {
        return;
    };
    let row = state
        .model
        .rows
        .iter()
        .find(|row| row.key.function == Some(function));
    let (own, total) = row.map_or((0, 0), |row| (row.self_weight, row.total_weight));
    number(state, theme, buffer, (0, y), total);
    let text = format!(
        "{} {}, self {}",
        theme.mark('█'),
        state.model.name(function),
        amount(state, own).trim()
    );
    let width = usize::from(state.screen.width).saturating_sub(9);
    put(
        buffer,
        (9, y),
        width,
        &fitted(&text, width, false),
        theme.bold(),
    );
}
