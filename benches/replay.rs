//! Benchmark of the recorder for many CPUs: replays batches of a real program as 2 to 256 CPUs.
//!
//! ```text
//! cargo bench -p rprof-recorder --bench replay -- [-F HERTZ] [-s SECONDS] [--one-behind MS] PROGRAM [ARGUMENT]...
//! ```
//!
//! The program is sampled with stack dumps, and its batches are stored. Copy k of the batches gets
//! its own CPUs, pids, tids and event ids, and timestamps some microseconds later. Images are the
//! same files. One thread feeds the batches as fast as possible. Another does all the work of a
//! recording's writer thread. Its CPU time per sample is independent of the machine's CPU count: C
//! busy CPUs at F samples a second need C x F times that.
//!
//! The start, which opens images, does not count: the result is the difference of a longer and a
//! shorter run. Each figure comes from its own process.
//!
//! Not measured: the drain threads (one for each CPU), contention of real ones, and remote NUMA
//! memory.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::error::Error;
use std::fs;
use std::process::Command;
use std::time::Duration;

use crossbeam_channel::bounded;
use rprof_launch::Launcher;
use rprof_recorder::{Replay, replay};
use rprof_records::{Attr, AttrFlags, Endian, RawBytes, RawRecord, RecordType, SampleType};
use rprof_sampler::drain::buffers::{BufferPool, make};
use rprof_sampler::{Batch, EventIds, Role, Session, Stream};
use rustix::time::{ClockId, clock_gettime};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const CPUS: [u32; 4] = [2, 16, 64, 256];

/// Offset of pids and of event ids between two copies.
const APART: u32 = 1 << 20;

/// Time offset between two copies, in nanoseconds.
const LATER: u64 = 1_700;

/// Minimum number of samples of the shorter run. The longer run has four times as many.
const SAMPLES: u64 = 40_000;

