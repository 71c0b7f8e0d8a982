//! Downloads from debuginfod servers: progress line, Ctrl-C, and final summary.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use indicatif::{BinaryBytes, ProgressBar};
use rprof_debuginfod::{Client, DownloadProgress, FetchResult, RequestOutcome, Settings};
use rprof_image::RemoteFiles;
use signal_hook::consts::SIGINT;

use crate::terminal::progress::line;
use crate::wording::messages::{Failure, say};

pub(crate) struct Downloads {
    client: Arc<Client>,
    bar: Option<ProgressBar>,
    /// True when the next Ctrl-C ends rprof; the first one only cancels downloads.
    over: Arc<AtomicBool>,
    quiet: bool,
}

impl Downloads {
    /// Reads the settings from the environment, and installs the Ctrl-C handler.
    pub(crate) fn new(quiet: bool) -> Result<Downloads, Failure> {
        let settings = Settings::from_environment().map_err(|e| Failure::with_status(2, e))?;
        let (over, cancelled) = (Arc::new(AtomicBool::new(false)), Arc::default());
        if !rprof_launch::signal_is_ignored(SIGINT) {
            // In this order, the second Ctrl-C finds the flag of the first.
            signal_hook::flag::register_conditional_default(SIGINT, Arc::clone(&over))?;
            signal_hook::flag::register(SIGINT, Arc::clone(&over))?;
            signal_hook::flag::register(SIGINT, Arc::clone(&cancelled))?;
        }
        let bar = line(quiet, "rprof: fetching {msg} (Ctrl-C skips downloads)");
        let client = Client::new(settings).cancelled_by(cancelled);
        let client = match bar.clone() {
            Some(bar) => client.on_progress(move |progress| show(&bar, &progress)),
            None => client,
        };
        Ok(Downloads {
            client: Arc::new(client),
            bar,
            over,
            quiet,
        })
    }

    pub(crate) fn remote(&self) -> Arc<dyn RemoteFiles> {
        Arc::clone(&self.client) as Arc<dyn RemoteFiles>
    }

    /// Returns the client, for requests that it does not cache.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn print_summary(self) {
        self.over.store(true, Ordering::SeqCst);
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        if !self.quiet {
            for line in summary(&self.client.take_outcomes()) {
                say(line);
            }
        }
    }
}

fn show(bar: &ProgressBar, progress: &DownloadProgress<'_>) {
    let name = base_name(progress.image);
    let of = progress
        .expected
        .map_or(String::new(), |all| format!(" of {}", BinaryBytes(all)));
    let text = format!("{name}: {}{of}", BinaryBytes(progress.received));
    // Names are untrusted here as in messages.
    bar.set_message(rprof_export::clean::clean(&text).into_owned());
    bar.tick();
}

fn summary(outcomes: &[RequestOutcome]) -> Vec<String> {
    let (mut fetched, mut bytes, mut missing) = (Vec::new(), 0, Vec::new());
    let mut failed: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for outcome in outcomes {
        let name = base_name(&outcome.image);
        match &outcome.result {
            FetchResult::Fetched { bytes: size, .. } => {
                bytes += size;
                fetched.push(name);
            }
            FetchResult::Missing => missing.push(name),
            FetchResult::Failed(failure) => {
                failed.entry(failure.to_string()).or_default().push(name);
            }
            _ => {}
        }
    }
    let mut lines = Vec::new();
    if !fetched.is_empty() {
        let bytes = BinaryBytes(bytes);
        lines.push(format!(
            "debuginfod: fetched {bytes} for {}",
            listed(&fetched)
        ));
    }
    if !missing.is_empty() {
        lines.push(format!(
            "debuginfod: no server has files for {}",
            listed(&missing)
        ));
    }
    for (failure, names) in failed {
        lines.push(format!(
            "debuginfod: no files for {}: {failure}",
            listed(&names)
        ));
    }
    lines
}

fn listed(names: &[String]) -> String {
    const LIMIT: usize = 5;
    let shown = names
        .iter()
        .take(LIMIT)
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join(", ");
    match names.len().checked_sub(LIMIT) {
        None | Some(0) => shown,
        Some(more) => format!("{shown} and {more} more"),
    }
}

fn base_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    name.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_of_names_are_cut() {
        let names: Vec<String> = (1..=7).map(|n| n.to_string()).collect();
        assert_eq!(listed(&names[..5]), "1, 2, 3, 4, 5");
        assert_eq!(listed(&names), "1, 2, 3, 4, 5 and 2 more");
        assert_eq!(base_name(Path::new("/usr/lib/libc.so.6")), "libc.so.6");
    }
}
