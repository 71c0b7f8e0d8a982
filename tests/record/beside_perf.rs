//! rprof beside perf: perf's records are unchanged, and rprof has the build-ids without requesting
//! them from the kernel.
//!
//! An event with `attr.build_id` would mark the MMAP2 records of all later listeners. perf 6.1
//! crashes on those ("assertion failed at util/build-id.c").
//!
//! `RPROF_BESIDE=50` repeats each test 50 times; `RPROF_RELEASE` names a release build to test.

use std::collections::{BTreeMap, BTreeSet};

use rprof_perfdata::PerfData;
use rprof_records::{BuildId, Mapped, Misc, MmapIdentity, ProcessEvent};
use rustix::process::Signal;

use crate::support::{Here, Running, c_with, needs, wait_until};

/// A shell that starts programs until a file exists. Each is mapped.
const PROGRAMS: &str = "until [ -e enough ]; do /bin/true; echo >>log; sleep 0.01; done";

/// Waits until it has started some more programs.
const SOME_MORE: &str = "echo waits; until [ -e go ]; do sleep 0.01; done
    n=$(wc -l <log); until [ $(wc -l <log) -gt $((n + 10)) ]; do sleep 0.01; done";

/// Reads a copy, because a mapped file must not grow. Does nothing before the file has a header.
/// Stops at damage in a growing file: the recorder may have written across the copied place.
fn for_each_mapping(here: &Here, name: &str, mut each: impl FnMut(&PerfData, &Mapped<'_>)) {
    let path = here.path(name);
    let bytes = std::fs::read(&path).unwrap_or_default();
    let Ok(data) = PerfData::read(&bytes[..], &path) else {
        return;
    };
    let is_growing = !data.warnings().is_empty();
    for block in data
        .blocks()
        .take_while(|block| block.is_ok() || !is_growing)
    {
        for at in block.expect("a block").walk() {
            let event = ProcessEvent::decode(&at.record, None);
            if let Ok(Some(ProcessEvent::Mapped(mapped))) = event
                && !mapped.kernel
            {
                each(&data, &mapped);
            }
        }
    }
}

fn assert_undisturbed(here: &Here, what: &str) -> u32 {
    let (mut marked, mut others) = (0, 0);
    for_each_mapping(here, "perf.data", |_, mapped| {
        match mapped.misc.has(Misc::MMAP_BUILD_ID) {
            true => marked += 1,
            false => others += 1,
        }
    });
    assert_eq!(marked, 0, "{what}: beside {others} others");
    assert!(others > 10, "{what}: {others}");
    others
}

fn record(here: &Here, whom: &str, command: &[&str]) -> Running {
    let mut shell = here
        .rprof("record -e cpu-clock -F 99 -o r.data")
        .words(whom);
    for word in command {
        shell = shell.arg(word);
    }
    let running = shell.start();
    wait_until("rprof records", || {
        (here.path("r.data").metadata()).is_ok_and(|file| file.len() > 0)
    });
    running
}

fn rounds() -> usize {
    let rounds = std::env::var("RPROF_BESIDE").ok();
    rounds.map_or(1, |rounds| rounds.parse().expect("a number"))
}

/// The kernel serves the latest listener first.
#[test]
fn perf_is_not_disturbed() {
    needs!(Kernel, Perf);
    for (round, rprof_is_first) in (0..rounds()).flat_map(|n| [(n, false), (n, true)]) {
        for options in ["-a", "-p", "--"] {
            let what = format!("{options}, rprof first: {rprof_is_first}, round {round}");
            let here = Here::new();
            std::fs::write(here.path("log"), "").unwrap();
            let mut shell = (options != "--").then(|| here.sh(PROGRAMS).start());
            let number = |of: &Running| of.pid().as_raw_nonzero().to_string();
            let pid = shell.as_ref().map(number);
            let of_process = || format!("-p {}", pid.as_deref().expect("a process"));
            let rprof = || match options {
                "-a" => record(&here, "-a", &[]),
                "-p" => record(&here, &of_process(), &[]),
                _ => record(&here, "-- sh -c", &[PROGRAMS]),
            };
            let perf = || {
                let whom = match options {
                    "-p" => of_process(),
                    _ => "-a".to_owned(),
                };
                let perf = here
                    .perf("record -q -e cpu-clock -F 99 -o perf.data")
                    .words(&whom);
                let mut running = perf.words("-- sh -c").arg(SOME_MORE).start();
                assert_eq!(running.line(), "waits");
                running
            };
            let (rprof, perf) = match rprof_is_first {
                true => {
                    let rprof = rprof();
                    (rprof, perf())
                }
                false => {
                    let perf = perf();
                    (rprof(), perf)
                }
            };
            std::fs::write(here.path("go"), "").unwrap();
            perf.end().exits(0);
            let mappings = assert_undisturbed(&here, &what);
            println!("{what}: {mappings} mappings in perf's file, none marked");
            rprof.signal(Signal::INT);
            rprof.end();
            std::fs::write(here.path("enough"), "").unwrap();
            if let Some(shell) = shell.take() {
                shell.end();
            }
            // The program may be too short for a sample.
            here.rprof("script --show-task-events -i r.data").ok();
        }
    }
}

#[test]
fn perf_that_is_recorded_is_not_disturbed() {
    needs!(Kernel, Perf);
    let here = Here::new();
    let programs = "for i in 1 2 3 4 5 6 7 8 9 10; do /bin/true; done";
    let record = here.rprof("record -q -e cpu-clock -F 99 -o r.data --");
    let record = record.words("perf record -q -e cpu-clock -F 99 -o perf.data -- sh -c");
    record.arg(programs).ok();
    assert_undisturbed(&here, "perf as the command");
}

/// Programs of one name, here and in a container, and a deleted one. A file disappears with the
/// last process that maps it, so there is one until the file `enough` exists.
const CONTAINER: &str = "mount -t tmpfs none /mnt; cp \"$1\" /mnt/program; cp \"$2\" /mnt/deleted
    /mnt/deleted 1000 & until grep -q libc /proc/$!/maps; do sleep 0.01; done
    rm /mnt/deleted; until [ -e enough ]; do /mnt/program 0.01; done; kill $!; wait";

/// Returns true if a mapping of a program has this build-id, which was read before.
fn is_read(here: &Here, name: &str, build_id: Option<BuildId>) -> bool {
    let mut is_read = false;
    for_each_mapping(here, "perf.data", |_, mapped| {
        let known = mapped.identity == build_id.map(MmapIdentity::BuildId);
        is_read |= known && mapped.path.ends_with(name.as_bytes());
    });
    is_read
}

/// Returns file names of executable mappings, with their build-ids.
fn identified(here: &Here) -> BTreeSet<(String, Option<BuildId>)> {
    let mut table = None;
    let mut found = BTreeSet::new();
    for_each_mapping(here, "perf.data", |data, mapped| {
        let table = table.get_or_insert_with(|| -> BTreeMap<String, BuildId> {
            let all = data.features().inode_build_ids();
            all.into_iter()
                .map(|(of, id)| (format!("{of:?}"), id))
                .collect()
        });
        let path = String::from_utf8_lossy(&mapped.path);
        let Some(identity) = mapped
            .identity
            .filter(|_| path.starts_with('/') && path != "//anon")
        else {
            return;
        };
        let build_id = match identity {
            MmapIdentity::BuildId(id) => Some(id),
            inode => table.get(&format!("{inode:?}")).copied(),
        };
        let name = path.trim_end_matches(" (deleted)").rsplit('/').next();
        found.insert((name.unwrap_or_default().to_owned(), build_id));
    });
    found
}

/// The command, existing processes, a container, and a deleted file.
#[test]
fn everything_that_is_mapped_has_its_build_id() {
    needs!(Root, PerfEvents);
    let with = |id: &str| c_with("shares.c", &[&format!("-Wl,--build-id=0x{id}")]);
    let wanted = ["11111111", "22222222", "33333333"].map(|id| (with(id), id));
    let [(one, _), (other, _), (deleted, _)] = &wanted;
    let all = (0..rounds()).flat_map(|_| ["", "-g", "-a", "--keep none"]);
    for options in all {
        let here = Here::new();
        let program = here.copy(one, "program");
        let script = "\"$0\" 0.1; exec unshare -m sh -c \"$3\" sh \"$1\" \"$2\"";
        let record = here.rprof("record -q -e cpu-clock -F 499").words(options);
        let record = record.words("-- sh -c").arg(script).arg(program);
        let record = record.arg(other).arg(deleted).arg(CONTAINER).start();
        // Files are read in the order of their mappings.
        wait_until("the files are read", || {
            is_read(&here, "/mnt/program", BuildId::new(&[0x22; 4]))
        });
        std::fs::write(here.path("enough"), "").unwrap();
        record.end().exits(0);
        let found = identified(&here);
        for (name, id) in [("program", 0x11), ("program", 0x22), ("deleted", 0x33)] {
            let id = BuildId::new(&[id; 4]);
            assert!(
                found.contains(&(name.to_owned(), id)),
                "{options}: {name} in {found:?}"
            );
        }
        let without: Vec<_> = found.iter().filter(|(_, id)| id.is_none()).collect();
        println!(
            "{options:?}: {} images, {} without build-id",
            found.len(),
            without.len()
        );
        // System-wide, some mappings may have none.
        assert!(
            options == "-a" || without.is_empty(),
            "{options}: {without:?} in {found:?}"
        );
    }
}
