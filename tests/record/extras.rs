//! `record` with optional sample fields and records.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use rprof_perfdata::PerfData;
use rprof_records::{Attr, AttrFlags, Record, RecordType, Sample, SampleType};
use rprof_sampler::{Clock, Extras};

use crate::support::{Here, Need, c_with, has, inapplicable, needs, skip};

fn watched() -> PathBuf {
    c_with("watched.c", &["-no-pie", "-pthread"])
}

/// Returns the settings that two recorders must agree on.
fn extras(attrs: &[&Attr]) -> BTreeMap<&'static str, u64> {
    const RECORDS: AttrFlags = Extras::RECORDS.union(AttrFlags::INHERIT_STAT);
    let mut found = BTreeMap::new();
    let mut add = |name, value: u64| *found.entry(name).or_insert(0) |= value;
    for attr in attrs {
        let registers = SampleType::REGS_INTR | SampleType::REGS_USER | SampleType::BRANCH_STACK;
        add(
            "fields",
            (attr.sample_type & (Extras::FIELDS | registers)).bits(),
        );
        add("records", (attr.flags & RECORDS).bits());
        add("user registers", attr.sample_regs_user);
        add("interrupt registers", attr.sample_regs_intr);
        add("branches", attr.branch_sample_type.bits());
        add("most callers", attr.sample_max_stack.into());
        // perf sets a clock only if an option names one.
        let clock = attr.flags.contains(AttrFlags::USE_CLOCKID);
        let clock = if clock { attr.clockid as u64 } else { 1 };
        add("clock", clock);
    }
    found
}

fn extras_of(here: &Here, file: &str) -> BTreeMap<&'static str, u64> {
    let data = PerfData::open(&here.path(file)).unwrap();
    let attrs: Vec<&Attr> = data
        .events()
        .list()
        .iter()
        .map(|event| &event.attr)
        .collect();
    extras(&attrs)
}

#[test]
fn attrs_are_those_of_perf_with_the_same_flags() {
    needs!(PerfEvents, Perf, Root);
    let flags = [
        ("-d", "--data"),
        ("-d -W --phys-data", "--data --weight --phys-data"),
        (
            "--data-page-size --code-page-size",
            "--data-page-size --code-page-size",
        ),
        ("--transaction", "--transaction"),
        ("--user-regs=ip,sp", "--user-regs=ip,sp"),
        ("--user-regs=AX", "--user-regs=AX"),
        ("-I", "-I"),
        ("-Iax,bx,flags", "-Iax,bx,flags"),
        ("-s", "-s"),
        ("-T -P --sample-cpu", "-T -P --sample-cpu"),
        (
            "--switch-events --namespaces",
            "--switch-events --namespaces",
        ),
        ("--all-cgroups", "--all-cgroups"),
        ("-k monotonic_raw", "-k monotonic_raw"),
        ("-k CLOCK_BOOTTIME", "-k CLOCK_BOOTTIME"),
        ("-k tai", "-k tai"),
    ];
    std::thread::scope(|scope| {
        for some in flags.chunks(flags.len().div_ceil(4)) {
            scope.spawn(move || {
                let here = Here::new();
                for (perfs, ours) in some {
                    let perf = here.perf("record -q -N -e page-faults -o perfs.data");
                    perf.words(perfs).words("-- true").ok();
                    here.rprof("record -q --call-graph none -e page-faults -o ours.data")
                        .words(ours)
                        .words("-- true")
                        .ok();
                    let (theirs, own) = (
                        extras_of(&here, "perfs.data"),
                        extras_of(&here, "ours.data"),
                    );
                    assert_eq!(own, theirs, "rprof's and perf's attrs with {perfs}");
                }
            });
        }
    });
}