fn main() -> Result<()> {
    let words: Vec<String> = (std::env::args().skip(1))
        .filter(|word| word != "--bench")
        .collect();
    if let [run, file, cpus, until, behind] = &words[..]
        && run == "--run"
    {
        return run_one(file, cpus.parse()?, until.parse()?, behind.parse()?);
    }
    let (mut hertz, mut seconds, mut behind) = (999, 10.0, 0.0);
    let mut words = words.into_iter().peekable();
    while let Some(option) = words.next_if(|word| word.starts_with('-')) {
        let value = words.next().ok_or("a value is missing")?;
        match &*option {
            "-F" => hertz = value.parse()?,
            "-s" => seconds = value.parse()?,
            "--one-behind" => behind = value.parse()?,
            _ => return Err(format!("there is no option {option}").into()),
        }
    }
    let command: Vec<String> = words.collect();
    if command.is_empty() {
        println!("replay: no program is named; see benches/replay.rs");
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("batches");
    let captured = capture(&command, hertz, Duration::from_secs_f64(seconds))?;
    println!(
        "`{}`: {} samples on {} CPUs, {} bytes each",
        command.join(" "),
        captured.samples,
        captured.cpus.len(),
        captured.bytes / captured.samples.max(1)
    );
    fs::write(&file, captured.encode()?)?;
    println!(
        "| CPUs | ns for a sample | samples a second on one core | late | most that waited | memory |"
    );
    println!("|---|---|---|---|---|---|");
    for cpus in CPUS
        .into_iter()
        .filter(|c| *c as usize >= captured.cpus.len())
    {
        let copies = u64::from(cpus) / captured.cpus.len() as u64;
        let all = captured.samples * copies;
        // The start, which all copies share, and at least as much again.
        let short = (SAMPLES as f64 / all as f64).clamp(0.1, 0.25);
        let long = (short * 4.0).min(1.0);
        let run = |share: f64| -> Result<Vec<u64>> {
            let output = Command::new(std::env::current_exe()?)
                .arg("--run")
                .arg(&file)
                .args([cpus.to_string(), share.to_string(), behind.to_string()])
                .output()?;
            if !output.status.success() {
                return Err(String::from_utf8_lossy(&output.stderr).into());
            }
            let text = String::from_utf8(output.stdout)?;
            Ok(text
                .split_whitespace()
                .filter_map(|n| n.parse().ok())
                .collect())
        };
        let (short, long) = (run(short)?, run(long)?);
        let [short_ns, short_samples, ..] = short[..] else {
            return Err("the run said nothing".into());
        };
        let [ns, samples, late, pending, memory] = long[..] else {
            return Err("the run said nothing".into());
        };
        let each = (ns.saturating_sub(short_ns)) as f64 / (samples - short_samples).max(1) as f64;
        println!(
            "| {cpus} | {each:.0} | {:.0} | {late} | {:.1} MiB | {:.0} MiB |",
            1e9 / each,
            pending as f64 / f64::from(1 << 20),
            memory as f64 / 1024.0
        );
    }
    Ok(())
}

/// Batches of a program, in order of arrival.
#[derive(Default)]
struct Capture {
    cpus: Vec<u32>,
    events: Vec<EventIds>,
    batches: Vec<Batch>,
    samples: u64,
    bytes: u64,
}

fn capture(command: &[String], hertz: u64, time: Duration) -> Result<Capture> {
    let launcher = Launcher::new(&command[0]).args(&command[1..]);
    let mut session = Session::builder()
        .frequency(hertz)
        .user_stack(Some(60 << 10))
        .fit_user_stack(true)
        .configure(|options| options.drain.idle = Duration::from_millis(10))
        .launch(&launcher)?;
    let mut captured = Capture {
        cpus: session.cpus().to_vec(),
        events: session.events().to_vec(),
        ..Capture::default()
    };
    let (batches, recycler) = (session.batches().clone(), session.recycler());
    let keeping = std::thread::spawn(move || {
        let mut kept = Vec::new();
        for batch in batches {
            let bytes = batch.bytes.as_slice().to_vec();
            kept.push(Batch { bytes, ..batch });
            recycler.recycle(batch);
        }
        kept
    });
    session.start()?;
    session.wait_or(None, Some(time))?;
    session.stop();
    if let Some(child) = session.child() {
        child.signal(libc::SIGKILL)?;
    }
    captured.batches = keeping
        .join()
        .map_err(|_| "the thread that keeps batches panicked")?;
    captured.count();
    Ok(captured)
}

impl Capture {
    fn count(&mut self) {
        (self.samples, self.bytes) = (0, 0);
        for batch in self.batches.iter().filter(|b| b.stream == Stream::Samples) {
            records(&batch.bytes, |_, record| {
                self.samples += u64::from(record.kind == RecordType::SAMPLE);
            });
            self.bytes += batch.bytes.len() as u64;
        }
    }

    fn encode(&self) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        let mut put = |bytes: &[u8]| {
            out.extend((bytes.len() as u64).to_ne_bytes());
            out.extend_from_slice(bytes);
        };
        let words = |words: &[u64]| {
            words
                .iter()
                .flat_map(|w| w.to_ne_bytes())
                .collect::<Vec<u8>>()
        };
        let cpus: Vec<u64> = self.cpus.iter().map(|cpu| u64::from(*cpu)).collect();
        put(&words(&cpus));
        put(&words(&[self.events.len() as u64]));
        for event in &self.events {
            put(&event.attr.encode(Endian::NATIVE, ATTR)?);
            put(&words(&event.ids));
            put(&words(&[u64::from(event.role == Role::Samples)]));
        }
        for batch in &self.batches {
            let is_samples = u64::from(batch.stream == Stream::Samples);
            put(&words(&[u64::from(batch.cpu), is_samples, batch.watermark]));
            put(&batch.bytes);
        }
        Ok(out)
    }

    fn decode(bytes: &[u8]) -> Option<Capture> {
        let mut rest = bytes;
        let mut captured = Capture {
            cpus: words(part(&mut rest)?).map(|cpu| cpu as u32).collect(),
            ..Capture::default()
        };
        for _ in 0..words(part(&mut rest)?).next()? {
            let attr = Attr::parse(part(&mut rest)?, Endian::NATIVE).ok()?;
            let ids = words(part(&mut rest)?).collect();
            let role = match words(part(&mut rest)?).next()? {
                0 => Role::Sideband,
                _ => Role::Samples,
            };
            let name = "event".to_owned();
            captured.events.push(EventIds {
                role,
                attr,
                name,
                ids,
            });
        }
        while !rest.is_empty() {
            let head: Vec<u64> = words(part(&mut rest)?).collect();
            let [cpu, is_samples, watermark] = head[..] else {
                return None;
            };
            captured.batches.push(Batch {
                cpu: cpu as u32,
                stream: match is_samples {
                    0 => Stream::Sideband,
                    _ => Stream::Samples,
                },
                bytes: part(&mut rest)?.to_vec(),
                watermark,
            });
        }
        captured.count();
        Some(captured)
    }

    /// Returns the last watermark within a share of the captured time.
    fn until(&self, share: f64) -> u64 {
        let times = || {
            self.batches
                .iter()
                .map(|b| b.watermark)
                .filter(|w| *w != u64::MAX && *w != 0)
        };
        let (first, last) = (times().min().unwrap_or(0), times().max().unwrap_or(0));
        match share >= 1.0 {
            true => u64::MAX,
            false => first + ((last - first) as f64 * share) as u64,
        }
    }
}

