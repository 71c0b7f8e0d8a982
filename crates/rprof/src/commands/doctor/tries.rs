//! Recordings opened as a test.

use rprof_events::Event;
use rprof_launch::Target;
use rprof_perf_event::Errno;
use rprof_sampler::{AttrFeature, Probe, SessionBuilder};

use crate::cli::SamplingArgs;
use crate::recording::session::session;
use crate::wording::messages::Failure;

/// Results of opening recordings. None of them samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tries {
    /// This process, user-mode code.
    pub(super) own_user: Result<(), Errno>,
    /// This process, with kernel code.
    pub(super) own_kernel: Result<(), Errno>,
    /// The whole first CPU.
    pub(super) system: Result<(), Errno>,
    /// This process with call stacks, and with kernel code if allowed.
    pub(super) stacks: Result<(), Errno>,
    /// Hardware CPU cycles.
    pub(super) cycles: Result<(), Errno>,
    /// Bytes of both ring buffers of a CPU.
    pub(super) rings: Result<usize, Errno>,
    /// Features that the kernel lacks.
    pub(super) lacks: Vec<AttrFeature>,
}

impl Tries {
    /// Opens what `rprof record` opens without flags, part by part.
    pub(super) fn make() -> Result<Tries, Failure> {
        let args = SamplingArgs::defaults()?;
        let clock = |stacks| Ok::<_, Failure>(session(&args, stacks)?.event(Event::cpu_clock()));
        let probe = |builder: SessionBuilder| -> Result<Probe, Failure> { Ok(builder.probe()?) };
        let own_kernel = probe(clock(false)?)?.events;
        let stacks = probe(clock(true)?.exclude_kernel(own_kernel.is_err()))?;
        let cycles = session(&args, false)?.event(Event::cycles());
        let system = clock(false)?.configure(|options| options.target = Target::System);
        Ok(Tries {
            own_user: probe(clock(false)?.exclude_kernel(true))?.events,
            own_kernel,
            system: probe(system)?.events,
            stacks: stacks.events,
            cycles: probe(cycles.exclude_kernel(true))?.events,
            rings: stacks.rings,
            lacks: stacks.lacks,
        })
    }
}