#[test]
fn branches_of_one_event_are_asked_for_as_by_perf() {
    needs!(PerfEvents, Perf);
    let here = Here::new();
    for (term, wanted) in [
        ("any_call", "ANY_CALL"),
        ("any_ret", "ANY_RETURN"),
        ("u", "USER"),
    ] {
        let perf = here
            .perf("record -B -N -vv -o perf.data -e")
            .arg(format!("cpu-clock/branch_type={term}/"));
        let told = perf.words("-- true").run().err();
        let line = told
            .lines()
            .find(|line| line.contains("branch_sample_type"));
        let line = line.unwrap_or_else(|| panic!("{told}"));
        assert!(line.contains(wanted), "{line}");
        // The kernel rejects both for the same reason.
        let ours = here
            .rprof("record --call-graph none -e")
            .arg(format!("cpu-clock/branch_type={term}/"));
        ours.words("-- true")
            .exits(1)
            .says("Recording branches needs a processor");
    }
    let none = here.rprof("record -q -j any -e cpu-clock/branch_type=no/ -o none.data -- true");
    none.ok();
    let unknown = here
        .rprof("record -e cpu-clock/branch_type=all/ -- true")
        .exits(2);
    unknown.says("unknown branch filter `all`");
}

#[test]
fn a_trace_unit_that_is_not_here_is_told_by_its_name() {
    needs!(PerfEvents);
    if std::path::Path::new("/sys/bus/event_source/devices/intel_pt").exists() {
        inapplicable("has a trace unit");
        return;
    }
    let here = Here::new();
    for command in ["record", "stat"] {
        let run = here.rprof(command).words("-e intel_pt//u -- true").exits(2);
        run.says("this machine has no Intel Processor Trace (PMU `intel_pt`)");
    }
    here.rprof("record -q -m 16,1M -o sized.data -- true").ok();
    here.rprof("record -m 16, -- true").exits(2).says("-m");
}

#[test]
fn branch_filters_are_those_of_perf() {
    needs!(PerfEvents, Perf);
    let here = Here::new();
    let filters = [
        "any",
        "any_call,u",
        "any_ret,k",
        "ind_call,ind_jmp",
        "call,cond",
        "in_tx,no_tx",
        "abort_tx",
        "stack,u",
        "any,save_type,priv",
    ];
    for filter in filters {
        // No event here has branches, so perf fails after printing its request.
        let perf = here
            .perf("record -B -N -vv -e cpu-clock -o perf.data -j")
            .arg(filter);
        let told = perf.words("-- true").run().err();
        let line = told
            .lines()
            .find_map(|line| line.trim().strip_prefix("branch_sample_type"));
        let theirs: BTreeSet<&str> = line
            .unwrap_or_else(|| panic!("{told}"))
            .trim()
            .split('|')
            .collect();
        let ours = rprof_events::parse_branch_filter(filter).unwrap();
        let ours: BTreeSet<&str> = ours.iter_names().map(|(name, _)| name).collect();
        assert_eq!(ours, theirs, "{filter}");
    }
}

#[test]
fn what_no_software_event_has_is_refused_by_its_flag() {
    needs!(PerfEvents);
    let here = Here::new();
    for flags in ["-b", "-j any_call,u"] {
        let record = here
            .rprof("record --call-graph none -e cpu-clock")
            .words(flags);
        let run = record.words("-- true").run();
        run.exits(1)
            .says("Recording branches needs a processor")
            .says("Without -b and -j");
        assert!(!here.path("perf.data").exists(), "{run}");
    }
    for (flags, said) in [
        ("-j anything", "unknown branch filter `anything`"),
        ("-k thread", "valid clocks: monotonic"),
        ("-I?", "available registers: "),
        ("--user-regs=?", "available registers: "),
        ("--intr-regs=nix", "unknown register `nix`"),
        ("-e cpu-clock --filter x==1", "--filter is for tracepoints"),
        ("--filter x==1", "has no event"),
    ] {
        let run = here.rprof("record").words(flags).words("-- true").run();
        run.exits(2).says(said);
    }
}

