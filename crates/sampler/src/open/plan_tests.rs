//! Steps down, decided without a kernel.

use super::super::attrs;
use super::super::degradation::AttrFeature;
use super::super::ring_sizes::{PRIVILEGED, SMALLEST, UNPRIVILEGED};
use super::*;
use crate::options::Extras;
use rprof_perf_event::Clock;
use rprof_records::{
    AttrFlags, BranchSampleType, EventKind, GENERAL_REGISTERS, ReadFormat, SampleType,
};

const LIMITS: Limits = Limits {
    paranoid: Some(2),
    max_sample_rate: Some(100_000),
    mlock_kib: Some(516),
    max_stack: Some(127),
    seccomp: false,
    privileged: false,
    open_files: Some(1024),
    locked_memory: None,
    kernel: Some((6, 1)),
};

fn plan_for(events: &str, change: impl FnOnce(&mut SamplingOptions)) -> Plan {
    let mut options = SamplingOptions::default();
    change(&mut options);
    Plan::new(Event::parse_list(events).unwrap(), options, LIMITS).unwrap()
}

fn default_plan() -> Plan {
    plan_for("", |_| {})
}

fn refuse(plan: &mut Plan, stage: Stage, errno: Errno) -> Result<(), OpenEventsError> {
    plan.step_down(Refusal {
        stage,
        cpu: 1,
        errno,
    })
}

#[test]
fn missing_cycles_become_cpu_clock_unless_named() {
    for errno in [Errno::NOENT, Errno::NODEV, Errno::OPNOTSUPP] {
        let mut plan = default_plan();
        refuse(&mut plan, Stage::Sampling(0), errno).unwrap();
        assert_eq!(plan.events, [Event::cpu_clock()]);
        let told = plan.degradations[0].to_string();
        assert!(told.contains("`cpu-clock` is sampled instead"), "{told}");
        assert!(refuse(&mut plan, Stage::Sampling(0), errno).is_err());

        let mut plan = plan_for("cycles", |_| {});
        let error = refuse(&mut plan, Stage::Sampling(0), errno).unwrap_err();
        assert!(error.to_string().contains("`cpu-clock` works everywhere"));
        assert!(plan.degradations.is_empty());
    }
}

#[test]
fn a_refused_kernel_side_is_left_out_once() {
    let mut plan = plan_for("cycles", |_| {});
    assert!(plan.features.kernel_symbols);
    refuse(&mut plan, Stage::Sampling(0), Errno::ACCESS).unwrap();
    let attr = attrs::sampling(&plan, &plan.events[0]);
    assert!(attr.flags.contains(
        AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV | AttrFlags::EXCLUDE_CALLCHAIN_KERNEL
    ));
    assert!(!attrs::sideband(&plan).flags.contains(AttrFlags::KSYMBOL));
    assert_eq!(plan.describe(&plan.events[0]), "cycles:u");
    assert!(
        plan.degradations[0]
            .to_string()
            .contains("perf_event_paranoid=1")
    );
    let error = refuse(&mut plan, Stage::Sampling(0), Errno::ACCESS).unwrap_err();
    assert!(
        error.to_string().contains("perf_event_paranoid is 2"),
        "{error}"
    );
}

#[test]
fn a_kernel_side_asked_for_by_name_is_not_left_out() {
    for event in ["cycles:k", "cycles:uk"] {
        let mut plan = plan_for(event, |_| {});
        assert!(refuse(&mut plan, Stage::Sampling(0), Errno::PERM).is_err());
    }
}

