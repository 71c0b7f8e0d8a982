//! Resident memory (`record --memory`), compared with the kernel's figures and known amounts.

use std::io::Read;

use rustix::process::Signal;

use crate::support::{Folded, Here, Need, c, folded, has, needs, wait_until};

const MIB: u64 = 1 << 20;

/// Way, function, kind of mapping, and the MiB that stay.
const WAYS: [(&str, &str, &str, u64); 11] = [
    ("malloc", "use_malloc", "[anon]", 32),
    ("never", "never_touched", "[anon]", 0),
    ("mmap", "use_mmap", "[anon]", 32),
    ("zeros", "read_zeros", "[anon]", 0),
    ("heap", "grow_heap", "[heap]", 16),
    ("back", "give_back", "[anon]", 8),
    ("threads", "use_arena", "[anon]", 32),
    ("file", "read_file", "/memory.mapped", 16),
    ("shared", "write_shared", "[shared memory]", 16),
    ("populate", "[no fault seen]", "[anon]", 16),
    ("huge", "use_huge", "[anon]", 32),
];

/// Returns the fixture's resident bytes by the kernel.
fn record(here: &Here, ways: &[&str]) -> u64 {
    // Enough for a debug build beside other work.
    let recorder = here.rprof("record --memory -m 64M --").arg(c("memory.c"));
    let mut recorder = recorder.words(&ways.join(" ")).start();
    let resident = resident_in(&recorder.line());
    recorder.signal(Signal::INT);
    let run = recorder.end();
    run.says("lost 0 samples");
    resident
}

fn resident_in(line: &str) -> u64 {
    let kib = line.strip_prefix("done ").expect("the fixture is done");
    kib.parse::<u64>().expect("KiB") << 10
}

fn memory(here: &Here, options: &str) -> Folded {
    folded(&here.rprof("collapse -q").words(options).ok())
}

fn bytes(stacks: &Folded, kind: &str, frame: &str) -> u64 {
    let is_there = |stack: &str| {
        let mut frames = stack.split(';').skip(1);
        frames.next().is_some_and(|first| first.ends_with(kind)) && frames.any(|one| one == frame)
    };
    let found = stacks.iter().filter(|(stack, _)| is_there(stack));
    found.map(|(_, bytes)| bytes).sum()
}

fn all(stacks: &Folded) -> u64 {
    stacks.values().sum()
}

/// Allows 3 %, and what else a function needs.
fn assert_near(what: &str, found: u64, mib: u64) {
    assert_near_but(what, found, mib, 0);
}

/// Also allows bytes that have no function.
fn assert_near_but(what: &str, found: u64, mib: u64, without: u64) {
    let whole = mib * MIB;
    let least = whole.saturating_sub(without);
    let most = whole + mib * MIB / 33 + (64 << 10);
    assert!(
        (least..=most).contains(&found),
        "{what}: {found} bytes instead of {mib} MiB"
    );
}

/// Allows 1 %.
fn assert_equal(found: u64, kernel: u64) {
    assert!(
        found.abs_diff(kernel) * 100 <= kernel,
        "{found} bytes instead of {kernel}"
    );
}

fn has_huge_pages() -> bool {
    let setting = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    setting.is_ok_and(|setting| !setting.contains("[never]"))
}

#[test]
fn each_way_to_use_memory_has_its_function_and_kind() {
    needs!(PerfEvents, Kernel);
    let here = Here::new();
    let ways = WAYS
        .iter()
        .filter(|way| way.0 != "huge" || has_huge_pages());
    let ways: Vec<_> = ways.copied().collect();
    let names: Vec<&str> = ways.iter().map(|way| way.0).collect();
    let resident = record(&here, &names);
    let stacks = memory(&here, "");
    // A recorder that unwinds too late cuts a stack, and loses the function, but not the bytes.
    let is_cut = |stack: &str| {
        !stack
            .split(';')
            .any(|at| ways.iter().any(|way| way.1 == at))
    };
    let cut = stacks.iter().filter(|(stack, _)| is_cut(stack));
    let cut: u64 = cut.map(|(_, bytes)| bytes).sum();
    assert!(cut * 50 < resident, "{cut} of {resident} bytes: {stacks:?}");
    for (name, function, kind, mib) in ways {
        assert_near_but(name, bytes(&stacks, kind, function), mib, cut);
    }
    assert_equal(all(&stacks), resident);
    assert!(
        here.rprof("report")
            .ok()
            .out()
            .contains("memory: stacks explain")
    );
}

