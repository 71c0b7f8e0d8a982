//! Steps down after a refusal by the kernel.

use super::attrs;
use super::degradation::{AttrFeature, Degradation};
use super::error::OpenEventsError;
use super::opened::Role;
use super::plan::{Plan, Refusal, Stage, Watching};
use super::ring_sizes::{RingSizes, UNPRIVILEGED};
use super::traces;
use rprof_events::Event;
use rprof_events::SamplingRate;
use rprof_perf_event::errno::{is_missing_event, is_refusal};
use rprof_perf_event::remedy::paranoid_text;
use rprof_perf_event::{AttrPart, Capability, Errno, ErrnoText, MapRingError, OpenEventError};
use rprof_records::{Attr, EventKind, SampleType};

impl Plan {
    /// Changes the plan for the next attempt.
    ///
    /// # Errors If no change can help.
    pub(super) fn step_down(&mut self, refusal: Refusal) -> Result<(), OpenEventsError> {
        let Refusal { stage, cpu, errno } = refusal;
        let stepped = match stage {
            Stage::Sampling(index) => self.step_down_sampling(index, errno)?,
            Stage::Sideband => self.step_down_sideband(errno),
            Stage::Ring(_) => self.step_down_rings(errno),
            Stage::Trace(_) => self.step_down_trace(errno),
            Stage::Filter(_) => false,
        };
        if stepped {
            return Ok(());
        }
        let (event, attr) = match stage {
            Stage::Sampling(index) => self.sampled(index),
            Stage::Sideband => {
                let attr = attrs::sideband(self);
                // A refused sideband applies to the samples, unless a requested record causes it.
                match AttrPart::blamed(&attr, errno, &self.limits) {
                    None if is_refusal(errno) => self.sampled(0),
                    _ => ("dummy".to_owned(), attr),
                }
            }
            Stage::Filter(index) => {
                let event = &self.events[index];
                let filter = event.filter().unwrap_or_default();
                return Err(OpenEventsError::Filter {
                    event: self.describe(event),
                    filter: filter.to_string_lossy().into_owned(),
                    errno,
                });
            }
            Stage::Ring(bytes) | Stage::Trace(bytes) => {
                let error = MapRingError::new(Some(cpu), bytes, errno, &self.limits);
                return Err(error.into());
            }
        };
        let by_cpu = self.watching == Watching::Cpus;
        let limits = &self.limits;
        Err(OpenEventError::new(&event, &attr, by_cpu, Some(cpu), errno, limits).into())
    }

    fn sampled(&self, index: usize) -> (String, Attr) {
        (
            self.describe(&self.events[index]),
            attrs::of_event(self, index),
        )
    }

    fn step_down_sampling(&mut self, index: usize, errno: Errno) -> Result<bool, OpenEventsError> {
        if is_missing_event(errno) && !self.explicit && self.events[index] == Event::cycles() {
            self.events[index] = Event::cpu_clock();
            self.degradations.push(Degradation::EventReplaced {
                wanted: Event::cycles().describe(),
                used: Event::cpu_clock().describe(),
                errno,
            });
            return Ok(true);
        }
        match self.role(index) {
            Role::OffCpu if is_refusal(errno) => return Ok(self.tell_switch_times_only()),
            // Other errors concern the common part of all events.
            Role::Wakeups if ![Errno::INVAL, Errno::OVERFLOW].contains(&errno) => {
                let cause = match is_refusal(errno) {
                    true => format!(
                        "{}. It needs {}, or `sysctl kernel.perf_event_paranoid=-1`",
                        paranoid_text(self.limits.paranoid),
                        Capability::of_this_kernel()
                    ),
                    false => format!("the kernel refused it ({})", ErrnoText(errno)),
                };
                self.degradations.push(Degradation::NoWakers { cause });
                return Ok(self.drop_wakeups());
            }
            _ => {}
        }
        if is_refusal(errno) {
            // The user named the kernel side.
            let by_name = self.events.iter().any(|event| event.modifiers().kernel);
            if self.excludes_kernel() || by_name || self.options.exclude_user {
                return Ok(false);
            }
            self.kernel_refused = true;
            self.features.kernel_symbols = false;
            self.degradations.push(Degradation::KernelExcluded {
                paranoid: self.limits.paranoid,
            });
            if self.options.off_cpu {
                // Refused for the same reason.
                self.tell_switch_times_only();
            }
            return Ok(true);
        }
        match errno {
            Errno::OVERFLOW => Ok(self.lower_max_stack()),
            Errno::OPNOTSUPP => Ok(self.lower_precision(index, errno)),
            Errno::INVAL => {
                // The kernel may lower its limit at any time.
                if self.lower_frequency()? || self.lower_precision(index, errno) {
                    return Ok(true);
                }
                if self.include_guests(index) || self.take_group_apart(index, errno) {
                    return Ok(true);
                }
                let features = [
                    AttrFeature::ReadLost,
                    AttrFeature::SplitWeight,
                    AttrFeature::MaxStack,
                    AttrFeature::ClockId,
                ];
                Ok(self.drop_one_of(&features, errno))
            }
            _ => Ok(false),
        }
    }

