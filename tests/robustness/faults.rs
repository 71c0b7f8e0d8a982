//! Faults during recording: deleted outputs, an unwritable standard error, thread storms, limits,
//! and settings that change. The recorder always waits for the command, renames only its own files,
//! and leaves a readable file.

use std::collections::BTreeSet;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use rprof_perfdata::PerfData;
use rustix::process::Signal;

use crate::support::{
    Here, Need, Running, Shell, c, has, inapplicable, needs, perf_samples, wait_until,
};

const RPROF: &str = env!("CARGO_BIN_EXE_rprof");

/// A command that prints a line, waits for a file `go`, and ends with status 7.
const WAITS: &str = "echo ready; until [ -e go ]; do sleep 0.01; done; exit 7";

/// Runs a script in its own mount namespace. `$0` is rprof.
fn in_own_mounts(here: &Here, script: &str) -> Shell {
    let shell = here.command("unshare").words("-m sh -c").arg(script);
    shell.arg(RPROF)
}

fn names(here: &Here, prefix: &str) -> Vec<String> {
    let entries = std::fs::read_dir(here.path(".")).expect("the folder");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    let names = names.map(|name| name.into_string().expect("names here are UTF-8"));
    let sorted: BTreeSet<String> = names.filter(|name| name.starts_with(prefix)).collect();
    sorted.into_iter().collect()
}

fn write(here: &Here, name: &str, text: &str) {
    std::fs::write(here.path(name), text).expect("a file");
}

