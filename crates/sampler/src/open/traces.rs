//! Trace events: which ones are supported, and sizes of their areas.

use super::error::OpenEventsError;
use crate::options::SamplingOptions;
use rprof_events::{Event, TraceUnit};
use rprof_launch::Target;
use rustix::param::page_size;

/// Bytes of an AUX area: perf's for privileged users (`intel_pt_recording_options`).
const FIRST: usize = 4 << 20;

/// Minimum bytes after steps down.
pub(super) const SMALLEST: usize = 64 << 10;

/// Moves the trace event to the front: only the event of a ring may have an AUX area, and the
/// others are redirected.
///
/// # Errors
/// [`OpenEventsError::Trace`] if unsupported.
pub(super) fn first(
    mut events: Vec<Event>,
    options: &SamplingOptions,
) -> Result<Vec<Event>, OpenEventsError> {
    let mut traced = (events.iter().enumerate()).filter(|(_, event)| event.trace_unit().is_some());
    let Some((place, event)) = traced.next() else {
        return Ok(events);
    };
    let refused = |why| {
        Err(OpenEventsError::Trace {
            event: event.describe(),
            why,
        })
    };
    let unit = event.trace_unit();
    if matches!(unit, Some(TraceUnit::CoreSight | TraceUnit::HisiPtt)) {
        return refused(
            "traces of this unit are not supported, only those of intel_pt, intel_bts and arm_spe",
        );
    }
    if traced.next().is_some() {
        return refused("only one trace can be recorded at a time, and another event writes one");
    }
    if event.group().is_some() {
        return refused("an event that writes a trace cannot be in a group");
    }
    if options.overwrite {
        return refused("traces do not work with ring buffers that are overwritten");
    }
    if !matches!(options.target, Target::Command | Target::System) {
        return refused(
            "traces need a command or whole CPUs as target; to trace running processes, record \
             the whole system",
        );
    }
    events[..=place].rotate_right(1);
    Ok(events)
}

pub(super) fn area(wanted: Option<usize>) -> usize {
    let bytes = wanted.unwrap_or(FIRST);
    bytes.clamp(page_size(), 1 << 30).next_power_of_two()
}

#[cfg(test)]
mod tests {
    use super::super::plan::Plan;
    use super::*;
    use rprof_events::{EventParser, SamplingRate};
    use rprof_perf_event::{Errno, Limits};

    fn events(list: &str) -> Vec<Event> {
        let folder = tempfile::tempdir().unwrap();
        for (name, kind) in [("intel_pt", 8), ("arm_spe_0", 9), ("cs_etm", 10)] {
            std::fs::create_dir_all(folder.path().join(name)).unwrap();
            std::fs::write(folder.path().join(name).join("type"), format!("{kind}\n")).unwrap();
        }
        let parser = EventParser::new().pmus(folder.path());
        parser.parse_list(list).unwrap()
    }

    fn options() -> SamplingOptions {
        SamplingOptions {
            user_stack: Some(4096),
            ..SamplingOptions::default()
        }
    }

    fn plan(list: &str, options: SamplingOptions) -> Result<Plan, OpenEventsError> {
        Plan::new(events(list), options, Limits::default())
    }

    #[test]
    fn the_event_with_the_trace_comes_first_and_takes_no_samples() {
        let plan = plan("page-faults,cpu-clock,intel_pt//u", options()).unwrap();
        let names: Vec<String> = plan.events.iter().map(Event::describe).collect();
        assert_eq!(names, ["intel_pt//u", "page-faults", "cpu-clock"]);
        assert_eq!(plan.trace_unit(), Some(TraceUnit::IntelPt));
        assert_eq!(plan.rate_of(&plan.events[0]), SamplingRate::Period(1));
        let attr = super::super::attrs::sampling(&plan, &plan.events[0]);
        assert_eq!((attr.period_or_freq, attr.sample_stack_user), (1, 0));
        assert_eq!(attr.aux_watermark as usize, FIRST / 4);
        let other = super::super::attrs::sampling(&plan, &plan.events[2]);
        assert_eq!((other.aux_watermark, other.sample_stack_user), (0, 4096));
    }

    #[test]
    fn what_is_not_traced_is_told_with_its_cause() {
        let why = |list, options| plan(list, options).unwrap_err().to_string();
        assert!(why("cs_etm//", options()).contains("intel_pt, intel_bts and arm_spe"));
        assert!(why("intel_pt//,arm_spe_0//", options()).contains("one trace"));
        assert!(why("{intel_pt//,cpu-clock}", options()).contains("group"));
        let overwrite = SamplingOptions {
            overwrite: true,
            ..options()
        };
        assert!(why("intel_pt//", overwrite).contains("overwritten"));
        let attached = SamplingOptions {
            target: Target::Threads(vec![1]),
            ..options()
        };
        assert!(why("intel_pt//", attached).contains("whole CPUs"));
    }

    #[test]
    fn areas_are_halved_unless_their_size_was_named() {
        let mut open = plan("intel_pt//", options()).unwrap();
        let mut sizes = vec![open.trace_bytes];
        while open.step_down_trace(Errno::PERM) {
            sizes.push(open.trace_bytes);
        }
        assert_eq!(
            (sizes[0], sizes.len(), open.trace_bytes),
            (FIRST, 7, SMALLEST)
        );
        assert!(!open.step_down_trace(Errno::OPNOTSUPP));
        let named = SamplingOptions {
            trace_bytes: Some(3 << 20),
            ..options()
        };
        let mut named = plan("intel_pt//", named).unwrap();
        assert_eq!(named.trace_bytes, 4 << 20);
        assert!(!named.step_down_trace(Errno::PERM));
    }
}
