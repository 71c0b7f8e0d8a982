//! [`Place`]: a thread, a CPU or both, where an event has a counter. [`Per`]: granularity of counts.

use crate::error::CountError;
use rprof_events::cpus;
use rprof_launch::{Cgroup, Target, TargetThread};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Granularity of counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Per {
    /// One sum for the whole target.
    #[default]
    All,
    /// One count for each CPU.
    Cpu,
    /// One count for each core. Hardware threads share a core.
    Core,
    /// One count for each socket.
    Socket,
    /// One count for each memory node.
    Node,
    /// One count for each thread of the target.
    Thread,
    /// One count for each process of the target: the sum of its threads.
    Process,
}

impl Per {
    /// Returns true if a command's threads need separate counters.
    pub(crate) fn is_by_thread(self) -> bool {
        matches!(self, Per::Thread | Per::Process)
    }

    /// Returns true if threads need a separate counter on each CPU.
    pub(crate) fn is_by_cpu(self) -> bool {
        matches!(self, Per::Cpu | Per::Core | Per::Socket | Per::Node)
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Subject {
    Thread(TargetThread),
    Everything,
    Cgroup(Arc<OwnedFd>),
}

#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) subject: Subject,
    /// CPU; `None` for any.
    pub(crate) cpu: Option<u32>,
    /// True for a thread of a command. The whole command's counters include it.
    pub(crate) is_followed: bool,
}

impl Place {
    pub(crate) fn cpu(cpu: u32) -> Place {
        Place {
            subject: Subject::Everything,
            cpu: Some(cpu),
            is_followed: false,
        }
    }

    pub(crate) fn followed(thread: TargetThread) -> Place {
        Place {
            subject: Subject::Thread(thread),
            cpu: None,
            is_followed: true,
        }
    }

    pub(crate) fn thread(&self) -> Option<TargetThread> {
        match self.subject {
            Subject::Thread(thread) => Some(thread),
            Subject::Everything | Subject::Cgroup(_) => None,
        }
    }
}

/// Returns the CPUs with separate counters for threads; `None` without separation.
pub(crate) fn cpus_of_threads(per: Per, wanted: &[u32]) -> Result<Option<Vec<u32>>, CountError> {
    match per.is_by_cpu() || !wanted.is_empty() {
        true => Ok(Some(cpus::select(wanted)?)),
        false => Ok(None),
    }
}

pub(crate) fn of_threads(threads: &[TargetThread], cpus: Option<&[u32]>) -> Vec<Place> {
    let place = |thread: &TargetThread, cpu| Place {
        subject: Subject::Thread(*thread),
        cpu,
        is_followed: false,
    };
    match cpus {
        None => threads.iter().map(|thread| place(thread, None)).collect(),
        Some(cpus) => (threads.iter())
            .flat_map(|thread| cpus.iter().map(move |cpu| place(thread, Some(*cpu))))
            .collect(),
    }
}

/// Returns the places of a target that is counted by CPU, or `None`.
pub(crate) fn of_cpus(target: &Target, wanted: &[u32]) -> Result<Option<Vec<Place>>, CountError> {
    let groups = match target {
        Target::System => None,
        Target::Cgroups(names) => Some(Cgroup::open_all(names)?),
        Target::Command | Target::Processes(_) | Target::Threads(_) | Target::User(_) => {
            return Ok(None);
        }
    };
    let cpus = cpus::select(wanted)?;
    let Some(groups) = groups else {
        return Ok(Some(cpus.into_iter().map(Place::cpu).collect()));
    };
    let mut places = Vec::new();
    for group in groups {
        let group = Arc::new(OwnedFd::from(group));
        places.extend(cpus.iter().map(|cpu| Place {
            subject: Subject::Cgroup(Arc::clone(&group)),
            cpu: Some(*cpu),
            is_followed: false,
        }));
    }
    Ok(Some(places))
}