#[test]
fn the_frequency_obeys_the_limit_or_fails_when_strict() {
    let plan = plan_for("", |o| o.rate = SamplingRate::Frequency(200_000));
    assert_eq!(plan.frequency, 100_000);
    assert_eq!(
        plan.degradations,
        [Degradation::FrequencyLowered {
            wanted: 200_000,
            used: 100_000
        }]
    );
    let options = SamplingOptions {
        rate: SamplingRate::Frequency(200_000),
        strict_frequency: true,
        ..SamplingOptions::default()
    };
    let error = Plan::new(Vec::new(), options, LIMITS).unwrap_err();
    assert!(matches!(
        error,
        OpenEventsError::Frequency { limit: 100_000, .. }
    ));
    let mut plan = plan_for("", |o| o.rate = SamplingRate::Frequency(50_000));
    plan.limits.max_sample_rate = Some(20_000);
    refuse(&mut plan, Stage::Sampling(0), Errno::INVAL).unwrap();
    assert_eq!((plan.frequency, plan.degradations.len()), (20_000, 1));
}

#[test]
fn a_rate_of_zero_is_refused() {
    for rate in [SamplingRate::Frequency(0), SamplingRate::Period(0)] {
        let options = SamplingOptions {
            rate,
            ..SamplingOptions::default()
        };
        let error = Plan::new(Vec::new(), options, LIMITS).unwrap_err();
        assert_eq!(error, OpenEventsError::ZeroRate);
    }
}

