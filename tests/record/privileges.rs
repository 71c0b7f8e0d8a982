//! Every target with every event at every privilege level: result, exit status, and messages.
//!
//! `--nocapture` prints the table. It changes kernel.perf_event_paranoid, and always restores it.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{
    Here, Report, Run, Running, Setting, Shell, c, change_settings, folded, needs,
};

const PARANOID: &str = "/proc/sys/kernel/perf_event_paranoid";

/// Uid of an unprivileged user.
const NOBODY: &str = "65534";

/// Repeats the closure if another process changed the setting meanwhile.
fn at_level<T>(setting: &Setting, level: Option<i32>, mut what: impl FnMut() -> T) -> T {
    let Some(level) = level.map(|level| level.to_string()) else {
        return what();
    };
    for _ in 0..20 {
        setting.set(&level);
        let result = what();
        if setting.get() == level {
            return result;
        }
    }
    panic!("somebody else keeps changing {PARANOID}");
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Root,
    Nobody(i32),
    /// A seccomp filter forbids perf_event_open.
    Denied,
}

impl Who {
    fn name(self) -> String {
        match self {
            Who::Root => "root".to_owned(),
            Who::Nobody(level) => format!("user at {level}"),
            Who::Denied => "user, seccomp".to_owned(),
        }
    }
}

const WHO: [Who; 6] = [
    Who::Root,
    Who::Nobody(0),
    Who::Nobody(1),
    Who::Nobody(2),
    Who::Nobody(3),
    Who::Denied,
];

/// `PID` stands for a process of the recording user.
const TARGETS: [&str; 8] = [
    "", "-p PID", "-t PID", "-u USER", "-a", "-C 0", "-G GROUP", "-i",
];

const EVENTS: [&str; 6] = [
    "",
    "-e cpu-clock",
    "-e cpu-clock:u",
    "-e page-faults",
    "-e cycles",
    "-e sched:sched_switch",
];

/// Folder of programs that all users can search and execute.
struct Programs {
    folder: tempfile::TempDir,
}

