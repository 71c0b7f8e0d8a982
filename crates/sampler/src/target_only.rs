//! [`TargetOnly`]: drops the records of other processes from recordings of whole CPUs.

use rprof_records::ProcessEvent;
use std::collections::HashSet;

/// Processes and threads of the target. All FORK records must pass in time order.
#[derive(Clone, Debug)]
pub(crate) struct TargetOnly {
    pids: HashSet<u32>,
    /// Sampled threads; `None` for all of the processes.
    tids: Option<HashSet<u32>>,
    follows: bool,
}

impl TargetOnly {
    pub(crate) fn new(pids: HashSet<u32>, tids: Option<HashSet<u32>>, follows: bool) -> TargetOnly {
        TargetOnly {
            pids,
            tids,
            follows,
        }
    }

    pub(crate) fn follows(&self) -> bool {
        self.follows
    }

    pub(crate) fn has_thread(&self, pid: Option<u32>, tid: Option<u32>) -> bool {
        match &self.tids {
            Some(tids) => tid.is_some_and(|tid| tids.contains(&tid)),
            None => pid.is_some_and(|pid| self.pids.contains(&pid)),
        }
    }

    /// Returns true if an event concerns the target, or the kernel.
    pub(crate) fn follow(&mut self, event: &ProcessEvent<'_>) -> bool {
        let (pid, parent) = match event {
            ProcessEvent::Forked {
                pid, parent_pid, ..
            } => (*pid, Some(*parent_pid).filter(|parent| parent != pid)),
            ProcessEvent::Mapped(mapped) if mapped.kernel => return true,
            ProcessEvent::Mapped(mapped) => (mapped.pid, None),
            ProcessEvent::Renamed { pid, .. }
            | ProcessEvent::Executed { pid, .. }
            | ProcessEvent::Found { pid, .. }
            | ProcessEvent::Ended { pid, .. } => (*pid, None),
            _ => return true,
        };
        let pid = pid.cast_unsigned();
        if let Some(parent) = parent {
            // Ids are reused.
            match self.follows && self.pids.contains(&parent.cast_unsigned()) {
                true => self.pids.insert(pid),
                false => self.pids.remove(&pid),
            };
        }
        self.pids.contains(&pid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forked(pid: i32, parent_pid: i32) -> ProcessEvent<'static> {
        ProcessEvent::Forked {
            pid,
            tid: pid,
            parent_pid,
            parent_tid: parent_pid,
        }
    }

    fn of(follows: bool, tids: Option<&[u32]>) -> TargetOnly {
        let tids = tids.map(|tids| tids.iter().copied().collect());
        TargetOnly::new(HashSet::from([7]), tids, follows)
    }

    #[test]
    fn children_belong_to_the_target_and_others_do_not() {
        let mut only = of(true, None);
        assert!(only.has_thread(Some(7), Some(70)) && !only.has_thread(Some(8), Some(8)));
        assert!(only.follow(&forked(8, 7)) && only.has_thread(Some(8), Some(8)));
        assert!(only.follow(&forked(9, 8)) && only.has_thread(Some(9), Some(99)));
        assert!(!only.follow(&forked(10, 3)) && !only.has_thread(Some(10), Some(10)));
        assert!(!only.follow(&forked(9, 3)) && !only.has_thread(Some(9), Some(9)));
        let thread = ProcessEvent::Forked {
            pid: 7,
            tid: 71,
            parent_pid: 7,
            parent_tid: 7,
        };
        assert!(only.follow(&thread) && only.has_thread(Some(7), Some(71)));
        let ended = |pid| ProcessEvent::Ended { pid, tid: pid };
        assert!(only.follow(&ended(8)) && !only.follow(&ended(3)));
    }

    #[test]
    fn without_inheritance_only_the_listed_threads_count() {
        let mut only = of(false, Some(&[7, 70]));
        assert!(only.has_thread(Some(7), Some(70)) && !only.has_thread(Some(7), Some(71)));
        assert!(!only.follow(&forked(8, 7)) && !only.has_thread(Some(8), Some(8)));
    }
}
