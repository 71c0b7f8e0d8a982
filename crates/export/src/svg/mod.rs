//! Flame graphs. inferno provides page and script; this module places and colours the frames.

mod box_text;
mod colors;
pub(crate) mod facts;
mod layout;
pub(crate) mod page;

use std::io::Write;

use rprof_profile::{Profile, WeighBy, WeightUnit};

use crate::amounts::{counted, percent};
use crate::clean::clean;
use crate::folded::{GraphForm, fold_graph};
use crate::threads::ThreadMerging;
pub use colors::{Colors, UnknownPalette};
use facts::facts;
use layout::Layout;

/// Appearance of a flame graph.
#[derive(Clone, Debug, PartialEq)]
pub struct SvgOptions {
    /// Title at the top.
    pub title: String,
    /// Line under the title; `None` describes the recording.
    pub subtitle: Option<String>,
    /// Host and time of the recording, such as `on HOST`.
    pub about: Vec<String>,
    /// Draw the root at the top (an icicle graph). Otherwise a script scrolls to the root.
    pub inverted: bool,
    /// Merge from the leaves instead of the roots.
    pub reverse: bool,
    /// Colours of the frames.
    pub colors: Colors,
    /// Minimum width of a frame, in percent of the graph. Narrower frames are omitted.
    pub min_width: f64,
    /// Width in pixels; `None` fills the window.
    pub width: Option<usize>,
    /// Weight of a sample: its period, or 1.
    pub weight: WeighBy,
    /// Rules for merging threads of different names.
    pub threads: ThreadMerging,
}

impl Default for SvgOptions {
    fn default() -> Self {
        SvgOptions {
            title: "Flame Graph".into(),
            subtitle: None,
            about: Vec::new(),
            inverted: true,
            reverse: false,
            colors: Colors::default(),
            min_width: 0.01,
            width: None,
            weight: WeighBy::Period,
            threads: ThreadMerging::default(),
        }
    }
}

/// Error of drawing a flame graph.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SvgError {
    /// The profile has no samples.
    #[error("there is no sample to draw")]
    NoSamples,
    /// Writing failed.
    #[error("cannot write the flame graph: {0}")]
    Write(#[from] std::io::Error),
}

/// Omitted frames. `Display` prints `50,001 frames narrower than 0.01% are not drawn, 99.8% of the
/// weight`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LeftOut {
    /// Number of frames.
    pub frames: u64,
    /// Percentage of the weight in these frames. Each stack counts once.
    pub share: f64,
    /// Minimum width of a frame, in percent of the graph.
    pub min_width: f64,
}

impl std::fmt::Display for LeftOut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let frames = counted(self.frames, "frame");
        let are = if self.frames == 1 { "is" } else { "are" };
        let share = match self.share {
            share if share < 0.05 => "less than 0.1".to_owned(),
            share => format!("{share:.1}"),
        };
        let least = self.min_width;
        write!(
            f,
            "{frames} narrower than {least}% {are} not drawn, {share}% of the weight"
        )
    }
}

/// Draws the stacks of one event. Returns the frames that were too narrow to draw, if any.
///
/// # Errors
/// Fails with [`SvgError`].
pub fn write(
    profile: &Profile,
    event: usize,
    options: &SvgOptions,
    out: &mut dyn Write,
) -> Result<Option<LeftOut>, SvgError> {
    let form = GraphForm {
        reverse: options.reverse,
        threads: options.threads.clone(),
    };
    let folded = fold_graph(profile, event, options.weight, &form);
    let layout = Layout::of(&folded, options.min_width);
    if layout.weight == 0 {
        return Err(SvgError::NoSamples);
    }
    let unit = match options.weight {
        WeighBy::Samples => WeightUnit::Samples,
        WeighBy::Period => profile.events[event].unit.clone(),
    };
    let left_out = (layout.narrow.frames > 0).then(|| LeftOut {
        frames: layout.narrow.frames,
        share: percent(layout.narrow.weight, layout.weight),
        min_width: options.min_width,
    });
    let mut about = facts(profile, event, &options.about);
    if let Some(left_out) = &left_out {
        about.push_str(&format!("; {left_out}"));
    }
    page::write(&folded, &layout, &unit, &about, options, out)?;
    Ok(left_out)
}

/// Writes a picture with a message instead of frames.
///
/// # Errors
/// Fails with [`SvgError::Write`].
pub fn write_without_samples(options: &SvgOptions, out: &mut dyn Write) -> Result<(), SvgError> {
    let escaped = |text: &str| page::escaped(&clean(text)).into_owned();
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