#[test]
fn features_go_one_at_a_time_newest_first() {
    let mut plan = plan_for("", |o| o.max_stack = Some(64));
    let mut seen = Vec::new();
    while refuse(&mut plan, Stage::Sampling(0), Errno::INVAL).is_ok() {
        seen.push(plan.degradations.last().cloned().unwrap());
    }
    let dropped: Vec<AttrFeature> = (seen.iter())
        .map(|step| match step {
            Degradation::FeatureDropped { feature, .. } => *feature,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        dropped,
        [
            AttrFeature::ReadLost,
            AttrFeature::MaxStack,
            AttrFeature::ClockId
        ]
    );
    let attr = attrs::sampling(&plan, &plan.events[0]);
    assert!(!attr.read_format.contains(ReadFormat::LOST));
    assert!(!attr.flags.contains(AttrFlags::USE_CLOCKID));
    assert_eq!((attr.clockid, attr.sample_max_stack), (0, 0));

    let mut plan = default_plan();
    while refuse(&mut plan, Stage::Sideband, Errno::INVAL).is_ok() {}
    assert_eq!(plan.degradations.len(), 3);
    let flags = attrs::sideband(&plan).flags;
    assert!(!flags.intersects(AttrFlags::BUILD_ID | AttrFlags::KSYMBOL | AttrFlags::BPF_EVENT));
    assert!(flags.contains(AttrFlags::MMAP2 | AttrFlags::COMM_EXEC | AttrFlags::TASK));
}

#[test]
fn the_callchain_depth_obeys_the_limit() {
    let mut plan = plan_for("", |o| o.max_stack = Some(500));
    refuse(&mut plan, Stage::Sampling(0), Errno::OVERFLOW).unwrap();
    assert_eq!(plan.max_stack, Some(127));
    assert!(refuse(&mut plan, Stage::Sampling(0), Errno::OVERFLOW).is_err());
}

#[test]
fn default_rings_become_modest_silently_then_shrink_aloud() {
    let mut plan = default_plan();
    assert_eq!(plan.rings, PRIVILEGED);
    refuse(&mut plan, Stage::Ring(1), Errno::PERM).unwrap();
    assert_eq!(plan.rings, UNPRIVILEGED);
    assert!(plan.degradations.is_empty());
    refuse(&mut plan, Stage::Ring(1), Errno::PERM).unwrap();
    refuse(&mut plan, Stage::Ring(1), Errno::PERM).unwrap();
    assert_eq!(
        plan.rings.samples,
        SMALLEST
            .max(UNPRIVILEGED.samples / 4)
            .max(plan.rings.samples)
    );
    let [Degradation::RingShrunk { wanted, used, .. }] = plan.degradations[..] else {
        panic!("{:?}", plan.degradations);
    };
    assert_eq!(wanted, 384 << 10);
    assert_eq!(used, plan.rings.samples + plan.rings.sideband);
    while refuse(&mut plan, Stage::Ring(1), Errno::PERM).is_ok() {}
    assert_eq!(
        (plan.rings.samples, plan.rings.sideband),
        (SMALLEST, SMALLEST)
    );
    assert_eq!(plan.degradations.len(), 1);
}

#[test]
fn a_ring_size_asked_for_shrinks_aloud_only() {
    let mut plan = plan_for("", |o| {
        o.ring_bytes = Some(8 << 20);
        o.sideband_ring_bytes = Some(128 << 10);
    });
    refuse(&mut plan, Stage::Ring(1), Errno::PERM).unwrap();
    assert_eq!(plan.rings.samples, 4 << 20);
    let told = plan.degradations[0].to_string();
    assert!(told.contains("4224 KiB for each CPU, not 8320"), "{told}");
    assert!(told.contains("perf_event_mlock_kb=8328"), "{told}");
}

#[test]
fn attrs_keep_samples_and_sideband_apart() {
    let plan = plan_for("cs:u", |o| o.rate = SamplingRate::Period(3));
    let sampling = attrs::sampling(&plan, &plan.events[0]);
    let said = AttrFlags::MMAP | AttrFlags::MMAP2 | AttrFlags::COMM | AttrFlags::TASK;
    assert!(!sampling.flags.intersects(said | AttrFlags::FREQ));
    assert_eq!(sampling.period_or_freq, 3);
    assert!(sampling.flags.contains(AttrFlags::EXCLUDE_KERNEL));
    assert!(sampling.sample_type.contains(SampleType::CALLCHAIN));
    assert_eq!(sampling.wakeup as usize, PRIVILEGED.samples / 4);
    let sideband = attrs::sideband(&plan);
    assert!(sideband.flags.contains(said) && !sideband.flags.contains(AttrFlags::MMAP_DATA));
    assert!(!sideband.sample_type.contains(SampleType::CALLCHAIN));
    for attr in [sampling, sideband] {
        let all = AttrFlags::SAMPLE_ID_ALL
            | AttrFlags::USE_CLOCKID
            | AttrFlags::DISABLED
            | AttrFlags::ENABLE_ON_EXEC
            | AttrFlags::INHERIT
            | AttrFlags::WATERMARK;
        assert!(attr.flags.contains(all));
        assert_eq!(attr.clockid, libc::CLOCK_MONOTONIC);
        assert!(
            attr.sample_type
                .contains(SampleType::IDENTIFIER | SampleType::TIME)
        );
    }
}

#[test]
fn precision_goes_down_a_step_at_a_time_and_is_told_once() {
    let mut plan = plan_for("cycles:ppp", |_| {});
    for precise in [2, 1, 0] {
        refuse(&mut plan, Stage::Sampling(0), Errno::OPNOTSUPP).unwrap();
        assert_eq!(plan.events[0].precise(), precise);
        assert_eq!(plan.degradations.len(), 1);
    }
    let told = plan.degradations[0].to_string();
    assert!(
        told.contains("`cycles` is sampled, not `cycles:ppp`"),
        "{told}"
    );
    assert!(refuse(&mut plan, Stage::Sampling(0), Errno::OPNOTSUPP).is_err());
    let mut plan = plan_for("cycles:P", |_| {});
    while refuse(&mut plan, Stage::Sampling(0), Errno::OPNOTSUPP).is_ok() {}
    assert_eq!((plan.events[0].precise(), plan.degradations.len()), (0, 0));
}

#[test]
fn idle_cpus_are_left_out_of_clocks_only() {
    let idle = |events: &str, exclude: bool| {
        let plan = plan_for(events, |o| o.exclude_idle = exclude);
        let attr = attrs::sampling(&plan, &plan.events[0]);
        attr.flags.contains(AttrFlags::EXCLUDE_IDLE)
    };
    assert!(idle("cpu-clock", true) && idle("task-clock:u", true));
    assert!(!idle("cycles", true) && !idle("page-faults", true) && !idle("cpu-clock", false));
}

#[test]
fn an_events_own_rate_goes_first() {
    let plan = plan_for("cycles,cpu-clock/freq=250000/,cs/period=7/", |o| {
        o.rate = SamplingRate::Frequency(500);
        o.rate_is_default = false;
    });
    let rates: Vec<SamplingRate> = plan
        .events
        .iter()
        .map(|event| plan.rate_of(event))
        .collect();
    assert_eq!(
        rates,
        [
            SamplingRate::Frequency(500),
            SamplingRate::Frequency(100_000),
            SamplingRate::Period(7)
        ]
    );
    let told = plan.degradations[0].to_string();
    assert!(told.contains("100000 times a second, not 250000"), "{told}");
}

#[test]
fn only_what_can_be_inherited_is() {
    let inherits = |target, inherit| {
        plan_for("", |o| {
            o.target = target;
            o.inherit = inherit;
        })
        .inherits()
    };
    assert!(inherits(Target::Command, true) && inherits(Target::Processes(vec![1]), true));
    assert!(inherits(Target::User(1), true) && !inherits(Target::User(1), false));
    assert!(!inherits(Target::Threads(vec![1]), true) && !inherits(Target::System, true));
}

#[test]
fn user_stacks_take_the_place_of_user_callchains() {
    let plan = plan_for("cycles", |o| o.user_stack = Some(1001));
    let attr = attrs::sampling(&plan, &plan.events[0]);
    let both = SampleType::REGS_USER | SampleType::STACK_USER;
    assert_eq!(
        attr.sample_type.contains(both | SampleType::CALLCHAIN),
        GENERAL_REGISTERS != 0
    );
    if GENERAL_REGISTERS != 0 {
        assert_eq!(attr.sample_stack_user, 1008);
        assert!(attr.flags.contains(AttrFlags::EXCLUDE_CALLCHAIN_USER));
    }
}

#[test]
fn descriptions_name_the_sides_that_are_sampled() {
    let described = |text: &str, change: fn(&mut SamplingOptions)| {
        let plan = plan_for(text, change);
        plan.describe(&plan.events[0])
    };
    assert_eq!(described("cycles", |_| {}), "cycles");
    assert_eq!(described("cycles", |o| o.exclude_kernel = true), "cycles:u");
    assert_eq!(described("cycles", |o| o.exclude_user = true), "cycles:k");
    assert_eq!(
        described("cycles:uk", |o| o.exclude_kernel = true),
        "cycles:u"
    );
    assert_eq!(described("cycles:uk", |_| {}), "cycles:uk");
}

#[test]
fn copied_stacks_leave_room_for_the_samples_of_25_ms() {
    let plan = plan_for("cycles", |o| {
        o.user_stack = Some(60 << 10);
        o.fit_user_stack = true;
        o.ring_bytes = Some(8 << 20);
        o.rate = SamplingRate::Frequency(9_999);
    });
    let bytes = u64::from(plan.user_stack().unwrap());
    let in_25_ms = 9_999 * 25 / 1000;
    assert!(bytes * in_25_ms <= 8 << 20, "{bytes}");
    assert!(
        (bytes + 200) * 2 * in_25_ms > 8 << 20,
        "no shorter than that: {bytes}"
    );
    let plan = plan_for("cycles", |o| {
        o.user_stack = Some(60 << 10);
        o.fit_user_stack = true;
        o.ring_bytes = Some(8 << 20);
    });
    assert_eq!(plan.user_stack(), Some(60 << 10));
}

#[test]
fn what_is_asked_for_beyond_the_usual_is_in_the_attrs() {
    let plan = plan_for("cpu-clock,cs", |o| {
        o.extras.fields = SampleType::ADDR | SampleType::WEIGHT_STRUCT | SampleType::RAW;
        o.extras.records = Extras::RECORDS | AttrFlags::SIGTRAP;
        o.extras.thread_counts = true;
        o.extras.branches = BranchSampleType::ANY_CALL | BranchSampleType::USER;
        o.extras.interrupt_registers = 0b11;
        o.overwrite = true;
    });
    let sampling = attrs::sampling(&plan, &plan.events[0]);
    let fields = SampleType::ADDR
        | SampleType::WEIGHT_STRUCT
        | SampleType::BRANCH_STACK
        | SampleType::REGS_INTR;
    assert!(sampling.sample_type.contains(fields));
    assert!(!sampling.sample_type.contains(SampleType::RAW));
    assert_eq!(sampling.branch_sample_type, plan.options.extras.branches);
    assert_eq!(sampling.sample_regs_intr, 0b11);
    let of_samples =
        AttrFlags::INHERIT_STAT | AttrFlags::WRITE_BACKWARD | AttrFlags::CONTEXT_SWITCH;
    assert!(sampling.flags.contains(of_samples));
    // Not the sideband: switches would displace mappings.
    let second = attrs::sampling(&plan, &plan.events[1]);
    assert!(!second.flags.contains(AttrFlags::CONTEXT_SWITCH));
    let sideband = attrs::sideband(&plan);
    let of_sideband = Extras::RECORDS.difference(AttrFlags::CONTEXT_SWITCH);
    assert!(sideband.flags.contains(of_sideband));
    assert!(!sideband.flags.intersects(of_samples | AttrFlags::SIGTRAP));
    assert!(!sideband.sample_type.intersects(fields));
}

#[test]
fn weights_become_one_value_and_a_named_clock_stays() {
    let mut plan = plan_for("cycles", |o| {
        o.extras.fields = SampleType::WEIGHT_STRUCT;
        o.clock = Some(Clock::TAI);
    });
    while refuse(&mut plan, Stage::Sampling(0), Errno::INVAL).is_ok() {}
    let attr = attrs::sampling(&plan, &plan.events[0]);
    let both = SampleType::WEIGHT | SampleType::WEIGHT_STRUCT;
    assert_eq!(attr.sample_type & both, SampleType::WEIGHT);
    assert_eq!(attr.clockid, Clock::TAI.number());
    let told: Vec<String> = plan.degradations.iter().map(ToString::to_string).collect();
    let told = told.join("\n");
    assert!(told.contains("weights are one value"), "{told}");
    let error = refuse(&mut plan, Stage::Sampling(0), Errno::INVAL).unwrap_err();
    assert!(error.to_string().contains("software events"), "{error}");
}

#[test]
fn a_refused_filter_is_told_with_its_event() {
    let event = Event::parse("2:1").unwrap();
    let event = event.with_filter("pid == x").unwrap();
    let mut plan = Plan::new(vec![event], SamplingOptions::default(), LIMITS).unwrap();
    let error = refuse(&mut plan, Stage::Filter(0), Errno::INVAL).unwrap_err();
    assert!(error.to_string().contains("`pid == x`"), "{error}");
}

/// The kernel ignores the fixed period of a software event if its samples contain it.
#[test]
fn samples_hold_periods_that_the_attr_does_not_tell() {
    for (rate, expected) in [
        (SamplingRate::Frequency(99), true),
        (SamplingRate::Period(1), true),
        (SamplingRate::Period(2), false),
    ] {
        let plan = plan_for("cs:u", |o| o.rate = rate);
        let attr = attrs::sampling(&plan, &plan.events[0]);
        let tells = attr.sample_type.contains(SampleType::PERIOD);
        assert_eq!(tells, expected, "{rate:?}");
    }
}

#[test]
fn switches_are_told_by_an_event_of_their_own() {
    let mut plan = plan_for("", |options| {
        options.off_cpu = true;
        options.user_stack = Some(60 << 10);
        options.extras.records = AttrFlags::CONTEXT_SWITCH;
    });
    assert_eq!(plan.events, [Event::cpu_clock(), Event::context_switches()]);
    let [clock, switches] = [0, 1].map(|index| attrs::of_event(&plan, index));
    assert!(!clock.flags.contains(AttrFlags::CONTEXT_SWITCH));
    let flags = AttrFlags::CONTEXT_SWITCH | AttrFlags::EXCLUDE_CALLCHAIN_USER;
    assert!(switches.flags.contains(flags));
    assert!(!switches.sample_type.contains(SampleType::PERIOD));
    assert_eq!(switches.period_or_freq, 1);
    assert_eq!(switches.sample_stack_user, 16 << 10);
    assert_eq!(switches.sample_regs_user, GENERAL_REGISTERS);
    refuse(&mut plan, Stage::Sampling(1), Errno::ACCESS).unwrap();
    let step = Degradation::OffCpuTimesOnly { paranoid: Some(2) };
    assert_eq!(plan.degradations, [step]);
    let times = attrs::of_event(&plan, 1);
    assert!((times.flags).contains(AttrFlags::EXCLUDE_KERNEL | AttrFlags::CONTEXT_SWITCH));
    assert!(
        !attrs::of_event(&plan, 0)
            .flags
            .contains(AttrFlags::EXCLUDE_KERNEL)
    );
    assert!(refuse(&mut plan, Stage::Sampling(1), Errno::ACCESS).is_err());
}

#[test]
fn wake_ups_have_an_event_that_is_left_out_where_it_may_not_be_had() {
    if wakeup_event().is_err() {
        return rprof_testing::skip("needs tracefs, and no pid namespace");
    }
    let wakers = |options: &mut SamplingOptions| {
        options.off_cpu = true;
        options.wakers = true;
    };
    let mut plan = plan_for("", wakers);
    let roles = [0, 1, 2].map(|index| plan.role(index));
    assert_eq!(roles, [Role::Samples, Role::Wakeups, Role::OffCpu]);
    let attr = attrs::of_event(&plan, 1);
    assert_eq!(attr.kind, EventKind::TRACEPOINT);
    assert!(attr.sample_type.contains(SampleType::RAW));
    assert!(
        !(attr.flags)
            .intersects(AttrFlags::INHERIT | AttrFlags::DISABLED | AttrFlags::ENABLE_ON_EXEC)
    );
    refuse(&mut plan, Stage::Sampling(1), Errno::ACCESS).unwrap();
    assert!(matches!(
        plan.degradations[..],
        [Degradation::NoWakers { .. }]
    ));
    assert_eq!(
        [0, 1].map(|index| plan.role(index)),
        [Role::Samples, Role::OffCpu]
    );
    assert_eq!(plan.described_at_first.len(), 2);
    let plan = plan_for("", |options| options.wakers = true);
    assert_eq!(plan.events.len(), 1);
}

#[test]
fn attrs_without_the_kernel_have_no_kernel_callchain() {
    let kinds = [Event::cpu_clock(), Event::cycles()].map(|event| event.describe());
    let names = kinds
        .iter()
        .flat_map(|name| [name.clone(), format!("{name}:u")]);
    for (name, off_cpu) in names.flat_map(|name| [(name.clone(), false), (name, true)]) {
        let mut plan = plan_for(&name, |options| {
            options.user_stack = Some(60 << 10);
            options.off_cpu = off_cpu;
        });
        loop {
            for index in 0..plan.events.len() {
                let attr = attrs::of_event(&plan, index);
                for attr in [attrs::switches_alone(&attr), attr] {
                    let hides = attr.flags.contains(AttrFlags::EXCLUDE_KERNEL);
                    let chains = attr.sample_type.contains(SampleType::CALLCHAIN);
                    let bit = attr.flags.contains(AttrFlags::EXCLUDE_CALLCHAIN_KERNEL);
                    assert!(!(hides && chains) || bit, "{name} {off_cpu}: {attr:?}");
                }
            }
            let last = plan.events.len() - 1;
            if refuse(&mut plan, Stage::Sampling(last), Errno::ACCESS).is_err() {
                break;
            }
        }
    }
}
