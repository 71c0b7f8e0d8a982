//! Recordings with mutated bytes: each is read, or rejected with a message, within bounded time.

use rprof_testing::Random;

use super::reader::Reader;
use crate::support::{Here, c, needs};

/// Special values in many fields.
const WORDS: [u64; 6] = [0, 1, 0xff, 0x7fff_ffff, u64::MAX, 1 << 63];

fn mutate(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..=random.below(6) {
        let at = random.index(bytes.len());
        match random.below(8) {
            0..4 => bytes[at] = random.next_u31() as u8,
            4 | 5 => {
                let word = WORDS[random.index(WORDS.len())].to_le_bytes();
                let len = word.len().min(bytes.len() - at);
                bytes[at..at + len].copy_from_slice(&word[..len]);
            }
            6 => bytes.truncate(at.max(16)),
            _ => {
                let (from, len) = (random.index(bytes.len()), random.index(512));
                let part: Vec<u8> = bytes.iter().skip(from).take(len).copied().collect();
                bytes.splice(at..at, part);
            }
        }
    }
    bytes
}

/// RPROF_MUTATIONS sets the number per kind (default 4).
#[test]
fn mutated_recordings_are_read_or_refused() {
    needs!(PerfEvents);
    let count = std::env::var("RPROF_MUTATIONS").ok();
    let count: u64 = count.and_then(|n| n.parse().ok()).unwrap_or(4);
    let here = Here::new();
    let mut random = Random::new(0x5eed);
    let commands = [
        "report",
        "script",
        "header",
        "collapse",
        "report --format json",
        "script -F comm,tid,time,ip,sym,period,raw",
    ];
    let of_switches = [
        "report --latency",
        "collapse --latency --wall",
        "script --parallelism 1",
        "export --latency --off-cpu --format perfetto -o -",
    ];
    let reader = Reader::new();
    let (rprof, addresses) = (&reader.program, reader.addresses);
    let seconds = reader.seconds;
    let mut failed = Vec::new();
    for (kind, options) in [
        ("plain", "-F 499 -g"),
        ("compressed", "-F 499 -g -z"),
        ("copies", "-F 199 --call-graph dwarf"),
        ("embedded", "-F 499 -g"),
        ("switches", "-F 499 -g --off-cpu --latency"),
    ] {
        let commands = match kind {
            "switches" => &of_switches[..],
            _ => &commands[..],
        };
        match kind {
            "switches" => here.record(options, &c("phases.c"), "parallel 0.02 0.02 3"),
            "embedded" => here.record(options, &c("jit.c"), "map 0.05"),
            _ => here.record(options, &c("shares.c"), "0.05"),
        }
        let whole = std::fs::read(here.path("perf.data")).unwrap();
        for n in 0..count {
            let path = here.path("mutated.data");
            std::fs::write(&path, mutate(&whole, &mut random)).unwrap();
            let command = commands[random.index(commands.len())];
            let script = format!(
                "ulimit -v {addresses}; ulimit -t {seconds}; exec {rprof} {command} -i mutated.data > out"
            );
            // Avoids 64 MiB of address space per thread.
            let run = here.sh(&script).env("MALLOC_ARENA_MAX", "1").run();
            // Without switches, the commands of switches are usage errors.
            let refusals = if kind == "switches" { 1..=2 } else { 1..=1 };
            let is_refused =
                run.code().is_some_and(|code| refusals.contains(&code)) && !run.err().is_empty();
            if run.code() != Some(0) && !is_refused {
                let kept = here.path(format!("{kind}-{n}.data"));
                std::fs::rename(&path, kept).unwrap();
                failed.push(format!("{kind} {n}: {run}"));
            }
            run.is_clean();
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
