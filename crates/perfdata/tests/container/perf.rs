//! perf, if installed, reads the written files.

use std::fs;
use std::io::Cursor;
use std::path::Path;
use std::process::{Command, Stdio};

use rprof_perfdata::{Feature, FileWriter, PerfData, PipeWriter, RecordWriter, WriteOptions};
use rprof_records::Endian;
use rprof_testing::needs;

use crate::made;

/// Returns perf's output and error output.
pub(crate) fn perf(args: &[&str], stdin: Option<&Path>) -> Option<(String, String)> {
    let stdin = stdin.map_or(Stdio::null(), |path| fs::File::open(path).unwrap().into());
    rprof_testing::has(rprof_testing::Need::Perf).then_some(())?;
    let out = (Command::new("perf").args(args).stdin(stdin).output()).unwrap();
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    assert!(out.status.success(), "{args:?}: {}", text(&out.stderr));
    Some((text(&out.stdout), text(&out.stderr)))
}

#[test]
fn every_form_is_read_without_complaint() {
    let plain = WriteOptions::default();
    let forms = [
        ("file", made::file(600, plain)),
        ("compressed file", made::file(600, made::compressed())),
        ("stream", made::stream(600, plain)),
        ("compressed stream", made::stream(600, made::compressed())),
    ];
    let dir = tempfile::tempdir().unwrap();
    for (name, bytes) in forms {
        let path = dir.path().join("perf.data");
        fs::write(&path, bytes).unwrap();
        let file = path.to_str().unwrap();
        let Some((out, complaints)) = perf(&["script", "-i", file, "-F", "time,event"], None)
        else {
            return;
        };
        let lines = |event: &str| out.lines().filter(|l| l.contains(event)).count();
        assert_eq!(
            (lines("cpu-clock"), lines("page-faults")),
            (300, 300),
            "{name}"
        );
        assert_eq!(complaints, "", "{name}");
        let (out, complaints) = perf(&["evlist", "-i", file], None).unwrap();
        // For a stream, evlist derives its own names: "cpu-clock:HG".
        let names: Vec<&str> = out.lines().filter_map(|l| l.split(':').next()).collect();
        assert_eq!(
            (&names[..], &complaints[..]),
            (&["cpu-clock", "page-faults"][..], ""),
            "{name}"
        );
        let (out, _) = perf(&["report", "--header-only", "-I", "-i", file], None).unwrap();
        assert!(out.contains("hostname : somewhere"), "{name}: {out}");
        if name.contains("stream") {
            let pipe = Some(&*path);
            let (out, complaints) = perf(&["script", "-i", "-", "-F", "time,event"], pipe).unwrap();
            assert_eq!((out.lines().count(), &complaints[..]), (600, ""), "{name}");
            let (out, _) = perf(&["report", "-i", "-", "--stdio"], pipe).unwrap();
            assert!(out.contains("of event 'cpu-clock'"), "{name}: {out}");
        }
    }
}

#[test]
fn many_events_are_told_apart() {
    let mut events = Vec::new();
    for i in 0..300u64 {
        let mut event = made::events().remove(0);
        event.name = format!("event-{i}");
        event.ids = (0..16).map(|cpu| 1 + i * 16 + cpu).collect();
        events.push(event);
    }
    let mut samples = Vec::new();
    for i in 0..300 {
        made::sample(&mut samples, 1 + i * 16 + i % 16, 10 + i, Endian::NATIVE);
    }
    let mut bytes = Cursor::new(Vec::new());
    let mut writer = FileWriter::create(&mut bytes, events.clone()).unwrap();
    writer.write_records(&samples).unwrap();
    writer.finish(made::features(Endian::NATIVE)).unwrap();
    let mut stream = Vec::new();
    let (features, options) = (made::features(Endian::NATIVE), made::compressed());
    let mut writer = PipeWriter::create(&mut stream, events, &features, options).unwrap();
    writer.write_records(&samples).unwrap();
    writer.finish(features).unwrap();
    let dir = tempfile::tempdir().unwrap();
    for bytes in [bytes.into_inner(), stream] {
        let path = dir.path().join("perf.data");
        fs::write(&path, bytes).unwrap();
        let args = ["script", "-i", path.to_str().unwrap(), "-F", "event"];
        let Some((out, complaints)) = perf(&args, None) else {
            return;
        };
        let names: Vec<&str> = out
            .lines()
            .map(|l| l.trim().trim_end_matches(':'))
            .collect();
        let wanted: Vec<String> = (0..300).map(|i| format!("event-{i}")).collect();
        assert_eq!(
            (names, &complaints[..]),
            (wanted.iter().map(|w| &w[..]).collect(), "")
        );
    }
}

