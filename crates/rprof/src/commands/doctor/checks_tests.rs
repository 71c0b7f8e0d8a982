use super::*;
use crate::commands::doctor::judge;
use rprof_perf_event::{Capability, Limits};
use rprof_sampler::AttrFeature;

fn user(level: i32) -> Facts {
    Facts {
        user: Some(1000),
        seccomp: Some(0),
        limits: Limits {
            paranoid: Some(level),
            max_sample_rate: Some(100_000),
            mlock_kib: Some(516),
            max_stack: Some(127),
            ..Limits::default()
        },
        open_files: Some((1024, 4096)),
        locked_memory: Some(8 << 20),
        kernel_addresses: true,
        cpus: 4,
        ..Facts::default()
    }
}

const GOOD: Tries = Tries {
    own_user: Ok(()),
    own_kernel: Ok(()),
    system: Ok(()),
    stacks: Ok(()),
    cycles: Ok(()),
    rings: Ok(UNPRIVILEGED.samples + UNPRIVILEGED.sideband),
    lacks: Vec::new(),
};

const NO: Result<(), Errno> = Err(Errno::ACCESS);

const NOTHING: Tries = Tries {
    own_user: NO,
    own_kernel: NO,
    system: NO,
    stacks: NO,
    cycles: NO,
    rings: Err(Errno::ACCESS),
    lacks: Vec::new(),
};

fn of(facts: &Facts, tries: &Tries, id: &str) -> Check {
    let found = judge(facts, tries).checks;
    found.into_iter().find(|c| c.id == id).unwrap()
}

#[test]
fn where_all_is_well_nothing_is_to_be_fixed() {
    let found = judge(&user(-1), &GOOD);
    assert!(found.can_record);
    for check in found.checks {
        assert_eq!((check.state, &check.fix), (State::Ok, &None), "{check:?}");
    }
}

#[test]
fn who_ends_waits_is_told_where_tracepoints_of_whole_cpus_may_be_had() {
    let found = |facts: &Facts| of(facts, &GOOD, "waits").found;
    assert!(found(&user(-1)).ends_with("and with wakers (--wakers)"));
    let inside = Facts {
        in_pid_namespace: true,
        ..user(-1)
    };
    for facts in [&user(1), &inside] {
        assert!(found(facts).ends_with("without wakers (--wakers)"));
    }
}

#[test]
fn at_2_own_programs_can_be_recorded() {
    let tries = Tries {
        own_kernel: NO,
        system: NO,
        ..GOOD
    };
    assert!(judge(&user(2), &tries).can_record);
    let waits = of(&user(2), &tries, "waits");
    assert_eq!(waits.state, State::Limited);
    assert!(waits.found.contains("without stacks"), "{waits:?}");
    let kernel = of(&user(2), &tries, "own-kernel");
    assert_eq!(kernel.state, State::Limited);
    let fix = kernel.fix.unwrap();
    assert!(fix.starts_with("sudo setcap cap_perfmon=ep"), "{fix}");
    assert!(fix.contains("perf_event_paranoid=1"), "{fix}");
    assert_eq!(of(&user(2), &tries, "paranoid").state, State::Limited);
}

#[test]
fn a_level_that_forbids_all_is_named() {
    let found = judge(&user(4), &NOTHING);
    assert!(!found.can_record);
    let own = of(&user(4), &NOTHING, "own-user");
    assert_eq!(own.state, State::Blocked);
    assert!(own.found.contains("EACCES"), "{own:?}");
    assert!(own.fix.unwrap().contains("perf_event_paranoid=2"));
    let inside = Facts {
        container: Some("Docker".into()),
        ..user(4)
    };
    let fix = of(&inside, &NOTHING, "own-user").fix.unwrap();
    assert!(
        fix.starts_with("in the container: --cap-add PERFMON"),
        "{fix}"
    );
}

#[test]
fn what_no_setting_forbids_a_filter_or_a_module_does() {
    let filtered = Facts {
        seccomp: Some(2),
        ..user(1)
    };
    let fix = of(&filtered, &NOTHING, "own-user").fix.unwrap();
    assert!(fix.contains("seccomp"), "{fix}");
    assert_eq!(of(&filtered, &NOTHING, "seccomp").state, State::Blocked);
    assert_eq!(of(&filtered, &GOOD, "seccomp").state, State::Ok);
    let fix = of(&user(1), &NOTHING, "own-user").fix.unwrap();
    assert!(fix.contains("perhaps a security module"), "{fix}");
    let none = Tries {
        own_user: Err(Errno::NOSYS),
        ..NOTHING
    };
    let fix = of(&user(1), &none, "own-user").fix.unwrap();
    assert!(fix.contains("CONFIG_PERF_EVENTS"), "{fix}");
}

