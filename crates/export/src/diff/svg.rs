//! A differential flame graph. The upper panel shows the new profile. The lower panel shows stacks
//! that only the old profile has, at the same scale.
//!
//! Colours are inclusive: a frame is red if it and its callees take more than before, blue if less,
//! grey if the change is not significant. New and removed frames are hatched for readers with a
//! colour deficiency. The widths of the sides are not merged: a merged width matches neither side's
//! time.

use std::fmt::Write as _;
use std::io::Write;

use rprof_profile::compare::ProfileDiff;

use super::amount::{amount, noun, percent};
use super::tree::Tree;
use crate::clean::clean;
use crate::svg::page::{Hex, LEGEND_AT, ROW, Share, WIDTH, begin, escaped, put_box};
use crate::svg::{LeftOut, SvgError, SvgOptions};

/// A frame is coloured if its change exceeds this many standard deviations.
const FAR: f64 = 2.5;

const TOP: usize = 76;

/// Smallest width of the root. The script computes with integers.
const FINE: f64 = 1e9;

/// Draws the stacks of a comparison with [stacks](rprof_profile::compare::CompareOptions::stacks).
/// Uses only the options title, subtitle, width and minimum width. Returns the frames that were too
/// narrow to draw, if any.
///
/// # Errors
/// Fails with [`SvgError`].
pub fn write(
    diff: &ProfileDiff,
    options: &SvgOptions,
    out: &mut dyn Write,
) -> Result<Option<LeftOut>, SvgError> {
    let tree = Tree::of(diff);
    let root = &tree.nodes[0];
    let whole = root.amounts[1].max(root.elided);
    if whole <= 0.0 {
        return Err(SvgError::NoSamples);
    }
    let scale = if whole < FINE { FINE / whole } else { 1.0 };
    let fewest = whole * options.min_width / 100.0;
    let mut narrow = (0, 0.0);
    let new = place(
        &tree,
        |node| tree.nodes[node].amounts[1],
        (fewest, &mut narrow),
        0,
    );
    let deepest = |frames: &[Placed]| frames.iter().map(|frame| frame.depth).max().unwrap_or(0);
    let below = deepest(&new) + 2;
    let gone = match root.elided > 0.0 {
        true => place(
            &tree,
            |node| tree.nodes[node].elided,
            (fewest, &mut narrow),
            below,
        ),
        false => Vec::new(),
    };
    let options = SvgOptions {
        inverted: true,
        ..options.clone()
    };
    let size = (deepest(&gone).max(deepest(&new)), (whole * scale) as u64);
    let left_out = (narrow.0 > 0).then(|| LeftOut {
        frames: narrow.0,
        share: 100.0 * narrow.1 / (root.amounts[1] + root.elided),
        min_width: options.min_width,
    });
    let mut about = format!(
        "{} {} → {}{}; widths show the new side",
        noun(diff),
        amount(diff, root.amounts[0]),
        amount(diff, root.amounts[1]),
        (diff.whole.relative())
            .map_or(String::new(), |relative| format!(", {}", percent(relative))),
    );
    if let Some(left_out) = &left_out {
        about.push_str(&format!("; {left_out}"));
    }
    let drawing = Drawing {
        diff,
        tree: &tree,
        scale,
        whole: size.1,
        width: options.width.unwrap_or(WIDTH),
    };
    begin(
        size,
        &about,
        &options,
        include_str!("zoom.js"),
        &legend(),
        out,
    )?;
    let mut text = String::new();
    for (frames, is_gone) in [(&new, false), (&gone, true)] {
        for frame in frames {
            drawing.draw(frame, is_gone, &mut text);
            if text.len() > 1 << 16 {
                out.write_all(text.as_bytes())?;
                text.clear();
            }
        }
    }
    out.write_all(text.as_bytes())?;
    out.write_all(b"</svg>")?;
    if !gone.is_empty() {
        // The script treats all elements of the group as frames.
        let y = TOP + (below + 1) * ROW - 5;
        let elided = amount(diff, root.elided);
        write!(
            out,
            "<text x=\"10\" y=\"{y}\" fill=\"rgb(90,90,90)\">only in the old side, on the same scale: {elided}</text>"
        )?;
    }
    out.write_all(b"</svg>\n")?;
    out.flush()?;
    Ok(left_out)
}

struct Placed {
    node: usize,
    depth: usize,
    start: f64,
    amount: f64,
}

/// Places the nodes that are wide enough, starting at row `top`. Adds the others to `narrow`.
fn place(
    tree: &Tree,
    amount: impl Fn(usize) -> f64,
    (fewest, narrow): (f64, &mut (u64, f64)),
    top: usize,
) -> Vec<Placed> {
    let mut placed = Vec::new();
    let mut open = vec![(0, top, 0.0)];
    while let Some((node, depth, start)) = open.pop() {
        let whole = amount(node);
        if whole <= 0.0 {
            continue;
        }
        if whole < fewest {
            let mut below = vec![node];
            while let Some(node) = below.pop() {
                narrow.0 += 1;
                let children = tree.nodes[node].children.iter().copied();
                below.extend(children.filter(|child| amount(*child) > 0.0));
            }
            narrow.1 += whole;
            continue;
        }
        placed.push(Placed {
            node,
            depth,
            start,
            amount: whole,
        });
        let mut at = start;
        for child in &tree.nodes[node].children {
            open.push((*child, depth + 1, at));
            at += amount(*child);
        }
    }
    placed
}