#[test]
fn memory_of_a_fork_belongs_to_both_until_one_copies_it() {
    needs!(PerfEvents, Kernel);
    let here = Here::new();
    let resident = record(&here, &["fork"]);
    let stacks = memory(&here, "");
    assert_near(
        "parent and child",
        bytes(&stacks, "[anon]", "touch_before_fork"),
        16 + 8,
    );
    assert_near("the child", bytes(&stacks, "[anon]", "copy_in_child"), 8);
    assert_equal(all(&stacks), resident);
}

#[test]
fn attached_processes_have_memory_from_before_the_recording() {
    needs!(PerfEvents, Kernel);
    // Some short threads begin after the events and end before rprof lists the threads.
    for way in ["late", "short"] {
        let here = Here::new();
        let resident = attached(&here, way);
        let stacks = memory(&here, "");
        let before = bytes(&stacks, "[anon]", "[resident before recording]");
        assert_near("before", before, 32);
        assert_near(way, bytes(&stacks, "[anon]", "touch_late"), 16);
        assert_equal(all(&stacks), resident);
    }
}

/// Records what a way does after it is ready. Returns its resident bytes by the kernel.
fn attached(here: &Here, way: &str) -> u64 {
    // Of another target.
    std::fs::remove_file(here.path("out")).ok();
    let target = here.sh("exec \"$0\" \"$1\" >out");
    let target = target.arg(c("memory.c")).arg(way).start();
    let out = || std::fs::read_to_string(here.path("out")).unwrap_or_default();
    wait_until("it waits", || out().contains("ready"));
    let pid = target.pid().as_raw_nonzero();
    let script = format!("kill -USR1 {pid}; until grep -q done out; do sleep 0.01; done");
    let recorder = here.rprof("record --memory -p").arg(pid.to_string());
    let run = recorder.words("-- sh -c").arg(script).ok();
    run.says("resident before recording");
    target.signal(Signal::KILL);
    target.end();
    resident_in(out().lines().last().unwrap_or_default())
}

#[test]
fn peak_and_all_touched_memory_are_moments_of_their_own() {
    needs!(PerfEvents, Kernel);
    let here = Here::new();
    record(&here, &["peak"]);
    let at = |moment: &str, function| bytes(&memory(&here, moment), "[anon]", function);
    assert_eq!(at("", "rise"), 0);
    assert_near("at the end", at("--at end", "touch_late"), 16);
    assert_near("at the peak", at("--at peak", "rise"), 64);
    assert_near("ever", at("--at ever", "rise"), 64);
    assert_near("ever", at("--at ever", "touch_late"), 16);
    // Nothing of it is left at the end.
    let freed = here.rprof("report --symbol rise").run().out();
    assert!(freed.starts_with("# event peak-memory: "), "{freed}");
}

