//! Describes a recording from its header: subject, host and time.

use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};

use rprof_perfdata::{Feature, PerfData};
use rprof_records::{ProcessEvent, RecordType};

/// Returns the recorded subject: the command, `NAME (pid N)`, or `whole system on HOST`. Empty if
/// unknown.
pub(crate) fn subject(data: &PerfData) -> String {
    let line = data.features().command_line().unwrap_or_default();
    match Target::of(&line) {
        Some(target) => target.describe(data),
        None => recorded_command(&line).join(" "),
    }
}

/// Returns true if the recording covers a command from start to exit.
pub(crate) fn is_of_command(data: &PerfData) -> bool {
    let line = data.features().command_line().unwrap_or_default();
    let is_timed = |word: &String| word == "-d" || word.starts_with("--duration");
    let own = line.iter().take_while(|word| *word != "--");
    Target::of(&line).is_none() && !line.is_empty() && !own.skip(2).any(is_timed)
}

pub(crate) fn place_and_time(data: &PerfData) -> Vec<String> {
    let host = data.features().string(Feature::HOSTNAME);
    let mut parts: Vec<String> = host.map(|host| format!("on {host}")).into_iter().collect();
    let clocks = data.features().clock_data();
    if let (Some(clocks), Some((first, _))) = (clocks, data.features().sample_time()) {
        let wall = clocks.wall_time(first);
        parts.extend(wall.map(|wall| utc(wall / 1_000_000_000)));
    }
    parts
}

/// Returns machine, kernel, recorder and command line, as name and value.
pub(crate) fn facts(data: &PerfData) -> Vec<(String, String)> {
    let features = data.features();
    let processors = features.cpu_counts().map(|(_, online)| online.to_string());
    let command = features.command_line().map(|line| line.join(" "));
    let facts = [
        ("host", features.string(Feature::HOSTNAME)),
        ("processor", features.string(Feature::CPUDESC)),
        ("CPUs", processors),
        ("kernel", features.string(Feature::OSRELEASE)),
        ("architecture", features.string(Feature::ARCH)),
        ("recorded by", features.string(Feature::VERSION)),
        ("command line", command),
    ];
    let facts = facts.into_iter();
    facts
        .filter_map(|(name, fact)| Some((name.to_owned(), fact?)))
        .collect()
}

pub(crate) fn in_common(places: &[Vec<String>]) -> Vec<String> {
    let Some((first, others)) = places.split_first() else {
        return Vec::new();
    };
    let is_everywhere = |part: &&String| others.iter().all(|place| place.contains(*part));
    first.iter().filter(is_everywhere).cloned().collect()
}

/// Formats seconds since 1970 as `2026-11-22 17:05 UTC`.
pub(crate) fn utc(seconds: u64) -> String {
    let text = rfc_3339(seconds).replace('T', " ");
    let minutes = text.rsplit_once(':').map_or(&*text, |(minutes, _)| minutes);
    format!("{minutes} UTC")
}

/// Formats seconds since 1970 by RFC 3339: `2026-01-31T23:59:58Z`. The last date is that of the
/// year 9999.
pub(crate) fn rfc_3339(seconds: u64) -> String {
    const LAST: u64 = 253_402_300_799;
    let time = UNIX_EPOCH + Duration::from_secs(seconds.min(LAST));
    humantime::format_rfc3339_seconds(time).to_string()
}

/// Recorded target other than a command.
#[derive(Debug, PartialEq, Eq)]
enum Target {
    System,
    Processes(Vec<String>),
    Threads(Vec<String>),
    Cpus(String),
    Cgroup(String),
    User(String),
}

/// Short options of `perf record` and `rprof record` with a value.
const WITH_VALUE: &str = "FcemoDptuGCMr";

