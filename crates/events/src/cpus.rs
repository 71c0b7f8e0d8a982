//! Online CPUs, and lists of CPUs as text.
//!
//! The list comes from sysfs. A processor count depends on this process's affinity mask and cgroup,
//! so a profiler started under `taskset -c 2,3` would profile CPUs 0 and 1, and see nothing.

use std::path::Path;

/// List of online CPUs (`Documentation/admin-guide/cputopology.rst`).
const ONLINE: &str = "/sys/devices/system/cpu/online";

/// The kernel's `NR_CPUS` is at most 8192.
const MAX_CPU: u32 = 1 << 16;

/// Failure to get a list of CPUs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CpuListError {
    /// The file could not be read.
    #[error("cannot read the list of online CPUs, {path}: {source}; is /sys mounted?")]
    Read {
        /// Path of the file.
        path: String,
        /// Error of the system.
        source: std::io::Error,
    },
    /// A selected CPU is missing or offline.
    #[error("cannot open events on CPU {cpu}: online CPUs are {online}")]
    Offline {
        /// First such CPU.
        cpu: u32,
        /// Online CPUs, as text.
        online: String,
    },
    /// The text is not a list of CPU numbers and ranges.
    #[error("`{text}` is not a list of CPU numbers such as 0-3,8")]
    Malformed {
        /// The text, truncated to 100 characters.
        text: String,
    },
}

/// Returns the CPUs online now, ascending.
///
/// # Errors
/// Returns [`CpuListError::Read`] if sysfs is missing, [`CpuListError::Malformed`] if the file
/// contains no list.
pub fn online() -> Result<Vec<u32>, CpuListError> {
    let text = std::fs::read_to_string(Path::new(ONLINE)).map_err(|source| CpuListError::Read {
        path: ONLINE.to_owned(),
        source,
    })?;
    parse_list(&text)
}

/// Returns the wanted CPUs, ascending and without duplicates; all online CPUs if `wanted` is empty.
///
/// # Errors
/// Returns [`CpuListError::Offline`] if one is not online, and the errors of [`online`].
pub fn select(wanted: &[u32]) -> Result<Vec<u32>, CpuListError> {
    let online = online()?;
    if wanted.is_empty() {
        return Ok(online);
    }
    if let Some(cpu) = wanted.iter().find(|cpu| !online.contains(cpu)) {
        let online: Vec<String> = online.iter().map(u32::to_string).collect();
        return Err(CpuListError::Offline {
            cpu: *cpu,
            online: online.join(","),
        });
    }
    let mut wanted = wanted.to_vec();
    wanted.sort_unstable();
    wanted.dedup();
    Ok(wanted)
}

/// Parses a kernel CPU list such as `0-3,8,10-11`. Returns the CPUs ascending, without duplicates.
///
/// # Examples
/// ```
/// assert_eq!(rprof_events::cpus::parse_list("4,0-1")?, [0, 1, 4]);
/// # Ok::<(), rprof_events::cpus::CpuListError>(())
/// ```
///
/// # Errors
/// Returns [`CpuListError::Malformed`] for any other text, including an empty list.
pub fn parse_list(text: &str) -> Result<Vec<u32>, CpuListError> {
    let malformed = || CpuListError::Malformed {
        text: text.trim().chars().take(100).collect(),
    };
    let number = |text: &str| match text.parse::<u32>() {
        Ok(cpu) if cpu <= MAX_CPU && !text.starts_with('+') => Ok(cpu),
        _ => Err(malformed()),
    };
    let mut cpus = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = match part.split_once('-') {
            Some((first, last)) => (number(first)?, number(last)?),
            None => (number(part)?, number(part)?),
        };
        if first > last {
            return Err(malformed());
        }
        cpus.extend(first..=last);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Ok(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_have_ranges_and_single_numbers() {
        assert_eq!(parse_list("0\n").unwrap(), [0]);
        assert_eq!(parse_list("0-3\n").unwrap(), [0, 1, 2, 3]);
        assert_eq!(parse_list("0-1,4,6-7").unwrap(), [0, 1, 4, 6, 7]);
        assert_eq!(parse_list("4,0-1,1").unwrap(), [0, 1, 4]);
    }

    #[test]
    fn text_that_is_no_list_is_an_error() {
        for text in [
            "",
            "\n",
            "a",
            "1-",
            "-1",
            "3-1",
            "0,,1",
            "0-99999999",
            "+1",
            "0 1",
        ] {
            assert!(parse_list(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn cpus_that_are_not_online_are_refused() {
        let online = online().unwrap();
        assert_eq!(select(&[]).unwrap(), online);
        assert_eq!(select(&[online[0], online[0]]).unwrap(), [online[0]]);
        let error = select(&[online[0], MAX_CPU]).unwrap_err();
        assert!(error.to_string().contains("CPU 65536"), "{error}");
    }

    #[test]
    fn this_machine_has_a_cpu() {
        assert!(!online().unwrap().is_empty());
    }
}
