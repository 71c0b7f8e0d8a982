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
    let summary = Summary {
        samples: 0,
        ..plain()
    };
    insta::assert_snapshot!(lines(&summary, Some(OsStr::new("sh")))[2]);
}