#[test]
fn rights_that_are_missing_are_told_with_the_flag() {
    needs!(PerfEvents, Root, Tool("setpriv"));
    let here = Here::new();
    let folder = tempfile::tempdir().unwrap();
    let rprof = folder.path().join("rprof");
    here.command("cp")
        .arg(env!("CARGO_BIN_EXE_rprof"))
        .arg(&rprof)
        .ok();
    here.command("chmod")
        .arg("-R")
        .arg("a+rX")
        .arg(folder.path())
        .ok();
    for (flag, what) in [
        (
            "--phys-data",
            "Recording physical addresses needs root or CAP_PERFMON",
        ),
        (
            "--namespaces",
            "Recording namespace records needs root or CAP_PERFMON",
        ),
    ] {
        let shell = here
            .command("setpriv")
            .words("--reuid=65534 --regid=65534 --clear-groups");
        let shell = shell
            .arg(&rprof)
            .words("record -e page-faults:u -o /dev/null");
        let run = shell.arg(flag).words("-- true").run();
        if run.code() == Some(0) {
            // kernel.perf_event_paranoid is too low for this test.
            skip(format!(
                "needs kernel.perf_event_paranoid above 1 for {flag}"
            ));
            continue;
        }
        run.exits(1).says(what).says(&format!("Without {flag}"));
    }
}

fn assert_perf_prints_the_same(here: &Here, fields: &str, rows: &[String]) {
    if has(Need::Perf) {
        let perf = here
            .perf("script -f --no-inline -G -F")
            .arg(fields)
            .ok()
            .out();
        let perf: Vec<&str> = perf.lines().map(str::trim_end).collect();
        let ours: Vec<&str> = rows.iter().map(|row| row.trim_end()).collect();
        assert_eq!(ours, perf, "the text of rprof and of perf");
    }
}

fn script(here: &Here, fields: &str) -> Vec<String> {
    let run = here.rprof("script -G -F").arg(fields).ok();
    run.out().lines().map(str::to_owned).collect()
}

#[test]
fn addresses_of_data_are_those_that_were_written_to() {
    needs!(Kernel, Root, X86_64);
    let here = Here::new();
    let program = watched();
    let target = here.command(&program).words("where 0").ok().out();
    let target = target.trim().trim_start_matches("0x").to_owned();
    let flags = "--data --weight --phys-data --data-page-size --code-page-size";
    let record = here.rprof("record --call-graph none -c 1").words(flags);
    let event = format!("mem:0x{target}:w");
    let run = record
        .arg("-e")
        .arg(event)
        .arg("--")
        .arg(&program)
        .words("write 20")
        .run();
    if run.code() != Some(0) && run.err().contains("cannot open event `mem:") {
        skip("needs breakpoints of the processor");
        return;
    }
    run.exits(0);
    let rows = script(
        &here,
        "addr,phys_addr,data_page_size,code_page_size,weight,data_src",
    );
    assert!(!rows.is_empty(), "{run}");
    for row in &rows {
        let words: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(words[0], target, "{row}");
        let physical = words.iter().rev().nth(2).unwrap();
        assert_eq!(
            physical[physical.len() - 3..],
            target[target.len() - 3..],
            "{row}"
        );
        // Both pages may be huge.
        let sizes = words.iter().rev().take(2);
        assert!(
            sizes.clone().all(|size| size.ends_with(['K', 'M', 'G'])),
            "{row}"
        );
    }
    assert_perf_prints_the_same(
        &here,
        "addr,phys_addr,data_page_size,code_page_size,weight,data_src",
        &rows,
    );
}

#[test]
fn registers_are_those_of_the_moment() {
    needs!(PerfEvents, X86_64);
    let here = Here::new();
    let record = here.rprof("record -F 999 -e cpu-clock:u --user-regs=ip,sp -I");
    record.arg("--").arg(watched()).words("spin 200").ok();
    let data = PerfData::open(&here.path("perf.data")).unwrap();
    let (mut samples, mut unwound) = (0, 0);
    each_record(&data, |raw, layout| {
        if raw.kind != RecordType::SAMPLE {
            return;
        }
        let sample = Sample::parse(raw.body, layout.unwrap()).unwrap();
        let (user, all) = (sample.regs_user().unwrap(), sample.regs_intr().unwrap());
        // 8 is the IP, 7 the SP.
        assert_eq!(all.get(8), sample.ip());
        assert_eq!((user.get(8), user.get(7)), (all.get(8), all.get(7)));
        assert_eq!(
            user.iter().count(),
            2,
            "what unwinding took besides is not kept"
        );
        assert!(sample.stack_user().is_none());
        samples += 1;
        unwound += u32::from(sample.callchain().is_some_and(|chain| chain.len() > 2));
    });
    assert!(
        samples > 10 && unwound > 0,
        "{samples} samples, {unwound} with callers"
    );
    let rows = script(&here, "ip,uregs,iregs");
    assert_perf_prints_the_same(&here, "ip,uregs,iregs", &rows);
}

