//! Header features that describe the machine.

use std::fs::{self, File};
use std::io::Read;

use rprof_perfdata::features::run::ClockData;
use rprof_perfdata::{Feature, FeatureSections};
use rprof_sampler::Clock;

/// Adds features of the machine. Skips values that cannot be read.
pub fn describe(features: &mut FeatureSections, online: u32) {
    let line = |path| {
        fs::read_to_string(path)
            .ok()
            .and_then(|text| Some(text.lines().next()?.trim().to_owned()))
            .filter(|text| !text.is_empty())
    };
    for (feature, text) in [
        (Feature::HOSTNAME, line("/proc/sys/kernel/hostname")),
        (Feature::OSRELEASE, line("/proc/sys/kernel/osrelease")),
        (Feature::ARCH, Some(architecture())),
        (Feature::CPUDESC, cpu_model()),
    ] {
        if let Some(text) = text {
            features.insert_string(feature, &text);
        }
    }
    let present = line("/sys/devices/system/cpu/present")
        .and_then(|list| rprof_events::cpus::parse_list(&list).ok())
        .map_or(online, |cpus| cpus.len() as u32);
    features.insert_cpu_counts(present.max(online), online);
    if let Some(kib) = total_memory() {
        features.insert_words(Feature::TOTAL_MEM, &[kib]);
    }
}

/// Adds the clock's resolution, and one instant on it and on the wall clock, as perf does with a
/// named clock.
pub(crate) fn describe_clock(features: &mut FeatureSections, clock: Clock) {
    features.insert_words(Feature::CLOCKID, &[clock.resolution_ns()]);
    // Read the wall clock between two readings of the clock.
    let before = clock.now_ns();
    let wall_clock = Clock::REALTIME.now_ns();
    let after = clock.now_ns();
    features.insert_clock_data(&ClockData {
        version: 1,
        clockid: clock.number().cast_unsigned(),
        wall_clock,
        clock: before + after.saturating_sub(before) / 2,
    });
}

/// Returns the machine name as in uname(2), for the architecture rprof was built for.
fn architecture() -> String {
    match std::env::consts::ARCH {
        "x86" => "i686".into(),
        "powerpc64" if cfg!(target_endian = "little") => "ppc64le".into(),
        "powerpc64" => "ppc64".into(),
        "arm" => "armv7l".into(),
        arch => arch.into(),
    }
}

fn cpu_model() -> Option<String> {
    let info = head("/proc/cpuinfo")?;
    let line = info.lines().find(|l| l.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn total_memory() -> Option<u64> {
    let info = head("/proc/meminfo")?;
    let line = info.lines().find(|l| l.starts_with("MemTotal:"))?;
    line.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Reads the first page of a /proc file, with the first CPU. Generating all CPUs takes the kernel
/// long.
fn head(path: &str) -> Option<String> {
    let mut bytes = vec![0; 4096];
    let read = File::open(path).ok()?.read(&mut bytes).ok()?;
    bytes.truncate(read);
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
