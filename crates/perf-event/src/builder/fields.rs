//! Fields of the attr, one method each.

use super::Builder;
use crate::clock::Clock;
use rprof_records::{AttrFlags, BranchSampleType, ReadFormat, SampleType};

/// Bits of `aux_action` (linux/perf_event.h, Linux 6.13).
const AUX_START_PAUSED: u32 = 1;
const AUX_PAUSE: u32 = 1 << 1;
const AUX_RESUME: u32 = 1 << 2;

/// Fields of `perf_event_attr`, in the order of perf_event_open(2).
impl Builder {
    /// Sets the event number within its type (`config`).
    #[must_use]
    pub fn config(mut self, config: u64) -> Builder {
        self.attr.config = config;
        self
    }

    /// Sets the first extension of the event number (`config1`).
    #[must_use]
    pub fn config1(mut self, config: u64) -> Builder {
        self.attr.config1 = config;
        self
    }

    /// Sets the second extension of the event number (`config2`).
    #[must_use]
    pub fn config2(mut self, config: u64) -> Builder {
        self.attr.config2 = config;
        self
    }

    /// Sets the third extension of the event number (`config3`, Linux 6.3).
    #[must_use]
    pub fn config3(mut self, config: u64) -> Builder {
        self.attr.config3 = config;
        self
    }

    /// Sets the fourth extension of the event number (`config4`, Linux 6.18).
    #[must_use]
    pub fn config4(mut self, config: u64) -> Builder {
        self.attr.config4 = config;
        self
    }

    /// Samples every `events` events, or nanoseconds for clocks (`sample_period`); 0 disables
    /// sampling.
    #[must_use]
    pub fn period(mut self, events: u64) -> Builder {
        self.attr.flags.remove(AttrFlags::FREQ);
        self.attr.period_or_freq = events;
        self
    }

    /// Samples about this often per second (`sample_freq`, `freq`).
    #[must_use]
    pub fn frequency(mut self, samples: u64) -> Builder {
        self.attr.flags.insert(AttrFlags::FREQ);
        self.attr.period_or_freq = samples;
        self
    }

    /// Sets the fields of samples (`sample_type`).
    #[must_use]
    pub fn sample(mut self, fields: SampleType) -> Builder {
        self.attr.sample_type = fields;
        self
    }

    /// Sets the format of counter readings (`read_format`).
    #[must_use]
    pub fn read_format(mut self, format: ReadFormat) -> Builder {
        self.attr.read_format = format;
        self
    }

    /// Wakes a reader of the ring after this many samples (`wakeup_events`).
    #[must_use]
    pub fn wake_after_samples(mut self, samples: u32) -> Builder {
        self.attr.flags.remove(AttrFlags::WATERMARK);
        self.attr.wakeup = samples;
        self
    }

    /// Wakes a reader of the ring after this many bytes (`wakeup_watermark`, `watermark`).
    #[must_use]
    pub fn wake_after_bytes(mut self, bytes: u32) -> Builder {
        self.attr.flags.insert(AttrFlags::WATERMARK);
        self.attr.wakeup = bytes;
        self
    }

    /// Sets the skid of sample addresses: 0 for any, 1 for a constant one, 2 to request none, 3 or
    /// more to require none (`precise_ip`).
    #[must_use]
    pub fn precise_ip(mut self, level: u8) -> Builder {
        let level = level.min(3);
        self.attr.flags.set(AttrFlags::PRECISE_IP_1, level & 1 != 0);
        self.attr.flags.set(AttrFlags::PRECISE_IP_2, level & 2 != 0);
        self
    }

    /// Sets the branches in samples (`branch_sample_type`), for [`SampleType::BRANCH_STACK`].
    #[must_use]
    pub fn branches(mut self, branches: BranchSampleType) -> Builder {
        self.attr.branch_sample_type = branches;
        self
    }

    /// Sets the user registers in samples (`sample_regs_user`), as bits of `asm/perf_regs.h`, for
    /// [`SampleType::REGS_USER`].
    #[must_use]
    pub fn user_registers(mut self, mask: u64) -> Builder {
        self.attr.sample_regs_user = mask;
        self
    }

    /// Sets the bytes of user stack in samples (`sample_stack_user`), a multiple of 8 below 64 KiB,
    /// for [`SampleType::STACK_USER`].
    #[must_use]
    pub fn user_stack(mut self, bytes: u32) -> Builder {
        self.attr.sample_stack_user = bytes;
        self
    }

