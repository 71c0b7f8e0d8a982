//! The Firefox Profiler's processed profile format, version 60: threads of samples in time order,
//! with shared tables.
//!
//! Source: `src/types/profile.ts` and the upgraders of
//! <https://github.com/firefox-devtools/profiler>. Version 60 is the oldest with shared tables, and
//! every later one reads it.
//!
//! - An address is an offset in the object's file. A caller's address lies within its call
//!   instruction.
//! - An inlined call is a separate frame at the same address.
//! - Weights are milliseconds for a clock, event counts for other events, or the number of samples
//!   if the options say so.
//! - Gaps in the samples are markers of the first thread.
//!
//! | module | holds |
//! |---|---|
//! | `tables` | strings, functions, frames and stacks, numbered in order of first use |
//! | `threads` | samples of each thread |
//! | `markers` | gaps in the samples |

mod markers;
mod tables;
mod threads;

use std::io::{self, Write};

use rprof_profile::{Profile, WeighBy, WeightUnit};
use serde_json::json;

use crate::gzip::Gzip;
use crate::json_writer::JsonWriter;
use crate::names::CleanNames;
use crate::options::ReportOptions;
use markers::Markers;
use tables::Tables;
use threads::Rows;

const VERSION: u32 = 60;

/// Version of the Gecko profile format, which readers require as well.
const GECKO_VERSION: u32 = 31;

type Json<'o> = JsonWriter<Gzip<'o>>;

/// Writes the samples of the main event, compressed with gzip.
///
/// # Errors
/// Fails if the writer does.
pub fn write(profile: &Profile, options: &ReportOptions, out: &mut dyn Write) -> io::Result<()> {
    let by = options.rows.weight;
    let mut tables = Tables::new(profile);
    // No thread has samples.
    let event = profile.main_event().unwrap_or_default();
    let rows = Rows::new(profile, event, by);
    let threads = threads::of(rows);
    let origin = profile.time.map_or(0, |(first, _)| first);
    let mut json = Json::new(Gzip::new(out));
    json.begin()?;
    json.value("meta", &meta(profile, threads.len()))?;
    json.key("threads")?;
    json.begin_list()?;
    let is_time = is_time(profile) && by == WeighBy::Period;
    let gaps = Markers::new(&profile.gaps, origin, &mut tables);
    let none = Markers::new(&[], origin, &mut tables);
    for (index, thread) in threads.iter().enumerate() {
        let markers = if index == 0 { &gaps } else { &none };
        thread.write(rows, &mut tables, origin, is_time, markers, &mut json)?;
    }
    json.end_list()?;
    json.value("libs", &tables.libraries())?;
    json.key("shared")?;
    tables.write(&mut json)?;
    json.end()?;
    json.finish()?.finish()
}

fn is_time(profile: &Profile) -> bool {
    let event = profile.main_event().map(|event| &profile.events[event]);
    event.is_some_and(|event| event.unit == WeightUnit::Nanoseconds)
}

