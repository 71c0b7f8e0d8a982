//! [`Contexts`]: reads the thread context of OpenTelemetry at each sample.

use super::attempt::Opened;
use super::attrs;
use super::opened::{EventIds, Role};
use super::plan::Plan;
use rprof_perf_event::{ContextPlaces, ContextProgram, Errno, OpenOptions, PerfFd, Subject};
use rprof_records::{EventKind, request_context};
use std::os::fd::AsFd;
use std::sync::Arc;

/// The program, and the event of each CPU for its records.
#[derive(Debug)]
pub(crate) struct Contexts {
    program: ContextProgram,
    _outputs: Vec<PerfFd>,
}

impl Contexts {
    /// Attaches the program to all opened events. Samples of CPUs that come back later have no
    /// context.
    ///
    /// # Errors
    /// The first error of bpf(2), perf_event_open(2) or its ioctls.
    pub(crate) fn open(plan: &Plan, opened: &mut Opened) -> Result<Contexts, Errno> {
        let highest = opened.cpus.iter().map(|rings| rings.cpu).max().unwrap_or(0);
        let program = ContextProgram::load(highest + 1)?;
        let attr = attrs::contexts(plan);
        let (mut outputs, mut ids) = (Vec::new(), Vec::new());
        for rings in &opened.cpus {
            let options = OpenOptions::new(&attr).subject(Subject::All);
            let event = options.cpu(rings.cpu).open()?;
            // In the ring of the samples, so that no later record precedes a context.
            event.redirect_to(&rings.samples)?;
            program.send_to(rings.cpu, &event)?;
            ids.push(event.id()?);
            outputs.push(event);
        }
        for set in &opened.sets {
            for (event, fd) in opened.events.iter().zip(&set.samples) {
                let Some(fd) = fd.as_ref().filter(|_| takes_programs(event)) else {
                    continue;
                };
                fd.set_bpf(program.as_fd())?;
            }
        }
        // The sideband event stays the last.
        let place = opened.events.len().saturating_sub(1);
        opened.events.insert(
            place,
            EventIds {
                role: Role::Contexts,
                attr,
                name: request_context::EVENT.to_owned(),
                ids,
            },
        );
        Ok(Contexts {
            program,
            _outputs: outputs,
        })
    }

    pub(crate) fn places(&self) -> &Arc<ContextPlaces> {
        self.program.places()
    }
}

/// Tracepoints and probes need another type of program.
fn takes_programs(event: &EventIds) -> bool {
    let is_sampled = matches!(event.role, Role::Samples | Role::OffCpu);
    is_sampled && event.attr.kind != EventKind::TRACEPOINT
}