impl Target {
    /// Finds the target in a recorder's command line. A command beside it only sets the duration.
    fn of(line: &[String]) -> Option<Target> {
        let mut target = None;
        let words = line.iter().skip(2).take_while(|word| *word != "--");
        let mut words = words.peekable();
        let mut after_long = false;
        while let Some(word) = words.next() {
            let is_command = !word.starts_with('-') && !after_long;
            after_long = word.starts_with("--") && !word.contains('=');
            if is_command {
                // A command without `--`.
                break;
            }
            let (flag, value) = match word.strip_prefix("--") {
                Some(long) => match long.split_once('=') {
                    Some((name, value)) => (letter(name), Some(value.to_owned())),
                    None => (letter(long), None),
                },
                None => match word.strip_prefix('-') {
                    // The first letter with a value ends a cluster: `-agp12`.
                    Some(cluster) => match cluster.find(|c| WITH_VALUE.contains(c)) {
                        Some(at) => {
                            let (flags, last) = cluster.split_at(at);
                            if flags.contains('a') {
                                target.get_or_insert(Target::System);
                            }
                            let value = Some(&last[1..]).filter(|value| !value.is_empty());
                            (last.chars().next(), value.map(str::to_owned))
                        }
                        None => (cluster.chars().find(|c| *c == 'a'), None),
                    },
                    // Unknown option.
                    None => continue,
                },
            };
            let takes_value = flag.is_some_and(|flag| WITH_VALUE.contains(flag));
            let value = match value {
                None if takes_value => {
                    after_long = false;
                    let is_value = |word: &&String| !word.starts_with('-') || *word == "-";
                    words.next_if(is_value).cloned().unwrap_or_default()
                }
                value => value.unwrap_or_default(),
            };
            let list = || value.split(',').map(str::to_owned).collect();
            let found = match flag {
                Some('a') => Target::System,
                Some('p') => Target::Processes(list()),
                Some('t') => Target::Threads(list()),
                Some('C') => Target::Cpus(value),
                Some('G') => Target::Cgroup(value),
                Some('u') => Target::User(value),
                _ => continue,
            };
            // -a may be combined with a narrower target.
            match (&target, &found) {
                (None | Some(Target::System), _) => target = Some(found),
                (Some(Target::Cpus(_)), Target::System) => {}
                (Some(Target::Cpus(_)), _) => target = Some(found),
                _ => {}
            }
        }
        target
    }

    fn describe(&self, data: &PerfData) -> String {
        let host = data.features().string(Feature::HOSTNAME);
        let on_host = host.map_or_else(String::new, |host| format!(" on {host}"));
        match self {
            Target::System => format!("whole system{on_host}"),
            Target::Processes(pids) => {
                let names = process_names(data, pids);
                named("pid", pids, |pid| names.get(pid).cloned())
            }
            Target::Threads(tids) => named("thread", tids, |_| None),
            Target::Cpus(cpus) => format!("CPU {cpus}{on_host}"),
            Target::Cgroup(cgroup) => format!("cgroup {cgroup}{on_host}"),
            Target::User(user) => format!("processes of {user}{on_host}"),
        }
    }
}

fn letter(long: &str) -> Option<char> {
    Some(match long {
        "all-cpus" => 'a',
        "pid" => 'p',
        "tid" => 't',
        "cpu" => 'C',
        "cgroup" => 'G',
        "uid" => 'u',
        _ => return None,
    })
}

/// Lists tasks grouped by name: `nginx (pid 7, 8)`.
fn named(what: &str, tasks: &[String], name: impl Fn(&str) -> Option<String>) -> String {
    let mut by_name: Vec<(Option<String>, Vec<&str>)> = Vec::new();
    for task in tasks {
        let name = name(task);
        match by_name.iter_mut().find(|(known, _)| *known == name) {
            Some((_, tasks)) => tasks.push(task),
            None => by_name.push((name, vec![task])),
        }
    }
    let shown = by_name.into_iter().map(|(name, tasks)| match name {
        Some(name) => format!("{name} ({what} {})", tasks.join(", ")),
        None => format!("{what} {}", tasks.join(", ")),
    });
    shown.collect::<Vec<_>>().join(", ")
}

