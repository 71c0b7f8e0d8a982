//! [`TraceUnit`]: PMUs that write a trace into an AUX area, instead of samples.

use crate::pmu::Pmu;

/// Trace unit of a processor, identified by the name of its PMU. Its event writes a trace into the
/// AUX area of its ring buffer (perf_event_open(2), `aux_offset`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TraceUnit {
    /// Intel Processor Trace, `intel_pt`.
    IntelPt,
    /// Intel Branch Trace Store, `intel_bts`.
    IntelBts,
    /// Arm Statistical Profiling Extension, `arm_spe_0` and so on.
    ArmSpe,
    /// Arm CoreSight trace, `cs_etm`.
    CoreSight,
    /// HiSilicon PCIe tune and trace, `hisi_ptt2_0` and so on.
    HisiPtt,
}

/// Prefixes of PMU names.
const NAMES: [(&str, TraceUnit); 5] = [
    ("intel_pt", TraceUnit::IntelPt),
    ("intel_bts", TraceUnit::IntelBts),
    ("arm_spe", TraceUnit::ArmSpe),
    ("cs_etm", TraceUnit::CoreSight),
    ("hisi_ptt", TraceUnit::HisiPtt),
];

/// Default terms, as in perf but without cycle-accurate times. Without `branch`, the trace has no
/// control flow.
const INTEL_PT_DEFAULT: [&str; 3] = ["tsc", "pt", "branch"];

impl TraceUnit {
    /// Returns the unit of a PMU name; `None` for other PMUs.
    pub(crate) fn of_pmu(name: &str) -> Option<TraceUnit> {
        let known = NAMES.iter().find(|(begin, _)| {
            let rest = name.strip_prefix(begin);
            rest.is_some_and(|rest| rest.chars().all(|c| c == '_' || c.is_ascii_digit()))
        });
        known.map(|(_, unit)| *unit)
    }

    /// Returns the display name.
    pub fn title(self) -> &'static str {
        match self {
            TraceUnit::IntelPt => "Intel Processor Trace",
            TraceUnit::IntelBts => "Intel Branch Trace Store",
            TraceUnit::ArmSpe => "Arm Statistical Profiling Extension",
            TraceUnit::CoreSight => "Arm CoreSight",
            TraceUnit::HisiPtt => "HiSilicon PCIe trace",
        }
    }

    /// Returns the unit's number in perf.data (`enum auxtrace_type` of
    /// `tools/perf/util/auxtrace.h`).
    pub fn auxtrace_kind(self) -> u32 {
        match self {
            TraceUnit::IntelPt => 1,
            TraceUnit::IntelBts => 2,
            TraceUnit::CoreSight => 3,
            TraceUnit::ArmSpe => 4,
            TraceUnit::HisiPtt => 6,
        }
    }

    pub(crate) fn default_config(self, pmu: &Pmu) -> u64 {
        match self {
            TraceUnit::IntelPt => (INTEL_PT_DEFAULT.iter())
                .filter_map(|term| pmu.format(term)?.encode(1))
                .fold(0, |config, bits| config | bits),
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EventError, EventParser};
    use std::fs;

    #[test]
    fn units_are_known_by_the_names_of_their_pmus() {
        let of = TraceUnit::of_pmu;
        assert_eq!(of("intel_pt"), Some(TraceUnit::IntelPt));
        assert_eq!(of("arm_spe_0"), Some(TraceUnit::ArmSpe));
        assert_eq!((of("intel_ptx"), of("cpu"), of("")), (None, None, None));
    }

    #[test]
    fn an_event_of_a_unit_has_its_trace_and_the_usual_terms() {
        let folder = tempfile::tempdir().unwrap();
        let pmu = folder.path().join("intel_pt");
        fs::create_dir_all(pmu.join("format")).unwrap();
        fs::write(pmu.join("type"), "8\n").unwrap();
        for (term, bit) in [("pt", 0), ("tsc", 10), ("branch", 13), ("cyc", 1)] {
            fs::write(pmu.join("format").join(term), format!("config:{bit}\n")).unwrap();
        }
        let parser = EventParser::new().pmus(folder.path());
        let event = &parser.parse_list("intel_pt//u").unwrap()[0];
        assert_eq!(event.trace_unit(), Some(TraceUnit::IntelPt));
        assert_eq!((event.kind().0, event.config()), (8, 1 | 1 << 10 | 1 << 13));
        let given = &parser.parse_list("intel_pt/cyc=1/").unwrap()[0];
        assert_eq!(given.config(), 1 << 1);
    }

    #[test]
    fn a_unit_that_is_not_there_is_told_by_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let parser = EventParser::new().pmus(folder.path());
        let error = parser.parse_list("intel_pt//").unwrap_err();
        assert!(matches!(error, EventError::NoTraceUnit { .. }), "{error}");
        let text = error.to_string();
        assert!(
            text.contains("Intel Processor Trace") && text.contains("virtual machine"),
            "{text}"
        );
    }
}
