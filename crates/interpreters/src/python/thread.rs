//! [`Thread`]: looks and learned locations of one thread.

use super::current::{Finder, LearnedFrames};
use super::layout::{FrameKind, Layout};
use super::live::{Look, Track};
use super::looks::Looks;
use super::slots::Location;
use crate::ProcessMemory;

/// Maximum number of searches for the thread state.
const MAX_SEARCHES: u32 = 512;

/// Maximum number of looks without result in a row.
const MAX_FAILED: u32 = 32;

/// Knowledge of one thread.
#[derive(Debug, Default)]
pub(super) struct Thread {
    pub(super) looks: Looks,
    /// Address of the thread state, once found.
    state: Option<u64>,
    /// Number of searches for it.
    searches: u32,
    /// Last look.
    pub(super) look: Look,
    /// Number of looks without result in a row.
    failed: u32,
}

impl Thread {
    /// Forgets a thread state after many looks without result: it was another object.
    pub(super) fn check_state(&mut self) {
        self.failed = match self.look.segments.is_empty() {
            true => self.failed + 1,
            false => 0,
        };
        if self.failed >= MAX_FAILED {
            (self.state, self.failed) = (None, 0);
        }
    }
}

/// Returns the thread's position, once its state is known. Before 3.11 each native frame has its
/// own frame object, and there is nothing to follow.
pub(super) fn track<'a>(
    layout: &'a Layout,
    finder: &Finder<'_, '_>,
    learned: &LearnedFrames,
    thread: &mut Thread,
    memory: &mut dyn ProcessMemory,
) -> Option<Track<'a>> {
    let inner = finder.evals.first()?;
    let cframe = learned.cframe_of(inner);
    let below = match layout.kind {
        FrameKind::Objects => return None,
        FrameKind::CFrames { .. } => inner.cfa.checked_sub(cframe?)?,
        FrameKind::Entries => match learned.entry.everywhere()? {
            Location::Slot(below) => below,
            Location::Register(_) => return None,
        },
    };
    if thread.state.is_none() && thread.searches < MAX_SEARCHES {
        thread.searches += 1;
        thread.state = match cframe {
            Some(cframe) => finder.thread_state(cframe, memory),
            None => finder.thread_state_of_entries(below, memory),
        };
    }
    Track::new(layout, thread.state?, below, finder.evals)
}
