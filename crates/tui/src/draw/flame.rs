//! The flame graph in cells.

use ratatui::buffer::Buffer;
use rprof_profile::waits::reasons::WAITING_FOR_CPU;
use rprof_profile::{FunctionId, ObjectKind};

use crate::state::State;
use crate::text::{Kind, Theme, put};

pub(super) fn draw(state: &State, theme: Theme, buffer: &mut Buffer) {
    let (top, height) = state.screen.body();
    let Some(tree) = &state.tree else {
        return;
    };
    if let Some(row) = state.screen.heading() {
        let text = match state.look.is_inverted {
            true => " leaf functions on top, their callers below",
            false => " the root on top, its callees below",
        };
        put(
            buffer,
            (0, row),
            usize::from(state.screen.width),
            text,
            theme.dim(),
        );
    }
    let offset = state.look.flame_offset;
    let place = |row: u32| {
        let line = u16::try_from(row.checked_sub(offset)?).ok()?;
        (line < height).then_some(top + line)
    };
    for (index, shown) in state.flame.boxes.iter().enumerate() {
        let Some(y) = place(shown.row) else {
            continue;
        };
        let function = shown.node.map(|node| tree.calls.function(node));
        let is_selected = shown.node == state.look.flame_node;
        let style = match function {
            _ if is_selected => theme.flame_marked(true),
            Some(function) if state.is_match(function) => theme.flame_marked(false),
            Some(function) => theme.flame(kind(state, function), index % 2 == 1),
            None => theme.flame(Kind::Unnamed, false),
        };
        let text = function.map_or_else(|| "all".to_owned(), |function| state.model.name(function));
        let width = usize::from(shown.end - shown.x);
        for x in shown.x..shown.end {
            if let Some(cell) = buffer.cell_mut((x, y)) {
                cell.set_char(' ').set_style(style);
            }
        }
        match width {
            0..3 => {
                let edge = theme.mark('▏').to_string();
                put(buffer, (shown.x, y), 1, &edge, style);
            }
            _ => {
                let edge = theme.mark('▏').to_string();
                let x = put(buffer, (shown.x, y), 1, &edge, style);
                let name = rprof_export::clean::shorten(&text, width - 1);
                put(buffer, (x, y), width - 1, &name, style);
            }
        }
    }
    for (row, x) in &state.flame.marks {
        // Marks omitted frames only in cells without a box.
        if let Some(y) = place(*row)
            && state.flame.at(*row, *x).is_none()
            && let Some(cell) = buffer.cell_mut((*x, y))
        {
            cell.set_char(theme.mark('▪')).set_style(theme.dim());
        }
    }
    if state.flame.is_cut && height > 0 {
        let text = format!("{} more below", theme.mark('…'));
        let x = state
            .screen
            .width
            .saturating_sub(text.chars().count() as u16);
        put(
            buffer,
            (x, top + height - 1),
            text.len(),
            &text,
            theme.selected(),
        );
    }
}

fn kind(state: &State, function: FunctionId) -> Kind {
    let function = state.model.profile.function(function);
    match (
        &function.name,
        state.model.profile.object(function.object).kind,
    ) {
        (Err(_), _) => Kind::Unnamed,
        (_, ObjectKind::Kernel) => Kind::Kernel,
        (_, ObjectKind::Jit) => Kind::Jit,
        (_, ObjectKind::File) => Kind::User,
        (Ok(name), ObjectKind::Waiting) if &**name == WAITING_FOR_CPU => Kind::WaitingForCpu,
        (_, ObjectKind::Waiting) => Kind::Waiting,
    }
}
