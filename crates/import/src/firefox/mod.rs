//! Processed profiles of the Firefox Profiler (<https://github.com/firefox-devtools/profiler>, `src/types/profile.ts`):
//! of versions with tables for each thread (up to 59), and of those with shared ones.

mod document;
mod stacks;

use std::path::Path;

use rprof_profile::{Profile, WeightUnit};

use crate::ImportOptions;
use crate::collector::{Collector, Row};
use document::{Document, Thread};
use stacks::Stacks;

/// Nanoseconds of milliseconds; 0 for what is none.
fn nanoseconds(milliseconds: f64) -> u64 {
    // Saturates, and takes what is no number for 0.
    (milliseconds * 1e6).round() as u64
}

pub(crate) fn read(
    bytes: &[u8],
    source: &Path,
    options: &ImportOptions,
) -> Result<Profile, String> {
    let document: Document = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    let mut out = Collector::new(source, options, true);
    let threads = &document.threads.0;
    let is_time = threads
        .iter()
        .all(|thread| thread.samples.weight_type.as_deref() == Some("tracing-ms"))
        && !threads.is_empty();
    let is_bytes = |thread: &Thread| thread.samples.weight_type.as_deref() == Some("bytes");
    let (name, unit) = match threads.iter().any(is_bytes) {
        true => ("bytes", WeightUnit::Named("bytes".into())),
        false if is_time => ("cpu-clock", WeightUnit::Nanoseconds),
        false => ("samples", WeightUnit::Samples),
    };
    // Ours name the event; of others the product is a program.
    let exporter = document.meta.imported_from.as_deref();
    let (name, unit) = match document.meta.product.as_str() {
        product if exporter.is_some_and(|name| name.starts_with("rprof ")) => {
            (product, WeightUnit::of_event(product))
        }
        _ => (name, unit),
    };
    let event = out.event(name, unit);
    let origin = nanoseconds(document.meta.start.unwrap_or(0.0) / 1e6);
    for thread in threads {
        let mut stacks = Stacks::new(&document, thread);
        let samples = &thread.samples;
        let mut time = 0.0;
        for (nth, stack) in samples.stack.0.iter().enumerate() {
            let delta = samples
                .time_deltas
                .as_ref()
                .and_then(|deltas| deltas.0.get(nth));
            time = match (&samples.time, delta) {
                (Some(times), _) => times.0.get(nth).copied().unwrap_or(time),
                (None, Some(delta)) => time + delta,
                (None, None) => time + document.meta.interval,
            };
            let weight = samples
                .weight
                .as_ref()
                .map_or(Some(1.0), |weights| weights.0.get(nth).copied());
            let weight = match weight {
                // A difference of two profiles has negative weights.
                Some(weight) if weight > 0.0 && weight.is_finite() => weight,
                _ => continue,
            };
            let Some(stack) = stacks.stack(stack.get(), &mut out)? else {
                continue;
            };
            out.add(&Row {
                event,
                pid: thread.pid.0,
                tid: thread.tid.0,
                comm: &thread.name,
                process: thread.process_name.as_deref(),
                time: Some(origin.saturating_add(nanoseconds(time))),
                stack: Some(stack),
                samples: 1,
                weight: match is_time {
                    true => nanoseconds(weight),
                    false => weight.round() as u64,
                },
                ..Row::default()
            });
        }
    }
    out.warn("the Firefox Profiler's format does not tell why functions lack names, nor whether stacks are complete");
    Ok(out.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(text: &str) -> Result<Profile, String> {
        read(
            text.as_bytes(),
            Path::new("x.json"),
            &ImportOptions::default(),
        )
    }

    /// Stack 1 is `main`, then `work`, in two ways to write it.
    fn document(tables: &str, shared: &str, prefix: &str) -> String {
        let of = |inside: &str| inside.replace("PREFIX", prefix);
        format!(
            r#"{{"meta":{{"preprocessedProfileVersion":60}},"libs":[{{"path":"/bin/x","name":"x"}}],"shared":{{{}}},
               "threads":[{{"name":"t","pid":"7","tid":8,{}
               "samples":{{"stack":[1,1,0,null],"timeDeltas":[0,1,1,1],"weight":null,"weightType":"samples"}}}}]}}"#,
            of(shared),
            of(tables)
        )
    }

    const TABLES: &str = r#""stringArray":["main","work","x"],"stackTable":{"frame":[0,1],PREFIX},
        "frameTable":{"address":[16,32],"inlineDepth":[0,0],"func":[0,1],"line":[null,3],"column":[null,null]},
        "funcTable":{"name":[0,1],"resource":[0,-1],"source":[null,null],"lineNumber":[null,null]},
        "resourceTable":{"lib":[0],"name":[2]}"#;

    #[test]
    fn tables_of_threads_and_shared_ones_are_read() {
        let own = format!("{TABLES},");
        for text in [
            document("", TABLES, r#""prefix":[null,0]"#),
            document("", TABLES, r#""prefixOffset":[0,1]"#),
            document(&own, r#""sources":{"filename":[]}"#, r#""prefix":[null,0]"#),
        ] {
            let profile = profile(&text).unwrap();
            assert_eq!(profile.events[0].samples, 3);
            let names = |stack| -> Vec<&str> {
                let names = profile
                    .stack(stack)
                    .map(|id| profile.function(id).name.as_deref());
                names.map(Result::unwrap).collect()
            };
            let mut found: Vec<_> = (profile.aggregated.iter())
                .map(|entry| (names(entry.stack), entry.samples))
                .collect();
            found.sort();
            assert_eq!(found, [(vec!["main"], 1), (vec!["main", "work"], 2)]);
        }
    }

    #[test]
    fn tables_that_lead_in_a_circle_or_nowhere_are_errors() {
        let circle = document("", TABLES, r#""prefix":[1,0]"#);
        assert!(profile(&circle).unwrap_err().contains("circle"));
        let nowhere = document(
            "",
            &TABLES.replace("\"func\":[0,1]", "\"func\":[0,9]"),
            r#""prefix":[null,0]"#,
        );
        assert!(profile(&nowhere).unwrap_err().contains("function 9"));
        assert!(profile("{\"threads\":[").is_err());
    }

    #[test]
    fn lists_without_end_are_errors() {
        let threads = format!("{{\"threads\":[{}{{}}]}}", "{},".repeat(1 << 18));
        let error = profile(&threads).unwrap_err();
        assert!(error.contains("more than 262144 entries"), "{error}");
        // What is no number of a process is none, however it is nested.
        let nested = document("\"pid\":[{\"a\":[1]}],", TABLES, r#""prefix":[null,0]"#);
        let nested = nested.replace("\"pid\":\"7\",", "");
        assert_eq!(profile(&nested).unwrap().events[0].samples, 3);
    }

    #[test]
    fn rows_that_no_table_has_are_errors() {
        for stack in ["9", "4294967296", "9223372036854775807"] {
            let text = document("", TABLES, r#""prefix":[null,0]"#);
            let text = text.replace("\"stack\":[1,1,0,null]", &format!("\"stack\":[{stack}]"));
            let error = profile(&text).unwrap_err();
            assert!(error.contains("there is no stack"), "{stack}: {error}");
        }
    }
}
