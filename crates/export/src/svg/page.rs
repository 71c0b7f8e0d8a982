//! Page of a flame graph: inferno's head and script, then the legend and the frames.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, Write};

use inferno::flamegraph::{self, Direction};
use rprof_parallel::map_ranges;
use rprof_profile::WeightUnit;

use super::SvgOptions;
use super::box_text::cut_name;
use super::colors::{FrameColors, Rgb, color_of};
use super::layout::{Layout, PlacedFrame};
use crate::amounts::{bytes, count, counted, duration};
use crate::clean::clean;
use crate::folded::Folded;
use crate::frame_kind::FrameKind;

/// Height of a frame and of the legend, in pixels.
pub(crate) const ROW: usize = 16;

pub(crate) const LEGEND_AT: usize = 66;

/// Page width without scripts. With scripts, the page fills the window.
pub(crate) const WIDTH: usize = 1200;

const SIDE: usize = 10;

/// Fill of search matches: darker than any frame of any palette.
pub(super) const FOUND: Rgb = [0x38, 0x00, 0x60];

/// Additions to inferno's style sheet: a visible search button, and legible text over frames.
const STYLE: &str = "#search { opacity:1; text-decoration:underline; }
#frames .found > text { fill:white; }
#details, #matched { paint-order:stroke; stroke:white; stroke-width:3px; stroke-opacity:0.8; }
#matched { font-weight:bold; }
";

const AT_ONCE: usize = 16 << 10;

pub(super) fn write(
    folded: &Folded,
    layout: &Layout,
    unit: &WeightUnit,
    about: &str,
    options: &SvgOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    let legend = legend(layout, &clean(about), options);
    begin(
        (layout.deepest, layout.drawn(layout.weight)),
        about,
        options,
        &script(layout),
        &legend,
        out,
    )?;
    let unit = clean(unit.as_str());
    let drawing = Drawing {
        folded,
        layout,
        unit: &escaped(&unit),
        colors: options.colors.of_frames(folded, &layout.frames),
        width: options.width.unwrap_or(WIDTH),
        inverted: options.inverted,
    };
    for frames in layout.frames.chunks(AT_ONCE) {
        let texts = map_ranges(frames.len(), AT_ONCE / 4, |part| {
            let mut text = String::with_capacity(part.len() * 256);
            for frame in &frames[part] {
                drawing.draw(frame, &mut text);
            }
            text
        });
        for text in texts {
            out.write_all(text.as_bytes())?;
        }
    }
    out.write_all(b"</svg></svg>\n")?;
    out.flush()
}

/// Writes everything before the frames: inferno's head and script, our functions, `script`, and the
/// legend. `size` is the graph's depth and weight.
pub(crate) fn begin(
    size: (usize, u64),
    about: &str,
    options: &SvgOptions,
    script: &str,
    legend: &str,
    out: &mut dyn Write,
) -> io::Result<()> {
    let head = head(size, &clean(about), options)?;
    let (head, frames_tag) = halves(&head)?;
    let (head, rest) = head.split_at(end_of(head, "</script>")?);
    let (style, head) = head.split_at(end_of(head, "</style>")? - "</style>".len());
    write!(
        out,
        "{style}{STYLE}{head}<script type=\"text/ecmascript\"><![CDATA[{}{}var legend_height = {ROW};\n{script}]]></script>{rest}",
        include_str!("cut_name.js"),
        include_str!("page.js"),
    )?;
    out.write_all(legend.as_bytes())?;
    out.write_all(frames_tag.as_bytes())
}

