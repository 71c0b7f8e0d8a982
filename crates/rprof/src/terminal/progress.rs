//! Progress lines on stderr.

use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use indicatif::{BinaryBytes, ProgressBar, ProgressDrawTarget, ProgressStyle, WeakProgressBar};
use rprof_export::clean::clean;
use rprof_profile::unit::inflected;
use rprof_recorder::Progress;

pub(crate) const TICK: Duration = Duration::from_millis(250);

/// Bytes between two updates of a write.
const STEP: u64 = 256 << 10;

/// Creates a progress line with this template, if stderr is a terminal that can rewrite it.
pub(crate) fn line(quiet: bool, form: &str) -> Option<ProgressBar> {
    let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    if quiet || dumb || !io::stderr().is_terminal() {
        return None;
    }
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(4));
    if let Ok(style) = ProgressStyle::with_template(form) {
        bar.set_style(style);
    }
    *SHOWN.lock().unwrap_or_else(PoisonError::into_inner) = Some(bar.downgrade());
    Some(bar)
}

/// The current line, which messages must not interrupt.
static SHOWN: Mutex<Option<WeakProgressBar>> = Mutex::new(None);

/// Writes a message, with the progress line hidden.
pub(crate) fn suspend(write: impl FnOnce()) {
    let shown = SHOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let bar = shown.as_ref().and_then(WeakProgressBar::upgrade);
    drop(shown);
    match bar.filter(|bar| !bar.is_finished()) {
        Some(bar) => bar.suspend(write),
        None => write(),
    }
}

/// Progress line with the current step and its duration.
pub(crate) struct WorkLine {
    bar: Option<ProgressBar>,
}

impl WorkLine {
    pub(crate) fn new(quiet: bool) -> WorkLine {
        let bar = line(quiet, "rprof: {msg} ({elapsed})");
        if let Some(bar) = &bar {
            bar.enable_steady_tick(TICK);
        }
        WorkLine { bar }
    }

    pub(crate) fn say(&self, what: &str) {
        if let Some(bar) = &self.bar {
            // Names are untrusted here as in messages.
            bar.set_message(clean(what).into_owned());
        }
    }

    pub(crate) fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Drop for WorkLine {
    fn drop(&mut self) {
        self.clear();
    }
}

pub(crate) struct CountedWriter<'a> {
    out: &'a mut dyn Write,
    line: &'a WorkLine,
    what: String,
    bytes: u64,
}

impl<'a> CountedWriter<'a> {
    pub(crate) fn new(
        out: &'a mut dyn Write,
        line: &'a WorkLine,
        what: String,
    ) -> CountedWriter<'a> {
        line.say(&what);
        CountedWriter {
            out,
            line,
            what,
            bytes: 0,
        }
    }
}

impl Write for CountedWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        let before = self.bytes;
        let now = before + written as u64;
        self.bytes = now;
        if now / STEP > before / STEP {
            self.line
                .say(&format!("{}: {}", self.what, BinaryBytes(now)));
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

pub(crate) struct ProgressLine {
    bar: Option<ProgressBar>,
}

impl ProgressLine {
    pub(crate) fn new(quiet: bool) -> ProgressLine {
        ProgressLine {
            bar: line(quiet, "rprof: recording {elapsed}: {msg}"),
        }
    }

    /// Returns true if the line is visible. Otherwise counts are not needed.
    pub(crate) fn is_shown(&self) -> bool {
        self.bar.is_some()
    }

    pub(crate) fn show(&self, progress: &Progress) {
        if let Some(bar) = &self.bar {
            bar.set_message(format!(
                "{} {}, {} lost, {}",
                progress.samples,
                inflected(progress.samples, "sample"),
                progress.lost,
                BinaryBytes(progress.bytes)
            ));
            bar.tick();
        }
    }

    pub(crate) fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