fn bits(range: &str) -> std::ops::RangeInclusive<u64> {
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    first.trim().parse().unwrap()..=last.trim().parse().unwrap()
}

fn compare_features(data: &PerfData, printed: &str, name: &str) -> usize {
    let f = data.features();
    let lines = |start: &str| {
        let found = printed.lines().filter_map(|l| l.strip_prefix(start));
        found.map(|l| l.trim().to_owned()).collect::<Vec<_>>()
    };
    let mut compared = 0;
    let mut same = |what: &str, printed: Vec<String>, read: Vec<String>| {
        compared += usize::from(!printed.is_empty());
        assert_eq!(printed, read, "{name}: {what}");
    };
    for (start, feature) in [
        ("# hostname : ", Feature::HOSTNAME),
        ("# os release : ", Feature::OSRELEASE),
        ("# arch : ", Feature::ARCH),
        ("# cpudesc : ", Feature::CPUDESC),
        ("# cpuid : ", Feature::CPUID),
    ] {
        let read = f.string(feature).map(|t| t.trim().to_owned());
        same(start, lines(start), read.into_iter().collect());
    }
    let cpus = |n: Option<u32>| n.iter().map(u32::to_string).collect();
    same(
        "online",
        lines("# nrcpus online : "),
        cpus(f.cpu_counts().map(|c| c.1)),
    );
    same(
        "avail",
        lines("# nrcpus avail : "),
        cpus(f.cpu_counts().map(|c| c.0)),
    );
    let memory = f.total_memory().map(|kib| format!("{kib} kB"));
    same(
        "memory",
        lines("# total memory : "),
        memory.into_iter().collect(),
    );
    let topology = f.cpu_topology().unwrap_or_default();
    // Terms of perf 4.14, and of later versions.
    let sockets = [lines("# sibling cores   : "), lines("# sibling sockets : ")].concat();
    same("sockets", sockets, topology.sockets);
    same("cores", lines("# sibling threads : "), topology.cores);
    same("dies", lines("# sibling dies    : "), topology.dies);
    let places = topology
        .cpus
        .iter()
        .enumerate()
        .map(|(i, cpu)| match cpu.die {
            Some(die) => format!(
                "{i}: Core ID {}, Die ID {die}, Socket ID {}",
                cpu.core, cpu.socket
            ),
            None => format!("{i}: Core ID {}, Socket ID {}", cpu.core, cpu.socket),
        });
    let mut printed_places = lines("# CPU ");
    printed_places.retain(|line| line.contains("Core ID"));
    // perf drops all if a number is too high.
    if !printed.contains("Core ID and Socket ID information is not available") {
        same("places", printed_places, places.collect());
    }
    let nodes = (f.numa_nodes().unwrap_or_default().into_iter()).map(|n| {
        let meminfo = format!(
            "{} meminfo  : total = {} kB, free = {} kB",
            n.node, n.total, n.free
        );
        [meminfo, format!("{} cpu list : {}", n.node, n.cpus)]
    });
    same("nodes", lines("# node"), nodes.flatten().collect());
    let mappings = f.pmu_mappings().unwrap_or_default();
    let mappings: Vec<String> = mappings.iter().map(|(n, t)| format!("{t} = {n}")).collect();
    let printed_mappings = lines("# pmu mappings: ").pop().unwrap_or_default();
    same(
        "PMUs",
        printed_mappings
            .split(", ")
            .filter(|l| !l.is_empty())
            .map(str::to_owned)
            .collect(),
        mappings,
    );
    let mut caches = lines("#  L");
    caches.retain(|line| line.ends_with(']'));
    let squeeze = |line: &String| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let read = f.caches().unwrap_or_default();
    let read = read
        .iter()
        .map(|c| format!("{} {} {} [{}]", c.level, c.kind, c.size, c.cpus));
    same(
        "caches",
        caches.iter().map(squeeze).collect(),
        read.collect(),
    );
    let hybrid = f.hybrid_pmus().unwrap_or_default();
    let hybrid = hybrid
        .iter()
        .map(|h| format!("# {} cpu list : {}", h.pmu, h.cpus));
    let mut printed_hybrid = lines("");
    printed_hybrid.retain(|l| l.contains(" cpu list : ") && !l.starts_with("# node"));
    same("kinds of cores", printed_hybrid, hybrid.collect());
    let list = |caps: &[(String, String)]| {
        let all: Vec<String> = caps.iter().map(|(n, v)| format!("{n}={v}")).collect();
        all.join(", ")
    };
    let caps = f.cpu_pmu_caps().filter(|caps| !caps.is_empty());
    let own = caps
        .iter()
        .map(|caps| format!("# cpu pmu capabilities: {}", list(caps)));
    let pmus = f.pmu_caps().unwrap_or_default();
    let others = pmus
        .iter()
        .map(|p| format!("# {} pmu capabilities: {}", p.pmu, list(&p.caps)));
    let mut printed_caps = lines("");
    printed_caps.retain(|l| l.contains(" pmu capabilities: "));
    same("capabilities", printed_caps, own.chain(others).collect());
    let clock = f.clock_resolution().map(|ns| ns.to_string());
    let printed_clock = lines("# clockid frequency: ").len();
    assert_eq!(printed_clock, clock.iter().count(), "{name}: clock");
    let how = f
        .compression()
        .map(|c| format!("Zstd, level = {}, ratio = {}", c.level, c.ratio));
    same(
        "compression",
        lines("# compressed : "),
        how.into_iter().collect(),
    );
    let memory = f.memory_topology().map_or(vec![], |m| m.nodes);
    // "0 [7G]: 0-23,32-69": the numbers of the set bits.
    let mut printed_memory = lines("#  ");
    printed_memory.retain(|l| l.contains("]: "));
    let read = memory.iter().map(|node| {
        let is_set = |bit: &u64| node.bitmap[*bit as usize / 64] >> (bit % 64) & 1 == 1;
        (0..node.bits).filter(is_set).collect::<Vec<u64>>()
    });
    let printed_memory = printed_memory.iter().map(|line| {
        let (_, list) = line.split_once("]: ").unwrap();
        list.split(',').flat_map(bits).collect::<Vec<u64>>()
    });
    assert!(printed_memory.eq(read), "{name}: memory");
    compared
}

