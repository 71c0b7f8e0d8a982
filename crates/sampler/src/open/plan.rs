//! What is to be opened, and how it steps down when the kernel refuses.

use super::degradation::{Degradation, Feature};
use super::error::{self, OpenError};
use super::ring_sizes::{RingSizes, UNPRIVILEGED};
use crate::errno::Errno;
use crate::event::{Event, Modifiers};
use crate::limits::Limits;
use crate::options::{Rate, SamplingOptions};

/// The state that attempts are made from.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(super) options: SamplingOptions,
    pub(super) events: Vec<Event>,
    /// Whether the user named the events.
    explicit: bool,
    pub(super) rings: RingSizes,
    pub(super) features: Features,
    /// Samples a second, where the rate is one.
    pub(super) frequency: u64,
    pub(super) max_stack: Option<u16>,
    kernel_refused: bool,
    pub(super) limits: Limits,
    /// Steps taken so far.
    pub(super) degradations: Vec<Degradation>,
}

/// Which of the newer parts of the attr are asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Features {
    pub(super) read_lost: bool,
    pub(super) build_id: bool,
    pub(super) kernel_symbols: bool,
    pub(super) clock_id: bool,
}

/// Where an attempt came to an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// At the sample event with this index.
    Sampling(usize),
    /// At the sideband event.
    Sideband,
    /// At mapping a ring of so many bytes.
    Ring(usize),
}

/// What the kernel refused.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refusal {
    pub(super) stage: Stage,
    pub(super) cpu: u32,
    pub(super) errno: Errno,
}

impl Plan {
    /// A plan for `events`; none means the default, cycles, which may be replaced.
    ///
    /// # Errors
    /// A rate of zero, and a frequency above the limit when asked for strictly.
    pub(crate) fn new(
        events: Vec<Event>,
        options: SamplingOptions,
        limits: Limits,
    ) -> Result<Plan, OpenError> {
        let (frequency, rate) = match options.rate {
            Rate::Frequency(frequency) => (frequency, frequency),
            Rate::Period(period) => (0, period),
        };
        if rate == 0 {
            return Err(OpenError::ZeroRate);
        }
        let explicit = !events.is_empty();
        let mut plan = Plan {
            events: match explicit {
                true => events,
                false => vec![Event::cycles()],
            },
            explicit,
            rings: RingSizes::first(options.ring_bytes, options.sideband_ring_bytes),
            features: Features {
                read_lost: true,
                build_id: true,
                kernel_symbols: !options.exclude_kernel,
                clock_id: true,
            },
            frequency,
            max_stack: options.max_stack,
            kernel_refused: false,
            limits,
            degradations: Vec::new(),
            options,
        };
        plan.lower_frequency()?;
        Ok(plan)
    }

    /// Whether samples in the kernel are left out.
    pub(super) fn excludes_kernel(&self) -> bool {
        self.options.exclude_kernel || self.kernel_refused
    }

    /// How an event is described in a file: with the sides that are really sampled.
    pub(super) fn describe(&self, event: &Event) -> String {
        let named = event.modifiers();
        let all = named.is_empty();
        let real = Modifiers {
            user: (all || named.user) && !self.options.exclude_user,
            kernel: (all || named.kernel) && !self.excludes_kernel(),
            hypervisor: (all || named.hypervisor) && !self.excludes_kernel(),
        };
        let restricted = self.options.exclude_user || self.excludes_kernel();
        match restricted && (real.user || real.kernel) {
            true => event.clone().with_modifiers(Modifiers {
                // Implied by the kernel's side, and never named by users.
                hypervisor: named.hypervisor && real.hypervisor,
                ..real
            }),
            false => event.clone(),
        }
        .describe()
    }