/// Size of an attr in the file.
const ATTR: usize = 136;

fn words(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes
        .as_chunks()
        .0
        .iter()
        .map(|word| u64::from_ne_bytes(*word))
}

fn part<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, behind) = rest.split_first_chunk()?;
    let (part, behind) = behind.split_at_checked(u64::from_ne_bytes(*length) as usize)?;
    *rest = behind;
    Some(part)
}

/// Calls `each` with the offset and content of every record in a batch.
fn records(bytes: &[u8], mut each: impl FnMut(usize, &RawRecord<'_>)) {
    let mut at = 0;
    while let Some(record) = RawRecord::parse(RawBytes::from(&bytes[at..]), Endian::NATIVE) {
        each(at, &record);
        at += record.size();
    }
}

/// Replays a capture on a number of CPUs. Prints CPU time in ns, samples, late records, maximum
/// bytes queued, and memory in KiB.
fn run_one(file: &str, cpus: u32, share: f64, behind: f64) -> Result<()> {
    let captured = Capture::decode(&fs::read(file)?).ok_or("the file is damaged")?;
    let real = captured.cpus.len() as u32;
    let copies = cpus / real;
    let all: Vec<u32> = (0..cpus).collect();
    let mut events = captured.events.clone();
    for event in &mut events {
        let ids = event.ids.clone();
        event.ids = (0..copies)
            .flat_map(|copy| ids.iter().map(move |id| id + id_of(copy)))
            .collect();
    }
    let (pools, recycler) = make(&all, 16, 256, 0);
    let (sender, batches) = bounded(8 * cpus as usize);
    let places = Places::of(&captured.events);
    let until = captured.until(share);
    let behind = (behind * 1e6) as u64;
    let feeder = std::thread::spawn(move || {
        let mut waiting: Vec<Batch> = Vec::new();
        let number = |cpu| captured.cpus.iter().position(|c| *c == cpu).unwrap_or(0) as u32;
        let send = |batch: &Batch, copy: u32| {
            let cpu = number(batch.cpu) + real * copy;
            let bytes = match batch.bytes.is_empty() {
                true => Vec::new(),
                false => places.copy(batch, copy, buffer(&pools[cpu as usize], batch.stream)),
            };
            let watermark = batch.watermark.saturating_add(LATER * u64::from(copy));
            drop(sender.send(Batch {
                cpu,
                stream: batch.stream,
                bytes,
                watermark,
            }));
        };
        for batch in captured.batches.iter().take_while(|b| b.watermark < until) {
            let is_behind = behind > 0 && number(batch.cpu) == 0;
            for copy in u32::from(is_behind)..copies {
                send(batch, copy);
            }
            if is_behind {
                // The first CPU delivers its batches this much later than all others.
                waiting.push(batch.clone());
            }
            let due = batch.watermark.saturating_sub(behind);
            let ready = waiting
                .iter()
                .take_while(|held| held.watermark <= due)
                .count();
            for held in waiting.drain(..ready) {
                send(&held, 0);
            }
        }
        for held in waiting.drain(..) {
            send(&held, 0);
        }
        for cpu in 0..cpus {
            let end = Batch {
                cpu,
                stream: Stream::Samples,
                bytes: Vec::new(),
                watermark: u64::MAX,
            };
            drop(sender.send(end));
        }
    });
    let begin = cpu_time();
    let done = replay(Replay {
        cpus: all,
        events,
        batches,
        recycler,
        file: tempfile::tempfile()?,
    })?;
    let spent = cpu_time() - begin;
    drop(feeder.join());
    let status = fs::read_to_string("/proc/self/status")?;
    let memory = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let memory = memory
        .and_then(|text| text.split_whitespace().next())
        .unwrap_or("0");
    println!(
        "{spent} {} {} {} {memory}",
        done.samples, done.late, done.most_pending
    );
    Ok(())
}

/// Takes a free buffer, or waits for one.
fn buffer(pools: &(BufferPool, BufferPool), stream: Stream) -> Vec<u8> {
    let pool = match stream {
        Stream::Samples => &pools.0,
        Stream::Sideband => &pools.1,
    };
    loop {
        match pool.pop() {
            Some(buffer) => return buffer,
            None => std::thread::sleep(Duration::from_micros(50)),
        }
    }
}

fn id_of(copy: u32) -> u64 {
    u64::from(copy) * u64::from(APART)
}

/// Offsets of the fields that differ between copies.
struct Places {
    samples: Vec<SampleType>,
    sideband: Vec<SampleType>,
}

impl Places {
    fn of(events: &[EventIds]) -> Places {
        let of = |role, order: &[SampleType]| {
            let event = events.iter().find(|event| event.role == role);
            let attr = event.map(|event| event.attr.clone()).unwrap_or_default();
            assert!(attr.flags.contains(AttrFlags::SAMPLE_ID_ALL));
            let has = |field: &&SampleType| attr.sample_type.contains(**field);
            order.iter().filter(has).copied().collect()
        };
        let trailer = [
            SampleType::TID,
            SampleType::TIME,
            SampleType::ID,
            SampleType::STREAM_ID,
            SampleType::CPU,
            SampleType::IDENTIFIER,
        ];
        Places {
            samples: of(Role::Samples, &rprof_records::SampleLayout::FIXED),
            sideband: of(Role::Sideband, &trailer),
        }
    }

    /// Copies a batch into a buffer, adapted for a copy of the program.
    fn copy(&self, batch: &Batch, copy: u32, mut out: Vec<u8>) -> Vec<u8> {
        out.clear();
        out.extend_from_slice(&batch.bytes);
        let (pid, id, later) = (APART * copy, id_of(copy), LATER * u64::from(copy));
        records(&batch.bytes, |at, record| {
            let body = at + 8;
            let fields = |out: &mut [u8], mut at: usize, fields: &[SampleType]| {
                for field in fields {
                    match *field {
                        SampleType::TID => {
                            add_u32(out, at, pid);
                            add_u32(out, at + 4, pid);
                        }
                        SampleType::TIME => add_u64(out, at, later),
                        SampleType::ID | SampleType::STREAM_ID | SampleType::IDENTIFIER => {
                            add_u64(out, at, id);
                        }
                        _ => {}
                    }
                    at += 8;
                }
            };
            if record.kind == RecordType::SAMPLE {
                fields(&mut out, body, &self.samples);
                return;
            }
            let processes = match record.kind {
                RecordType::MMAP | RecordType::MMAP2 | RecordType::COMM => 2,
                RecordType::FORK | RecordType::EXIT => 4,
                _ => 0,
            };
            (0..processes).for_each(|number| add_u32(&mut out, body + 4 * number, pid));
            if processes == 4 {
                add_u64(&mut out, body + 16, later);
            }
            let trailer = at + record.size() - 8 * self.sideband.len();
            fields(&mut out, trailer, &self.sideband);
        });
        out
    }
}

/// Adds an offset to a pid. Keeps the kernel's 0 and -1.
fn add_u32(out: &mut [u8], at: usize, more: u32) {
    if let Some(word) = out.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
        let number = i32::from_ne_bytes(*word);
        if number > 0 {
            *word = number.wrapping_add_unsigned(more).to_ne_bytes();
        }
    }
}

fn add_u64(out: &mut [u8], at: usize, more: u64) {
    if let Some(word) = out.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
        *word = u64::from_ne_bytes(*word).wrapping_add(more).to_ne_bytes();
    }
}

fn cpu_time() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
