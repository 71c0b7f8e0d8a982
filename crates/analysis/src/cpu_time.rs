//! CPU time of a recording, from its private notes.

use std::time::Duration;

use rprof_profile::CpuTime;

/// Returns the CPU time that a recording tells of; `None` if it does not.
pub(crate) fn cpu_time(notes: &[(String, String)]) -> Option<CpuTime> {
    let number = |name: &str| {
        let mut notes = notes.iter();
        let (_, value) = notes.find(|(key, _)| key.strip_prefix("cpu.") == Some(name))?;
        value.parse::<u64>().ok()
    };
    let time = |name| number(name).map(Duration::from_nanos);
    Some(CpuTime {
        used: time("used.ns")?,
        sampled: time("sampled.ns"),
        period: time("period.ns")?,
        wall: time("wall.ns"),
        tasks: number("tasks")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_told_is_not_known() {
        let notes = |text: &str| -> Vec<(String, String)> {
            let pairs = text.split(' ').filter_map(|pair| pair.split_once('='));
            pairs.map(|(k, v)| (k.into(), v.into())).collect()
        };
        let all = "samples=3 cpu.used.ns=100 cpu.period.ns=10 cpu.tasks=2";
        let known = CpuTime {
            used: Duration::from_nanos(100),
            period: Duration::from_nanos(10),
            tasks: 2,
            ..CpuTime::default()
        };
        assert_eq!(cpu_time(&notes(all)), Some(known));
        assert_eq!(cpu_time(&notes("samples=3 cpu.used.ns=100")), None);
        assert_eq!(cpu_time(&notes(&all.replace("100", "-1"))), None);
    }
}
