//! [`Wait`]: an off-CPU time span of a thread.

use rprof_records::WaitEnd;

use super::wakeups::Wakeup;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    pub(super) pid: i32,
    pub(super) tid: i32,
    pub(super) cpu: u32,
    pub(super) time: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Cause {
    Blocked,
    Runnable,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wait {
    pub(super) pid: i32,
    pub(super) tid: i32,
    /// CPU on which it continued, or which it left.
    pub(super) cpu: u32,
    pub(super) from: u64,
    pub(super) to: u64,
    /// Nanoseconds that it represents: its length, or more if windows are extrapolated.
    pub(super) weight: u64,
    pub(super) cause: Cause,
    /// The switch event's sample when it left the CPU, as a whole record.
    pub(super) stack: Option<Vec<u8>>,
    /// The wakeup that ended it; `None` if unknown.
    pub(super) wake: Option<Wakeup>,
}

impl Wait {
    /// Returns the part of its weight after the wakeup, when it waited for a CPU.
    pub(super) fn queued(&self) -> u64 {
        match (self.wake, self.cause) {
            (Some(wake), Cause::Blocked) => {
                let length = u128::from(self.to.saturating_sub(self.from).max(1));
                let behind = self.to.saturating_sub(wake.at.max(self.from));
                let part = u128::from(self.weight) * u128::from(behind) / length;
                u64::try_from(part).unwrap_or(self.weight)
            }
            _ => 0,
        }
    }

    pub(super) fn end(&self) -> WaitEnd {
        self.wake.map_or(WaitEnd::Unknown, |wake| wake.by)
    }

    pub(super) fn is_ended_by(&self, thread: i32) -> bool {
        matches!(self.end(), WaitEnd::Thread { tid, .. } if tid == thread)
    }

    /// Splits it at the wakeup into a blocked part and a wait for a CPU.
    pub(super) fn parts(self) -> impl Iterator<Item = Wait> {
        let queued = self.queued();
        let Some(wake) = self.wake.filter(|_| queued > 0) else {
            return [Some(self), None].into_iter().flatten();
        };
        let awake = Wait {
            from: wake.at.max(self.from),
            weight: queued,
            cause: Cause::Runnable,
            wake: Some(Wakeup {
                by: WaitEnd::Awake,
                at: self.to,
            }),
            ..self.clone()
        };
        let blocked = Wait {
            to: awake.from,
            weight: self.weight - queued,
            ..self
        };
        [Some(blocked), Some(awake)].into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_parted_where_it_was_woken() {
        let by = WaitEnd::Thread { pid: 1, tid: 9 };
        let wait = |at, cause| Wait {
            pid: 1,
            tid: 2,
            cpu: 0,
            from: 100,
            to: 200,
            weight: 1_000,
            cause,
            stack: None,
            wake: Some(Wakeup { by, at }),
        };
        let parts = |wait: Wait| -> Vec<_> {
            wait.parts()
                .map(|part| (part.from, part.to, part.weight, part.cause, part.end()))
                .collect()
        };
        let blocked = |to, weight| (100, to, weight, Cause::Blocked, by);
        let awake = |from, weight| (from, 200, weight, Cause::Runnable, WaitEnd::Awake);
        let whole = wait(170, Cause::Blocked);
        assert_eq!(whole.queued(), 300);
        assert_eq!(parts(whole), [blocked(170, 700), awake(170, 300)]);
        assert_eq!(parts(wait(200, Cause::Blocked)), [blocked(200, 1_000)]);
        // The wakeup came before the window that cut the wait.
        assert_eq!(
            parts(wait(90, Cause::Blocked)),
            [blocked(100, 0), awake(100, 1_000)]
        );
        assert_eq!(wait(170, Cause::Runnable).queued(), 0);
    }
}
