//! Session target from the arguments.

use std::collections::BTreeSet;
use std::process::Command;

use rprof_export::clean::brief;
use rprof_launch::Target;
use rprof_launch::procfs::Procfs;
use rprof_profile::unit::counted_are;
use rprof_sampler::SessionBuilder;

use crate::cli::TargetArgs;
use crate::wording::messages::Failure;

impl TargetArgs {
    pub(crate) fn apply(&self, builder: SessionBuilder) -> Result<SessionBuilder, Failure> {
        Ok(builder.target(self.target()?).cpus(self.cpu_list()))
    }

    pub(crate) fn cpu_list(&self) -> Vec<u32> {
        self.cpus
            .as_ref()
            .map(|list| list.0.clone())
            .unwrap_or_default()
    }

    /// Returns the target.
    ///
    /// # Errors
    ///
    /// Wrong usage: an impossible process or thread id, both processes and threads, or an unknown
    /// user.
    pub(crate) fn target(&self) -> Result<Target, Failure> {
        let usage = |message: String| Err(Failure::with_status(2, anyhow::anyhow!(message)));
        let mut ids = self.processes.iter().chain(&self.threads);
        if let Some(id) = ids.find(|id| id.cast_signed() <= 0) {
            let id = id.cast_signed();
            return usage(format!(
                "{id} is no running process or thread, and there is no FILE to read; `ps -eLf` \
                 lists running threads"
            ));
        }
        if !self.processes.is_empty() && !self.threads.is_empty() {
            return usage(
                "-p and -t cannot be combined: -p records processes with all their threads, -t \
                 records single threads"
                    .to_owned(),
            );
        }
        let target = if !self.processes.is_empty() {
            let mut pids = self.process_ids();
            if self.with_children {
                pids.extend(descendants(&Procfs::default(), &pids));
            }
            Target::Processes(pids)
        } else if !self.threads.is_empty() {
            Target::Threads(self.threads.clone())
        } else if let Some(user) = &self.user {
            Target::User(user_id(user)?)
        } else if !self.cgroups.is_empty() {
            Target::Cgroups(self.cgroups.clone())
        } else if self.all_cpus || self.cpus.is_some() {
            Target::System
        } else {
            Target::Command
        };
        Ok(target)
    }
}

impl TargetArgs {
    /// Returns the process ids to record, without duplicates. As in perf, -p accepts a thread id
    /// for its process.
    pub(crate) fn process_ids(&self) -> Vec<u32> {
        let proc = Procfs::default();
        let process = |id: &u32| proc.process_of(*id).unwrap_or(*id);
        let mut ids: Vec<u32> = self.processes.iter().map(process).collect();
        let mut seen = BTreeSet::new();
        ids.retain(|id| seen.insert(*id));
        ids
    }

    pub(crate) fn remarks(&self) -> Vec<String> {
        let proc = Procfs::default();
        let of_thread = |id: &u32| {
            let process = proc.process_of(*id).filter(|process| process != id)?;
            Some(format!(
                "{id} is a thread of process {}: all threads of the process are recorded; -t {id} selects the thread alone",
                named(&proc, process)
            ))
        };
        let threads = self.processes.iter().filter_map(of_thread);
        threads.chain(self.unrecorded_children()).collect()
    }

    /// Returns a remark on running children. As in perf, -p includes only children started later.
    fn unrecorded_children(&self) -> Option<String> {
        if self.with_children {
            return None;
        }
        let proc = Procfs::default();
        let pids = descendants(&proc, &self.process_ids());
        let some = pids.iter().take(MAX_NAMED);
        let mut some: Vec<String> = some.map(|pid| named(&proc, *pid)).collect();
        if pids.len() > some.len() {
            some.push("…".to_owned());
        }
        let what = match pids.len() {
            0 => return None,
            n => counted_are(n as u64, "earlier child process"),
        };
        Some(format!(
            "{what} not recorded: {}; --with-children includes them",
            some.join(", ")
        ))
    }
}

const MAX_NAMED: usize = 5;

fn named(proc: &Procfs, pid: u32) -> String {
    match proc.comm(pid, pid) {
        Some(comm) => format!("{pid} ({})", brief(&String::from_utf8_lossy(&comm))),
        None => pid.to_string(),
    }
}

/// Returns running descendants, ascending, without this process and its own.
fn descendants(proc: &Procfs, of: &[u32]) -> Vec<u32> {
    if of.is_empty() {
        return Vec::new();
    }
    let parents: Vec<(u32, u32)> = (proc.process_ids().into_iter())
        .filter_map(|pid| Some((pid, proc.stat(pid)?.parent)))
        .filter(|(pid, _)| *pid != std::process::id())
        .collect();
    let mut found: BTreeSet<u32> = of.iter().copied().collect();
    loop {
        let before = found.len();
        for (pid, parent) in &parents {
            if found.contains(parent) {
                found.insert(*pid);
            }
        }
        if found.len() == before {
            break;
        }
    }
    found.into_iter().filter(|pid| !of.contains(pid)).collect()
}

fn user_id(user: &str) -> Result<u32, Failure> {
    if let Ok(number) = user.parse() {
        return Ok(number);
    }
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let known = find(&passwd, user).or_else(|| {
        // Users from another source, such as LDAP.
        let asked = Command::new("getent").args(["passwd", "--", user]).output();
        find(&String::from_utf8_lossy(&asked.ok()?.stdout), user)
    });
    known.ok_or_else(|| {
        let message = format!("no user {user:?}; -u also takes a number, as `id -u` prints it");
        Failure::with_status(2, anyhow::anyhow!(message))
    })
}

/// Finds a user id in the text of passwd(5).
fn find(passwd: &str, user: &str) -> Option<u32> {
    let mut lines = passwd.lines().map(|line| line.split(':'));
    lines.find_map(|mut fields| match fields.next() == Some(user) {
        true => fields.nth(1)?.parse().ok(),
        false => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descendants_are_found_whatever_their_numbers() {
        let folder = tempfile::tempdir().unwrap();
        // 40 -> 7 -> 50, 40 -> 41; 9 has another parent.
        for (pid, parent) in [(40, 1), (7, 40), (50, 7), (41, 40), (9, 1)] {
            let process = folder.path().join(pid.to_string());
            std::fs::create_dir(&process).unwrap();
            let line = format!("{pid} (x) S {parent} {}\n", "1 ".repeat(40));
            std::fs::write(process.join("stat"), line).unwrap();
        }
        let proc = Procfs::new(folder.path());
        assert_eq!(descendants(&proc, &[40]), [7, 41, 50]);
        assert_eq!(descendants(&proc, &[7]), [50]);
        assert_eq!(descendants(&proc, &[9]), [0; 0]);
    }

    #[test]
    fn users_have_names_and_numbers() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\nbad\nnobody:x:65534:65534::/:/bin/false\n";
        assert_eq!(find(passwd, "nobody"), Some(65534));
        assert_eq!(find(passwd, "bad"), None);
        assert_eq!(find(passwd, "ro"), None);
        assert!(matches!(user_id("1234"), Ok(1234)));
        assert!(user_id("no such user").is_err());
    }
}