/// Returns inferno's page for one stack as deep and heavy as the graph, plus a row for the legend.
fn head((deepest, weight): (usize, u64), about: &str, options: &SvgOptions) -> io::Result<String> {
    let (palette, background) = options.colors.page();
    let mut page = flamegraph::Options::default();
    page.title = clean(&options.title).into_owned();
    let subtitle = options.subtitle.as_deref().unwrap_or(about);
    page.subtitle = Some(clean(subtitle).into_owned());
    page.colors = palette;
    page.bgcolors = background;
    page.direction = match options.inverted {
        true => Direction::Inverted,
        false => Direction::Straight,
    };
    page.min_width = 0.0;
    page.image_width = options.width;
    page.search_color = (Hex(FOUND).to_string().parse()).map_err(io::Error::other)?;
    let line = format!("x{} {weight}", ";x".repeat(deepest));
    let mut head = Vec::new();
    flamegraph::from_lines(&mut page, [line.as_str()], &mut head)?;
    String::from_utf8(head).map_err(io::Error::other)
}

/// Returns the script that computes search shares of a graph with a narrowed block.
fn script(layout: &Layout) -> String {
    layout.squeezed.map_or_else(String::new, |squeezed| {
        format!(
            "var squeezed = [{}, {}, {}];\n{}",
            squeezed.start,
            squeezed.weight,
            squeezed.drawn,
            include_str!("squeezed.js")
        )
    })
}

/// Splits inferno's page into the part before the frames, and their opening tag.
fn halves(page: &str) -> io::Result<(&str, &str)> {
    let begin = end_of(page, "<svg id=\"frames\"")? - "<svg id=\"frames\"".len();
    let tag = &page[begin..];
    Ok((&page[..begin], &tag[..end_of(tag, ">")?]))
}

fn end_of(text: &str, part: &str) -> io::Result<usize> {
    let at = text.find(part).map(|at| at + part.len());
    at.ok_or_else(|| io::Error::other("inferno's page has another form"))
}

/// Returns the legend: the colours of kinds, and the description of the recording if the subtitle
/// lacks it.
fn legend(layout: &Layout, about: &str, options: &SvgOptions) -> String {
    let mut text =
        format!("<text id=\"legend\" text-anchor=\"middle\" x=\"50%\" y=\"{LEGEND_AT}\">");
    let mut entries = Vec::new();
    if options.colors.are_by_kind() {
        let is_there = |kind: &FrameKind| layout.frames.iter().any(|frame| frame.kind == *kind);
        for kind in FrameKind::LEGEND.into_iter().filter(is_there) {
            entries.push(format!(
                "<tspan fill=\"{}\" stroke=\"#666\" stroke-width=\"0.5\">\u{25a0}</tspan>\u{a0}{}",
                Hex(color_of(kind)),
                kind.name()
            ));
        }
    }
    if options.subtitle.is_some() {
        entries.push(escaped(about).into_owned());
    }
    text.push_str(&entries.join("\u{a0}\u{a0}\u{a0}"));
    text.push_str("</text>");
    text
}

struct Drawing<'a> {
    folded: &'a Folded,
    layout: &'a Layout,
    unit: &'a str,
    colors: FrameColors,
    width: usize,
    inverted: bool,
}