#[test]
fn memory_at_a_time_has_what_was_given_back_later() {
    needs!(PerfEvents, Kernel);
    let here = Here::new();
    record(&here, &["peak"]);
    let rise = |when: &str| bytes(&memory(&here, when), "[anon]", "rise");
    // The fixture keeps 64 MiB for 1.5 s, gives them back, and touches others.
    let times: Vec<String> = (0..20).map(|n| format!("{}%", 5 * n)).collect();
    let high = times
        .iter()
        .max_by_key(|time| rise(&format!("--at {time}")));
    let high = high.expect("times");
    assert_near("while it was resident", rise(&format!("--at {high}")), 64);
    let late = bytes(
        &memory(&here, &format!("--at {high}")),
        "[anon]",
        "touch_late",
    );
    assert_eq!(late, 0, "it was touched after {high}");
    let end = memory(&here, "--at end");
    assert_eq!(memory(&here, "--at 100%"), end);
    let between = memory(&here, &format!("--at {high},100%"));
    assert_near("later", bytes(&between, "[anon]", "touch_late"), 16);
    assert_eq!(bytes(&between, "[anon]", "rise"), 0);
    let diff = here
        .rprof("diff")
        .arg(format!("--at=0%,{high}"))
        .run()
        .out();
    let verdict = diff.lines().next().unwrap_or_default();
    assert!(
        verdict.contains("GREW: memory") && verdict.contains("most of all rise"),
        "{verdict}"
    );
    assert_eq!(memory(&here, "--memory"), end);
    here.rprof("diff --at=5s").run().exits(1);
    here.rprof("report --at=soon").run().exits(2);
}

#[test]
fn a_killed_recorder_leaves_the_memory_of_its_last_snapshot() {
    needs!(PerfEvents, Kernel);
    let here = Here::new();
    let recorder = here.rprof("record --memory --").arg(c("memory.c"));
    let mut recorder = recorder.words("malloc").start();
    let resident = resident_in(&recorder.line());
    let of_malloc = |stacks: &Folded| -> u64 {
        let its = stacks
            .iter()
            .filter(|(stack, _)| stack.split(';').any(|frame| frame == "use_malloc"));
        its.map(|(_, bytes)| bytes).sum()
    };
    // Snapshots before it may lack the last faults.
    let is_there = || {
        let stacks = folded(&here.rprof("collapse -q").run());
        let is_whole = all(&stacks).abs_diff(resident) * 100 <= resident;
        is_whole && of_malloc(&stacks) >= 32 * MIB
    };
    wait_until("a snapshot of all memory is in the file", is_there);
    recorder.signal(Signal::KILL);
    recorder.end();
    let stacks = memory(&here, "");
    assert_equal(all(&stacks), resident);
    assert_near("malloc", of_malloc(&stacks), 32);
}

#[test]
fn pprof_has_the_sample_types_of_heap_profiles() {
    needs!(PerfEvents, Kernel);
    let here = Here::new();
    let resident = record(&here, &["malloc"]);
    here.rprof("export -o memory.pb.gz").ok();
    let file = std::fs::File::open(here.path("memory.pb.gz")).expect("a profile");
    let mut text = Vec::new();
    (flate2::read::GzDecoder::new(file).read_to_end(&mut text)).expect("gzip");
    let text = String::from_utf8_lossy(&text).into_owned();
    for name in ["inuse_space", "peak_space", "alloc_space", "bytes"] {
        assert!(text.contains(name), "{name}");
    }
    let stacks = folded(
        &here
            .rprof("collapse -q memory.pb.gz --event inuse_space")
            .ok(),
    );
    assert_equal(all(&stacks), resident);
}

#[test]
fn a_leak_is_the_first_line_of_a_comparison() {
    needs!(PerfEvents, Kernel);
    let here = Here::new();
    record(&here, &["malloc"]);
    std::fs::rename(here.path("perf.data"), here.path("before.data")).expect("a recording");
    record(&here, &["malloc", "mmap"]);
    let diff = here.rprof("diff before.data perf.data").run().out();
    let verdict = diff.lines().next().unwrap_or_default();
    assert!(
        verdict.contains("GREW: memory") && verdict.contains("use_mmap"),
        "{verdict}"
    );
    let mut rows = (diff.lines()).skip_while(|line| !line.ends_with("function, object"));
    let first = rows.nth(1);
    assert!(
        first.is_some_and(|line| line.contains("use_mmap")),
        "{diff}"
    );
}