fn meta(profile: &Profile, threads: usize) -> serde_json::Value {
    let names = CleanNames::new(profile);
    let event = profile.main_event();
    let summary = event.map(|event| &profile.events[event]);
    let interval = match summary {
        Some(summary) if is_time(profile) => {
            summary.weight as f64 / summary.samples.max(1) as f64 / 1e6
        }
        _ => 1.0,
    };
    let lost: u64 = profile.events.iter().map(|event| event.lost).sum();
    let name = event.map(|event| names.event(event).into_owned());
    let category =
        |name: &str, color: &str| json!({"name": name, "color": color, "subcategories": ["Other"]});
    json!({
        "version": GECKO_VERSION,
        "preprocessedProfileVersion": VERSION,
        "interval": interval,
        // Milliseconds since 1970; 0 if unknown.
        "startTime": profile.wall_time.map_or(0.0, |(first, _)| first as f64 / 1e6),
        "startTimeAsClockMonotonicNanosecondsSinceBoot": profile.time.map_or(0, |(first, _)| first),
        "processType": 0,
        "product": name.clone().unwrap_or_else(|| "rprof".to_owned()),
        "importedFrom": concat!("rprof ", env!("CARGO_PKG_VERSION")),
        "stackwalk": 1,
        "debug": false,
        "symbolicated": true,
        "usesOnlyOneStackType": true,
        "sourceCodeIsNotOnSearchfox": true,
        "markerSchema": markers::schema(),
        "sampleUnits": {"time": "ms", "eventDelay": "ms", "threadCPUDelta": "ns"},
        // In the order of `tables::Category`.
        "categories": [
            category("Other", "grey"),
            category("User", "yellow"),
            category("Kernel", "orange"),
            category("Generated code", "lightblue"),
            category("Waiting", "transparent"),
            // Visible: the thread competes with others for a CPU.
            category("Waiting for a CPU", "purple"),
        ],
        "initialVisibleThreads": (0..threads.min(10)).collect::<Vec<_>>(),
        "extra": [{
            "label": "Recording",
            "entries": [
                {"label": "Event", "format": "string", "value": name.unwrap_or_default()},
                {"label": "Lost records", "format": "integer", "value": lost},
                {"label": "Times throttled", "format": "integer", "value": profile.quality.throttled},
            ],
        }],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_profile::{
        Frame, FrameAddress, Gap, GapCause, Object, ObjectKind, ProfileBuilder, ProfileSample,
        Thread,
    };
    use serde_json::Value;

    fn profile() -> Profile {
        let mut builder = ProfileBuilder::with_addresses().streams(true);
        let event = builder.add_event("cpu-clock", WeightUnit::Nanoseconds);
        let program = builder.intern_object("/bin/x");
        let kernel = builder.add_object(Object {
            name: "[kernel.kallsyms]".into(),
            kind: ObjectKind::Kernel,
            build_id: None,
            runtime: None,
        });
        let [main, inlined] =
            ["main", "in\u{1b}lined"].map(|name| builder.intern_function(Ok(name), program));
        let sys = builder.intern_function(Ok("sys_read"), kernel);
        let comm = builder.intern_comm("x");
        let thread = builder.intern_thread(Thread {
            pid: Some(7),
            tid: Some(7),
            comm,
            process_comm: Some(comm),
            request: None,
        });
        let mut frame = |function, address, inline_depth| {
            builder.intern_frame(Frame {
                address: Some(address),
                inline_depth,
                ..Frame::of(function)
            })
        };
        let call = FrameAddress::ReturnAddress(0x11);
        let frames = [
            frame(main, call, 0),
            frame(inlined, call, 1),
            frame(
                sys,
                FrameAddress::InstructionPointer(0xffff_ffff_8100_0000),
                0,
            ),
        ];
        let deep = builder.intern_stack(&frames);
        let shallow = builder.intern_stack(&frames[..2]);
        for (time, stack) in [(5_000_000, deep), (6_000_000, shallow), (9_500_000, deep)] {
            builder.add_sample(ProfileSample {
                time,
                cpu: None,
                thread,
                stack,
                event,
                weight: 1_000_000,
            });
        }
        builder.finish()
    }

    #[test]
    fn waits_for_a_cpu_have_a_category_of_their_own() {
        let mut builder = ProfileBuilder::with_addresses().columns(true);
        let event = builder.add_event("wall-clock", WeightUnit::Nanoseconds);
        let app = builder.intern_object("/usr/bin/app");
        let waits = builder.add_object(Object {
            name: "[off-cpu]".into(),
            kind: ObjectKind::Waiting,
            build_id: None,
            runtime: None,
        });
        let thread = builder.intern_thread_name("app");
        let functions = [
            ("main", app),
            ("[futex]", waits),
            ("[waiting for a CPU]", waits),
        ]
        .map(|(name, object)| Frame::of(builder.intern_function(Ok(name), object)));
        let frames = functions.map(|frame| builder.intern_frame(frame));
        for leaf in 1..3 {
            let stack = builder.intern_stack(&[frames[0], frames[leaf]]);
            builder.add_sample(ProfileSample {
                time: leaf as u64 * 1_000_000,
                cpu: None,
                thread,
                stack,
                event,
                weight: 1_000_000,
            });
        }
        let document = written(&builder.finish());
        let categories = &document["shared"]["frameTable"]["category"];
        assert_eq!(*categories, json!([1, 4, 5]));
        let named = &document["meta"]["categories"];
        assert_eq!(named[5]["name"], json!("Waiting for a CPU"));
        assert_ne!(named[5]["color"], named[4]["color"]);
    }

    fn written(profile: &Profile) -> Value {
        let mut bytes = Vec::new();
        write(profile, &ReportOptions::default(), &mut bytes).unwrap();
        serde_json::from_reader(flate2::read::GzDecoder::new(&bytes[..])).unwrap()
    }

    #[test]
    fn stacks_are_chains_of_shared_frames() {
        let document = written(&profile());
        let shared = &document["shared"];
        assert_eq!(shared["stackTable"]["prefix"], json!([null, 0, 1]));
        assert_eq!(shared["frameTable"]["inlineDepth"], json!([0, 1, 0]));
        assert_eq!(shared["frameTable"]["address"], json!([0x10, 0x10, -1]));
        assert_eq!(shared["frameTable"]["nativeSymbol"], json!([0, 0, null]));
        assert_eq!(shared["frameTable"]["category"], json!([1, 1, 2]));
        let strings = shared["stringArray"].as_array().unwrap();
        assert!(
            strings
                .iter()
                .all(|text| !text.as_str().unwrap().contains('\u{1b}'))
        );
        let thread = &document["threads"][0];
        assert_eq!((&thread["pid"], &thread["tid"]), (&json!("7"), &json!(7)));
        let samples = &thread["samples"];
        assert_eq!(samples["stack"], json!([2, 1, 2]));
        assert_eq!(samples["timeDeltas"], json!([0, 1, 3.5]));
        assert_eq!(samples["weight"], json!([1, 1, 1]));
        assert_eq!(
            samples["threadCPUDelta"],
            json!([1000000, 1000000, 1000000])
        );
        assert_eq!(document["libs"][0]["path"], json!("/bin/x"));
    }

    #[test]
    fn missing_samples_are_markers() {
        let mut profile = profile();
        let gap = |time, cause| Gap {
            time,
            cpu: Some(3),
            cause,
        };
        profile.gaps = vec![
            gap(5_500_000, GapCause::Lost(12)),
            gap(7_000_000, GapCause::Throttled),
        ];
        profile.wall_time = Some((1_600_000_000_000_000_000, 1_600_000_000_004_500_000));
        let document = written(&profile);
        assert_eq!(document["meta"]["startTime"], json!(1_600_000_000_000.0));
        let markers = &document["threads"][0]["markers"];
        assert_eq!(markers["length"], json!(2));
        assert_eq!(markers["startTime"], json!([0.5, 2.0]));
        assert_eq!(markers["phase"], json!([0, 0]));
        assert_eq!(
            markers["data"][0],
            json!({"type": "LostRecords", "records": 12, "cpu": "3"})
        );
        let name = markers["name"][1].as_u64().unwrap() as usize;
        assert_eq!(document["shared"]["stringArray"][name], json!("Throttled"));
        let types: Vec<&Value> = document["meta"]["markerSchema"]
            .as_array()
            .unwrap()
            .iter()
            .map(|schema| &schema["name"])
            .collect();
        assert_eq!(types, [&json!("LostRecords"), &json!("Throttled")]);
    }

    #[test]
    fn the_same_profile_is_the_same_file_and_none_has_no_thread() {
        let bytes = |profile: &Profile| {
            let mut bytes = Vec::new();
            write(profile, &ReportOptions::default(), &mut bytes).unwrap();
            bytes
        };
        assert_eq!(bytes(&profile()), bytes(&profile()));
        let none = written(&ProfileBuilder::new().finish());
        assert_eq!(none["threads"], json!([]));
    }
}