#[test]
fn features_of_a_recording_of_this_machine_are_as_perf_prints_them() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("perf.data");
    let file = path.to_str().unwrap();
    let record = [
        "record",
        "-q",
        "-e",
        "{cpu-clock,page-faults}",
        "-o",
        file,
        "--",
        "true",
    ];
    needs!(Perf, PerfEvents);
    perf(&record, None).unwrap();
    let (printed, _) = perf(&["report", "--header-only", "-I", "-i", file], None).unwrap();
    let data = PerfData::open(&path).unwrap();
    let compared = compare_features(&data, &printed, "this machine");
    assert!(compared > 10, "{compared}: {printed}");
    // The header's output lacks GROUP_DESC.
    let (shown, _) = perf(&["evlist", "-g", "-i", file], None).unwrap();
    let groups = data.features().event_groups().unwrap();
    assert_eq!(
        (groups.len(), groups[0].leader, groups[0].members),
        (1, 0, 2)
    );
    assert!(shown.starts_with("{cpu-clock"), "{shown}");
    // Without the `perf` that perf prepends.
    let line = data.features().command_line().unwrap();
    assert!(
        printed.contains(&format!("# cmdline : {} ", line.join(" "))),
        "{line:?}"
    );
    assert_eq!(line[1..], record);
}

#[test]
fn features_of_captures_are_as_perf_prints_them() {
    needs!(Perf);
    let captures = rprof_testing::recordings();
    let mut compared = 0;
    for path in &captures {
        let Ok(data) = PerfData::open(path) else {
            continue;
        };
        let args = ["report", "--header-only", "-I", "-i"];
        let out = Command::new("perf").args(args).arg(path).output().unwrap();
        let printed = String::from_utf8_lossy(&out.stdout);
        if printed.contains("# hostname : ") && printed.contains("# cpudesc") {
            compared += compare_features(&data, &printed, &path.display().to_string());
        }
    }
    assert!(compared > 100 || captures.is_empty(), "{compared}");
}
