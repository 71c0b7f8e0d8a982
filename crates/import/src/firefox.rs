//! Processed profiles of the Firefox Profiler (<https://github.com/firefox-devtools/profiler>, `src/types/profile.ts`):
//! of versions with tables for each thread (up to 59), and of those with shared ones.

use std::path::Path;

use rprof_profile::{Frame, FrameAddress, FrameId, Line, ObjectId, Profile, WeightUnit};
use rprof_records::BuildId;
use rustc_hash::FxHashMap;
use serde::Deserialize;

use crate::ImportOptions;
use crate::collector::{Collector, Row};

#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    meta: Meta,
    #[serde(default)]
    libs: Vec<Library>,
    #[serde(default)]
    shared: Tables,
    #[serde(default)]
    threads: Vec<Thread>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Meta {
    product: String,
    #[serde(rename = "startTimeAsClockMonotonicNanosecondsSinceBoot")]
    start: Option<f64>,
    interval: f64,
    #[serde(rename = "importedFrom")]
    imported_from: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Library {
    path: String,
    name: String,
    #[serde(rename = "codeId")]
    code_id: Option<String>,
}

/// A column of numbers, `null` or -1 where there is none.
type Column = Vec<Option<i64>>;

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Tables {
    string_array: Option<Vec<String>>,
    string_table: Option<Vec<String>>,
    stack_table: Option<StackTable>,
    frame_table: Option<FrameTable>,
    func_table: Option<FuncTable>,
    resource_table: Option<ResourceTable>,
    sources: Option<SourceTable>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct StackTable {
    frame: Column,
    prefix: Column,
    prefix_offset: Option<Column>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct FrameTable {
    address: Column,
    inline_depth: Column,
    func: Column,
    line: Column,
    column: Column,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct FuncTable {
    name: Column,
    resource: Column,
    /// Source, from version 58 on.
    source: Column,
    /// String with the file's name, before.
    file_name: Column,
    line_number: Column,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ResourceTable {
    lib: Column,
    name: Column,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SourceTable {
    filename: Column,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Thread {
    #[serde(default)]
    name: String,
    #[serde(default)]
    process_name: Option<String>,
    #[serde(default)]
    pid: serde_json::Value,
    #[serde(default)]
    tid: serde_json::Value,
    #[serde(default)]
    samples: Samples,
    // Not flattened, which would hold all that is not known here.
    string_array: Option<Vec<String>>,
    string_table: Option<Vec<String>>,
    stack_table: Option<StackTable>,
    frame_table: Option<FrameTable>,
    func_table: Option<FuncTable>,
    resource_table: Option<ResourceTable>,
    sources: Option<SourceTable>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Samples {
    stack: Column,
    time: Option<Vec<f64>>,
    time_deltas: Option<Vec<f64>>,
    weight: Option<Vec<f64>>,
    weight_type: Option<String>,
}

fn at<T>(list: &[T], number: Option<i64>) -> Option<&T> {
    list.get(usize::try_from(number?).ok()?)
}

fn of(column: &[Option<i64>], number: Option<i64>) -> Option<i64> {
    at(column, number).copied().flatten()
}

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
    let is_time = document
        .threads
        .iter()
        .all(|thread| thread.samples.weight_type.as_deref() == Some("tracing-ms"))
        && !document.threads.is_empty();
    let is_bytes = |thread: &Thread| thread.samples.weight_type.as_deref() == Some("bytes");
    let (name, unit) = match document.threads.iter().any(is_bytes) {
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
    for thread in &document.threads {
        let mut stacks = Stacks::new(&document, thread);
        let own = |value: &serde_json::Value| match value {
            serde_json::Value::String(text) => text.parse().ok(),
            value => value.as_i64().and_then(|number| i32::try_from(number).ok()),
        };
        let samples = &thread.samples;
        let mut time = 0.0;
        for (nth, stack) in samples.stack.iter().enumerate() {
            let delta = samples
                .time_deltas
                .as_ref()
                .and_then(|deltas| deltas.get(nth));
            time = match (&samples.time, delta) {
                (Some(times), _) => times.get(nth).copied().unwrap_or(time),
                (None, Some(delta)) => time + delta,
                (None, None) => time + document.meta.interval,
            };
            let weight = samples
                .weight
                .as_ref()
                .map_or(Some(1.0), |weights| weights.get(nth).copied());
            let weight = match weight {
                // A difference of two profiles has negative weights.
                Some(weight) if weight > 0.0 && weight.is_finite() => weight,
                _ => continue,
            };
            let frames = stacks.frames(*stack, &mut out)?;
            // What waits has an empty stack, or none.
            if frames.is_empty() {
                continue;
            }
            out.add(&Row {
                event,
                pid: own(&thread.pid),
                tid: own(&thread.tid),
                comm: &thread.name,
                process: thread.process_name.as_deref(),
                time: Some(origin.saturating_add(nanoseconds(time))),
                frames: &frames,
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

/// Stacks of one thread, by the tables of the thread or the shared ones.
struct Stacks<'d> {
    libraries: &'d [Library],
    strings: &'d [String],
    stack_table: &'d StackTable,
    frame_table: &'d FrameTable,
    func_table: &'d FuncTable,
    resources: &'d ResourceTable,
    sources: &'d SourceTable,
    known: FxHashMap<i64, FrameId>,
    callers: FxHashMap<i64, FrameId>,
}

/// Most frames of a stack that are followed: a table that leads round in a circle has no more either.
const MOST_FRAMES: usize = 1 << 14;

impl<'d> Stacks<'d> {
    fn new(document: &'d Document, thread: &'d Thread) -> Stacks<'d> {
        const NONE: &[String] = &[];
        static STACKS: StackTable = StackTable {
            frame: Vec::new(),
            prefix: Vec::new(),
            prefix_offset: None,
        };
        static FRAMES: FrameTable = FrameTable {
            address: Vec::new(),
            inline_depth: Vec::new(),
            func: Vec::new(),
            line: Vec::new(),
            column: Vec::new(),
        };
        static FUNCS: FuncTable = FuncTable {
            name: Vec::new(),
            resource: Vec::new(),
            source: Vec::new(),
            file_name: Vec::new(),
            line_number: Vec::new(),
        };
        static RESOURCES: ResourceTable = ResourceTable {
            lib: Vec::new(),
            name: Vec::new(),
        };
        static SOURCES: SourceTable = SourceTable {
            filename: Vec::new(),
        };
        let (own, shared) = (thread, &document.shared);
        let strings = [
            &own.string_array,
            &own.string_table,
            &shared.string_array,
            &shared.string_table,
        ];
        Stacks {
            libraries: &document.libs,
            strings: strings
                .iter()
                .find_map(|list| list.as_deref())
                .unwrap_or(NONE),
            stack_table: own
                .stack_table
                .as_ref()
                .or(shared.stack_table.as_ref())
                .unwrap_or(&STACKS),
            frame_table: own
                .frame_table
                .as_ref()
                .or(shared.frame_table.as_ref())
                .unwrap_or(&FRAMES),
            func_table: own
                .func_table
                .as_ref()
                .or(shared.func_table.as_ref())
                .unwrap_or(&FUNCS),
            resources: own
                .resource_table
                .as_ref()
                .or(shared.resource_table.as_ref())
                .unwrap_or(&RESOURCES),
            sources: own
                .sources
                .as_ref()
                .or(shared.sources.as_ref())
                .unwrap_or(&SOURCES),
            known: FxHashMap::default(),
            callers: FxHashMap::default(),
        }
    }

    /// Returns the frames of a stack, root first.
    fn frames(
        &mut self,
        stack: Option<i64>,
        out: &mut Collector<'_>,
    ) -> Result<Vec<FrameId>, String> {
        let mut numbers = Vec::new();
        let mut next = stack.filter(|stack| *stack >= 0);
        while let Some(stack) = next {
            let frame = of(&self.stack_table.frame, Some(stack));
            numbers.push(
                frame.ok_or_else(|| format!("there is no stack {stack}, or it has no frame"))?,
            );
            if numbers.len() > MOST_FRAMES {
                return Err(format!(
                    "a stack has more than {MOST_FRAMES} frames, or its table leads in a circle"
                ));
            }
            next = match &self.stack_table.prefix_offset {
                // 0 for a root.
                Some(offsets) => of(offsets, Some(stack))
                    .filter(|offset| *offset > 0)
                    .map(|offset| stack - offset),
                None => of(&self.stack_table.prefix, Some(stack)),
            };
        }
        // Frames of an inlined call lie at the leaf's address as well.
        let mut is_leaf = true;
        let mut frames = Vec::with_capacity(numbers.len());
        for number in numbers {
            frames.push(self.frame(number, is_leaf, out)?);
            is_leaf &= of(&self.frame_table.inline_depth, Some(number)).unwrap_or(0) > 0;
        }
        frames.reverse();
        Ok(frames)
    }

    fn frame(
        &mut self,
        number: i64,
        is_leaf: bool,
        out: &mut Collector<'_>,
    ) -> Result<FrameId, String> {
        let known = if is_leaf { &self.known } else { &self.callers };
        if let Some(known) = known.get(&number) {
            return Ok(*known);
        }
        let index = Some(number);
        let table = self.frame_table;
        let function = of(&table.func, index)
            .ok_or_else(|| format!("there is no frame {number}, or it has no function"))?;
        let (name, object) = self.function(function, out)?;
        let function_id = out.function(name, object);
        let address = of(&table.address, index).and_then(|address| u64::try_from(address).ok());
        let address = address.map(|address| match is_leaf {
            true => FrameAddress::InstructionPointer(address),
            // It lies within the call.
            false => FrameAddress::ReturnAddress(address.wrapping_add(1)),
        });
        let small = |number: Option<i64>| u32::try_from(number.unwrap_or(0)).unwrap_or(0);
        let file = match at(
            &self.sources.filename,
            of(&self.func_table.source, Some(function)),
        ) {
            Some(name) => at(self.strings, *name),
            None => at(self.strings, of(&self.func_table.file_name, Some(function))),
        };
        let line = small(of(&table.line, index));
        let line = file.filter(|_| line > 0).map(|file| Line {
            file: out.file(file),
            line,
            column: small(of(&table.column, index)),
        });
        let id = out.frame(Frame {
            address,
            line,
            inline_depth: small(of(&table.inline_depth, index)),
            start_line: small(of(&self.func_table.line_number, Some(function))),
            ..Frame::of(function_id)
        });
        let known = if is_leaf {
            &mut self.known
        } else {
            &mut self.callers
        };
        known.insert(number, id);
        Ok(id)
    }

    /// Returns name and object of a function.
    fn function(
        &self,
        number: i64,
        out: &mut Collector<'_>,
    ) -> Result<(&'d str, ObjectId), String> {
        let name = of(&self.func_table.name, Some(number));
        let strings = self.strings;
        let name = at(strings, name)
            .ok_or_else(|| format!("there is no function {number}, or it has no name"))?;
        let resource =
            of(&self.func_table.resource, Some(number)).filter(|resource| *resource >= 0);
        let library = of(&self.resources.lib, resource);
        let object = match at(self.libraries, library) {
            Some(library) => {
                let path = match library.path.is_empty() {
                    true => &library.name,
                    false => &library.path,
                };
                let build_id = library.code_id.as_deref().and_then(BuildId::from_hex);
                out.object(path, build_id)
            }
            None => match at(strings, of(&self.resources.name, resource)) {
                Some(name) => out.object(name, None),
                None => out.object("[unknown]", None),
            },
        };
        Ok((name.as_str(), object))
    }
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
}
