//! Resident memory: recording and display options.

use std::io;

use indicatif::HumanCount;
use rprof_analysis::{MemoryOptions, Options};
use rprof_events::Event;
use rprof_export::amounts::bytes;
use rprof_export::verdict::Finding;
use rprof_profile::Profile;
use rprof_profile::memory::{ALLOCATED, GROWTH, HEAP, HEAP_PEAK, PEAK, RELEASE, RESIDENT, TOUCHED};
use rprof_recorder::{MemoryUse, RELEASES, huge_pages};
use rprof_records::{AttrFlags, SampleType};
use rprof_sampler::SessionBuilder;
use rustix::thread::CapabilitySet;

use crate::cli::{CallGraph, MemoryArgs, MemoryMoment, RecordArgs, TargetArgs};
use crate::recording::event_list;
use crate::wording::messages::Failure;
use crate::wording::remedies;

/// Maximum stack copy of a page fault, in bytes. Faults come in bursts of 500,000 a second, and
/// copies of 60 KiB would fill the rings. Frames above the copy are read from process memory.
pub(crate) const DUMP_BYTES: u32 = 16 << 10;

fn usage(message: String) -> Failure {
    Failure::with_status(2, anyhow::anyhow!(message))
}

pub(crate) fn check(args: &RecordArgs) -> Result<(), Failure> {
    let (sampling, target) = (&args.sampling, &args.target);
    let call_graph = matches!(
        sampling.call_graph,
        Some(CallGraph::Dwarf(_) | CallGraph::Lbr)
    );
    let refused = [
        (!sampling.event.is_empty(), "-e", "it samples page faults"),
        (sampling.freq.is_some(), "-F", "it samples every page fault"),
        (
            sampling.count.is_some(),
            "-c",
            "it samples every page fault",
        ),
        (
            call_graph,
            "--call-graph dwarf or lbr",
            "it adds up stacks while recording",
        ),
        (
            sampling.delay.is_some(),
            "-D",
            "it needs the first page faults",
        ),
        (
            sampling.no_inherit,
            "--no-inherit",
            "children share memory with their parent",
        ),
        (
            args.waits.off_cpu.is_some(),
            "--off-cpu",
            "bytes and times cannot be added",
        ),
        (
            args.waits.latency,
            "--latency",
            "bytes are not divided among threads",
        ),
        (
            args.extras.overwrite,
            "--overwrite",
            "it needs every page fault",
        ),
        (
            args.output.switch_output.is_some(),
            "--switch-output",
            "it writes at the end",
        ),
    ];
    if let Some((_, flag, cause)) = refused.into_iter().find(|(is_given, ..)| *is_given) {
        return Err(usage(format!(
            "--memory and {flag} cannot be combined: {cause}"
        )));
    }
    let is_other = target.is_given() && target.processes.is_empty() || target.cpus.is_some();
    if is_other {
        return Err(usage(
            "--memory records a COMMAND, or processes (-p PID); no threads, users, control groups \
             or CPUs"
                .to_owned(),
        ));
    }
    Ok(())
}

/// Maximum number of descriptors for tracepoints on attached threads. Each thread needs one for each
/// event and CPU.
const MAX_DESCRIPTORS: usize = 4_096;

/// Returns the builder of a session that samples every page fault with its address, and the
/// releases of memory where this user may record them.
pub(crate) fn add_to(
    builder: SessionBuilder,
    target: &TargetArgs,
) -> Result<SessionBuilder, Failure> {
    let faults = event_list::parse(&["page-faults".to_owned()])?;
    let builder = builder.events(faults.into_iter().chain(releases(target)));
    Ok(builder.period(1).extras(|extras| {
        extras.fields |= SampleType::ADDR;
        extras.records |= AttrFlags::MMAP_DATA;
    }))
}

fn may_record_tracepoints() -> bool {
    let rights = rustix::thread::capabilities(None).map(|sets| sets.effective);
    let all = CapabilitySet::PERFMON | CapabilitySet::SYS_ADMIN;
    rights.is_ok_and(|rights| rights.intersects(all))
}

/// Returns the tracepoints of releases and huge pages, as far as this user may record them: their
/// numbers are in tracefs. System calls of own processes need no further permission.
fn releases(target: &TargetArgs) -> Vec<Event> {
    let threads = target.processes.iter().map(|pid| {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task"));
        tasks.map_or(0, Iterator::count)
    });
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let descriptors = threads.sum::<usize>() * cpus * (RELEASES.len() + 1);
    if descriptors > MAX_DESCRIPTORS {
        return Vec::new();
    }
    let event = |(name, filter): (&str, Option<&str>)| {
        let event = Event::parse(&format!("{name}/call-graph=no/")).ok()?;
        match filter {
            Some(filter) => event.with_filter(filter),
            None => Some(event),
        }
    };
    let huge = may_record_tracepoints().then(huge_pages).flatten();
    let huge = huge.iter().map(|(name, filter)| (*name, Some(&**filter)));
    RELEASES.into_iter().chain(huge).filter_map(event).collect()
}

impl MemoryArgs {
    pub(crate) fn choose(&self, options: &mut Options) {
        let events = match self.moment() {
            None => return,
            Some(MemoryMoment::End) => [RESIDENT, HEAP],
            Some(MemoryMoment::Peak) => [PEAK, HEAP_PEAK],
            Some(MemoryMoment::Ever) => [TOUCHED, ALLOCATED],
            Some(MemoryMoment::At(at)) => {
                options.memory = MemoryOptions::At(None, at);
                [GROWTH, RELEASE]
            }
            Some(MemoryMoment::Between(from, to)) => {
                options.memory = MemoryOptions::At(Some(from), to);
                [GROWTH, RELEASE]
            }
        };
        // Resident or requested memory.
        options.filter.events = events.map(str::to_owned).into();
    }
}

/// Keeps one of several moments, whose sum means nothing: the end, or the first that filters leave.
pub(crate) fn keep_one_moment(profile: &mut Profile, events: &[String]) {
    let mut all = profile.events.iter();
    let end = all.position(|event| [RESIDENT, HEAP].contains(&&*event.name));
    if let (Some(end), true) = (end, events.is_empty()) {
        let left = match profile.events[end].samples {
            0 => profile.main_event().unwrap_or(end),
            _ => end,
        };
        profile.retain_event(left);
    }
}

pub(crate) fn lines(memory: &MemoryUse) -> Vec<String> {
    let mut lines = vec![format!(
        "{} page faults made {} resident at the end, {} at the peak, {} ever",
        HumanCount(memory.faults),
        bytes(memory.end),
        bytes(memory.peak),
        bytes(memory.touched)
    )];
    lines.push(remedies::of_finding(&Finding::Memory(memory.coverage)));
    if memory.refusal == Some(io::ErrorKind::PermissionDenied) {
        lines.push(
            "could not read the resident pages of a process: permission denied; memory that it \
             gave back counts as resident"
                .to_owned(),
        );
    }
    if memory.most_resident > memory.peak.saturating_add(memory.peak / 100) {
        lines.push(format!(
            "the kernel saw a peak of {} between two looks",
            bytes(memory.most_resident)
        ));
    }
    if memory.further_stacks > 0 {
        lines.push(format!(
            "{} page faults have no stack: there were too many distinct stacks",
            HumanCount(memory.further_stacks)
        ));
    }
    lines
}
