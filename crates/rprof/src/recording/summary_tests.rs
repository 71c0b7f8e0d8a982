use std::time::Duration;

use super::*;

fn plain() -> Summary {
    Summary {
        path: "perf.data".into(),
        file_bytes: 123_456,
        events: vec!["cpu-clock".into()],
        samples: 1234,
        duration: Duration::from_millis(1500),
        ..Summary::default()
    }
}

fn text(summary: &Summary) -> String {
    lines(summary, None).join("\n")
}

#[test]
fn summary_of_a_clean_recording_is_two_lines() {
    insta::assert_snapshot!(text(&plain()), @r#"
    1,234 samples of cpu-clock in 1.500 s, in perf.data (120.56 KiB)
    lost 0 samples
    "#);
}

#[test]
fn summary_names_every_loss_with_its_remedy() {
    let summary = Summary {
        lost: vec![(0, 1000), (3, 5)],
        dropped: vec![(1, 2)],
        loss_advice: Some(LossAdvice {
            rate: Some(SuggestedRate::Frequency(441)),
            ring: Some(64 << 20),
            mlock_kb: None,
            copies_stacks: true,
        }),
        lagged: 1,
        lost_sideband: 7,
        late: 3,
        damaged_bytes: 64,
        left_running: (10..20).collect(),
        ..plain()
    };
    insta::assert_snapshot!(text(&summary), @r#"
    1,234 samples of cpu-clock in 1.500 s, in perf.data (120.56 KiB)
    lost 1,005 samples (CPU 0: 1,000, CPU 3: 5): the disk or the CPU did not keep up; shares may be off. To lose fewer: -m 64M, -F 441 or --call-graph fp
    the processor itself dropped 2 samples (CPU 1: 2); a lower -F or higher -c helps
    lost 7 name or mapping records: some frames will have no name
    3 records are out of order in the file
    skipped 64 bytes of a ring buffer without valid records; please report this
    10 processes started by the command still run and are no longer recorded: 10, 11, 12, 13, 14, …
    "#);
}

#[test]
fn advice_on_losses_names_values_and_the_option_that_was_given() {
    let told = |loss_advice| {
        let summary = Summary {
            lost: vec![(0, 5)],
            loss_advice: Some(loss_advice),
            ..plain()
        };
        lines(&summary, None).swap_remove(1)
    };
    let lost = "lost 5 samples (CPU 0: 5): the ring buffers were full; shares may be off";
    let burst = LossAdvice {
        rate: Some(SuggestedRate::Period(2)),
        ring: Some(64 << 20),
        mlock_kb: Some(66_560),
        copies_stacks: false,
    };
    assert_eq!(
        told(burst),
        format!(
            "{lost}. To lose fewer: -m 64M as root or with `sysctl kernel.perf_event_mlock_kb=66560` or -c 2"
        )
    );
    let largest = LossAdvice {
        rate: Some(SuggestedRate::Frequency(9)),
        ..LossAdvice::default()
    };
    assert_eq!(told(largest), format!("{lost}. To lose fewer: -F 9"));
    assert_eq!(told(LossAdvice::default()), lost);
}

#[test]
fn summary_of_a_trace_tells_its_gaps() {
    let trace = |truncated| AuxTally {
        pieces: 10,
        bytes: 123_456,
        truncated,
        ..AuxTally::default()
    };
    let told = |trace| {
        let summary = Summary {
            trace: Some(trace),
            ..plain()
        };
        text(&summary)
    };
    assert!(told(trace(0)).ends_with("10 pieces of an AUX trace, 123456 bytes"));
    let gaps = "2 of 10 pieces of the AUX trace end early: its buffer was full; enlarge the buffer";
    assert!(told(trace(2)).contains(gaps));
    assert!(told(AuxTally::default()).contains("nothing was traced"));
}

#[test]
fn summary_of_truncated_stacks_names_the_worst_images() {
    let mut stacks = StackTally {
        total: 100_000,
        complete: 99_999,
        ..StackTally::default()
    };
    let summary = |stacks: &StackTally| Summary {
        stacks: Some(stacks.clone()),
        ..plain()
    };
    insta::assert_snapshot!(lines(&summary(&stacks), None)[2], @r#"stacks: 99.99% reach their root"#);
    stacks.complete = 100_000;
    insta::assert_snapshot!(lines(&summary(&stacks), None)[2], @r#"stacks: 100% reach their root"#);
    stacks.complete = 60_000;
    let truncated = [
        (StackCause::NoUnwindInfo, "libbare.so", 30_000),
        (StackCause::StackEnded, "deep\x1b[31m", 9_000),
        (StackCause::Compat, "old", 900),
        (StackCause::TooDeep, "endless", 100),
    ];
    for (cause, image, count) in truncated {
        stacks.truncated.insert((cause, image.into()), count);
    }
    insta::assert_snapshot!(lines(&summary(&stacks), None)[2..].join("\n"), @r#"
    stacks: 60.00% reach their root
      30.00% end in libbare.so: no unwind information; build it with unwind information or frame pointers
      9.00% end in deep�[31m: deeper than the copied part of the stack
      0.90% end in old: 32-bit ARM, which rprof does not unwind; --call-graph fp follows frame pointers
    "#);
}

#[test]
fn summary_of_rotated_files_names_the_last() {
    let summary = Summary {
        files: vec!["a.1".into(), "a.2".into()],
        samples: 1,
        ..plain()
    };
    insta::assert_snapshot!(lines(&summary, None)[0], @r#"1 sample of cpu-clock in 1.500 s; 2 files are kept, the last is a.2 (120.56 KiB)"#);
}

#[test]
fn summary_without_samples_says_why() {
    let why = |used, wall, sampled, waiting| {
        let summary = Summary {
            samples: 0,
            cpu_time: Some(CpuTime {
                used: Duration::from_micros(used),
                wall: Some(Duration::from_millis(wall)),
                period: Duration::from_millis(1),
                sampled,
                waiting,
                ..CpuTime::default()
            }),
            ..plain()
        };
        lines(&summary, Some(OsStr::new("sh")))[2].clone()
    };
    let none = Some(Duration::ZERO);
    let said = [
        // A sleeper gets no advice to raise the frequency.
        why(450, 2000, none, none),
        // Neither does a target without a CPU.
        why(450, 2000, none, Some(Duration::from_millis(1990))),
        why(450, 2000, none, None),
        why(450, 1, none, none),
        why(450_000, 500, None, none),
    ];
    insta::assert_snapshot!(said.join("\n"), @r#"
    no samples: the target slept all the time, and used 0.450 ms of CPU time in 2.000 s
    no samples: the target waited 1.990 s for a CPU, and used 0.450 ms of CPU time in 2.000 s
    no samples: the target slept or waited for a CPU all the time, and used 0.450 ms of CPU time in 2.000 s
    no samples: the target used 0.450 ms of CPU time in 0.001 s, with one sample per 1.0 ms; try a higher -F
    no samples: the target used 450.000 ms of CPU time in 0.500 s, but none of it in the sampled code
    "#);
}

#[test]
fn summary_without_samples_of_an_event_that_is_no_clock_names_the_event() {
    let of = |event: &str| {
        let summary = Summary {
            samples: 0,
            cpu_time: None,
            events: vec![event.to_owned()],
            ..plain()
        };
        lines(&summary, Some(OsStr::new("sh")))[2].clone()
    };
    assert_eq!(
        of("major-faults"),
        "no samples: the event did not occur in the target, or too rarely: `rprof stat -e \
         major-faults` counts it"
    );
    assert!(of("cpu-clock:u").contains("did not run"));
}

#[test]
fn summary_tells_of_cpu_time_without_samples_and_of_waiting() {
    let said = |sampled, used, wall, tasks, waiting, throttled| {
        let ms = Duration::from_millis;
        let summary = Summary {
            cpu_time: Some(CpuTime {
                used: ms(used),
                wall: Some(ms(wall)),
                period: ms(1),
                sampled: Some(ms(sampled)),
                tasks,
                waiting: Some(ms(waiting)),
                unclear: Duration::ZERO,
                throttled,
                stopped: None,
                unrecorded_cpus: 0,
                privileged_programs: 0,
            }),
            ..plain()
        };
        lines(&summary, None)[2..].join("\n")
    };
    let all = [
        said(70, 1300, 1400, 2000, 0, None),
        said(559, 560, 5400, 3, 40, None),
        said(559, 560, 5400, 3, 4400, None),
        said(559, 560, 5400, 3, 4400, Some(Duration::from_secs(4))),
    ];
    insta::assert_snapshot!(all.join("\n"), @r#"
    samples cover 0.070 of 1.30 s of CPU time: the end of each thread has no sample: up to 1.0 ms, the time between two; `-F 20000` shortens that, and -a has no such ends
    on CPU 0.560 s of 5.40 s: 0.040 s waiting for a CPU, 4.80 s asleep; `rprof record --off-cpu` shows where
    on CPU 0.560 s of 5.40 s: 4.40 s waiting for a CPU, 0.440 s asleep; other programs kept the CPUs busy
    on CPU 0.560 s of 5.40 s: 4.40 s waiting for a CPU (control group throttled for 4.00 s), 0.440 s asleep; a higher quota (`cpu.max`, or `cpu.cfs_quota_us` of version 1) lets it run
    "#);
}
