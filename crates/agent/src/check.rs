//! Findings of `rprof-agent check`.

use std::collections::BTreeMap;

use rprof_export::clean::clean;
use rprof_fleet_table::rows::Identity;
use rprof_launch::procfs::Procfs;
use rprof_perf_event::remedy::paranoid_text;
use rprof_perf_event::{Capability, Limits, Remedy};
use rprof_profile::unit::counted;
use rprof_sampler::{OpenEventsError, SessionError};

use crate::agent::host_name;
use crate::config::Config;
use crate::destination::WindowDestination;
use crate::identity::{Pods, ProcessFacts, identity_of};
use crate::live::session;

/// Result of one test of the machine or the configuration: what works, or what fails and how to fix
/// it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckFinding {
    /// Subject of the check.
    pub what: String,
    /// State, or the fault with its remedy.
    pub result: Result<String, String>,
}

/// Workloads and the number of processes of each.
pub type Workloads = BTreeMap<Identity, usize>;

/// Checks permissions, the spool and the destinations. Opens events and closes them again. Sends no
/// data.
pub fn check(config: &Config) -> Vec<CheckFinding> {
    let mut findings = vec![CheckFinding {
        what: "host".to_owned(),
        result: Ok(host_name(config)),
    }];
    let opened = session(config.sample.rate, true).attach();
    let opened = opened.or_else(|_| session(config.sample.rate, false).attach());
    findings.push(CheckFinding {
        what: "recording".to_owned(),
        result: match opened {
            Ok(session) => Ok(counted(session.cpus().len() as u64, "CPU")),
            Err(SessionError::Open(OpenEventsError::Event(refused)))
                if matches!(
                    refused.remedy,
                    Remedy::WholeCpus { .. } | Remedy::Permission { .. }
                ) =>
            {
                Err(format!(
                    "{}; run the agent as root, or with the capabilities {}, CAP_SYS_PTRACE and \
                     CAP_SYSLOG ({})",
                    refused.what_failed(),
                    Capability::of_this_kernel(),
                    paranoid_text(Limits::read().paranoid)
                ))
            }
            Err(error) => Err(error.to_string()),
        },
    });
    let folder = &config.spool.folder;
    findings.push(CheckFinding {
        what: format!("spool {}", folder.display()),
        result: check_spool(config),
    });
    for to in &config.to {
        let probed = WindowDestination::new(to).and_then(|destination| destination.probe());
        findings.push(CheckFinding {
            what: format!("to {} ({})", to.name(), to.kind.name()),
            result: probed,
        });
    }
    findings
}

fn check_spool(config: &Config) -> Result<String, String> {
    let folder = &config.spool.folder;
    let existing = folder.ancestors().find(|path| path.exists());
    let existing = existing.ok_or("no part of the path exists")?;
    rustix::fs::access(existing, rustix::fs::Access::WRITE_OK)
        .map_err(|error| format!("{} is not writable: {error}", existing.display()))?;
    let free = crate::spool::free_percent(existing).unwrap_or(100.0);
    if free < config.spool.min_free_percent {
        return Err(format!(
            "only {free:.1} % of the disk is free, below spool.min-free-percent ({}): no window \
             would be stored",
            config.spool.min_free_percent
        ));
    }
    Ok(format!("writable; {free:.0} % of the disk is free"))
}

/// Returns the workloads of the running processes, with the names that samples get, without
/// build-ids.
pub fn workloads(config: &Config) -> Workloads {
    let proc = Procfs::default();
    let mut reader = ProcessFacts::new(config.identity.service_from_env);
    let mut pods = Pods::new(&config.identity.pods);
    let mut workloads = Workloads::new();
    for pid in proc.process_ids() {
        let Some(facts) = i32::try_from(pid).ok().and_then(|pid| reader.read(pid)) else {
            continue;
        };
        let comm = proc.comm(pid, pid).unwrap_or_default();
        let comm = String::from_utf8_lossy(&comm);
        let pod = facts.cgroup.pod.as_deref().and_then(|uid| pods.find(uid));
        let identity = identity_of(&config.identity.rule, &facts, &comm, pod.as_ref(), None);
        *workloads.entry(identity).or_default() += 1;
    }
    workloads
}

/// Formats findings and workloads for a terminal. Names have no control characters.
pub fn text(findings: &[CheckFinding], workloads: &Workloads) -> String {
    let mut lines: Vec<String> = (findings.iter())
        .map(|finding| {
            let (state, words) = match &finding.result {
                Ok(words) => ("ok", words),
                Err(words) => ("FAILED", words),
            };
            format!("{state:<8}{}: {words}", finding.what)
        })
        .collect();
    lines.extend([String::new(), "running processes by workload:".to_owned()]);
    lines.extend(workloads.iter().map(|(identity, count)| {
        let facts = [
            ("version", &identity.version),
            ("namespace", &identity.namespace),
            ("pod", &identity.pod),
            ("container", &identity.container_id),
        ];
        let facts = facts.iter().filter_map(|(name, value)| {
            let value = value.as_ref()?;
            Some(format!("  {name}={value}"))
        });
        format!(
            "{count:>6}  {}{}",
            identity.service,
            facts.collect::<String>()
        )
    }));
    let lines = lines.iter().map(|line| clean(line).into_owned() + "\n");
    lines.collect()
}