    /// Changes the plan so that the next attempt may do better.
    ///
    /// # Errors
    /// When nothing is left to change.
    pub(super) fn step_down(&mut self, refusal: Refusal) -> Result<(), OpenError> {
        let Refusal { stage, cpu, errno } = refusal;
        let stepped = match stage {
            Stage::Sampling(index) => self.step_down_sampling(index, errno)?,
            Stage::Sideband => self.step_down_sideband(errno),
            Stage::Ring(_) => self.step_down_rings(errno),
        };
        if stepped {
            return Ok(());
        }
        let event = match stage {
            Stage::Sampling(index) => self.describe(&self.events[index]),
            Stage::Sideband => "dummy".to_owned(),
            Stage::Ring(bytes) => {
                return Err(OpenError::Ring {
                    cpu,
                    bytes,
                    errno,
                    remedy: error::ring_remedy(errno, &self.limits),
                });
            }
        };
        Err(OpenError::Event {
            remedy: error::remedy(&event, errno, &self.limits),
            event,
            cpu: Some(cpu),
            errno,
        })
    }

    fn step_down_sampling(&mut self, index: usize, errno: Errno) -> Result<bool, OpenError> {
        if errno.is_missing_event() && !self.explicit && self.events[index] == Event::cycles() {
            self.events[index] = Event::cpu_clock();
            self.degradations.push(Degradation::EventReplaced {
                wanted: Event::cycles().describe(),
                used: Event::cpu_clock().describe(),
                errno,
            });
            return Ok(true);
        }
        if errno.is_refusal() {
            // Who asked for the kernel by name does not want to go without it.
            let by_name = self.events.iter().any(|event| event.modifiers().kernel);
            if self.excludes_kernel() || by_name || self.options.exclude_user {
                return Ok(false);
            }
            self.kernel_refused = true;
            self.features.kernel_symbols = false;
            self.degradations.push(Degradation::KernelExcluded {
                paranoid: self.limits.paranoid,
            });
            return Ok(true);
        }
        match errno.0 {
            libc::EOVERFLOW => Ok(self.lower_max_stack()),
            libc::EINVAL => {
                // The kernel lowers its limit by itself while it runs.
                if self.lower_frequency()? {
                    return Ok(true);
                }
                let features = [Feature::ReadLost, Feature::MaxStack, Feature::ClockId];
                Ok(self.drop_one_of(&features, errno))
            }
            _ => Ok(false),
        }
    }

    fn step_down_sideband(&mut self, errno: Errno) -> bool {
        if errno.is_refusal() {
            return self.drop_one_of(&[Feature::KernelSymbols], errno);
        }
        let features = [
            Feature::ReadLost,
            Feature::BuildId,
            Feature::KernelSymbols,
            Feature::ClockId,
        ];
        errno.0 == libc::EINVAL && self.drop_one_of(&features, errno)
    }

    /// Drops the first feature that is still asked for. Kernels gained them in this
    /// order reversed, so one that lacks a later one of the list lacks all before it too.
    fn drop_one_of(&mut self, features: &[Feature], errno: Errno) -> bool {
        for feature in features {
            let dropped = match feature {
                Feature::ReadLost => std::mem::take(&mut self.features.read_lost),
                Feature::BuildId => std::mem::take(&mut self.features.build_id),
                Feature::KernelSymbols => std::mem::take(&mut self.features.kernel_symbols),
                Feature::ClockId => std::mem::take(&mut self.features.clock_id),
                Feature::MaxStack => self.max_stack.take().is_some(),
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

    /// Brings the frequency under the kernel's limit; says whether it was above.
    fn lower_frequency(&mut self) -> Result<bool, OpenError> {
        let limit = match self.limits.max_sample_rate {
            Some(limit) if limit > 0 && self.frequency > limit => limit,
            _ => return Ok(false),
        };
        let Rate::Frequency(wanted) = self.options.rate else {
            return Ok(false);
        };
        if self.options.strict_frequency {
            return Err(OpenError::Frequency { wanted, limit });
        }
        self.frequency = limit;
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
        if !matches!(errno.0, libc::EPERM | libc::ENOMEM | libc::EACCES) {
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
        // Several halvings are one step to the user.
        self.degradations
            .retain(|step| !matches!(step, Degradation::RingShrunk { .. }));
        self.degradations.push(Degradation::RingShrunk {
            wanted,
            used: total(halved),
            errno,
        });
        true
    }

    /// The rings with every size that the user left open at its smaller default.
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

    /// Bytes wanted, if rings were halved already.
    fn shrunk(&self) -> Option<usize> {
        self.degradations.iter().find_map(|step| match step {
            Degradation::RingShrunk { wanted, .. } => Some(*wanted),
            _ => None,
        })
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
