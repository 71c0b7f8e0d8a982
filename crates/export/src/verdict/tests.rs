use super::*;
use rprof_profile::memory::Requests;
use rprof_profile::{Object, ObjectKind, ProfileBuilder, WeightUnit};

fn time(sampled: u64, used: u64, wall: u64, tasks: u64) -> CpuTime {
    let ms = Duration::from_millis;
    CpuTime {
        used: ms(used),
        sampled: Some(ms(sampled)),
        period: ms(1),
        wall: Some(ms(wall)),
        tasks,
        ..CpuTime::default()
    }
}

fn words(time: CpuTime) -> Vec<String> {
    let findings = on_cpu_time(&time);
    findings.iter().map(Finding::statement).collect()
}

#[test]
fn many_short_processes_are_the_cause_that_is_named() {
    let found = words(time(70, 1300, 1400, 2000));
    assert!(
        found[0].starts_with("samples cover 0.070 of 1.30 s of CPU time: the end of each thread"),
        "{found:?}"
    );
    assert_eq!(found.len(), 1);
    assert_eq!(words(time(70, 1300, 3600, 2000)).len(), 2);
    // Two threads are too few to lose this much at the end.
    let found = words(time(70, 1300, 1400, 2));
    assert!(found[0].contains("interrupts came late"), "{found:?}");
    let privileged = CpuTime {
        privileged_programs: 1,
        ..time(70, 1300, 1400, 2)
    };
    let found = words(privileged);
    assert!(
        found[0].contains("stopped recording 1 program that changed privileges"),
        "{found:?}"
    );
    for tasks in [2, 2000] {
        let came = CpuTime {
            unrecorded_cpus: 1,
            ..time(70, 1300, 1400, tasks)
        };
        let found = words(came);
        assert!(
            found[0].contains("came online while recording"),
            "{found:?}"
        );
    }
}

#[test]
fn time_off_the_cpu_is_sleep_or_waiting_for_a_cpu() {
    let ms = |ms| Some(Duration::from_millis(ms));
    let off = |waiting, throttled| {
        let time = CpuTime {
            waiting,
            throttled,
            ..time(799, 800, 2600, 3)
        };
        words(time)
    };
    assert_eq!(
        [off(ms(1700), None), off(ms(2), ms(1)), off(ms(9000), None)].concat(),
        [
            "on CPU 0.800 s of 2.60 s: 1.70 s waiting for a CPU, 0.100 s asleep",
            "on CPU 0.800 s of 2.60 s: 0.002 s waiting for a CPU (control group throttled for 0.001 s), 1.80 s asleep",
            "on CPU 0.800 s of 2.60 s: 1.80 s waiting for a CPU, 0.000 s asleep",
        ]
    );
    assert_eq!(
        off(ms(1700), ms(1500)),
        [
            "on CPU 0.800 s of 2.60 s: 1.70 s waiting for a CPU (control group throttled for 1.50 s), 0.100 s asleep"
        ]
    );
    assert_eq!(
        off(None, None),
        ["on CPU 0.800 s of 2.60 s: asleep or waiting for a CPU otherwise"]
    );
    // Several threads waited at the same time.
    let unclear = |waiting, unclear| {
        words(CpuTime {
            waiting: ms(waiting),
            unclear: Duration::from_millis(unclear),
            ..time(799, 800, 2600, 3)
        })
    };
    assert_eq!(
        unclear(1700, 1600),
        [
            "on CPU 0.800 s of 2.60 s: 1.80 s asleep or waiting for a CPU, at least 0.100 s waiting, \
             0.100 s asleep"
        ]
    );
    assert_eq!(
        unclear(1800, 1790),
        ["on CPU 0.800 s of 2.60 s: 1.80 s asleep or waiting for a CPU"]
    );
    assert_eq!(
        unclear(1700, 200),
        [
            "on CPU 0.800 s of 2.60 s: 1.50 s waiting for a CPU, 0.100 s asleep, 0.200 s one or the \
             other"
        ]
    );
    let stopped = CpuTime {
        waiting: ms(2),
        stopped: ms(1500),
        ..time(799, 800, 2600, 3)
    };
    assert_eq!(
        words(stopped),
        [
            "on CPU 0.800 s of 2.60 s: 0.002 s waiting for a CPU, 0.298 s asleep, 1.50 s stopped by a signal, a debugger or the cgroup freezer"
        ]
    );
    // Two threads busy half of the time; a short run; a busy thread.
    for quiet in [
        time(990, 1000, 1000, 2),
        time(1, 1, 99, 0),
        time(95, 100, 110, 0),
    ] {
        assert_eq!(words(quiet), [""; 0]);
    }
}

#[test]
fn a_few_periods_that_are_cut_off_are_no_matter() {
    assert_eq!(words(time(1, 10, 11, 8)), [""; 0]);
    let unknown = CpuTime {
        sampled: None,
        ..time(0, 1000, 1000, 0)
    };
    assert_eq!(words(unknown), [""; 0]);
}