    /// Drops the stacks at switches. Returns false if they were dropped before.
    fn tell_switch_times_only(&mut self) -> bool {
        if std::mem::replace(&mut self.switch_times_only, true) {
            return false;
        }
        self.degradations.push(Degradation::OffCpuTimesOnly {
            paranoid: self.limits.paranoid,
        });
        true
    }

    /// Lowers the precision by one. Returns false if it is already 0.
    fn lower_precision(&mut self, index: usize, errno: Errno) -> bool {
        let event = &self.events[index];
        let Some(used) = event.precise().checked_sub(1) else {
            return false;
        };
        let wanted = self.described_at_first[index].clone();
        let any_will_do = event.any_precise() || self.precision_is_open[index];
        self.precision_is_open[index] = any_will_do;
        self.events[index] = event.clone().with_precise(used);
        if any_will_do {
            return true;
        }
        let used = self.describe(&self.events[index]);
        (self.degradations).retain(
            |step| !matches!(step, Degradation::PrecisionLowered { wanted: w, .. } if *w == wanted),
        );
        self.degradations.push(Degradation::PrecisionLowered {
            wanted,
            used,
            errno,
        });
        true
    }

    /// Includes guests, for PMUs without any exclusion. Not reported.
    fn include_guests(&mut self, index: usize) -> bool {
        let event = &self.events[index];
        let has_own_pmu = event.kind().0 > EventKind::BREAKPOINT.0;
        if !has_own_pmu || !event.qualifiers().exclude_guest {
            return false;
        }
        self.events[index] = event.clone().including_guests();
        true
    }

    fn take_group_apart(&mut self, index: usize, errno: Errno) -> bool {
        let Some(group) = self.events[index].group() else {
            return false;
        };
        let of_group = |event: &&mut Event| event.group() == Some(group);
        let is_weak = |event: &Event| event.group() == Some(group) && event.qualifiers().weak;
        if !self.events.iter().any(is_weak) {
            return false;
        }
        let event = self.describe(&self.events[index]);
        for event in self.events.iter_mut().filter(of_group) {
            *event = event.clone().ungrouped();
        }
        self.degradations
            .push(Degradation::GroupTakenApart { event, errno });
        true
    }

    fn step_down_sideband(&mut self, errno: Errno) -> bool {
        if is_refusal(errno) {
            return self.drop_one_of(&[AttrFeature::KernelSymbols], errno);
        }
        let features = [
            AttrFeature::ReadLost,
            AttrFeature::KernelSymbols,
            AttrFeature::ClockId,
        ];
        errno == Errno::INVAL && self.drop_one_of(&features, errno)
    }

    /// Drops the first requested feature. The list is in reverse order of introduction: a kernel
    /// without one also lacks all before it.
    fn drop_one_of(&mut self, features: &[AttrFeature], errno: Errno) -> bool {
        for feature in features {
            let dropped = match feature {
                AttrFeature::ReadLost => std::mem::take(&mut self.features.read_lost),
                AttrFeature::SplitWeight => {
                    let fields = self.options.extras.fields;
                    fields.contains(SampleType::WEIGHT_STRUCT)
                        && std::mem::take(&mut self.features.split_weight)
                }
                AttrFeature::KernelSymbols => std::mem::take(&mut self.features.kernel_symbols),
                // A user who chose a clock needs it.
                AttrFeature::ClockId => {
                    self.options.clock.is_none() && std::mem::take(&mut self.features.clock_id)
                }
                AttrFeature::MaxStack => {
                    let of_event = |event: &Event| event.settings().max_stack.is_some();
                    let is_asked = self.max_stack.is_some() || self.events.iter().any(of_event);
                    is_asked && std::mem::take(&mut self.features.max_stack)
                }
            };
            if dropped {
                let feature = *feature;
                self.degradations
                    .push(Degradation::FeatureDropped { feature, errno });
                return true;
            }
        }
        false
    }

