//! Performance monitoring units: numbers and capabilities.

use super::codec::{Decoder, Encoder};
use super::{Feature, FeatureSections};

/// Capabilities of a PMU: name-value pairs such as `branches=32`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PmuCaps {
    /// Name of the PMU.
    pub pmu: String,
    /// Names and values.
    pub caps: Vec<(String, String)>,
}

impl FeatureSections {
    /// Returns the PMUs by number (`perf_event_attr.type`), with their names.
    pub fn pmu_mappings(&self) -> Option<Vec<(u32, String)>> {
        self.decoder(Feature::PMU_MAPPINGS)?
            .list(8, |section| Some((section.u32()?, section.string()?)))
    }

    /// Sets the names of PMU numbers.
    pub fn insert_pmu_mappings(&mut self, mappings: &[(u32, String)]) {
        self.encode(Feature::PMU_MAPPINGS, |out| {
            out.list(mappings, |out, (number, name)| {
                out.u32(*number);
                out.string(name);
            });
        });
    }

    /// Returns the capabilities of the CPU's PMU: names and values.
    pub fn cpu_pmu_caps(&self) -> Option<Vec<(String, String)>> {
        pairs(&mut self.decoder(Feature::CPU_PMU_CAPS)?)
    }

    /// Sets the capabilities of the CPU's PMU.
    pub fn insert_cpu_pmu_caps(&mut self, caps: &[(String, String)]) {
        self.encode(Feature::CPU_PMU_CAPS, |out| put_pairs(out, caps));
    }

    /// Returns the capabilities of other PMUs, including PMUs of hybrid CPUs.
    pub fn pmu_caps(&self) -> Option<Vec<PmuCaps>> {
        self.decoder(Feature::PMU_CAPS)?.list(8, |section| {
            let caps = pairs(section)?;
            let pmu = section.string()?;
            Some(PmuCaps { pmu, caps })
        })
    }

    /// Sets the capabilities of other PMUs.
    pub fn insert_pmu_caps(&mut self, pmus: &[PmuCaps]) {
        self.encode(Feature::PMU_CAPS, |out| {
            out.list(pmus, |out, one| {
                put_pairs(out, &one.caps);
                out.string(&one.pmu);
            });
        });
    }
}

pub(super) fn pairs(section: &mut Decoder<'_>) -> Option<Vec<(String, String)>> {
    section.list(8, |section| Some((section.string()?, section.string()?)))
}

pub(super) fn put_pairs(out: &mut Encoder, pairs: &[(String, String)]) {
    out.list(pairs, |out, (name, value)| {
        out.string(name);
        out.string(value);
    });
}

#[cfg(test)]
mod tests {
    use super::super::in_both_orders;
    use super::*;

    #[test]
    fn reads_back_what_was_set() {
        in_both_orders(|f| {
            let mappings = [(1, "software".to_owned()), (4, "cpu".into())];
            f.insert_pmu_mappings(&mappings);
            assert_eq!(f.pmu_mappings().unwrap(), mappings);
            let caps = [("max_precise".to_owned(), "3".to_owned())];
            f.insert_cpu_pmu_caps(&caps);
            assert_eq!(f.cpu_pmu_caps().unwrap(), caps);
            let all = [PmuCaps {
                pmu: "cpu_atom".into(),
                caps: caps.to_vec(),
            }];
            f.insert_pmu_caps(&all);
            assert_eq!(f.pmu_caps().unwrap(), all);
        });
    }
}
