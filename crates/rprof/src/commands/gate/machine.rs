//! [`Machine`]: properties of a machine that affect amounts.

use std::io::ErrorKind;
use std::path::Path;

use anyhow::Context;
use rprof_profile::unit::counted;
use serde::{Deserialize, Serialize};

use crate::terminal::output::write_to;
use crate::wording::messages::Failure;

/// Properties of a machine that change a program's CPU time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Machine {
    /// Processor model.
    cpu: String,
    cpus: usize,
    /// Frequency governors; `none` if the system does not set them.
    governor: String,
    kernel: String,
    /// Hypervisor or container; `none` on bare metal.
    virtualization: String,
}

impl Machine {
    pub(super) fn here() -> Machine {
        let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        Machine {
            cpu: cpu_model(&cpuinfo).unwrap_or_else(|| "unknown".into()),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            governor: governors().unwrap_or_else(|| "none".into()),
            kernel: line("/proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".into()),
            virtualization: virtualization(&cpuinfo),
        }
    }

    /// Reads a machine file; `None` if there is none, as beside recordings of `rprof record`.
    ///
    /// # Errors
    /// The file is unreadable, or does not describe a machine. Then amounts may not compare.
    pub(super) fn read(path: &Path) -> Result<Option<Machine>, Failure> {
        let text = match std::fs::read(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            text => text.with_context(|| format!("cannot read {}", path.display()))?,
        };
        let unclear = |error| {
            let message = format!(
                "cannot compare: {} does not describe a machine ({error}). Record the base again, \
                 or delete this file if the base is of this machine",
                path.display()
            );
            Failure::with_status(2, anyhow::anyhow!(message))
        };
        serde_json::from_slice(&text).map(Some).map_err(unclear)
    }

    pub(super) fn write(&self, path: &Path) -> Result<(), Failure> {
        write_to(path, |out| {
            serde_json::to_writer_pretty(&mut *out, self)?;
            Ok(writeln!(out)?)
        })
    }

    /// Returns the differences, each as `kernel 6.1, here 6.2`.
    pub(super) fn differences(&self, here: &Machine) -> Vec<String> {
        let pairs = [
            ("processor", self.cpu.clone(), here.cpu.clone()),
            ("CPUs", self.cpus.to_string(), here.cpus.to_string()),
            ("governor", self.governor.clone(), here.governor.clone()),
            ("kernel", self.kernel.clone(), here.kernel.clone()),
            (
                "virtualization",
                self.virtualization.clone(),
                here.virtualization.clone(),
            ),
        ];
        (pairs.into_iter().filter(|(_, there, here)| there != here))
            .map(|(what, there, here)| format!("{what} {there}, here {here}"))
            .collect()
    }

    /// Returns a folder name for this machine, of letters, digits, dots and dashes.
    pub(super) fn name(&self) -> String {
        let text = format!(
            "{}-{}cpus-{}-{}-{}",
            self.cpu,
            counted(self.cpus as u64, "CPU"),
            self.governor,
            self.virtualization,
            self.kernel
        );
        let mut name = String::new();
        for c in text.chars() {
            match c.is_ascii_alphanumeric() || c == '.' {
                true => name.push(c.to_ascii_lowercase()),
                false if !name.is_empty() && !name.ends_with('-') => name.push('-'),
                false => {}
            }
        }
        name.chars().take(200).collect()
    }

    pub(super) fn describe(&self) -> String {
        format!(
            "{}, {}, governor {}, virtualization {}, kernel {}",
            self.cpu,
            counted(self.cpus as u64, "CPU"),
            self.governor,
            self.virtualization,
            self.kernel
        )
    }
}

fn line(path: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    Some(text.lines().next()?.trim().to_owned()).filter(|line| !line.is_empty())
}

fn cpu_model(cpuinfo: &str) -> Option<String> {
    let is_model = |line: &&str| {
        ["model name", "cpu model", "CPU part"]
            .iter()
            .any(|key| line.starts_with(key))
    };
    let line = cpuinfo.lines().find(is_model)?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn governors() -> Option<String> {
    let mut found: Vec<String> = (std::fs::read_dir("/sys/devices/system/cpu").ok()?.flatten())
        .filter_map(|entry| line(entry.path().join("cpufreq/scaling_governor").to_str()?))
        .collect();
    found.sort();
    found.dedup();
    (!found.is_empty()).then(|| found.join("+"))
}

fn virtualization(cpuinfo: &str) -> String {
    let mut found = Vec::new();
    let is_guest = cpuinfo
        .lines()
        .any(|line| line.starts_with("flags") && line.contains(" hypervisor"));
    let vendor = line("/sys/hypervisor/type").or_else(|| line("/sys/class/dmi/id/sys_vendor"));
    match vendor.filter(|_| is_guest) {
        Some(vendor) => found.push(vendor),
        None if is_guest => found.push("hypervisor".into()),
        None => {}
    }
    for (path, name) in [("/.dockerenv", "docker"), ("/run/.containerenv", "podman")] {
        if Path::new(path).exists() {
            found.push(name.into());
        }
    }
    match found.is_empty() {
        true => "none".into(),
        false => found.join("+"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_known_again_and_another_is_told_apart() {
        let here = Machine::here();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("machine.json");
        assert!(here.write(&path).is_ok());
        assert_eq!(Machine::read(&path).ok().flatten().as_ref(), Some(&here));
        assert!(here.differences(&here).is_empty());
        let other = Machine {
            cpu: "Z80 @ 4 MHz/../x".into(),
            cpus: here.cpus + 1,
            ..here.clone()
        };
        let differences = other.differences(&here);
        assert_eq!(differences.len(), 2, "{differences:?}");
        assert!(differences[0].starts_with("processor Z80 @ 4 MHz/../x, here "));
        assert!(other.name() != here.name() && other.name().starts_with("z80-4-mhz-..-x-"));
        assert!(!other.name().contains('/'));
        std::fs::write(&path, "{}").unwrap();
        assert!(Machine::read(&path).is_err());
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(Machine::read(&path), Ok(None)));
    }
}