fn each_record(
    data: &PerfData,
    mut take: impl FnMut(&rprof_records::RawRecord<'_>, Option<&rprof_records::SampleLayout>),
) {
    for block in data.blocks() {
        for walked in block.unwrap().walk() {
            take(&walked.record, data.events().layout_of(&walked.record));
        }
    }
}

fn records(here: &Here, kind: RecordType) -> Vec<Record<'static>> {
    let data = PerfData::open(&here.path("perf.data")).unwrap();
    let mut found = Vec::new();
    each_record(&data, |raw, layout| {
        if raw.kind == kind {
            let record = Record::decode(raw, layout).unwrap();
            found.push(match record {
                Record::Cgroup { id, path } => Record::Cgroup {
                    id,
                    path: path.into_owned().into(),
                },
                Record::Namespaces { pid, tid, links } => Record::Namespaces { pid, tid, links },
                Record::Read { pid, tid, values } => Record::Read { pid, tid, values },
                Record::Switch => Record::Switch,
                other => panic!("{other:?}"),
            });
        }
    });
    found
}

#[test]
fn switches_of_threads_are_recorded() {
    needs!(PerfEvents);
    let here = Here::new();
    here.record("-e cpu-clock --switch-events", &watched(), "sleep 5");
    let switches = records(&here, RecordType::SWITCH).len();
    // Each sleep takes the thread off its CPU and back on.
    assert!(switches >= 10, "{switches} switches");
    let ours = here
        .rprof("script -G -F comm,tid,time,ip --show-switch-events")
        .ok()
        .out();
    assert!(ours.contains("PERF_RECORD_SWITCH OUT"), "{ours}");
    if has(Need::Perf) {
        let perf = here
            .perf("script -f -G -F comm,tid,time,ip --show-switch-events")
            .ok();
        assert_eq!(ours, perf.out());
    }
}

#[test]
fn counts_of_threads_are_recorded_when_they_end() {
    needs!(PerfEvents);
    let here = Here::new();
    here.record("-c 100000 -e page-faults -s", &watched(), "threads 3");
    let mut by_thread = BTreeMap::new();
    for record in records(&here, RecordType::READ) {
        let Record::Read { tid, values, .. } = record else {
            continue;
        };
        let count: u64 = values.values.iter().map(|value| value.value).sum();
        assert!(values.time_enabled.is_some() && values.time_running.is_some());
        *by_thread.entry(tid).or_insert(0) += count;
    }
    let told = by_thread.values().filter(|count| **count >= 10).count();
    assert!(told >= 3, "{by_thread:?}");
}

#[test]
fn namespaces_are_those_of_the_program() {
    needs!(PerfEvents, Root);
    let here = Here::new();
    here.record("-e cpu-clock --namespaces", &watched(), "touch 1");
    let own: Vec<u64> = ["net", "uts", "ipc", "pid", "user", "mnt", "cgroup"]
        .map(|name| {
            let link = std::fs::read_link(format!("/proc/self/ns/{name}")).unwrap();
            let text = link.to_string_lossy().into_owned();
            let number = text.split(['[', ']']).nth(1).and_then(|n| n.parse().ok());
            number.unwrap_or_else(|| panic!("{text}"))
        })
        .to_vec();
    let told = records(&here, RecordType::NAMESPACES);
    let inodes = told.iter().filter_map(|record| match record {
        Record::Namespaces { links, .. } => Some(links.iter().map(|(_, inode)| *inode).collect()),
        _ => None,
    });
    let inodes: Vec<Vec<u64>> = inodes.collect();
    assert!(inodes.contains(&own), "{own:?} in {inodes:?}");
    if has(Need::Perf) {
        let ours = here
            .rprof("script -G -F comm,tid,time,ip --show-namespace-events")
            .ok();
        let perf = here
            .perf("script -f -G -F comm,tid,time,ip --show-namespace-events")
            .ok();
        assert_eq!(ours.out(), perf.out());
    }
}

