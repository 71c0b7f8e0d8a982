//! Progress line of a recording.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rprof_recorder::Progress;

/// Time between two updates.
pub(crate) const TICK: Duration = Duration::from_millis(250);

/// Line on stderr, if that is a terminal that can rewrite it.
pub(crate) struct ProgressLine {
    bar: Option<ProgressBar>,
}

impl ProgressLine {
    pub(crate) fn new(quiet: bool) -> ProgressLine {
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        if quiet || dumb || !std::io::stderr().is_terminal() {
            return ProgressLine { bar: None };
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(4));
        if let Ok(style) = ProgressStyle::with_template("rprof: recording {elapsed}: {msg}") {
            bar.set_style(style);
        }
        ProgressLine { bar: Some(bar) }
    }

    /// Returns true if a line is shown. Without one, nobody needs the counts.
    pub(crate) fn is_shown(&self) -> bool {
        self.bar.is_some()
    }

    pub(crate) fn show(&self, progress: &Progress) {
        if let Some(bar) = &self.bar {
            bar.set_message(format!(
                "{} samples, {} lost, {}",
                progress.samples,
                progress.lost,
                indicatif::BinaryBytes(progress.bytes)
            ));
            bar.tick();
        }
    }

    /// Removes the line.
    pub(crate) fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