#[test]
fn features_that_the_kernel_lacks_are_listed_with_the_newest_version() {
    let facts = Facts {
        kernel: Some("4.18.0-147".into()),
        ..user(1)
    };
    let tries = Tries {
        lacks: vec![AttrFeature::ReadLost, AttrFeature::KernelSymbols],
        ..GOOD
    };
    let check = of(&facts, &tries, "kernel");
    assert_eq!(check.state, State::Limited);
    assert!(
        check
            .found
            .starts_with("4.18.0-147: samples lost at the very end"),
        "{check:?}"
    );
    assert!(check.found.contains("BPF programs"), "{check:?}");
    assert_eq!(check.fix.unwrap(), "Linux 6.0 or newer has this");
}

#[test]
fn kernels_without_cap_perfmon_get_no_advice_that_names_it() {
    let old = |level, container: Option<&str>, seccomp| Facts {
        lifts_limits: Capability::SysAdmin,
        container: container.map(str::to_owned),
        seccomp: Some(seccomp),
        ..user(level)
    };
    let mut named = 0;
    for facts in [old(4, None, 0), old(4, Some("Docker"), 2), old(1, None, 2)] {
        let none = Tries {
            own_user: Err(Errno::NOSYS),
            ..NOTHING
        };
        for tries in [&NOTHING, &none] {
            for check in judge(&facts, tries).checks {
                let fix = check.fix.unwrap_or_default().to_lowercase();
                assert!(!fix.contains("perfmon"), "{}: {fix}", check.id);
                named += usize::from(fix.contains("sys_admin"));
            }
        }
    }
    assert!(named > 12, "{named}");
}

#[test]
fn capabilities_of_a_namespace_count_for_nothing() {
    let inside = Facts {
        capabilities: u64::MAX,
        in_user_namespace: true,
        ..user(2)
    };
    assert!(!inside.may_all());
    let tries = Tries { system: NO, ..GOOD };
    let fix = of(&inside, &tries, "capabilities").fix.unwrap();
    assert!(fix.contains("do not apply to perf events"), "{fix}");
    assert_eq!(of(&inside, &tries, "container").state, State::Limited);
}

#[test]
fn capabilities_of_the_file_are_those_of_whoever_may_execute_it() {
    let with = |mode| Facts {
        capabilities: 1 << PERFMON | 1 << SYS_PTRACE,
        capable_file: Some(mode),
        ..user(2)
    };
    let found = |mode| of(&with(mode), &GOOD, "capabilities").found;
    for text in [
        "CAP_PERFMON (samples of all",
        "CAP_SYS_PTRACE",
        "for all users",
    ] {
        assert!(found(0o755).contains(text), "{}", found(0o755));
    }
    assert!(found(0o750).contains("for its group"), "{}", found(0o750));
}

#[test]
fn limits_that_are_too_low_are_told() {
    let facts = Facts {
        open_files: Some((64, 64)),
        cpus: 64,
        kernel_addresses: false,
        kptr_restrict: Some(2),
        limits: Limits {
            max_sample_rate: Some(100),
            max_stack: Some(16),
            ..user(2).limits
        },
        ..user(2)
    };
    assert_eq!(of(&facts, &GOOD, "open-files").state, State::Blocked);
    for id in ["kernel-names", "rate", "depth"] {
        let check = of(&facts, &GOOD, id);
        assert_eq!(check.state, State::Limited, "{check:?}");
        assert!(check.fix.unwrap().contains("sysctl"));
    }
    let none = Err(Errno::PERM);
    for (rings, state) in [(none, State::Blocked), (Ok(2 * SMALLEST), State::Limited)] {
        let tries = Tries { rings, ..GOOD };
        assert_eq!(judge(&facts, &tries).can_record, state == State::Limited);
        let check = of(&facts, &tries, "ring");
        assert_eq!(check.state, state);
        let fix = check.fix.unwrap();
        assert!(
            fix.contains("perf_event_mlock_kb=512") && fix.contains("cap_ipc_lock"),
            "{fix}"
        );
    }
}
