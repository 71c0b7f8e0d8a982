//! Analyses damaged copies of a recording: truncated at every byte of a window, or with single bits
//! flipped. Reports the slowest copy, the highest memory use, and every panic.
//!
//! `cargo run --release -p rprof-analysis --example mutants -- perf.data [WINDOW-START
//! [BIT-FLIPS]]`

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an example's output"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rprof_analysis::{Options, Samples, analyse};
use rprof_perfdata::PerfData;
use rprof_symbols::Symbolizer;

const WINDOW: usize = 64 << 10;

/// Counts the bytes in use.
struct Counting;

static IN_USE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: forwards every call to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = IN_USE.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(now, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[derive(Default)]
struct Worst {
    mutants: u64,
    refused: u64,
    panics: Vec<String>,
    slowest: (Duration, String),
    largest: (usize, String),
}

impl Worst {
    fn run(&mut self, bytes: &[u8], what: impl Fn() -> String) {
        let before = IN_USE.load(Ordering::Relaxed);
        PEAK.store(before, Ordering::Relaxed);
        let start = Instant::now();
        let result = catch_unwind(AssertUnwindSafe(|| {
            let data = PerfData::read(bytes, Path::new("mutant")).ok()?;
            let symbolizer = Symbolizer::builder().build();
            let options = Options {
                threads: 1,
                latency: true,
                ..Options::default()
            };
            let profile = analyse(&data, &symbolizer, &options);
            let listed = Samples::read(&data, &symbolizer, &options.filter);
            let frames: usize = listed.iter().map(|s| s.frames().count()).sum();
            Some(profile.aggregated.len() + frames)
        }));
        let (time, memory) = (start.elapsed(), PEAK.load(Ordering::Relaxed) - before);
        self.mutants += 1;
        match result {
            Ok(Some(_)) => {}
            Ok(None) => self.refused += 1,
            Err(_) => self.panics.push(what()),
        }
        if time > self.slowest.0 {
            self.slowest = (time, what());
        }
        if memory > self.largest.0 {
            self.largest = (memory, what());
        }
    }

    fn print(&self, title: &str) {
        println!(
            "{title}: {} mutants, {} refused with an error, {} panics",
            self.mutants,
            self.refused,
            self.panics.len()
        );
        println!("  slowest {:?} ({})", self.slowest.0, self.slowest.1);
        println!(
            "  most memory {} KiB ({})",
            self.largest.0 / 1024,
            self.largest.1
        );
        for panic in self.panics.iter().take(10) {
            println!("  panic: {panic}");
        }
    }
}

fn main() {
    let mut args = std::env::args().skip(1);
    let Some(file) = args.next() else {
        eprintln!("usage: mutants FILE [WINDOW-START [BIT-FLIPS]]");
        return;
    };
    let bytes = match std::fs::read(&file) {
        Ok(bytes) => bytes,
        Err(e) => return eprintln!("{file}: {e}"),
    };
    let number = |arg: Option<String>, default| arg.and_then(|a| a.parse().ok()).unwrap_or(default);
    let start: usize = number(args.next(), 0).min(bytes.len());
    let flips: usize = number(args.next(), 100_000);
    let end = (start + WINDOW).min(bytes.len());

    let mut cut = Worst::default();
    for len in start..end {
        cut.run(&bytes[..len], || format!("{len} bytes"));
    }
    cut.print("cut off");

    let mut flipped = Worst::default();
    let mut mutant = bytes.clone();
    let bits = (end - start) * 8;
    let header = 104 * 8;
    let stride = (bits / flips.max(1)).max(1) | 1;
    let spread = (0..flips.saturating_sub(header)).map(|i| start * 8 + i * stride % bits);
    for bit in (0..header.min(bytes.len() * 8)).chain(spread) {
        mutant[bit / 8] ^= 1 << (bit % 8);
        flipped.run(&mutant, || format!("bit {} of byte {}", bit % 8, bit / 8));
        mutant[bit / 8] = bytes[bit / 8];
    }
    flipped.print("bits turned");
}
