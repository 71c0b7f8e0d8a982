use std::collections::BTreeMap;

use super::*;
use rprof_profile::Profile;

fn profile(text: &str) -> Result<Profile, String> {
    read(
        &mut text.as_bytes(),
        Path::new("x.txt"),
        &ImportOptions::default(),
    )
    .map_err(|error| error.to_string())
}

/// Returns weights by event, thread and stack.
fn stacks(profile: &Profile) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    for entry in &profile.aggregated {
        let mut text = format!(
            "{}/{}",
            profile.events[entry.event].name,
            profile.comm(entry.thread)
        );
        for function in profile.stack(entry.stack) {
            let function = profile.function(function);
            let object = &profile.object(function.object).name;
            let name = function.name.as_deref().unwrap_or("?");
            text += &format!(";{name}@{object}");
        }
        *found.entry(text).or_default() += entry.weight;
    }
    found
}

fn expected<const N: usize>(stacks: [(&str, u64); N]) -> BTreeMap<String, u64> {
    stacks.map(|(stack, n)| (stack.to_owned(), n)).into()
}

#[test]
fn samples_of_all_choices_of_fields_are_read() {
    let frames = "\t            113c leaf_one+0x13 (/opt/w)\n\t            2000 main (/opt/w)\n\n";
    let two = |head: &str| format!("{head}\n{frames}{head}\n{frames}");
    let stack = |event: &str, comm: &str| format!("{event}/{comm};main@/opt/w;leaf_one@/opt/w");
    for (head, event, comm, weight) in [
        (
            "w 17/17 [000]   708.39:    500 cycles: ",
            "cycles",
            "w",
            1000,
        ),
        (
            "w 17 U       708.39:    500 cpu-clock:ppp:      ",
            "cpu-clock:ppp",
            "w",
            1000,
        ),
        ("my w 2 17   708.39: cycles: ", "cycles", "my w 2", 2),
        ("w 17   708.39:    500 ", "samples", "w", 1000),
        ("w 17   708.39: ", "samples", "w", 2),
        ("w 17 cycles: ", "cycles", "w", 2),
        ("w 17 ", "samples", "w", 2),
        ("w ", "samples", "w", 2),
        ("w   708.39: cycles: ", "cycles", "w", 2),
        ("     17   708.39: cycles: ", "cycles", ":17", 2),
        ("   708.39: cycles: ", "cycles", "[unknown]", 2),
        // Without a thread id.
        ("w cycles: ", "cycles", "w", 2),
        ("w    2004008 cycles: ", "cycles", "w", 4_008_016),
        ("   2004008 cycles: ", "cycles", "[unknown]", 4_008_016),
        (
            "99912345678 cycles: ",
            "cycles",
            "[unknown]",
            199_824_691_356,
        ),
        ("[000] cycles: ", "cycles", "[unknown]", 2),
        ("my w [000] cycles:u: ", "cycles:u", "my w", 2),
        ("cycles: ", "cycles", "[unknown]", 2),
        ("cycles:                0", "cycles", "[unknown]", 2),
        // A data address before the frames is not a frame.
        (
            "w 17   708.39:    500 page-faults:      7f00 [unknown] (//anon)",
            "page-faults",
            "w",
            1000,
        ),
        (
            "w 17   708.39: sched:sched_switch: prev_comm=a ==> next_pid=1",
            "sched:sched_switch",
            "w",
            2,
        ),
    ] {
        let profile = profile(&two(head)).unwrap();
        let wanted = stack(event, comm);
        assert_eq!(stacks(&profile), expected([(&*wanted, weight)]), "{head}");
        assert!(
            profile.quality.warnings.len() == 1,
            "{head}: {:?}",
            profile.quality.warnings
        );
    }
}

#[test]
fn samples_without_callchains_have_their_frame_or_payload_behind_the_event() {
    let text = "              dd    17   708.39:    500 cycles:      113c leaf (/opt/w)\n                              bc 1   17   708.39:    500 cycles:  ffffffff81000000 [unknown] ([kernel.kallsyms])\n                              w    17   708.39:    500 page-faults:      7f00 [unknown] (//anon)     113c leaf (/opt/w)\n                              w    17   708.39:    500 cycles:R:      113c leaf (/opt/w)\n                              w    17   708.39: raw_syscalls:sys_exit: NR 0 = 65536\n                              w    17   708.39: probe:c: dead beef 12\n";
    let profile = profile(text).unwrap();
    assert_eq!(
        stacks(&profile),
        expected([
            ("cycles/dd;leaf@/opt/w", 500),
            ("cycles/bc 1;?@[kernel.kallsyms]", 500),
            ("page-faults/w;leaf@/opt/w", 500),
            ("cycles:R/w;leaf@/opt/w", 500),
            ("raw_syscalls:sys_exit/w", 1),
            ("probe:c/w", 1),
        ])
    );
}

