//! Generates a large profile and writes it as a page or in another format, for `benches/page`:
//! `cargo run --release -p rprof-export --example large_page -- 200000 1000000 html > large.html`
//!
//! Other formats: `folded`, `speedscope`, `inferno` (the SVG that inferno draws of the folded
//! stacks), and `inferno-all` (the same with the frames that are too narrow to see).
//!
//! Each stack is a prefix of an earlier stack plus some calls, as in a real program.

use std::error::Error;
use std::io::{BufWriter, Write};

use rprof_export::html::{self, HtmlOptions};
use rprof_export::{ExportFormat, ReportOptions};
use rprof_profile::{Frame, FrameId, Profile, ProfileBuilder, ProfileSample, Thread, WeightUnit};

const FUNCTIONS: u64 = 6_000;
const THREADS: u64 = 16;

/// Pseudo-random numbers (xorshift), equal on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    /// Returns a number below `limit`; small ones are more likely.
    fn low(&mut self, limit: u64) -> u64 {
        let most = self.below(limit) + 1;
        self.below(most)
    }
}

fn profile(stacks: usize, samples: usize) -> Profile {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut builder = ProfileBuilder::with_inlined().columns(true);
    let event = builder.add_event("cpu-clock", WeightUnit::Nanoseconds);
    let objects: Vec<_> = (0..40)
        .map(|n| {
            builder.intern_object(&format!(
                "/usr/lib/x86_64-linux-gnu/libpart{n}.so.{}",
                n % 7
            ))
        })
        .collect();
    let functions: Vec<FrameId> = (0..FUNCTIONS)
        .map(|n| {
            let part = ["parser", "storage::index", "net::http", "render"][n as usize % 4];
            let name = format!(
                "app::{part}::Worker<core::option::Option<u{}>>::step_{n}",
                8 << (n % 4)
            );
            let object = objects[random.low(40) as usize];
            let function = builder.intern_function(Ok(&name), object);
            builder.intern_frame(Frame {
                inline_depth: u32::from(n % 5 == 0),
                ..Frame::of(function)
            })
        })
        .collect();
    let threads: Vec<_> = (0..THREADS)
        .map(|n| {
            let comm = builder.intern_comm(&format!("worker-{n}"));
            builder.intern_thread(Thread {
                pid: Some(4000),
                tid: Some(4000 + n as i32),
                comm,
                process_comm: None,
                request: None,
            })
        })
        .collect();
    let mut made: Vec<Vec<FrameId>> = Vec::with_capacity(stacks);
    let mut ids = Vec::with_capacity(stacks);
    while ids.len() < stacks {
        let mut stack = match made.len() {
            0 => Vec::new(),
            known => {
                let before = &made[random.below(known as u64) as usize];
                before[..random.below(before.len() as u64 + 1) as usize].to_vec()
            }
        };
        for _ in 0..=random.below(if stack.len() < 25 { 9 } else { 3 }) {
            stack.push(functions[random.low(FUNCTIONS) as usize]);
        }
        let id = builder.intern_stack(&stack);
        if id.0 as usize == ids.len() {
            ids.push(id);
            made.push(stack);
        }
    }
    let mut time = 5_000_000_000;
    for number in 0..samples {
        time += 40_000 + random.below(40_000);
        let stack = match number < stacks {
            true => number,
            false => random.low(stacks as u64) as usize,
        };
        builder.add_sample(ProfileSample {
            time,
            cpu: Some(random.below(8) as u32),
            thread: threads[random.low(THREADS) as usize],
            stack: ids[stack],
            event,
            weight: 1_001_001,
        });
    }
    builder.finish()
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, other: usize| words.get(at).map_or(Ok(other), |word| word.parse());
    let profile = profile(number(0, 200_000)?, number(1, 1_000_000)?);
    let mut out = BufWriter::new(std::io::stdout().lock());
    match words.get(2).map_or("html", String::as_str) {
        "html" => {
            let options = HtmlOptions {
                title: "made up".into(),
                ..HtmlOptions::default()
            };
            let written = html::write(&profile, None, &options, &mut out)?;
            for step in written.coarser {
                writeln!(std::io::stderr(), "coarser: {step}")?;
            }
        }
        "inferno" | "inferno-all" => {
            let mut folded = Vec::new();
            let format = ExportFormat::by_name("folded").ok_or("no such form")?;
            (format.write)(&profile, &ReportOptions::default(), &mut folded)?;
            let mut options = inferno::flamegraph::Options::default();
            if words[2] == "inferno-all" {
                options.min_width = 0.0;
            }
            inferno::flamegraph::from_reader(&mut options, &folded[..], &mut out)?;
        }
        name => {
            let format = ExportFormat::by_name(name).ok_or("no such form")?;
            (format.write)(&profile, &ReportOptions::default(), &mut out)?;
        }
    }
    out.flush()?;
    Ok(())
}
