//! Running processes whose runtime writes symbols only if enabled at its start: Node.js, .NET,
//! Erlang and Python.

use std::path::Path;

use rprof_launch::procfs::{MapsReader, Procfs};
use rprof_profile::Runtime;

use crate::wording::object_remedies;

const MAX_NAMED: usize = 4;

/// Returns a message for each process that `--runtimes` comes too late for.
pub(super) fn notes(proc: &Procfs, pids: &[u32]) -> Vec<String> {
    let notes = pids.iter().filter_map(|pid| note(proc, *pid));
    let mut notes: Vec<String> = notes.collect();
    let more = notes.len().saturating_sub(MAX_NAMED);
    notes.truncate(MAX_NAMED);
    if more > 0 {
        notes.push(format!("{more} more processes of this kind"));
    }
    notes
}

fn note(proc: &Procfs, pid: u32) -> Option<String> {
    let mut mappings = Vec::new();
    (MapsReader::new().read_without_build_ids(pid, &mut mappings)).ok()?;
    let names = mappings.iter().map(|mapping| {
        let name = mapping.path.rsplit(|byte| *byte == b'/').next();
        String::from_utf8_lossy(name.unwrap_or_default())
    });
    let names: Vec<_> = names.collect();
    let own_pid = proc.status(pid)?.innermost_id.unwrap_or(pid);
    let dump = format!("jit-{own_pid}.dump");
    let map = (proc.root_of(pid)).join(format!("tmp/perf-{own_pid}.map"));
    if is_there(&map) || names.iter().any(|name| *name == dump) {
        return None;
    }
    let runtime = names.iter().find_map(|name| Runtime::of_file(name));
    let python = names
        .iter()
        .find_map(|name| object_remedies::of_python(name));
    let (what, remedy) = match runtime {
        // JVMs are asked later; other runtimes write no symbols.
        Some(runtime @ (Runtime::Node | Runtime::DotNet | Runtime::Erlang)) => (
            runtime.name(),
            object_remedies::for_names_of(runtime).to_owned(),
        ),
        Some(_) => return None,
        None => ("Python", python?),
    };
    Some(format!(
        "{what} process {pid} writes no symbols: this must be enabled at its start. {remedy}"
    ))
}

/// Returns true if the path exists, without opening it.
fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}
