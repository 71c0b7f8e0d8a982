//! Examples that use only `rprof-perf-event`.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rprof_testing::{Tether, needs};

use super::succeeded;

#[track_caller]
fn number(text: &str, prefix: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(prefix));
    let line = line.unwrap_or_else(|| panic!("no `{prefix}` in {text}"));
    let digits = line.split_once(' ').map_or(line, |(digits, _)| digits);
    digits.parse().unwrap()
}

fn hex(text: &str) -> u64 {
    u64::from_str_radix(text.trim().trim_start_matches("0x"), 16).unwrap()
}

#[test]
fn a_function_of_ones_own_is_counted() {
    needs!(PerfEvents);
    let text = succeeded(&mut Command::new(env!("CARGO_BIN_EXE_count_function")));
    assert_eq!(text, "1234 writes made 761995\n");
}

#[test]
fn a_print_is_counted() {
    needs!(PerfEvents);
    let text = succeeded(&mut Command::new(env!(
        "CARGO_BIN_EXE_instructions_of_a_print"
    )));
    assert!(
        text.starts_with("Measuring instruction count for this print\n"),
        "{text}"
    );
    assert!(number(&text, "Used ") > 100, "{text}");
}

#[test]
fn signals_bring_instruction_pointers() {
    needs!(PerfEvents);
    let text = succeeded(&mut Command::new(env!("CARGO_BIN_EXE_sigio")));
    let mut lines = text.lines();
    let workload = hex(lines.next().unwrap().strip_prefix("workload: ").unwrap());
    let addresses: Vec<u64> = lines
        .by_ref()
        .take_while(|line| line.starts_with("0x"))
        .map(hex)
        .collect();
    assert!(!addresses.is_empty(), "{text}");
    // The program does nothing else, and its code is nearby.
    let near = addresses
        .iter()
        .any(|address| address.abs_diff(workload) < 1 << 16);
    assert!(near, "{text}");
    let signals = text.lines().last().unwrap();
    let signals: u64 = signals.strip_suffix(" signals").unwrap().parse().unwrap();
    assert!(signals > 0, "{text}");
}

#[test]
fn signals_bring_callchains() {
    needs!(PerfEvents);
    let text = succeeded(&mut Command::new(env!("CARGO_BIN_EXE_sigio_callchains")));
    let samples: Vec<&str> = text.split("IP: ").skip(1).collect();
    assert!(!samples.is_empty());
    for sample in samples {
        let (ip, rest) = sample.split_once('\n').unwrap();
        let (depth, chain) = rest.split_once('\n').unwrap();
        let depth: usize = depth.strip_prefix("Call Depth: ").unwrap().parse().unwrap();
        let chain: Vec<u64> = chain.lines().map(hex).collect();
        assert_eq!(chain.len(), depth, "{sample}");
        // After the PERF_CONTEXT_USER marker.
        assert_eq!(chain.get(1), Some(&hex(ip)), "{sample}");
    }
}

#[test]
fn a_thread_is_polled() {
    needs!(PerfEvents);
    let tether = Tether::new();
    let mut busy = Command::new("sh");
    busy.args(["-c", "while :; do :; done"])
        .stdin(Stdio::null());
    let mut busy = tether.tie(&mut busy).spawn().unwrap();
    let mut poll = Command::new(env!("CARGO_BIN_EXE_poll"));
    let text = succeeded(poll.args([busy.id().to_string(), "20".to_owned()]));
    busy.kill().unwrap();
    busy.wait().unwrap();
    assert_eq!(
        text.lines().map(hex).filter(|address| *address > 0).count(),
        20,
        "{text}"
    );
}

#[test]
fn all_threads_of_a_process_have_callchains() {
    needs!(PerfEvents);
    static STOP: AtomicBool = AtomicBool::new(false);
    let (tell, told) = std::sync::mpsc::channel();
    let works = |tell: std::sync::mpsc::Sender<String>| {
        // The kernel's tid of the thread.
        let link = std::fs::read_link("/proc/thread-self").unwrap();
        tell.send(link.file_name().unwrap().to_str().unwrap().to_owned())
            .unwrap();
        while !STOP.load(Ordering::Relaxed) {
            std::hint::black_box(0);
        }
    };
    /// Stops the threads even if the test fails, because their scope waits for them.
    struct StopAtEnd;
    impl Drop for StopAtEnd {
        fn drop(&mut self) {
            STOP.store(true, Ordering::Relaxed);
        }
    }
    let tether = Tether::new();
    std::thread::scope(|scope| {
        let _stop = StopAtEnd;
        for _ in 0..2 {
            let tell = tell.clone();
            scope.spawn(move || works(tell));
        }
        let pid = std::process::id();
        let mut missing: BTreeSet<String> = (0..2)
            .map(|_| format!("pid,tid={pid},{}", told.recv().unwrap()))
            .collect();
        let mut command = Command::new(env!("CARGO_BIN_EXE_callchain_sampler"));
        command.args([pid.to_string(), "1000000".to_owned(), "1000000".to_owned()]);
        let mut sampler = tether.tie(command.stdout(Stdio::piped())).spawn().unwrap();
        let mut lines = BufReader::new(sampler.stdout.take().unwrap()).lines();
        let start = Instant::now();
        let mut frames = 0;
        while !(missing.is_empty() && frames > 0) && start.elapsed() < Duration::from_secs(60) {
            let Some(Ok(line)) = lines.next() else { break };
            missing.remove(&line);
            frames += u32::from(line.starts_with("[1]   "));
        }
        sampler.kill().unwrap();
        sampler.wait().unwrap();
        assert_eq!(missing, BTreeSet::new(), "threads that no sample is of");
        assert!(frames > 0, "a mark, and an address behind it");
    });
}

#[test]
fn a_stack_is_dumped_with_what_lies_in_it() {
    needs!(PerfEvents);
    let text = succeeded(&mut Command::new(env!("CARGO_BIN_EXE_stack_dump")));
    assert!(text.contains("bytes of stack"), "{text}");
    let lines = text
        .lines()
        .filter(|line| line.starts_with("the landmark is "));
    let places: Vec<u64> = lines.map(|line| number(line, "the landmark is ")).collect();
    assert!(!places.is_empty(), "{text}");
    assert!(places.iter().all(|place| *place < 10_000), "{text}");
}