impl Programs {
    fn new() -> Programs {
        let folder = tempfile::tempdir().expect("a folder");
        let open = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        open(folder.path(), 0o755);
        let programs = [
            (PathBuf::from(env!("CARGO_BIN_EXE_rprof")), "rprof"),
            (c("deny.c"), "deny"),
            (c("shares.c"), "shares"),
            (c("endless.c"), "endless"),
        ];
        for (from, name) in programs {
            let to = folder.path().join(name);
            // Copied by another process: see `Here::copy`.
            let copied = Command::new("cp").arg(from).arg(&to).status();
            assert!(copied.expect("cp").success());
            open(&to, 0o755);
        }
        let out = folder.path().join("out");
        std::fs::create_dir(&out).unwrap();
        open(&out, 0o777);
        Programs { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn as_who(&self, here: &Here, who: Who) -> Shell {
        let shell = here.command("env").arg("-C").arg(self.path("out"));
        self.becoming(shell, who)
    }

    fn on_kernel(&self, here: &Here, kernel: &str, who: Who) -> Shell {
        let shell = here.command("env").arg("-C").arg(self.path("out"));
        self.becoming(shell.arg(c("kernel.c")).arg(kernel), who)
    }

    fn becoming(&self, shell: Shell, who: Who) -> Shell {
        let nobody = |shell: Shell| {
            let ids = format!("--reuid {NOBODY} --regid {NOBODY} --clear-groups --inh-caps=-all");
            shell.arg("setpriv").words(&ids)
        };
        match who {
            Who::Root => shell,
            Who::Nobody(_) => nobody(shell),
            Who::Denied => nobody(shell).arg(self.path("deny")),
        }
    }

    fn running(&self, here: &Here, who: Who) -> (Running, i32) {
        let mut running = self.as_who(here, who).arg(self.path("endless")).start();
        let pid = running.line().parse().expect("the number of a process");
        (running, pid)
    }
}

struct Outcome {
    run: Run,
    file: bool,
    samples: Option<u64>,
}

impl Outcome {
    fn of(here: &Here, programs: &Programs, who: Who, options: &str) -> Outcome {
        let file = programs.path("out/perf.data");
        std::fs::remove_file(&file).ok();
        std::fs::remove_file(programs.path("out/perf.data.old")).ok();
        let shell = programs.as_who(here, who).arg(programs.path("rprof"));
        let run = (shell.words("record -F 999 -g").words(options).arg("--"))
            .arg(programs.path("shares"))
            .arg("0.03")
            .run();
        let exists = file.exists();
        let samples = exists.then(|| {
            let header = here.rprof("header --format json -i").arg(&file).ok();
            let header: serde_json::Value = serde_json::from_slice(header.bytes()).unwrap();
            let quality = header["quality"]
                .as_array()
                .expect("what the recorder noted");
            let samples = quality.iter().find(|pair| pair[0] == "samples");
            samples
                .and_then(|pair| pair[1].as_str()?.parse().ok())
                .expect("a number")
        });
        Outcome {
            run,
            file: exists,
            samples,
        }
    }

    fn word(&self) -> String {
        let steps = self.run.err();
        let user_only = steps.contains("only user-mode code is sampled");
        match (self.run.code(), self.samples) {
            (Some(0), Some(n)) => {
                let few = if n == 0 { "no samples" } else { "ok" };
                format!("{few}{}", if user_only { ", user side" } else { "" })
            }
            (Some(code), _) => format!("{code}: {}", self.reason()),
            (None, _) => "killed".to_owned(),
        }
    }

    fn reason(&self) -> String {
        let said = self.run.err();
        let known = [
            ("seccomp", "seccomp, --cap-add PERFMON"),
            ("perf_event_paranoid=", "perf_event_paranoid, CAP_PERFMON"),
            ("perf_event_paranoid", "perf_event_paranoid"),
            ("has no such event", "no such event"),
            ("only root may read", "tracefs is for root"),
            ("tracefs", "tracefs"),
            ("not permitted", "not permitted"),
        ];
        let found = known.iter().find(|(text, _)| said.contains(text));
        match found {
            Some((_, word)) => (*word).to_owned(),
            None => said
                .lines()
                .last()
                .unwrap_or_default()
                .chars()
                .take(80)
                .collect(),
        }
    }
}

fn print(text: &str) {
    println!("{text}");
}

#[test]
fn waits_are_timed_without_stacks_where_the_kernel_is_not_to_be_seen() {
    needs!(PerfEvents, Root);
    let (here, programs) = (Here::new(), Programs::new());
    let _alone = change_settings();
    let setting = Setting::remember(PARANOID);
    let run = at_level(&setting, Some(2), || {
        let shell = (programs.as_who(&here, Who::Nobody(2))).arg(programs.path("rprof"));
        shell.words("record --off-cpu -- sleep 0.3").run()
    });
    run.exits(0)
        .says("waits have times but no stacks")
        .says("blocked");
    let report = here.rprof("report --off-cpu --format json -i");
    let report = Report::parse(&report.arg(programs.path("out/perf.data")).ok());
    let waits = report.only();
    assert!(waits.weight >= 300_000_000, "{run}");
    assert_eq!(waits.row("[stack not taken]").own, waits.weight);
    // If the kernel may be sampled, the stacks exist.
    let run = at_level(&setting, Some(1), || {
        let shell = (programs.as_who(&here, Who::Nobody(1))).arg(programs.path("rprof"));
        shell.words("record --off-cpu --wakers -- sleep 0.3").run()
    });
    run.exits(0)
        .says("of offcpu-time")
        .says("wakers are not recorded");
    let stacks = here.rprof("collapse --off-cpu -q -i");
    let stacks = folded(&stacks.arg(programs.path("out/perf.data")).ok());
    let without = |(stack, _): &(&String, &u64)| stack.ends_with("[stack not taken]");
    let (all, without): (u64, u64) = (
        stacks.values().sum(),
        (stacks.iter().filter(without)).map(|(_, ns)| ns).sum(),
    );
    assert!(all >= 300_000_000 && without < all / 2, "{stacks:?}\n{run}");
}

#[test]
fn doctor_is_right_on_other_kernels() {
    needs!(PerfEvents, Root, Tool("setpriv"));
    let (here, programs) = (Here::new(), Programs::new());
    let _alone = change_settings();
    let setting = Setting::remember(PARANOID);
    for kernel in ["4.18", "5.4", "5.10", "7.2"] {
        for who in [Who::Root, Who::Nobody(2), Who::Nobody(1)] {
            let level = match who {
                Who::Nobody(level) => Some(level),
                _ => None,
            };
            let rprof = |args: &str| {
                at_level(&setting, level, || {
                    let shell = programs.on_kernel(&here, kernel, who);
                    shell.arg(programs.path("rprof")).words(args).run()
                })
            };
            let of = format!("{} on {kernel}", who.name());
            let doctor = rprof("doctor");
            assert_eq!(doctor.code(), Some(0), "{of}: {doctor}");
            assert!(!doctor.out().contains("blocked"), "{of}: {doctor}");
            // Neighbours of the probe: other events with callchains, and other CPUs.
            for args in [
                "record -g -- true",
                "record --call-graph fp -e cpu-clock:u -- true",
                "record --off-cpu -e cpu-clock:u -- true",
                "record --off-cpu -C 0 -- true",
            ] {
                let by_cpu = args.contains("-C") && level.is_some_and(|level| level > 0);
                let run = rprof(args);
                assert_eq!(run.code() == Some(0), !by_cpu, "{of}: {run}");
                // Only `-v` and `doctor` mention a newer kernel.
                assert!(!run.err().contains("or newer has it"), "{of}: {run}");
            }
            let says_why = rprof("record -v -- true");
            assert_eq!(
                says_why.err().contains("or newer has it"),
                kernel != "7.2",
                "{says_why}"
            );
            assert_eq!(
                doctor.out().contains("kernel version"),
                kernel != "7.2",
                "{doctor}"
            );
        }
    }
}

#[test]
fn advice_names_the_capability_that_the_kernel_has() {
    needs!(PerfEvents, Root, Tool("setpriv"));
    let (here, programs) = (Here::new(), Programs::new());
    let _alone = change_settings();
    let setting = Setting::remember(PARANOID);
    // Kernels before 5.8 have 37.
    std::fs::write(here.path("37"), "37\n").unwrap();
    let old = "mount --bind \"$0\" /proc/sys/kernel/cap_last_cap && exec \"$@\"";
    for args in [
        "doctor",
        "record -a -- true",
        "record -p 1 -- true",
        "stat -a -- true",
    ] {
        let run = at_level(&setting, Some(2), || {
            let shell = here.command("unshare").words("-m sh -c").arg(old);
            let shell = shell
                .arg(here.path("37"))
                .arg("env")
                .arg("-C")
                .arg(programs.path("out"));
            let shell = programs.becoming(shell, Who::Nobody(2));
            shell.arg(programs.path("rprof")).words(args).run()
        });
        let told = format!("{}{}", run.out(), run.err()).to_lowercase();
        assert!(told.contains("sys_admin"), "{args}: {run}");
        assert!(!told.contains("perfmon"), "{args}: {run}");
    }
}

#[test]
fn every_target_event_and_privilege_is_recorded_or_refused_with_a_remedy() {
    needs!(PerfEvents, Root);
    let (here, programs) = (Here::new(), Programs::new());
    let _alone = change_settings();
    let setting = Setting::remember(PARANOID);
    print("| who | target | event | what comes of it |\n|---|---|---|---|");
    for who in WHO {
        let level = match who {
            Who::Root => None,
            Who::Nobody(level) => Some(level),
            Who::Denied => Some(2),
        };
        let (running, pid) = programs.running(&here, who);
        for target in TARGETS {
            let user = if who == Who::Root { "0" } else { NOBODY };
            let options = target
                .replace("PID", &pid.to_string())
                .replace("USER", user);
            let options = options.replace("GROUP", "/");
            for event in EVENTS {
                let options = format!("{options} {event}");
                let outcome = at_level(&setting, level, || {
                    Outcome::of(&here, &programs, who, &options)
                });
                check(who, target, event, &outcome);
                let target = if target.is_empty() { "COMMAND" } else { target };
                let event = if event.is_empty() {
                    "(none given)"
                } else {
                    event
                };
                print(&format!(
                    "| {} | `{target}` | `{event}` | {} |",
                    who.name(),
                    outcome.word()
                ));
            }
        }
        kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).ok();
        running.end();
    }
}

/// Checks conditions for every table cell, and for this one.
fn check(who: Who, target: &str, event: &str, outcome: &Outcome) {
    let run = &outcome.run;
    let of = format!("{} {target} {event}", who.name());
    match run.code() {
        Some(0) => assert!(outcome.file, "{of}: no file by\n{run}"),
        Some(1 | 2) => {
            assert!(!outcome.file, "{of}: a file is left by\n{run}");
            assert!(
                run.err().lines().count() <= 4,
                "{of}: one message is enough: {run}"
            );
        }
        _ => panic!("{of}: {run}"),
    }
    let refused = run.code() != Some(0);
    let own = matches!(target, "" | "-p PID" | "-t PID" | "-i" | "-u USER");
    let clock = matches!(event, "" | "-e cpu-clock" | "-e cpu-clock:u");
    match who {
        // This machine may lack hardware events.
        Who::Root if event != "-e cycles" && event != "-e sched:sched_switch" => {
            assert!(!refused || target == "-G GROUP", "{of}: {run}");
        }
        Who::Nobody(0..=2) if own && clock => assert!(!refused, "{of}: {run}"),
        // Programs of other users need privileges.
        Who::Nobody(1..) if !own && clock => {
            assert!(refused, "{of}: {run}");
            let said = run.err();
            assert!(
                said.contains("perf_event_paranoid") && said.contains("CAP_PERFMON"),
                "{of}: {run}"
            );
        }
        Who::Denied => {
            assert!(refused, "{of}: {run}");
            let early = event == "-e sched:sched_switch" || target == "-G GROUP";
            // Without the permission, the message says so. Otherwise it names the sandbox.
            let told = if own { "seccomp" } else { "CAP_PERFMON" };
            assert!(early || run.err().contains(told), "{of}: {run}");
        }
        _ => {}
    }
    if own && clock && !refused {
        let user_side = matches!(who, Who::Nobody(2..)) && event != "-e cpu-clock:u";
        let told = run.err().contains("only user-mode code is sampled");
        assert_eq!(told, user_side, "{of}: {run}");
    }
}