/// Returns names of existing processes, whose records precede the first sample.
fn process_names(data: &PerfData, pids: &[String]) -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    for block in data.blocks().map_while(Result::ok) {
        for walked in block.walk() {
            let record = walked.record;
            if record.kind == RecordType::SAMPLE {
                return names;
            }
            if record.kind != RecordType::COMM {
                continue;
            }
            let event = ProcessEvent::decode(&record, data.events().layout_of(&record));
            let (pid, tid, name) = match event {
                Ok(Some(
                    ProcessEvent::Renamed { pid, tid, name }
                    | ProcessEvent::Executed { pid, tid, name },
                )) => (pid, tid, name),
                _ => continue,
            };
            let pid_text = pid.to_string();
            if pid == tid && pids.contains(&pid_text) {
                names.insert(pid_text, String::from_utf8_lossy(&name).into_owned());
            }
        }
    }
    names
}

fn recorded_command(line: &[String]) -> &[String] {
    let mut parts = line.splitn(2, |word| word == "--");
    match parts.nth(1) {
        Some(command) if !command.is_empty() => command,
        _ => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn the_recorded_command_stands_behind_two_dashes() {
        let line = words("perf record -g -- make -j2 -- all");
        assert_eq!(recorded_command(&line).join(" "), "make -j2 -- all");
        // Without `--`, options and the command cannot be separated.
        for line in [words("perf record make"), words("perf record -p 1 --")] {
            assert_eq!(recorded_command(&line), line);
        }
        assert!(recorded_command(&[]).is_empty());
    }

    #[test]
    fn targets_are_found_among_options() {
        let list = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
        for (line, expected) in [
            ("perf record -g -- make -a", None),
            ("perf record -g make", None),
            (
                "rprof record -F 99 -p 12,13 -d 5",
                Some(Target::Processes(list("12,13"))),
            ),
            ("rprof record --pid=12", Some(Target::Processes(list("12")))),
            ("perf record -agF99 -- sleep 5", Some(Target::System)),
            ("perf record -ag -e cycles", Some(Target::System)),
            ("perf record -a -C 0-1", Some(Target::Cpus("0-1".into()))),
            ("perf record -C 0-1 -a", Some(Target::Cpus("0-1".into()))),
            ("perf record -gt 4", Some(Target::Threads(list("4")))),
            ("perf record -e branches -o - make -a", None),
            ("perf record --call-graph dwarf -a", Some(Target::System)),
            ("perf record -d -a", Some(Target::System)),
            (
                "rprof record -u www-data",
                Some(Target::User("www-data".into())),
            ),
            ("rprof record -G web --", Some(Target::Cgroup("web".into()))),
            ("rprof record -p", Some(Target::Processes(list("")))),
        ] {
            assert_eq!(Target::of(&words(line)), expected, "{line}");
        }
    }

    #[test]
    fn processes_of_one_name_are_listed_together() {
        let tasks = ["7", "9", "8"].map(str::to_owned);
        let name = |task: &str| (task != "9").then(|| "nginx".to_owned());
        assert_eq!(named("pid", &tasks, name), "nginx (pid 7, 8), pid 9");
    }

    #[test]
    fn several_recordings_are_of_the_place_that_all_have() {
        let place = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
        let both = [place("on a,2026"), place("on a,2027")];
        assert_eq!(in_common(&both), ["on a"]);
        assert_eq!(in_common(&both[..1]), both[0]);
        assert!(in_common(&[]).is_empty());
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, expected) in [
            (0, "1970-01-01 00:00 UTC"),
            (951_782_399, "2000-02-28 23:59 UTC"),
            (951_782_400, "2000-02-29 00:00 UTC"),
            (1_767_225_599, "2025-12-31 23:59 UTC"),
            (4_107_542_400, "2100-03-01 00:00 UTC"),
        ] {
            assert_eq!(utc(seconds), expected);
        }
        assert_eq!(rfc_3339(1_700_000_000), "2023-11-14T22:13:20Z");
        assert_eq!(rfc_3339(u64::MAX), "9999-12-31T23:59:59Z");
    }
}
