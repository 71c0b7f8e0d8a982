//! The summary at the end of a recording.

use std::path::PathBuf;
use std::time::Duration;

use rprof_launch::RunDelay;
use rprof_output::Whereabouts;
use rprof_perfdata::AuxTally;
use rprof_sampler::Degradation;

use crate::limits::ReachedLimits;
use crate::losses::LossAdvice;
use crate::offcpu::ThreadTime;
use crate::output::{EmbeddedName, Notice};
use crate::throttling::Throttling;
use crate::unwind::StackTally;
use rprof_cpu_time::CpuTime;

/// Result of a finished recording.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// The file; with several, what their names begin with.
    pub path: PathBuf,
    /// The files that are kept, oldest first, where there may be several.
    pub files: Vec<PathBuf>,
    /// Files that do not have the name any more that they were made under: somebody renamed, deleted or replaced
    /// them meanwhile.
    pub moved: Vec<(PathBuf, Whereabouts)>,
    /// Length of the last file in bytes.
    pub file_bytes: u64,
    /// Events sampled, by the names in the file.
    pub events: Vec<String>,
    /// Samples in the file, or in all of them.
    pub samples: u64,
    /// From start to end of recording.
    pub duration: Duration,
    /// Samples lost in full rings, by CPU; CPUs that lost none are left out.
    pub lost: Vec<(u32, u64)>,
    /// Settings with which fewer samples or switches are lost; `None` where none was lost.
    pub loss_advice: Option<LossAdvice>,
    /// Samples that the processor itself dropped, by CPU.
    pub dropped: Vec<(u32, u64)>,
    /// Number of times that samples had to stay in a ring because the writer lagged behind.
    pub lagged: u64,
    /// Sideband records lost: names or mappings are missing.
    pub lost_sideband: u64,
    /// Throttling by the kernel, and a rate that would have avoided it.
    pub throttling: Option<Throttling>,
    /// Samples that were left out: taken twice of threads that both inherited an event and have
    /// their own, or of the recorder itself.
    pub rejected: u64,
    /// Records that came after a later one had been written.
    pub late: u64,
    /// Bytes in a ring that were no records, or were not taken.
    pub damaged_bytes: u64,
    /// Pieces of the trace, where a tracing unit's was recorded, and gaps in it.
    pub trace: Option<AuxTally>,
    /// CPU time that was used, and that samples stand for; `None` where whole CPUs were watched, and where no
    /// clock was sampled.
    pub cpu_time: Option<CpuTime>,
    /// Samples of waits in the file, or in all of them.
    pub waits: u64,
    /// Time of the threads, where switches were recorded.
    pub thread_time: Option<ThreadTime>,
    /// Time for which threads waited for a CPU by the scheduler's account, where switches were recorded: of what was attached
    /// to, the threads that were there from the beginning to the end; of a command, its first thread. `None` where the kernel does not
    /// count it, or nobody was there all the while.
    pub run_delay: Option<RunDelay>,
    /// Processes that the command had started and that outlived it: not recorded any more.
    pub left_running: Vec<i32>,
    /// Steps down that were taken, those of the end among them.
    pub degradations: Vec<Degradation>,
    /// Outcomes of unwinding, where rprof unwound stacks.
    pub stacks: Option<StackTally>,
    /// Files that were embedded in the recording, or in all of them.
    pub embedded: Vec<EmbeddedName>,
    /// What the user should know of embedded files, and of those that could not be.
    pub notices: Vec<Notice>,
    /// Limits on what the recorded programs may cost that were reached.
    pub limits: ReachedLimits,
}

impl Summary {
    /// Samples lost on all CPUs, for whatever reason.
    pub fn lost_samples(&self) -> u64 {
        (self.lost.iter().chain(&self.dropped))
            .map(|(_, n)| n)
            .sum()
    }
}