struct Drawing<'d> {
    diff: &'d ProfileDiff,
    tree: &'d Tree,
    scale: f64,
    whole: u64,
    width: usize,
}

impl Drawing<'_> {
    fn draw(&self, frame: &Placed, is_gone: bool, out: &mut String) {
        let node = &self.tree.nodes[frame.node];
        let name = match (self.tree.names.get(node.name as usize), is_gone) {
            (Some(name), _) => name.as_str(),
            (None, false) => "new side",
            (None, true) => "only in the old side",
        };
        let panel = if is_gone { "gone" } else { "now" };
        let _ = write!(out, "<g class=\"{panel}\"><title>{} ", escaped(name));
        let [old, new] = node.amounts;
        let shown = |value| amount(self.diff, value);
        let _ = match (is_gone, old > 0.0) {
            (true, _) if new > 0.0 => write!(out, "({} of it gone)", shown(frame.amount)),
            (true, _) => write!(out, "({} gone)", shown(frame.amount)),
            (false, false) => write!(out, "({}, new)", shown(new)),
            (false, true) => write!(
                out,
                "({} to {}, {})",
                shown(old),
                shown(new),
                percent(new / old - 1.0)
            ),
        };
        out.push_str("</title>");
        let weights = [frame.start, frame.amount].map(|amount| (amount * self.scale) as u64);
        let share = weights.map(|weight| Share::of(weight, self.whole));
        let y = TOP + (frame.depth + 1) * ROW;
        put_box(
            name,
            share,
            (y, self.width),
            &self.fill(node.amounts, is_gone),
            weights,
            out,
        );
    }

    fn fill(&self, [old, new]: [f64; 2], is_gone: bool) -> String {
        match (old > 0.0, new > 0.0) {
            // Only a caller of removed frames.
            (true, true) if is_gone => Hex(GREY).to_string(),
            // Chance decides which side has few samples.
            _ if self.is_noise(old, new) => Hex(GREY).to_string(),
            (true, false) => "url(#gone)".into(),
            (false, _) => "url(#new)".into(),
            (true, true) => Hex(shade((new / old - 1.0).clamp(-1.0, 1.0))).to_string(),
        }
    }

    fn is_noise(&self, old: f64, new: f64) -> bool {
        let side = |amount: f64, summary: &rprof_profile::compare::SideSummary, whole: f64| {
            let runs = summary.weights.len() as f64;
            let sample = whole * runs / summary.samples.max(1) as f64;
            let noise = self.diff.noise.deviation() * amount;
            (amount * sample + noise * noise) / runs
        };
        let variance = side(old, &self.diff.old, self.diff.whole.old)
            + side(new, &self.diff.new, self.diff.whole.new);
        (new - old).abs() <= FAR * variance.sqrt()
    }
}

const GREY: [u8; 3] = [0xd4, 0xd4, 0xd4];
const RED: [u8; 3] = [0xf0, 0x5a, 0x3c];
const BLUE: [u8; 3] = [0x5a, 0x96, 0xf0];

/// Returns the colour of a relative change from -1 to 1.
fn shade(relative: f64) -> [u8; 3] {
    let full = if relative > 0.0 { RED } else { BLUE };
    // A small change must be visible.
    let strength = 0.25 + 0.75 * relative.abs();
    let mix = |from: u8, to: u8| {
        (f64::from(from) + (f64::from(to) - f64::from(from)) * strength).round() as u8
    };
    [0, 1, 2].map(|part| mix(0xf4, full[part]))
}

fn legend() -> String {
    let mut text = String::from("<defs>");
    for (id, [r, g, b], turn) in [("new", RED, 45), ("gone", BLUE, -45)] {
        let _ = write!(
            text,
            "<pattern id=\"{id}\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" \
             patternTransform=\"rotate({turn})\"><rect width=\"6\" height=\"6\" fill=\"{}\"/>\
             <rect width=\"2\" height=\"6\" fill=\"{}\"/></pattern>",
            Hex([r, g, b]),
            Hex([r, g, b].map(|part: u8| part / 4 * 3 + 0x3f)),
        );
    }
    let _ = write!(
        text,
        "</defs><text id=\"legend\" text-anchor=\"middle\" x=\"50%\" y=\"{LEGEND_AT}\">"
    );
    let entries = [
        (Hex(RED).to_string(), "takes more"),
        (Hex(BLUE).to_string(), "takes less"),
        (Hex(GREY).to_string(), "no sure change"),
        ("url(#new)".into(), "new"),
        ("url(#gone)".into(), "gone (lower panel)"),
    ];
    let entries = entries.map(|(fill, word)| {
        format!(
            "<tspan fill=\"{fill}\" stroke=\"#666\" stroke-width=\"0.5\">\u{25a0}</tspan>\u{a0}{word}"
        )
    });
    text.push_str(&clean(&entries.join("\u{a0}\u{a0}\u{a0}")));
    text + "</text>"
}
