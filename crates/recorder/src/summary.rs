//! [`Summary`]: the result of a recording.

use std::path::PathBuf;
use std::time::Duration;

use rprof_launch::RunDelay;
use rprof_output::Whereabouts;
use rprof_perfdata::AuxTally;
use rprof_sampler::Degradation;

use crate::allocations::Allocated;
use crate::limits::ReachedLimits;
use crate::losses::LossAdvice;
use crate::memory::MemoryUse;
use crate::offcpu::ThreadTime;
use crate::output::{EmbeddedName, Notice};
use crate::throttling::Throttling;
use crate::unwind::StackTally;
use rprof_cpu_time::CpuTime;

/// Result of a finished recording.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// The file; with rotation, the common prefix of the names.
    pub path: PathBuf,
    /// Remaining files with rotation, oldest first.
    pub files: Vec<PathBuf>,
    /// Files that another program renamed, deleted or replaced meanwhile.
    pub moved: Vec<(PathBuf, Whereabouts)>,
    /// Length of the last file in bytes.
    pub file_bytes: u64,
    /// Names of the sampled events.
    pub events: Vec<String>,
    /// Number of samples, over all files.
    pub samples: u64,
    /// Duration of the recording.
    pub duration: Duration,
    /// Samples lost in full rings, by CPU; CPUs without losses are omitted.
    pub lost: Vec<(u32, u64)>,
    /// Settings that lose fewer samples or switches; `None` if none were lost.
    pub loss_advice: Option<LossAdvice>,
    /// Samples dropped by the processor, by CPU.
    pub dropped: Vec<(u32, u64)>,
    /// Number of times that a drain thread found no free buffer because the writer lagged.
    pub lagged: u64,
    /// Lost sideband records: names or mappings are missing.
    pub lost_sideband: u64,
    /// Throttling by the kernel, and a rate that avoids it.
    pub throttling: Option<Throttling>,
    /// Rejected samples: duplicates of threads with an inherited and an own event, and samples of
    /// the recorder.
    pub rejected: u64,
    /// Records that readers cannot sort: a round with a later one had ended before.
    pub late: u64,
    /// Bytes in a ring that could not be parsed or fetched.
    pub damaged_bytes: u64,
    /// Pieces of the AUX trace and gaps in it, if a tracing unit was recorded.
    pub trace: Option<AuxTally>,
    /// CPU time used and CPU time that samples represent; `None` for cgroups, or if no clock was
    /// sampled.
    pub cpu_time: Option<CpuTime>,
    /// Number of wait samples, over all files.
    pub waits: u64,
    /// Time of the threads, if switches were recorded.
    pub thread_time: Option<ThreadTime>,
    /// Resident memory, if it was recorded.
    pub memory: Option<MemoryUse>,
    /// Requested memory, if it was recorded.
    pub allocations: Option<Allocated>,
    /// Time that threads waited for a CPU, from scheduler statistics, if switches were recorded: of
    /// attached threads that ran from beginning to end, or of the command's first thread. `None` if
    /// the kernel does not count it or there is no such thread.
    pub run_delay: Option<RunDelay>,
    /// Processes that the command started and that still run; they are no longer recorded.
    pub left_running: Vec<i32>,
    /// Degradations, with the ones at the end.
    pub degradations: Vec<Degradation>,
    /// Results of unwinding, if rprof unwound stacks.
    pub stacks: Option<StackTally>,
    /// Embedded files, over all files of the recording.
    pub embedded: Vec<EmbeddedName>,
    /// Messages for the user about embedded files and failures to embed.
    pub notices: Vec<Notice>,
    /// Reached limits on the cost of recorded programs.
    pub limits: ReachedLimits,
}

impl Summary {
    /// Returns the number of samples lost or dropped on all CPUs.
    pub fn lost_samples(&self) -> u64 {
        (self.lost.iter().chain(&self.dropped))
            .map(|(_, n)| n)
            .sum()
    }
}
