//! Threads recorded through events of whole CPUs.
//!
//! Each thread takes an event of each kind on each CPU: 200 threads on 64 CPUs take 25,600
//! descriptors. If these are too many, a few events per CPU record everything, and [`TargetOnly`]
//! drops other processes.

use super::attach::Threads;
use super::attempt::{Opened, Scope, open};
use super::degradation::Degradation;
use super::error::OpenEventsError;
use super::plan::Plan;
use crate::clock::since_boot;
use crate::target_only::TargetOnly;
use rprof_launch::ThreadSelection;
use rprof_launch::procfs::Procfs;
use std::collections::HashSet;
use std::time::Duration;

/// Opens events of whole CPUs, if `refused` says that threads take too many descriptors.
///
/// # Errors
/// Returns `refused` for other errors, and if whole CPUs cannot be recorded either.
pub(crate) fn open_whole_cpus(
    plan: &mut Plan,
    selection: &ThreadSelection,
    cpus: &mut Vec<u32>,
    refused: OpenEventsError,
) -> Result<(Opened, Threads, TargetOnly), OpenEventsError> {
    let OpenEventsError::TooManyFiles {
        threads,
        needed,
        limit,
        ..
    } = refused
    else {
        return Err(refused);
    };
    // Their readers expect events of threads.
    if plan.trace_unit().is_some() || plan.options.off_cpu {
        return Err(refused);
    }
    let follows = plan.inherits();
    plan.watch_whole_cpus(Degradation::WholeCpus {
        threads,
        cpus: cpus.len(),
        needed,
        limit,
    });
    // A process's start time is rounded down to a tick of 10 ms.
    let since = since_boot().saturating_sub(Duration::from_millis(10));
    let Ok(opened) = open(plan, &Scope::All, cpus) else {
        return Err(refused);
    };
    // FORK records report later processes.
    let found = selection.threads();
    let mut pids: HashSet<u32> = found.iter().map(|thread| thread.pid).collect();
    if follows {
        add_children_since(&mut pids, since);
    }
    let tids = match (selection, follows) {
        (ThreadSelection::Threads(_), _) | (_, false) => {
            Some(found.iter().map(|t| t.tid).collect())
        }
        (_, true) => None,
    };
    let threads = Threads::found(found);
    if threads.attached.is_empty() {
        return Err(OpenEventsError::TargetsGone {
            what: selection.describe(),
            had: 1,
        });
    }
    threads.tell(plan, selection);
    Ok((opened, threads, TargetOnly::new(pids, tids, follows)))
}

/// Adds processes whose parents are in the set, started at `since` after boot or later.
fn add_children_since(pids: &mut HashSet<u32>, since: Duration) {
    let proc = Procfs::default();
    let mut parents: Vec<u32> = pids.iter().copied().collect();
    while let Some(parent) = parents.pop() {
        let threads = proc.thread_ids(parent);
        let children = threads.iter().flat_map(|tid| proc.children(parent, *tid));
        let is_new = |pid: &u32| proc.stat(*pid).is_some_and(|stat| stat.started >= since);
        for child in children.filter(is_new) {
            if pids.insert(child) {
                parents.push(child);
            }
        }
    }
}
