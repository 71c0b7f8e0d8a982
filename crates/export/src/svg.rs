//! A flame graph, through inferno.

use std::io::Write;

use inferno::flamegraph::{self, Direction, Palette};
use rprof_profile::{Profile, WeighBy};

use crate::clean::clean;
use crate::folded::fold;
use crate::names::CleanNames;

/// Appearance of a flame graph.
#[derive(Clone, Debug, PartialEq)]
pub struct SvgOptions {
    /// Title at the top.
    pub title: String,
    /// Line under the title.
    pub subtitle: Option<String>,
    /// Grow downwards (an icicle graph).
    pub inverted: bool,
    /// Merge from the leaves instead of the roots.
    pub reverse: bool,
    /// Palette of the frames.
    pub colors: Colors,
    /// Frames narrower than this are left out: percent of the width.
    pub min_width: f64,
    /// Width in pixels; as wide as the window without.
    pub width: Option<usize>,
    /// Weight of a sample: its period, or 1.
    pub weight: WeighBy,
}

impl Default for SvgOptions {
    fn default() -> Self {
        SvgOptions {
            title: "Flame Graph".into(),
            subtitle: None,
            inverted: false,
            reverse: false,
            colors: Colors::default(),
            min_width: 0.01,
            width: None,
            weight: WeighBy::Period,
        }
    }
}

/// A palette; by its name, such as `hot`, `rust`, `java`, through [`str::parse`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Colors(Palette);

/// No palette has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no palette {name:?}; try hot, mem, io, java, js, perl, python, rust, wakeup, red, green, blue, aqua, yellow, purple or orange"
)]
pub struct UnknownPalette {
    /// The name.
    pub name: String,
}

impl std::str::FromStr for Colors {
    type Err = UnknownPalette;

    fn from_str(name: &str) -> Result<Self, UnknownPalette> {
        name.parse().map(Colors).map_err(|_| UnknownPalette {
            name: name.to_owned(),
        })
    }
}

/// Reason for which there is no flame graph.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SvgError {
    /// There is nothing to draw.
    #[error("there is no sample to draw")]
    NoSamples,
    /// It could not be written.
    #[error("cannot write the flame graph: {0}")]
    Write(#[from] std::io::Error),
}

/// Draws the stacks of one event.
///
/// # Errors
/// [`SvgError`].
pub fn write(
    profile: &Profile,
    event: usize,
    options: &SvgOptions,
    out: &mut dyn Write,
) -> Result<(), SvgError> {
    let folded = fold(profile, event, options.weight);
    if folded.is_empty() {
        return Err(SvgError::NoSamples);
    }
    let mut svg = flamegraph::Options::default();
    svg.title = clean(&options.title).into_owned();
    svg.subtitle = options.subtitle.as_deref().map(|s| clean(s).into_owned());
    svg.colors = options.colors.0;
    svg.reverse_stack_order = options.reverse;
    svg.direction = match options.inverted {
        true => Direction::Inverted,
        false => Direction::Straight,
    };
    svg.min_width = options.min_width;
    svg.image_width = options.width;
    svg.count_name = match options.weight {
        WeighBy::Samples => "samples".into(),
        WeighBy::Period => CleanNames::new(profile).unit(event).into_owned(),
    };
    // The same stacks give the same picture, byte for byte.
    svg.deterministic = true;
    let lines: Vec<String> = folded.lines().map(|line| line.to_string()).collect();
    drop(folded);
    flamegraph::from_lines(&mut svg, lines.iter().map(String::as_str), out)?;
    Ok(())
}

/// Writes a picture without frames, which says that no sample was taken.
///
/// # Errors
/// [`SvgError::Write`].
pub fn write_without_samples(options: &SvgOptions, out: &mut dyn Write) -> Result<(), SvgError> {
    let escaped = |text: &str| {
        let text = clean(text).replace('&', "&amp;");
        text.replace('<', "&lt;").replace('>', "&gt;")
    };
    let width = options.width.unwrap_or(1200);
    let (title, middle) = (escaped(&options.title), width / 2);
    write!(
        out,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <svg xmlns=\"http://www.w3.org/2000/svg\" version=\"1.1\" width=\"{width}\" height=\"96\" \
         font-family=\"monospace\" text-anchor=\"middle\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#eeeeee\"/>\n\
         <text x=\"{middle}\" y=\"32\" font-size=\"17\">{title}</text>\n\
         <text x=\"{middle}\" y=\"64\" font-size=\"14\">no sample was taken</text>\n\
         </svg>\n"
    )?;
    Ok(())
}