    /// Lowers frequencies to the kernel's limit. Returns false if none exceeds it.
    pub(super) fn lower_frequency(&mut self) -> Result<bool, OpenEventsError> {
        let Some(limit) = self.limits.max_sample_rate.filter(|limit| *limit > 0) else {
            return Ok(false);
        };
        let of_recording = match self.options.rate {
            SamplingRate::Frequency(wanted) => Some((wanted, self.frequency)),
            SamplingRate::Period(_) => None,
        };
        let of_events = self.events.iter().filter_map(|event| match event.rate() {
            Some(SamplingRate::Frequency(wanted)) => Some((wanted, self.own_limit.min(wanted))),
            _ => None,
        });
        let above = |(_, used): &(u64, u64)| *used > limit;
        let Some((wanted, _)) = of_events.chain(of_recording).filter(above).max() else {
            return Ok(false);
        };
        if self.options.strict_frequency {
            return Err(OpenEventsError::Frequency { wanted, limit });
        }
        self.frequency = self.frequency.min(limit);
        self.own_limit = limit;
        self.degradations
            .retain(|step| !matches!(step, Degradation::FrequencyLowered { .. }));
        self.degradations.push(Degradation::FrequencyLowered {
            wanted,
            used: limit,
        });
        Ok(true)
    }

    fn lower_max_stack(&mut self) -> bool {
        match (self.max_stack, self.limits.max_stack) {
            (Some(wanted), Some(used)) if wanted > used => {
                self.max_stack = Some(used);
                self.degradations
                    .push(Degradation::StackDepthLowered { wanted, used });
                true
            }
            _ => false,
        }
    }

    fn step_down_rings(&mut self, errno: Errno) -> bool {
        if !matches!(errno, Errno::PERM | Errno::NOMEM | Errno::ACCESS) {
            return false;
        }
        let modest = self.modest_rings();
        if modest != self.rings && modest.samples <= self.rings.samples && self.shrunk().is_none() {
            self.rings = modest;
            return true;
        }
        let Some(halved) = self.rings.halved() else {
            return false;
        };
        let total = |rings: RingSizes| rings.samples + rings.sideband;
        let wanted = self.shrunk().unwrap_or(total(self.rings));
        self.rings = halved;
        self.degradations
            .retain(|step| !matches!(step, Degradation::RingShrunk { .. }));
        self.degradations.push(Degradation::RingShrunk {
            wanted,
            used: total(halved),
            errno,
        });
        true
    }

    /// Halves areas that could not be locked, unless the user chose the size.
    pub(super) fn step_down_trace(&mut self, errno: Errno) -> bool {
        let may_be_size = matches!(errno, Errno::PERM | Errno::NOMEM);
        let is_open = self.options.trace_bytes.is_none() && self.trace_bytes > traces::SMALLEST;
        if may_be_size && is_open {
            self.trace_bytes /= 2;
        }
        may_be_size && is_open
    }

    /// Returns the smaller default for every size that the user left open.
    fn modest_rings(&self) -> RingSizes {
        RingSizes {
            samples: match self.options.ring_bytes {
                Some(_) => self.rings.samples,
                None => self.rings.samples.min(UNPRIVILEGED.samples),
            },
            sideband: match self.options.sideband_ring_bytes {
                Some(_) => self.rings.sideband,
                None => self.rings.sideband.min(UNPRIVILEGED.sideband),
            },
        }
    }

    fn shrunk(&self) -> Option<usize> {
        self.degradations.iter().find_map(|step| match step {
            Degradation::RingShrunk { wanted, .. } => Some(*wanted),
            _ => None,
        })
    }
}
