//! Folded stacks with two weights: `comm;root;…;leaf OLD NEW`.
//!
//! `inferno-diff-folded` and `difffolded.pl` write this format. `inferno-flamegraph` and
//! `flamegraph.pl` draw it. Names are canonical, so the stacks of two builds match.

use std::io::{self, Write};

use rprof_profile::compare::ProfileDiff;

use crate::clean::clean;
use crate::frame_text::frame_text;

/// Writes the stacks sorted by text. The weights are sums over all runs of a side. Requires a
/// comparison with [stacks](rprof_profile::compare::CompareOptions::stacks).
///
/// # Errors
/// Fails if the writer does.
pub fn write(diff: &ProfileDiff, out: &mut dyn Write) -> io::Result<()> {
    let names: Vec<String> = names(diff).map(|name| frame_text(&name)).collect();
    let comms = comms(diff);
    let mut lines: Vec<(String, [u64; 2])> = (diff.stacks.iter())
        .map(|stack| {
            let comm = Some(&*comms[stack.comm as usize]).filter(|comm| !comm.is_empty());
            let frames = stack.rows.iter().map(|row| &*names[*row as usize]);
            let text: Vec<&str> = comm.into_iter().chain(frames).collect();
            (text.join(";"), stack.weights)
        })
        .collect();
    lines.sort();
    // Functions of one name in different objects become one frame.
    lines.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        if same {
            for side in 0..2 {
                kept.1[side] = kept.1[side].saturating_add(next.1[side]);
            }
        }
        same
    });
    for (stack, [old, new]) in lines {
        writeln!(out, "{stack} {old} {new}")?;
    }
    out.flush()
}

/// Returns the functions' names; unnamed ones as their objects in brackets.
pub(super) fn names(diff: &ProfileDiff) -> impl Iterator<Item = String> {
    diff.functions.iter().map(|row| match &row.name {
        Some(name) => clean(name).into_owned(),
        None => match &*clean(&row.object) {
            "[unknown]" | "" => "[unknown]".into(),
            object => format!("[{object}]"),
        },
    })
}

pub(super) fn comms(diff: &ProfileDiff) -> Vec<String> {
    (diff.comms.iter())
        .map(|comm| clean(comm).replace(' ', "_").replace(';', ":"))
        .collect()
}
