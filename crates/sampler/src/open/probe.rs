//! Opens the events of a recording on one CPU as a test.
//!
//! Only the attrs of a recording show whether it works: a simpler event may be allowed or refused
//! by itself.

use super::attempt::{Opened, Scope, attempt};
use super::degradation::{AttrFeature, Degradation};
use super::plan::{Plan, Stage};
use rprof_perf_event::Errno;
use rprof_perf_event::errno::is_refusal;

/// Result of [`SessionBuilder::probe`](crate::SessionBuilder::probe).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Success, or the error of the event that a recording would report or replace.
    pub events: Result<(), Errno>,
    /// Bytes of both rings of a CPU, or the error if no size can be mapped.
    pub rings: Result<usize, Errno>,
    /// Features that the kernel lacks.
    pub lacks: Vec<AttrFeature>,
}

/// Opens the plan on one CPU, and closes it again.
///
/// Follows the steps down that lose no samples: features of newer kernels, and smaller rings.
pub(crate) fn probe(plan: &mut Plan, scope: &Scope, cpu: u32) -> Probe {
    loop {
        let refusal = match attempt(plan, scope, &[cpu]) {
            Ok(opened) => {
                return Probe {
                    events: Ok(()),
                    rings: Ok(ring_bytes(&opened)),
                    lacks: dropped(plan),
                };
            }
            Err(refusal) => refusal,
        };
        let errno = refusal.errno;
        let is_result = matches!(refusal.stage, Stage::Sampling(_)) && is_refusal(errno);
        if is_result || plan.step_down(refusal).is_err() {
            let events = match refusal.stage {
                Stage::Ring(_) => Ok(()),
                _ => Err(errno),
            };
            return Probe {
                events,
                rings: Err(errno),
                lacks: dropped(plan),
            };
        }
    }
}

fn dropped(plan: &Plan) -> Vec<AttrFeature> {
    let features = plan.degradations.iter().filter_map(|step| match step {
        Degradation::FeatureDropped { feature, .. } => Some(*feature),
        _ => None,
    });
    features.collect()
}

fn ring_bytes(opened: &Opened) -> usize {
    (opened.rings.first()).map_or(0, |rings| rings.samples.size() + rings.sideband.size())
}