#[test]
fn other_records_are_passed_over() {
    let text = "swapper 0 0.000000: PERF_RECORD_MMAP -1/0: [0xf(0x1) @ 0xf]: x [kernel.kallsyms]_text\n                w 17 708.395595: PERF_RECORD_COMM exec: w:17/17\n                w 17 708.396595:    100 cycles: \n\t 113c leaf (/opt/w)\n\n                w 17 708.396600: PERF_RECORD_EXIT(17:17):(1:1)\n                w 17 708.396595:    100 cycles: \n\t 113c leaf (/opt/w)\n                w 17 708.396600: PERF_RECORD_SWITCH OUT\n";
    let profile = profile(text).unwrap();
    assert_eq!(profile.events.len(), 1);
    assert_eq!(stacks(&profile), expected([("cycles/w;leaf@/opt/w", 200)]));
    assert_eq!(profile.quality.warnings.len(), 1, "{:?}", profile.quality);
    let error = self::profile("w 17 708.395595: PERF_RECORD_COMM exec: w:17/17\n").unwrap_err();
    assert_eq!(error, "it has no sample");
}

#[test]
fn inlined_calls_lie_in_the_object_around_them() {
    let text = "w 17 1.5: cycles: \n\t 10 deep (inlined)\n\t 10 mid (inlined)\n\t 10 outer (/opt/w)\n\t 20 [unknown] (/opt/w)\n\n";
    let profile = profile(text).unwrap();
    let wanted = "cycles/w;?@/opt/w;outer@/opt/w;mid@/opt/w;deep@/opt/w";
    assert_eq!(stacks(&profile), expected([(wanted, 1)]));
    let depths: Vec<u32> = (profile.frames(profile.aggregated[0].stack))
        .map(|id| profile.frame(id).inline_depth)
        .collect();
    assert_eq!(depths, [0, 0, 1, 2]);
}

#[test]
fn what_cannot_be_read_is_told_with_its_line() {
    let text = "w 17 1.5: cycles: \n\t 10 f (/w)\n  file.c\n\nprose without a frame\n\nw 17 1.5: cycles: \n\t 10 f (/w)\n";
    let profile = profile(text).unwrap();
    assert_eq!(stacks(&profile), expected([("cycles/w;f@/w", 2)]));
    assert_eq!(
        profile.quality.warnings[0],
        "2 lines were skipped, the first: line 3 follows a sample but is not a frame"
    );
    for (text, wanted) in [
        (
            "prose\n\nmore of it\n",
            "it has no sample: line 1 has no frames, and no thread id",
        ),
        (
            "\t 10 f (/w)\n",
            "it has no sample: line 1 is neither a sample",
        ),
        ("", "it has no sample"),
    ] {
        let error = self::profile(text).unwrap_err();
        assert!(error.starts_with(wanted), "{error}");
    }
    let long = format!(
        "{}\nw 17 1.5: cycles: \n\t 10 f (/w)\n",
        "x".repeat(2 << 20)
    );
    let profile = self::profile(&long).unwrap();
    assert!(profile.quality.warnings[0].contains("line 1 is longer than 1 MiB"));
}

#[test]
fn source_lines_and_physical_addresses_below_frames_are_neither_frames_nor_heads() {
    let text = "w 17 1.5: cycles: \n\t 10 f (/w)\n  p.c:5\n\t 20 main (/w)\n  p.c:8\n               0\n\n\
                w 17 1.6: cycles: \n\t 10 f (/w)\n  p.c:5\n\t 20 main (/w)\n  p.c:8\n       10234f000\n\n";
    let profile = profile(text).unwrap();
    assert_eq!(stacks(&profile), expected([("cycles/w;main@/w;f@/w", 2)]));
    // Addresses alone are frames if nothing else was printed.
    let text = "w 17 1.5: cycles: \n\t            113c\n\t            2000\n\n";
    let wanted = expected([("cycles/w;?@[unknown];?@[unknown]", 1)]);
    assert_eq!(stacks(&self::profile(text).unwrap()), wanted);
}

