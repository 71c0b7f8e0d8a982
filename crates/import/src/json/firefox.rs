//! Processed profiles of the Firefox Profiler (<https://github.com/firefox-devtools/profiler>,
//! `src/types/profile.ts`), with tables per thread (up to version 59) or shared tables.

use rprof_profile::WeightUnit;

use super::document::{Document, Thread};
use super::nanoseconds;
use super::stacks::Stacks;
use crate::collector::{Collector, Row};

const MILLISECOND: f64 = 1e6;

pub(super) fn read(document: &Document, out: &mut Collector<'_>) -> Result<(), String> {
    let threads = (document.threads.as_deref()).map_or(&[][..], |list| &list.0[..]);
    let is_time = threads
        .iter()
        .all(|thread| thread.samples.weight_type == "tracing-ms")
        && !threads.is_empty();
    let is_bytes = |thread: &Thread| thread.samples.weight_type == "bytes";
    let (name, unit) = match threads.iter().any(is_bytes) {
        true => ("bytes", WeightUnit::Named("bytes".into())),
        false if is_time => ("cpu-clock", WeightUnit::Nanoseconds),
        false => ("samples", WeightUnit::Samples),
    };
    // In rprof's exports the product is the event name, in others the program.
    let exporter = &document.meta.imported_from;
    let (name, unit) = match document.meta.product.as_str() {
        product if exporter.starts_with("rprof ") => (product, WeightUnit::of_event(product)),
        _ => (name, unit),
    };
    let event = out.event(name, unit);
    let origin = nanoseconds(document.meta.start.unwrap_or(0.0), 1.0);
    let interval = document.meta.interval.unwrap_or(0.0);
    for thread in threads {
        let mut stacks = Stacks::new(document, thread);
        let samples = &thread.samples;
        let process = Some(&*thread.process_name).filter(|name| !name.is_empty());
        out.work(thread.name.len() + thread.process_name.len())?;
        let id = out.thread(thread.pid.0, thread.tid.0, &thread.name, process)?;
        let mut time = 0.0;
        for (nth, stack) in samples.stack.0.iter().enumerate() {
            let delta = samples
                .time_deltas
                .as_ref()
                .and_then(|deltas| deltas.0.get(nth));
            time = match (&samples.time, delta) {
                (Some(times), _) => times.0.get(nth).copied().unwrap_or(time),
                (None, Some(delta)) => time + delta,
                (None, None) => time + interval,
            };
            let weight = samples
                .weight
                .as_ref()
                .map_or(Some(1.0), |weights| weights.0.get(nth).copied().flatten());
            let weight = match weight {
                // A difference of two profiles has negative weights.
                Some(weight) if weight > 0.0 && weight.is_finite() => weight,
                _ => continue,
            };
            let Some(stack) = stacks.stack(stack.get(), out)? else {
                continue;
            };
            out.add(&Row {
                event,
                thread: id,
                time: Some(origin.saturating_add(nanoseconds(time, MILLISECOND))),
                stack: Some(stack),
                samples: 1,
                weight: match is_time {
                    true => nanoseconds(weight, MILLISECOND),
                    false => weight.round() as u64,
                },
                ..Row::default()
            })?;
        }
    }
    out.warn(
        "the Firefox Profiler's format records neither why functions are unnamed nor whether \
         stacks are complete",
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rprof_profile::Profile;

    use crate::{ImportOptions, ReadingBudget};

    fn within(text: &str, memory: u64) -> Result<Profile, String> {
        let options = ImportOptions {
            budget: ReadingBudget::new(memory),
            ..ImportOptions::default()
        };
        super::super::read(&mut text.as_bytes(), Path::new("x.json"), &options)
            .map_err(|error| error.to_string())
    }

    fn profile(text: &str) -> Result<Profile, String> {
        within(text, 64 << 20)
    }

    /// Stack 1 is `main;work`. `prefix` selects one of two encodings.
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
        assert!(profile(&circle).unwrap_err().contains("contains a cycle"));
        let nowhere = document(
            "",
            &TABLES.replace("\"func\":[0,1]", "\"func\":[0,9]"),
            r#""prefix":[null,0]"#,
        );
        assert!(profile(&nowhere).unwrap_err().contains("function 9"));
        assert!(profile("{\"threads\":[").is_err());
        assert!(profile("{\"meta\":{\"preprocessedProfileVersion\":60},\"threads\":[]}").is_err());
    }

    #[test]
    fn all_tables_share_one_budget() {
        // Each thread has a small table; together they exceed the budget.
        let strings = "\"\",".repeat(10_000);
        let own = format!("\"stringArray\":[{strings}\"\"],");
        let one = document(&own, TABLES, r#""prefix":[null,0]"#);
        let thread = &one[one.rfind("\"threads\":[").unwrap() + 11..one.len() - 2];
        let many = one.replace(thread, &vec![thread; 64].join(","));
        let error = within(&many, 4 << 20).unwrap_err();
        assert!(
            error.contains("it takes more than 4 MiB of memory"),
            "{error}"
        );
        // Threads without samples cost nothing after parsing.
        let idle = many.replace("\"stack\":[1,1,0,null]", "\"stack\":[]");
        let error = within(&idle, 4 << 20).unwrap_err();
        assert!(error.contains("it has no sample"), "{error}");
        // An invalid pid counts as missing, however it is nested.
        let nested = document("\"pid\":[{\"a\":[1]}],", TABLES, r#""prefix":[null,0]"#);
        let nested = nested.replace("\"pid\":\"7\",", "");
        assert_eq!(profile(&nested).unwrap().events[0].samples, 3);
        let deep = format!("{{\"x\":{}", "[".repeat(1 << 20));
        assert!(profile(&deep).unwrap_err().contains("nested"));
        let long = format!("{{\"x\":\"{}\"}}", "x".repeat(17 << 20));
        assert!(profile(&long).unwrap_err().contains("longer than 16 MiB"));
    }

    #[test]
    fn stacks_that_share_all_their_callers_end_at_the_budget() {
        // Row 9,999 has 10,000 frames, and each row is the stack of a sample.
        let rows: Vec<String> = (0..10_000).map(|row| row.to_string()).collect();
        let ones = vec!["1"; 10_000].join(",");
        let tables = TABLES.replace("\"frame\":[0,1]", &format!("\"frame\":[{ones}]"));
        let text = document("", &tables, &format!("\"prefixOffset\":[0,{}]", &ones[2..]));
        let text = text.replace(
            "\"stack\":[1,1,0,null]",
            &format!("\"stack\":[{}]", rows.join(",")),
        );
        let text = text.replace("\"timeDeltas\":[0,1,1,1],", "");
        let error = within(&text, 64 << 20).unwrap_err();
        assert!(error.contains("it takes more than 64 MiB"), "{error}");
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
