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
    insta::assert_snapshot!(text(&plain()));
}

#[test]
fn summary_names_every_loss_with_its_remedy() {
    let summary = Summary {
        lost: vec![(0, 1000), (3, 5)],
        dropped: vec![(1, 2)],
        lagged: 1,
        lost_sideband: 7,
        late: 3,
        damaged_bytes: 64,
        left_running: (10..20).collect(),
        ..plain()
    };
    insta::assert_snapshot!(text(&summary));
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
    let gaps =
        "2 of 10 pieces of the AUX trace end early, as its buffer was full; enlarge the buffer";
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
    insta::assert_snapshot!(lines(&summary(&stacks), None)[2]);
    stacks.complete = 100_000;
    insta::assert_snapshot!(lines(&summary(&stacks), None)[2]);
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
    insta::assert_snapshot!(lines(&summary(&stacks), None)[2..].join("\n"));
}

#[test]
fn summary_of_rotated_files_names_the_last() {
    let summary = Summary {
        files: vec!["a.1".into(), "a.2".into()],
        samples: 1,
        ..plain()
    };
    insta::assert_snapshot!(lines(&summary, None)[0]);
}

#[test]
fn summary_without_samples_says_why() {
    let why = |used, wall, sampled| {
        let summary = Summary {
            samples: 0,
            cpu_time: Some(CpuTime {
                used: Duration::from_micros(used),
                wall: Some(Duration::from_millis(wall)),
                period: Duration::from_millis(1),
                sampled,
                tasks: 0,
            }),
            ..plain()
        };
        lines(&summary, Some(OsStr::new("sh")))[2].clone()
    };
    let none = Some(Duration::ZERO);
    let said = [
        // One that slept is not asked for a higher frequency.
        why(450, 2000, none),
        why(450, 1, none),
        why(450_000, 500, None),
    ];
    insta::assert_snapshot!(said.join("\n"));
}

#[test]
fn summary_tells_of_cpu_time_without_samples_and_of_waiting() {
    let said = |sampled, used, wall, tasks| {
        let ms = Duration::from_millis;
        let summary = Summary {
            cpu_time: Some(CpuTime {
                used: ms(used),
                wall: Some(ms(wall)),
                period: ms(1),
                sampled: Some(ms(sampled)),
                tasks,
            }),
            ..plain()
        };
        lines(&summary, None)[2..].join("\n")
    };
    let all = [said(70, 1300, 1400, 2000), said(559, 560, 5400, 3)];
    insta::assert_snapshot!(all.join("\n"));
}