impl Drawing<'_> {
    fn draw(&self, frame: &PlacedFrame, out: &mut String) {
        let name = match frame.name {
            Some(name) => self.folded.names()[name].as_str(),
            None => "all",
        };
        out.push_str("<g><title>");
        out.push_str(&escaped(name));
        self.amount(frame, out);
        let start = self.layout.drawn(frame.start);
        let weight = self.layout.drawn(frame.start + frame.weight) - start;
        let [x, width] = [start, weight].map(|part| self.share(part));
        let y = self.row(frame.depth);
        let color = Hex(self.colors.of(frame));
        let _ = write!(out, "</title>");
        put_box(
            name,
            [x, width],
            (y, self.width),
            &color,
            [start, weight],
            out,
        );
    }

    /// Writes the amount of a frame: ` (1.0 ms, 1 sample, 0.02%)`.
    fn amount(&self, frame: &PlacedFrame, out: &mut String) {
        let of_samples = || counted(frame.samples, "sample");
        let amount = match self.unit {
            "ns" => format!("{}, {}", duration(frame.weight), of_samples()),
            "bytes" => bytes(frame.weight),
            "samples" => counted(frame.weight, "sample"),
            unit => format!("{} {unit}, {}", count(frame.weight), of_samples()),
        };
        let _ = match frame.name {
            None => write!(out, " ({amount}, 100%)"),
            Some(_) => {
                let percent = 100.0 * frame.weight as f64 / self.layout.weight as f64;
                let is_block = frame.depth == 1 && frame.kind == FrameKind::Idle;
                let note = match is_block && self.layout.squeezed.is_some() {
                    true => "; drawn narrower than its share",
                    false => "",
                };
                let narrow = self.narrow(frame);
                write!(out, " ({amount}, {percent:.2}%{note}{narrow})")
            }
        };
    }

    /// Describes omitted callees. Without this, the frame would look like a leaf.
    fn narrow(&self, frame: &PlacedFrame) -> String {
        let callees = match frame.narrow.frames {
            0 => return String::new(),
            frames => counted(frames, "callee"),
        };
        let percent = 100.0 * frame.narrow.weight as f64 / self.layout.weight as f64;
        format!("; {callees} too narrow to be drawn: {percent:.2}%")
    }

    fn row(&self, depth: usize) -> usize {
        // As in inferno, one row lower for the legend.
        match self.inverted {
            true => 76 + (depth + 1) * ROW,
            false => 60 + (self.layout.deepest + 1 - depth) * ROW + 1,
        }
    }

    fn share(&self, part: u64) -> Share {
        Share::of(part, self.layout.drawn(self.layout.weight))
    }
}

/// Writes the box and text of a frame, and closes its group. The script recomputes the box from
/// `start` and `weight`.
pub(crate) fn put_box(
    name: &str,
    [x, width]: [Share; 2],
    (y, page_width): (usize, usize),
    fill: &dyn std::fmt::Display,
    [start, weight]: [u64; 2],
    out: &mut String,
) {
    let x_text = x + Share::of_pixels(3, page_width);
    let _ = write!(
        out,
        "<rect x=\"{x}%\" y=\"{y}\" width=\"{width}%\" height=\"{}\" fill=\"{fill}\" \
         fg:x=\"{start}\" fg:w=\"{weight}\"/><text x=\"{x_text}%\" y=\"{}.5\">",
        ROW - 1,
        y + 10,
    );
    // 12-pixel font with a character width of 0.59 em.
    let fit = (width.pixels(page_width) / (12.0 * 0.59)) as usize;
    out.push_str(&escaped(&cut_name(name, fit)));
    out.push_str("</text></g>");
}

/// Share of the width, in millionths.
#[derive(Clone, Copy)]
pub(crate) struct Share(u64);

impl Share {
    pub(crate) fn of(part: u64, whole: u64) -> Share {
        let whole = u128::from(whole.max(1));
        Share(((u128::from(part) * 1_000_000 + whole / 2) / whole) as u64)
    }

    pub(crate) fn of_pixels(pixels: usize, width: usize) -> Share {
        // Without the margins, as in inferno's script.
        let width = width.saturating_sub(2 * SIDE).max(1);
        Share((pixels * 1_000_000 / width) as u64)
    }

    pub(crate) fn pixels(self, width: usize) -> f64 {
        let width = width.saturating_sub(2 * SIDE);
        self.0 as f64 * width as f64 / 1e6 - 3.0
    }
}

impl std::ops::Add for Share {
    type Output = Share;

    fn add(self, other: Share) -> Share {
        Share(self.0 + other.0)
    }
}

impl std::fmt::Display for Share {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:04}", self.0 / 10_000, self.0 % 10_000)
    }
}

pub(crate) struct Hex(pub(crate) Rgb);

impl std::fmt::Display for Hex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [r, g, b] = self.0;
        write!(f, "#{r:02x}{g:02x}{b:02x}")
    }
}

pub(crate) fn escaped(text: &str) -> Cow<'_, str> {
    if !text.contains(['&', '<', '>']) {
        return Cow::Borrowed(text);
    }
    let text = text.replace('&', "&amp;");
    Cow::Owned(text.replace('<', "&lt;").replace('>', "&gt;"))
}