#[test]
fn leak_of_a_running_server_is_the_first_line_of_two_moments() {
    needs!(PerfEvents, Kernel);
    let here = Here::new();
    attached(&here, "serve");
    let diff = here.rprof("diff --at=10%,90%").run().out();
    let first = diff.lines().next().unwrap_or_default();
    assert!(
        first.contains("GREW: memory") && first.contains("most of all remember_session"),
        "{diff}"
    );
}

#[test]
fn two_recordings_of_a_running_process_never_blame_a_kind_of_mapping() {
    needs!(PerfEvents, Kernel);
    let here = Here::new();
    attached(&here, "late");
    std::fs::rename(here.path("perf.data"), here.path("before.data")).expect("a recording");
    attached(&here, "serve");
    let diff = here.rprof("diff perf.data before.data").run().out();
    let first = diff.lines().next().unwrap_or_default();
    let says = ["GREW: memory", "most of all touch_late", "--at 10%,90%"];
    assert!(says.iter().all(|words| first.contains(words)), "{diff}");
}

/// Looks see neither peaks of some milliseconds nor a program's last actions.
#[test]
fn short_peaks_and_the_end_of_a_program_are_exact_where_releases_are_recorded() {
    needs!(PerfEvents, Kernel, Tracepoints);
    let here = Here::new();
    let script = "
import mmap, os, re, signal
def rise(n): return mmap.mmap(-1, n << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
def fill(m): m.write(b'x' * len(m)) and None
kept = rise(120); fill(kept)
for n in range(1, 6):
    m = rise(16 * n); fill(m); m.close()
kept.madvise(mmap.MADV_DONTNEED, 0, 8 << 20)
kept.resize(128 << 20)
rss = re.findall(r'^Rss: +(\\d+)', open('/proc/self/smaps').read(), re.M)
peak = re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1]
print('kib', sum(map(int, rss)), peak, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
";
    // 190,000 faults in a second, without Python's functions.
    let run = here
        .rprof("record --memory --call-graph fp -m 64M -- python3 -c")
        .arg(script)
        .run();
    run.says("lost 0 samples");
    let out = run.out();
    let numbers: Vec<u64> = (out.split_whitespace())
        .filter_map(|word| word.parse().ok())
        .collect();
    let &[end, peak] = &numbers[..] else {
        panic!("{run}");
    };
    assert_equal(all(&memory(&here, "")), end << 10);
    assert_equal(all(&memory(&here, "--at peak")), peak << 10);
    assert_equal(all(&memory(&here, "--at 100%")), end << 10);
}

#[test]
fn bytes_have_binary_units_in_a_flame_graph() {
    needs!(PerfEvents, Kernel);
    let here = Here::new();
    record(&here, &["malloc"]);
    here.rprof("flamegraph -q -i perf.data -o memory.svg").ok();
    let svg = std::fs::read_to_string(here.path("memory.svg")).expect("a picture");
    // Pages of the C library that this function used first.
    let titles = svg
        .split("<title>")
        .filter(|title| title.starts_with("use_malloc"))
        .collect::<Vec<_>>();
    assert!(
        titles
            .iter()
            .any(|title| title.contains("32.") && title.contains("MiB")),
        "{titles:?}"
    );
    if has(Need::Perf) {
        let report = here.perf("report --stdio -g none -i perf.data").run();
        report.prints("of event 'resident-memory'");
    }
}

#[test]
fn flags_without_a_meaning_for_memory_are_refused() {
    let here = Here::new();
    for flags in [
        "-e cycles",
        "-F 99",
        "-c 5",
        "-a",
        "-C 0",
        "--off-cpu",
        "--overwrite",
    ] {
        let run = here
            .rprof("record --memory")
            .words(flags)
            .words("-- true")
            .run();
        run.exits(2).says("--memory");
    }
}