#[test]
fn control_groups_of_samples_have_their_paths() {
    needs!(PerfEvents, Root);
    let here = Here::new();
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap();
    let of_perf_event = own.lines().find(|line| line.contains(":perf_event:"));
    let line = of_perf_event.or_else(|| own.lines().find(|line| line.starts_with("0::")));
    let Some(path) = line.and_then(|line| line.splitn(3, ':').nth(2)) else {
        skip("needs a hierarchy of control groups that can be watched");
        return;
    };
    here.record("-e page-faults -c 1 --all-cgroups", &watched(), "touch 20");
    if records(&here, RecordType::CGROUP).is_empty() {
        skip("needs a hierarchy of control groups that can be watched");
        return;
    }
    let rows = script(&here, "comm,cgroup");
    let of_program: Vec<&String> = rows.iter().filter(|row| row.contains("watched")).collect();
    assert!(of_program.len() > 10, "{rows:?}");
    for row in of_program {
        assert_eq!(row.split_whitespace().nth(1), Some(path), "{row}");
    }
}

#[test]
fn times_are_of_the_clock_that_was_asked_for() {
    needs!(PerfEvents);
    let here = Here::new();
    for name in ["monotonic", "monotonic_raw", "realtime", "boottime", "tai"] {
        let clock: Clock = name.parse().unwrap();
        let before = clock.now_ns();
        // The images' times use CLOCK_MONOTONIC.
        let record = here.rprof("record -F 999 -e cpu-clock:u -k").arg(name);
        record.arg("--").arg(watched()).words("spin 100").ok();
        let after = clock.now_ns();
        let data = PerfData::open(&here.path("perf.data")).unwrap();
        let (mut samples, mut from_main, mut last) = (0, 0, 0);
        each_record(&data, |raw, layout| {
            let time = layout.and_then(|layout| layout.time_of(raw)).unwrap_or(0);
            if time == 0 {
                // A synthesized record of earlier state.
                return;
            }
            assert!((before..=after).contains(&time), "{name}: {time}");
            if raw.kind == RecordType::SAMPLE {
                assert!(time >= last, "{name}: samples are in order");
                last = time;
                let sample = Sample::parse(raw.body, layout.unwrap()).unwrap();
                samples += 1;
                from_main += u32::from(sample.callchain().is_some_and(|chain| chain.len() > 2));
            }
        });
        assert!(
            samples > 10 && from_main > 0,
            "{name}: {samples}, {from_main}"
        );
        let clocks = data.features().clock_data().unwrap();
        assert_eq!(clocks.clockid as i32, clock.number());
        assert!((before..=after).contains(&clocks.clock), "{name}");
        // The attrs of all events name the clock too.
        for event in data.events().list() {
            assert_eq!(event.attr.clockid, clock.number());
        }
    }
}

#[test]
fn hits_that_a_filter_excludes_are_not_recorded() {
    needs!(Kernel, Tracepoints);
    let here = Here::new();
    let record = |filters: &str| {
        let record = here.rprof("record --call-graph none -q").words(filters);
        record.arg("--").arg(watched()).words("close 5").run()
    };
    let of = |filters: &str| {
        record(filters).exits(0);
        let rows = script(&here, "event,trace");
        let of_777 = rows
            .iter()
            .filter(|row| row.contains("fd: 0x00000309"))
            .count();
        let of_778 = rows
            .iter()
            .filter(|row| row.contains("fd: 0x0000030a"))
            .count();
        (of_777, of_778, rows.len())
    };
    let event = "-e syscalls:sys_enter_close";
    let (of_777, of_778, all) = of(event);
    assert!(of_777 == 5 && of_778 == 5 && all >= 10, "without a filter");
    assert_eq!(of(&format!("{event} --filter fd==777")), (5, 0, 5));
    assert_eq!(
        of(&format!("{event} --filter fd>=777 --filter fd!=777")),
        (0, 5, 5)
    );
    // A filter applies only to the preceding events.
    let others = format!("-e syscalls:sys_exit_close --filter ret==-1000 {event}");
    let (of_777, of_778, _) = of(&others);
    assert_eq!((of_777, of_778), (5, 5));
    let run = record(&format!("{event} --filter nosuchfield==1"));
    run.exits(1)
        .says("the kernel refused the filter `nosuchfield==1` for `syscalls:sys_enter_close`");
}