#[test]
fn samples_without_frames_count_if_only_the_thread_is_missing() {
    let text = "w [000] 1.5: \n\t 10 f (/w)\n\nw [001] 1.6: \n\nv [000] 1.7: \n\t 10 f (/w)\n\n";
    let profile = profile(text).unwrap();
    let wanted = [
        ("samples/w;f@/w", 1),
        ("samples/w", 1),
        ("samples/v;f@/w", 1),
    ];
    assert_eq!(stacks(&profile), expected(wanted));
}

#[test]
fn events_beyond_the_limit_are_left_out_and_told() {
    let text: String = (0..1200)
        .map(|n| format!("w 17 1.5: 2 ev{n}: \n\t 10 f (/w)\n\n"))
        .collect();
    let profile = profile(&text).unwrap();
    assert_eq!(profile.events.len(), 1000);
    assert!(
        profile
            .quality
            .warnings
            .iter()
            .any(|w| w.starts_with("200 samples were dropped")),
        "{:?}",
        profile.quality.warnings
    );
}

#[test]
fn the_beginning_of_a_text_tells() {
    let of = |text: &str| evidence(text.lines()) == Evidence::Samples;
    for text in [
        "# c\n\nw 17 1.5: cycles: \n",
        "w \n\t 113c leaf (/w)\n",
        "w 17 \n\t 113c leaf\n",
        "cat 100/100 [000] 5.0: raw_syscalls:sys_exit: NR 0 = 65536\n",
        "w 17 708.395595: PERF_RECORD_COMM exec: w:17/17\n",
        "           w  17  1.5: 7 cycles:  113c leaf (/w)\n",
        "           w  17  113c leaf (/w)\n",
        "           w  17 cycles: \n",
        "           w  17 raw_syscalls:sys_exit: NR 0 = 65536\n",
        "cycles:      113c leaf (/w)\n",
        "   2004008 cycles: \n\t 113c leaf (/w)\n",
        "           w  17      7f21d22a9b70 leaf\n",
        "           w  17/17      7f21d22a9b70 leaf+0x0\n",
        "           w  17  ffffffff8161692b leaf\n",
        "           w  1.5:      7f21d22a9b70 leaf\n",
        "1.5:      7f21d22a9b70 leaf\n",
    ] {
        assert!(of(text), "{text}");
        let read = profile(text).map(|profile| profile.events.iter().map(|e| e.samples).sum());
        assert_eq!(read.ok().unwrap_or(1_u64), 1, "{text}");
    }
    let frames = "     7f21d22a9b70 leaf\n     7f21d22a87ca main\n";
    assert_eq!(evidence(frames.lines()), Evidence::FramesOnly);
    for text in [
        "main;work 12\n",
        "a list\n  a word\n  add more\n",
        "w 17\n",
        "Chapter 5 intro:\nof the story\n",
        "x 5 1.5: y: z;main 7\n".replace("x 5", "x;a 5").as_str(),
        "",
        "\t 113c leaf\n",
        "a list  17      7f21d22a9b70 12\n",
        "w  17 1234567 leaf\n",
    ] {
        assert!(!of(text), "{text}");
    }
}

#[test]
fn a_number_at_the_end_of_a_command_is_no_thread_where_threads_were_not_printed() {
    let frame = "\t 10 f (/w)\n\n";
    let text = format!("my pool 2 \n{frame}w app \n{frame}my pool 2 \n{frame}");
    let wanted = expected([("samples/my pool 2;f@/w", 2), ("samples/w app;f@/w", 1)]);
    assert_eq!(stacks(&profile(&text).unwrap()), wanted);
    let text = format!("my pool 2 1.5: cycles: \n{frame}w app 1.5: cycles: \n{frame}");
    let wanted = expected([("cycles/my pool 2;f@/w", 1), ("cycles/w app;f@/w", 1)]);
    assert_eq!(stacks(&profile(&text).unwrap()), wanted);
}

#[test]
fn lines_of_source_code_below_frames_are_no_loss() {
    let text = "w 7 1.0: 1000 cycles: \n\t 113c leaf (/w)\n  leaf.c:12\n\t 114c main (/w)\n  w[114c]\n\n\
        w 7 1.1: 3000 cycles: \n\t 114c main (/w)\n  ??:0\n\n";
    let profile = profile(text).unwrap();
    let wanted = expected([
        ("cycles/w;main@/w", 3000),
        ("cycles/w;main@/w;leaf@/w", 1000),
    ]);
    assert_eq!(stacks(&profile), wanted);
    let skipped = profile
        .quality
        .warnings
        .iter()
        .find(|warning| warning.contains("skipped"));
    assert_eq!(skipped, None);
}
