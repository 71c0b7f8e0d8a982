//! `--runtimes`: makes runtimes write symbols of the code that they compile.
//!
//! Sets variables for a command, and asks running JVMs at the end. Each step is reported.

mod attach;
mod environment;
mod erlang;
mod jvm;
mod started;

use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::SystemTime;

use rprof_launch::procfs::Procfs;
use rprof_recorder::Summary;

use crate::cli::TargetArgs;
use crate::wording::messages::say;
use environment::Change;

/// Maximum number of processes searched for JVMs.
const MAX_PROCESSES: usize = 1024;

const MAX_NAMES: usize = 4;

/// Environment changes for the command, and processes to ask.
#[derive(Debug)]
pub(crate) struct Runtimes {
    changes: Vec<Change>,
    /// Reason why Erlang gets no option, if there is an Erlang.
    without_erlang: Option<String>,
    processes: Vec<u32>,
    started: SystemTime,
}

impl Runtimes {
    pub(crate) fn new(target: &TargetArgs, has_command: bool) -> Runtimes {
        let (mut changes, mut without_erlang) = (Vec::new(), None);
        if has_command {
            let erlang = erlang::find(std::env::var_os("PATH").as_deref());
            let has_erlang = matches!(erlang, Some(Ok(())));
            without_erlang = erlang.and_then(Result::err);
            changes = environment::changes(|name| std::env::var_os(name), has_erlang);
        }
        let proc = Procfs::new("/proc");
        let of_threads = target
            .threads
            .iter()
            .filter_map(|tid| proc.process_of(*tid));
        Runtimes {
            changes,
            without_erlang,
            processes: target.process_ids().into_iter().chain(of_threads).collect(),
            started: SystemTime::now(),
        }
    }

    pub(crate) fn variables(&self) -> impl Iterator<Item = (&'static str, &OsStr)> {
        (self.changes.iter()).map(|change| (change.variable, change.value.as_os_str()))
    }

    pub(crate) fn say_what_is_set(&self) {
        if !self.changes.is_empty() {
            let set: Vec<String> = self.changes.iter().map(ToString::to_string).collect();
            say(format_args!(
                "--runtimes: the command's environment has {}",
                set.join(", ")
            ));
        }
        if let Some(why) = &self.without_erlang {
            say(format_args!("--runtimes: {why}"));
        }
    }

    pub(crate) fn say_what_is_too_late(&self) {
        let proc = Procfs::new("/proc");
        for note in started::notes(&proc, &with_descendants(&proc, self.processes.clone())) {
            say(format_args!("--runtimes: {note}"));
        }
    }

    /// Asks all recorded JVMs to write symbols, at once and within seconds. `command` is the
    /// running command.
    pub(crate) fn ask_jvms(&self, command: Option<u32>, quiet: bool) {
        let proc = Procfs::new("/proc");
        let mut all = self.processes.clone();
        all.extend(command);
        for told in jvm::ask(&proc, &with_descendants(&proc, all)) {
            if !quiet {
                say(format_args!("--runtimes: {told}"));
            }
        }
    }

    pub(crate) fn say_what_was_written(&self, summary: &Summary) {
        let is_told = |path: &PathBuf| {
            let name = path.file_name().and_then(OsStr::to_str).unwrap_or("");
            (name.starts_with("perf-") && name.ends_with(".map"))
                || (name.starts_with("jit-") && name.ends_with(".dump"))
        };
        let maps = (summary.embedded.iter())
            .map(|file| file.path.clone())
            .filter(|path| is_told(path) && path.exists());
        let maps: Vec<PathBuf> = maps.collect();
        if !maps.is_empty() {
            say(format_args!(
                "--runtimes: runtimes wrote {}; the recording has copies, so they may be deleted",
                listed(&maps)
            ));
        }
        let logs = self.logs_of_node();
        if !logs.is_empty() {
            say(format_args!(
                "--runtimes: Node.js wrote {} here; rprof does not need it, delete it",
                listed(&logs)
            ));
        }
    }

    /// Returns the logs that Node.js leaves in the working folder: `isolate0x…-PID-v8.log`.
    fn logs_of_node(&self) -> Vec<PathBuf> {
        let is_log = |entry: &std::fs::DirEntry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            let changed = entry.metadata().and_then(|m| m.modified());
            name.starts_with("isolate")
                && name.ends_with("-v8.log")
                && changed.is_ok_and(|at| at >= self.started)
        };
        let is_asked = self
            .changes
            .iter()
            .any(|change| change.variable == "NODE_OPTIONS");
        let entries = is_asked.then(|| std::fs::read_dir(".").ok()).flatten();
        let entries = entries.into_iter().flatten().filter_map(Result::ok);
        entries
            .filter(is_log)
            .map(|entry| entry.file_name().into())
            .collect()
    }
}

/// Adds descendants of the processes, up to a limit.
fn with_descendants(proc: &Procfs, mut all: Vec<u32>) -> Vec<u32> {
    let mut at = 0;
    while let Some(pid) = all.get(at).copied().filter(|_| at < MAX_PROCESSES) {
        let children = (proc.thread_ids(pid).into_iter()).flat_map(|tid| proc.children(pid, tid));
        for child in children {
            if !all.contains(&child) {
                all.push(child);
            }
        }
        at += 1;
    }
    all
}

fn listed(paths: &[PathBuf]) -> String {
    let shown = paths.iter().take(MAX_NAMES);
    let shown: Vec<String> = shown.map(|path| path.display().to_string()).collect();
    match paths.len().saturating_sub(MAX_NAMES) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