    /// Sets the clock of the records (`clockid`, `use_clockid`, Linux 4.1). The default is the
    /// kernel's internal clock. Hardware events and breakpoints support only the two monotonic
    /// clocks.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Builder {
        self.attr.flags.insert(AttrFlags::USE_CLOCKID);
        self.attr.clockid = clock.0;
        self
    }

    /// Sets the registers at the interrupt in samples (`sample_regs_intr`, Linux 3.19), for
    /// [`SampleType::REGS_INTR`].
    #[must_use]
    pub fn interrupt_registers(mut self, mask: u64) -> Builder {
        self.attr.sample_regs_intr = mask;
        self
    }

    /// Wakes a reader of the AUX area after this many bytes (`aux_watermark`, Linux 4.1).
    #[must_use]
    pub fn wake_after_aux_bytes(mut self, bytes: u32) -> Builder {
        self.attr.aux_watermark = bytes;
        self
    }

    /// Sets the maximum number of addresses in a callchain (`sample_max_stack`, Linux 4.8); 0 for
    /// the system's limit.
    #[must_use]
    pub fn max_stack(mut self, addresses: u16) -> Builder {
        self.attr.sample_max_stack = addresses;
        self
    }

    /// Sets the bytes of AUX area in samples (`aux_sample_size`, Linux 5.5), for
    /// [`SampleType::AUX`].
    #[must_use]
    pub fn aux_sample(mut self, bytes: u32) -> Builder {
        self.attr.aux_sample_size = bytes;
        self
    }

    /// Starts the AUX trace paused (`aux_start_paused`, Linux 6.13).
    #[must_use]
    pub fn aux_start_paused(self, on: bool) -> Builder {
        self.aux_action(AUX_START_PAUSED, on)
    }

    /// Pauses the AUX trace of the group's leader at each overflow (`aux_pause`, Linux 6.13).
    #[must_use]
    pub fn aux_pause(self, on: bool) -> Builder {
        self.aux_action(AUX_PAUSE, on)
    }

    /// Resumes the AUX trace of the group's leader at each overflow (`aux_resume`, Linux 6.13).
    #[must_use]
    pub fn aux_resume(self, on: bool) -> Builder {
        self.aux_action(AUX_RESUME, on)
    }

    fn aux_action(mut self, bit: u32, on: bool) -> Builder {
        match on {
            true => self.attr.aux_action |= bit,
            false => self.attr.aux_action &= !bit,
        }
        self
    }

    /// Sets the word that SIGTRAP delivers (`sig_data`, Linux 5.13), for
    /// [`sigtrap`](Self::sigtrap).
    #[must_use]
    pub fn signal_data(mut self, data: u64) -> Builder {
        self.attr.sig_data = data;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Software;
    use rprof_records::Attr;

    #[test]
    fn fields_and_the_bits_that_go_with_them_are_set() {
        let attr = |change: fn(Builder) -> Builder| {
            change(
                Builder::software(Software::DUMMY)
                    .read_format(ReadFormat::empty())
                    .disabled(false),
            )
            .attr
            .clone()
        };
        let plain = attr(|builder| builder);
        let expect = |change: fn(Builder) -> Builder, expected: Attr| {
            assert_eq!(attr(change), expected);
        };
        expect(
            |b| b.frequency(9).period(7),
            Attr {
                period_or_freq: 7,
                ..plain.clone()
            },
        );
        let flags = AttrFlags::FREQ;
        expect(
            |b| b.frequency(9),
            Attr {
                period_or_freq: 9,
                flags,
                ..plain.clone()
            },
        );
        let flags = AttrFlags::WATERMARK;
        expect(
            |b| b.wake_after_bytes(9),
            Attr {
                wakeup: 9,
                flags,
                ..plain.clone()
            },
        );
        expect(
            |b| b.wake_after_bytes(9).wake_after_samples(1),
            Attr {
                wakeup: 1,
                ..plain.clone()
            },
        );
        let flags = AttrFlags::PRECISE_IP_1 | AttrFlags::PRECISE_IP_2;
        expect(
            |b| b.precise_ip(1).precise_ip(9),
            Attr {
                flags,
                ..plain.clone()
            },
        );
        let flags = AttrFlags::USE_CLOCKID;
        expect(
            |b| b.clock(Clock::TAI),
            Attr {
                clockid: 11,
                flags,
                ..plain.clone()
            },
        );
        expect(
            |b| b.config1(1).config2(2),
            Attr {
                config1: 1,
                config2: 2,
                ..plain.clone()
            },
        );
        expect(
            |b| b.config3(3).config4(4),
            Attr {
                config3: 3,
                config4: 4,
                ..plain.clone()
            },
        );
        expect(
            |b| b.config(5).signal_data(6),
            Attr {
                config: 5,
                sig_data: 6,
                ..plain.clone()
            },
        );
        expect(
            |b| b.user_registers(1).interrupt_registers(2).user_stack(8),
            Attr {
                sample_regs_user: 1,
                sample_regs_intr: 2,
                sample_stack_user: 8,
                ..plain.clone()
            },
        );
        expect(
            |b| b.wake_after_aux_bytes(1).aux_sample(2).max_stack(3),
            Attr {
                aux_watermark: 1,
                aux_sample_size: 2,
                sample_max_stack: 3,
                ..plain.clone()
            },
        );
        expect(
            |b| {
                b.aux_start_paused(true)
                    .aux_pause(true)
                    .aux_resume(true)
                    .aux_pause(false)
            },
            Attr {
                aux_action: 5,
                ..plain.clone()
            },
        );
        let branch_sample_type = BranchSampleType::ANY;
        expect(
            |b| b.branches(BranchSampleType::ANY),
            Attr {
                branch_sample_type,
                ..plain
            },
        );
    }
}