#[test]
fn causes_are_sorted_by_the_self_share_that_they_hide() {
    let mut builder = ProfileBuilder::new();
    let event = builder.add_event("cpu-clock", WeightUnit::Nanoseconds);
    let thread = builder.intern_thread_name("t");
    let [nginx, libz] = ["nginx", "libz.so.1"].map(|name| builder.intern_object(name));
    let [server, inflate] =
        [nginx, libz].map(|object| builder.intern_function(Err(Reason::Stripped), object));
    let read = builder.intern_function(Ok("read"), libz);
    for (leaf, weight) in [(inflate, 84), (read, 16)] {
        let stack = builder.intern_stack(&[server, server, server, leaf]);
        builder.add_samples(event, thread, stack, 1, weight);
    }
    let mut profile = builder.finish();
    let unnamed = |profile: &Profile| -> Vec<_> {
        let findings = findings(profile).into_iter();
        let unnamed = findings.filter_map(|finding| match finding {
            Finding::Unnamed { own, object, .. } => Some((own, object)),
            _ => None,
        });
        unnamed.collect()
    };
    let expected = [(84.0, "libz.so.1".to_owned()), (0.0, "nginx".to_owned())];
    assert_eq!(unnamed(&profile), expected);
    profile.quality.is_by_language = true;
    assert_eq!(unnamed(&profile), expected[..1]);
}

#[test]
fn waits_have_no_language() {
    let mut builder = ProfileBuilder::new();
    let event = builder.add_event("wall-clock", WeightUnit::Nanoseconds);
    let thread = builder.intern_thread_name("t");
    let app = builder.intern_object("app");
    let waits = builder.add_object(Object {
        name: "[off-cpu]".into(),
        kind: ObjectKind::Waiting,
        build_id: None,
        runtime: None,
    });
    let work = builder.intern_function(Ok("work"), app);
    let wait = builder.intern_function(Ok("[futex]"), waits);
    for (leaf, weight) in [(work, 10), (wait, 90)] {
        let stack = builder.intern_stack(&[work, leaf]);
        builder.add_samples(event, thread, stack, 1, weight);
    }
    let mut profile = builder.finish();
    profile.quality.is_by_language = true;
    let mut statements = findings(&profile)
        .into_iter()
        .map(|found| found.statement());
    let wanted = "by language: self is 90.0% waiting, 10.0% native";
    assert!(statements.any(|text| text.starts_with(wanted)), "{wanted}");
}

#[test]
fn stacks_with_gaps_are_counted_once() {
    let mut builder = ProfileBuilder::new();
    let event = builder.add_event("cpu-clock", WeightUnit::Nanoseconds);
    let thread = builder.intern_thread_name("t");
    let app = builder.intern_object("app");
    let names = [
        "work",
        "[Python callers unproven]",
        "[Java function unnamed]",
    ];
    let [work, callers, unnamed] = names.map(|name| builder.intern_function(Ok(name), app));
    let stacks: [(&[_], u64); 4] = [
        (&[work], 70),
        (&[callers, work], 10),
        (&[callers, work, callers, unnamed], 15),
        (&[work, unnamed], 5),
    ];
    for (stack, weight) in stacks {
        let stack = builder.intern_stack(stack);
        builder.add_samples(event, thread, stack, 1, weight);
    }
    let profile = builder.finish();
    let found = findings(&profile).into_iter();
    let gaps = found.filter(|found| matches!(found, Finding::Gaps { .. }));
    let texts: Vec<_> = gaps.map(|found| found.to_string()).collect();
    let wanted = "gaps: 30.0% is in stacks with missing functions, shown as [Python callers unproven], [Java \
                  function unnamed]";
    assert_eq!(texts, [wanted]);
}

#[test]
fn requested_memory_names_its_source_and_the_resident_memory_beside_unseen_programs() {
    let text = |requests: Requests| Finding::Requests(requests).statement();
    let seen = Requests {
        samples: 3,
        count: 6000,
        bytes: 2 << 20,
        peak: 1 << 20,
        resident: 64 << 20,
        ..Requests::default()
    };
    let with_library = text(Requests {
        programs: 1,
        resident: 8 << 20,
        ..seen
    });
    assert!(with_library.ends_with("3 of about 6000 allocations sampled"));
    let by_itself = text(Requests { probes: 2, ..seen });
    assert!(by_itself.contains("sampled by the program itself"));
    let silent = text(Requests {
        probes: 2,
        ..Requests::default()
    });
    assert!(silent.contains("reported none"), "{silent}");
    let beside = "; seen at the peak: 1.00 MiB, resident in the largest process: 64.0 MiB";
    for (programs, own_malloc, unloaded) in [(1, 1, 0), (1, 0, 1), (0, 0, 1), (1, 0, 0)] {
        let found = text(Requests {
            programs,
            own_malloc,
            unloaded,
            ..seen
        });
        assert!(found.ends_with(beside), "{found}");
    }
    let none = text(Requests {
        programs: 1,
        ..Requests::default()
    });
    assert_eq!(none, "allocations: none sampled");
}