fn text(here: &Here, name: &str) -> String {
    std::fs::read_to_string(here.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// rprof and perf see the same samples.
fn samples_by_both(here: &Here, file: &str) -> usize {
    let run = here.rprof("script -i").arg(file).run();
    let samples = perf_samples(&run).len();
    run.exits(i32::from(samples == 0));
    if has(Need::Perf) {
        let perf = here.perf("script --no-inline -i").arg(file).ok();
        assert_eq!(perf_samples(&perf).len(), samples, "samples by\n{perf}");
    }
    samples
}

/// Starts a recording, and reads the first line.
fn endless(here: &Here, options: &str) -> Running {
    let record = here.rprof("record -F 999 -e cpu-clock").words(options);
    let mut running = record.arg("--").arg(c("endless.c")).start();
    running.line();
    running
}

#[test]
fn no_device_and_no_link_of_the_system_is_renamed() {
    needs!(PerfEvents, Root);
    let here = Here::new();
    // A private /dev, so that a failure damages nothing.
    let script = "cp -a /dev/null /dev/zero /dev/stdout /dev/stderr /dev/stdin /dev/fd . || exit 99
        mount -t tmpfs none /dev && mv null zero stdout stderr stdin fd /dev || exit 99
        ls -l /dev | sort >before
        \"$0\" record -o /dev/null --switch-output -- true; echo null $?
        \"$0\" record -q -o /dev/null -- true; echo plain $?
        \"$0\" record -q -o /dev/zero --switch-output=20K -- true; echo zero $?
        \"$0\" record -q -e cpu-clock -o /dev/stdout -- true | wc -c >stdout.bytes
        ln -s /proc/self/fd/1 out
        \"$0\" record -q -e cpu-clock -o out -- true | wc -c >link.bytes
        ls -l /dev | sort >after";
    let run = in_own_mounts(&here, script).ok();
    run.prints("null 2\nplain 0\nzero 2\n");
    run.says("--switch-output makes several files");
    assert_eq!(text(&here, "before"), text(&here, "after"), "{run}");
    for file in ["stdout.bytes", "link.bytes"] {
        let bytes: u64 = text(&here, file).trim().parse().expect("a number");
        assert!(bytes > 100, "{file}: {run}");
    }
    let link = here.path("out").symlink_metadata().expect("the link");
    assert!(link.is_symlink());
    let null = std::fs::metadata("/dev/null").expect("a device");
    assert!(null.file_type().is_char_device());
}

#[test]
fn rotation_leaves_the_files_of_others_alone() {
    needs!(PerfEvents);
    let here = Here::new();
    let rprof = endless(&here, "--switch-output --switch-max-files 1");
    wait_until("samples are in it", || here.samples_so_far() > 50);
    std::fs::rename(here.path("perf.data"), here.path("moved")).expect("it is there");
    write(&here, "perf.data", "precious");
    for n in 1..=2 {
        rprof.signal(Signal::USR2);
        wait_until("there is another file", || {
            names(&here, "perf.data.").last().is_some_and(|last| {
                text_or_nothing(&here, last) > 0 && seen_so_far(&here, last) > 20 * n
            })
        });
    }
    rprof.signal(Signal::TERM);
    let run = rprof.end();
    run.exits(128 + 15).says("was renamed to").says("moved");
    assert_eq!(text(&here, "perf.data"), "precious", "{run}");
    assert!(samples_by_both(&here, "moved") > 50, "{run}");
    let kept = names(&here, "perf.data.");
    assert_eq!(kept.len(), 1, "{kept:?} after\n{run}");
    samples_by_both(&here, &kept[0]);
}

fn text_or_nothing(here: &Here, name: &str) -> u64 {
    std::fs::metadata(here.path(name)).map_or(0, |meta| meta.len())
}

fn seen_so_far(here: &Here, name: &str) -> usize {
    let path = here.path(name);
    let Ok(bytes) = std::fs::read(&path) else {
        return 0;
    };
    let Ok(data) = PerfData::read(&bytes[..], &path) else {
        return 0;
    };
    let blocks = data.blocks().filter_map(Result::ok);
    let is_sample = |kind| kind == rprof_records::RecordType::SAMPLE;
    (blocks.map(|block| {
        block
            .walk()
            .filter(|found| is_sample(found.record.kind))
            .count()
    }))
    .sum()
}

#[test]
fn two_recorders_with_one_output_do_each_other_no_harm() {
    needs!(PerfEvents);
    let here = Here::new();
    let options = "--switch-output --switch-max-files 20";
    let first = endless(&here, options);
    wait_until("samples are in it", || here.samples_so_far() > 50);
    let second = endless(&here, options);
    wait_until("samples are in it", || here.samples_so_far() > 50);
    assert!(here.path("perf.data.old").exists());
    let count = || names(&here, "perf.data.2").len();
    for rprof in [&first, &second, &first, &second] {
        let before = count();
        rprof.signal(Signal::USR2);
        wait_until("there is another file", || count() > before);
    }
    for rprof in [first, second] {
        rprof.signal(Signal::TERM);
        rprof.end().exits(128 + 15).says("kept, the last is");
    }
    assert!(samples_by_both(&here, "perf.data.old") > 50);
    for file in names(&here, "perf.data.2") {
        samples_by_both(&here, &file);
    }
}

#[test]
fn an_output_that_was_deleted_is_told() {
    needs!(PerfEvents);
    let here = Here::new();
    let rprof = endless(&here, "-o gone.data");
    std::fs::remove_file(here.path("gone.data")).expect("it is there");
    rprof.signal(Signal::TERM);
    let run = rprof.end();
    run.exits(128 + 15)
        .says("gone.data was deleted during recording");
    assert!(!run.err().contains(", in gone.data"), "{run}");
}

#[test]
fn a_full_standard_error_ends_nothing() {
    needs!(PerfEvents);
    let here = Here::new();
    let full = |script: &str| {
        let bash = here.command("bash").arg("-c").arg(script);
        bash.arg(RPROF).arg(c("shares.c")).ok()
    };
    let run = full(
        "\"$0\" record -e cpu-clock -- sh -c 'exit 7' 2>/dev/full; echo status $?
        \"$0\" record -d 0.1 -e cpu-clock -- sh -c 'sleep 0.3; echo ended; exit 7' 2>/dev/full
        echo status $?
        \"$0\" record -e cpu-clock -- sh -c 'trap \"echo told; exit 7\" TERM; echo $$ >pid
            until [ -e never ]; do sleep 0.01; done' 2>/dev/full &
        until [ -s pid ]; do sleep 0.01; done; kill -TERM $!; wait $!; echo status $?
        \"$0\" record -v -F 1000000000 -e cpu-clock -o high.data -- \"$1\" 0.1 2>/dev/full; echo status $?",
    );
    run.prints("status 7\nended\nstatus 7\ntold\nstatus 7\nstatus 0\n");
    assert!(samples_by_both(&here, "high.data") > 0, "{run}");
    full("\"$0\" flamegraph -i high.data -o x.svg 2>/dev/full");
    assert!(here.path("x.svg").exists());
    full("\"$0\" record -e cpu-clock -- sh -c 'exit 7' 2>&-; [ $? = 7 ]");
}

#[test]
fn a_closed_terminal_ends_nothing() {
    needs!(PerfEvents, Terminal);
    let here = Here::new();
    write(&here, "command.sh", WAITS);
    // script(1) ends with its terminal, while the recorder continues.
    let inner = "trap '' HUP
        (\"$RPROF\" record -e cpu-clock -- sh command.sh >ready; echo $? >status) &
        until [ -s ready ]; do sleep 0.01; done";
    let shell = here
        .command("script")
        .words("-qec")
        .arg(inner)
        .arg("/dev/null");
    shell.env("RPROF", RPROF).ok();
    write(&here, "go", "");
    wait_until("the recorder has ended", || {
        here.path("status").exists() && !text(&here, "status").is_empty()
    });
    assert_eq!(text(&here, "status"), "7\n");
    samples_by_both(&here, "perf.data");
}

#[test]
fn no_record_of_a_storm_is_of_an_event_that_the_file_does_not_have() {
    needs!(PerfEvents);
    let here = Here::new();
    let mut storm = here.command(c("drizzle.c")).start();
    let pid = storm.line();
    for _ in 0..5 {
        let record = here.rprof("record -q -e cpu-clock -d 0.1 -p").arg(&pid);
        record.ok();
        let data = PerfData::open(&here.path("perf.data")).expect("a recording");
        let events = data.events().list();
        let known: BTreeSet<u64> = (events.iter())
            .flat_map(|event| event.ids.clone())
            .collect();
        assert!(known.len() > 1, "{known:?}");
        let layout = &events[0].layout;
        for block in data.blocks() {
            for found in block.expect("whole").walk() {
                let id = layout.sample_id(&found.record).id;
                let strange = id.filter(|id| *id != 0 && !known.contains(id));
                assert_eq!(strange, None, "{:?}", found.record.kind);
            }
        }
        samples_by_both(&here, "perf.data");
    }
    storm.signal(Signal::KILL);
    storm.end();
}

#[test]
fn a_process_without_its_first_thread_is_known_by_the_others() {
    needs!(PerfEvents);
    let here = Here::new();
    let mut running = here.command(c("leaderless.c")).start();
    let pid = running.line();
    let attach = here.rprof("record -F 999 -e cpu-clock:u -g -d 0.3 -p");
    let run = attach.arg(&pid).ok();
    running.signal(Signal::KILL);
    running.end();
    let report = here.report("");
    assert!(report.samples() > 0, "{run}");
    assert!(report.only().self_share("work_alone") > 0.5, "{run}");
    let stacks = &report.quality["stacks"];
    let of = |key: &str| stacks[key].as_u64().expect("a number");
    assert!(of("complete") * 2 > of("total"), "{stacks:#}\n{run}");
}

#[test]
fn too_many_open_files_are_no_missing_unwind_information() {
    needs!(PerfEvents);
    let here = Here::new();
    // In between, events open but images do not.
    let script = "for limit in 8 12 16 20 22 24 26 28 30 32 34 36 40; do
            (ulimit -n $limit; exec \"$0\" record -F 999 -e cpu-clock -g -o $limit.data -- \"$1\" 0.05) 2>$limit.log
            echo $limit $?
        done";
    let bash = here.command("bash").arg("-c").arg(script);
    let run = bash.arg(RPROF).arg(c("shares.c")).ok();
    let mut recorded = 0;
    for line in run.out().lines() {
        let (limit, status) = line.split_once(' ').expect("limit and status");
        let log = text(&here, &format!("{limit}.log"));
        assert!(!log.contains("no unwind information"), "{limit}: {log}");
        assert!(!log.contains("panicked"), "{limit}: {log}");
        match status {
            "0" => recorded += 1,
            _ => assert!(
                log.contains("oo many open files") || log.contains("ulimit -n"),
                "{limit}: {log}"
            ),
        }
        assert!(!log.contains("ulimit -u"), "{limit}: {log}");
    }
    assert!(recorded > 0, "{run}");
}

#[test]
fn a_signal_to_rotate_without_rotation_does_no_harm() {
    needs!(PerfEvents);
    let here = Here::new();
    let rprof = endless(&here, "");
    for _ in 0..3 {
        rprof.signal(Signal::USR2);
    }
    let before = here.samples_so_far();
    wait_until("there are more samples", || {
        here.samples_so_far() > before + 20
    });
    rprof.signal(Signal::TERM);
    rprof.end().exits(128 + 15).says("in perf.data");
    assert!(samples_by_both(&here, "perf.data") > 0);
    assert_eq!(names(&here, "perf.data"), ["perf.data"]);
}

#[test]
fn what_never_began_leaves_both_recordings_before_it() {
    needs!(PerfEvents);
    let here = Here::new();
    write(&here, "perf.data", "new");
    write(&here, "perf.data.old", "old");
    let run = here.rprof("record -- /no/such/command").exits(127);
    let both = || {
        assert_eq!(names(&here, "perf.data"), ["perf.data", "perf.data.old"]);
        [text(&here, "perf.data"), text(&here, "perf.data.old")]
    };
    assert_eq!(both(), ["new", "old"], "{run}");
    write(&here, "no-program", "text");
    let run = here.rprof("record -- ./no-program").exits(126);
    assert_eq!(both(), ["new", "old"], "{run}");
    here.rprof("record -q -- true").ok();
    assert_eq!(text(&here, "perf.data.old"), "new");
    samples_by_both(&here, "perf.data");
    assert_eq!(names(&here, "perf.data"), ["perf.data", "perf.data.old"]);
}

#[test]
fn a_disk_that_is_full_from_the_start_takes_no_recording_away() {
    needs!(PerfEvents, Root);
    let here = Here::new();
    std::fs::create_dir(here.path("full")).expect("a folder");
    let script = "mount -t tmpfs -o size=16k none full || exit 99
        echo new >full/perf.data; echo old >full/perf.data.old
        dd if=/dev/zero of=full/rest bs=1k 2>/dev/null
        \"$0\" record -o full/perf.data -- touch ran; echo $?; cat full/perf.data full/perf.data.old; ls full";
    let run = in_own_mounts(&here, script).ok();
    run.prints("1\nnew\nold\nperf.data\nperf.data.old\nrest\n");
    run.says("No space left").says("nothing was recorded");
    assert!(!run.err().contains("can be read"), "{run}");
    assert!(!here.path("ran").exists(), "{run}");
}

#[test]
fn a_limit_on_the_size_of_files_leaves_one_that_can_be_read_or_none() {
    needs!(PerfEvents);
    let here = Here::new();
    // In KiB: smaller and larger than the header.
    let script = "for limit in 1 4 16 64 128 256 512; do
            (ulimit -f $limit; exec \"$0\" record -F 20000 -g -e cpu-clock -o $limit.data -- \"$1\" 0.15) 2>$limit.log
            echo $limit $?
        done";
    let bash = here.command("bash").arg("-c").arg(script);
    let run = bash.arg(RPROF).arg(c("shares.c")).ok();
    for line in run.out().lines() {
        let (limit, status) = line.split_once(' ').expect("limit and status");
        let log = text(&here, &format!("{limit}.log"));
        if status != "0" {
            assert_eq!(status, "1", "{limit}: {log}");
            assert!(log.contains("File too large"), "{limit}: {log}");
            assert!(log.contains("(`ulimit -f`)"), "{limit}: {log}");
        }
        let file = format!("{limit}.data");
        if here.path(&file).exists() {
            samples_by_both(&here, &file);
        } else {
            assert!(log.contains("nothing was recorded"), "{limit}: {log}");
        }
    }
}

#[test]
fn a_recorder_that_gets_no_threads_leaves_no_empty_file() {
    needs!(PerfEvents, Root, Tool("setpriv"));
    let here = Here::new();
    // A copy of rprof in a folder that the uid can enter.
    let folder = tempfile::tempdir_in("/tmp").expect("a folder");
    let user = 61_000 + std::process::id() % 1000;
    here.command("cp").arg(RPROF).arg(folder.path()).ok();
    std::os::unix::fs::chown(folder.path(), Some(user), Some(user)).expect("root may");
    let script = "cd \"$0\" && for limit in 1 2 3 4 5 6 8; do
            echo precious >perf.data
            (ulimit -u $limit; exec ./rprof record -e cpu-clock -- true) 2>log
            status=$?
            if [ $status = 0 ]; then ./rprof script --show-task-events >/dev/null || echo unreadable
            else [ \"$(cat perf.data)\" = precious ] || echo taken $limit; grep -q . log || echo silent $limit
            fi
            rm -f perf.data perf.data.old
            for left in perf.data*; do [ -e \"$left\" ] && echo left \"$left\"; done
        done; echo done";
    let bash = here.command("setpriv").words("--clear-groups --reuid");
    let bash = bash
        .arg(user.to_string())
        .arg("--regid")
        .arg(user.to_string());
    let run = bash.words("bash -c").arg(script).arg(folder.path()).ok();
    assert_eq!(run.out(), "done\n", "{run}");
}

#[test]
fn nothing_is_left_of_a_temporary_recording_however_it_ends() {
    needs!(PerfEvents);
    for (signal, command) in [
        (Signal::QUIT, "flamegraph -q -e cpu-clock -o x.svg --"),
        (Signal::KILL, "flamegraph -q -e cpu-clock -o x.svg --"),
    ] {
        let here = Here::new();
        let folder = here.path("tmp");
        std::fs::create_dir(&folder).expect("a folder");
        let record = here.rprof(command).arg(c("endless.c"));
        let mut rprof = record
            .env("TMPDIR", folder.to_str().expect("UTF-8"))
            .start();
        let pid = rprof.line();
        rprof.signal(signal);
        let run = rprof.end();
        here.command("kill").arg("-9").arg(&pid).run();
        let left = std::fs::read_dir(&folder).expect("the folder").count();
        assert_eq!(left, 0, "{run}");
    }
}

#[test]
fn a_flame_graph_is_drawn_of_what_was_recorded_before_the_disk_was_full() {
    needs!(PerfEvents, Root);
    let here = Here::new();
    std::fs::create_dir(here.path("full")).expect("a folder");
    let script = "mount -t tmpfs -o size=256k none full || exit 99
        TMPDIR=full \"$0\" flamegraph -F 20000 -e cpu-clock -o x.svg -- sh -c '\"$0\" 0.5; echo ended' \"$1\"
        echo status $?; ls full";
    let run = in_own_mounts(&here, script).arg(c("shares.c")).ok();
    run.prints("ended\nstatus 1\n").says("No space left");
    assert!(text(&here, "x.svg").contains("burn_seventy"), "{run}");
}

#[test]
fn a_cpu_that_comes_online_is_told() {
    needs!(PerfEvents, Root, File("/sys/devices/system/cpu/online"));
    let here = Here::new();
    if text_of(Path::new("/sys/devices/system/cpu/online")).trim() == "0" {
        return inapplicable("a machine with more than one CPU");
    }
    // All CPUs stay online: the list has only the first one at the start.
    let script = "online=/sys/devices/system/cpu/online
        echo 0 >one && mount --bind one $online || exit 99
        \"$0\" record -e cpu-clock -- sh -c \"umount $online; true\"";
    let run = in_own_mounts(&here, script).ok();
    run.says("CPU 1 came online while recording");
}

fn text_of(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}
