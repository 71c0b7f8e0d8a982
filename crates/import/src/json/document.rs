//! Deserialized JSON document, for the Firefox Profiler, speedscope, V8 and Chrome traces, because
//! keys come in any order.

use std::fmt;

use serde::Deserializer;
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};

use super::value::{
    Address, Held, List, Loose, Number, RowNumber, Scalar, Strings, Value, objects, values,
};

pub(super) type Column = List<RowNumber>;

/// Times and weights.
pub(super) type Measures = List<f64>;

/// Returns the list entry at an index, if it exists.
pub(super) fn at<T>(list: &List<T>, number: Option<i64>) -> Option<&T> {
    list.0.get(usize::try_from(number?).ok()?)
}

/// Returns the number in a row of a column, if it exists. It may be negative.
pub(super) fn of(column: &Column, number: Option<i64>) -> Option<i64> {
    at(column, number).map(|number| number.get())
}

objects! {
    struct Document {
        meta: Meta = "meta",
        libs: List<Library> = "libs",
        shared: Shared = "shared",
        threads: Option<Box<List<Thread>>> = "threads",
        /// Key of speedscope files.
        schema: String = "$schema",
        profiles: Option<Box<List<Timeline>>> = "profiles",
        exporter: String = "exporter",
        name: String = "name",
        /// Keys of V8's CPU profiles (`.cpuprofile`).
        nodes: List<CallNode> = "nodes",
        samples: List<NodeSample> = "samples",
        time_deltas: Measures = "timeDeltas",
        start_time: Option<f64> = "startTime",
        end_time: Option<f64> = "endTime",
        rprof: Option<Box<Origin>> = "rprof",
        /// Key of Chrome traces.
        trace_events: Option<Box<List<TraceEvent>>> = "traceEvents",
        /// Key of V8's heap profiles (`.heapprofile`), beside `samples`.
        head: Option<Box<HeapNode>> = "head",
    }

    struct Meta {
        product: String = "product",
        start: Option<f64> = "startTimeAsClockMonotonicNanosecondsSinceBoot",
        interval: Option<f64> = "interval",
        imported_from: String = "importedFrom",
        /// Version of the processed format.
        processed: Option<f64> = "preprocessedProfileVersion",
        /// Version of the Gecko format, which every profile has.
        version: Option<f64> = "version",
    }

    struct Library {
        path: String = "path",
        name: String = "name",
        code_id: String = "codeId",
    }

    /// Shared tables of all threads, and speedscope's frames.
    struct Shared {
        string_array: Option<Box<Strings>> = "stringArray",
        string_table: Option<Box<Strings>> = "stringTable",
        stack_table: Option<Box<StackTable>> = "stackTable",
        frame_table: Option<Box<FrameTable>> = "frameTable",
        func_table: Option<Box<FuncTable>> = "funcTable",
        resource_table: Option<Box<ResourceTable>> = "resourceTable",
        sources: Option<Box<SourceTable>> = "sources",
        frames: Option<Box<List<SpeedscopeFrame>>> = "frames",
    }

    struct StackTable {
        frame: Column = "frame",
        prefix: Column = "prefix",
        prefix_offset: Option<Box<Column>> = "prefixOffset",
    }

    struct FrameTable {
        address: List<Address> = "address",
        inline_depth: Column = "inlineDepth",
        func: Column = "func",
        line: Column = "line",
        column: Column = "column",
    }

    struct FuncTable {
        name: Column = "name",
        resource: Column = "resource",
        /// Source index, from version 58 on.
        source: Column = "source",
        /// String index of the file name, before version 58.
        file_name: Column = "fileName",
        line_number: Column = "lineNumber",
    }

    struct ResourceTable {
        lib: Column = "lib",
        name: Column = "name",
    }

    struct SourceTable {
        filename: Column = "filename",
    }

    struct Thread {
        name: String = "name",
        process_name: String = "processName",
        pid: Number = "pid",
        tid: Number = "tid",
        samples: Samples = "samples",
        string_array: Option<Box<Strings>> = "stringArray",
        string_table: Option<Box<Strings>> = "stringTable",
        stack_table: Option<Box<StackTable>> = "stackTable",
        frame_table: Option<Box<FrameTable>> = "frameTable",
        func_table: Option<Box<FuncTable>> = "funcTable",
        resource_table: Option<Box<ResourceTable>> = "resourceTable",
        sources: Option<Box<SourceTable>> = "sources",
    }

    struct Samples {
        stack: Column = "stack",
        time: Option<Box<Measures>> = "time",
        time_deltas: Option<Box<Measures>> = "timeDeltas",
        weight: Option<Box<List<Option<f64>>>> = "weight",
        weight_type: String = "weightType",
    }

    struct SpeedscopeFrame {
        name: String = "name",
        file: String = "file",
        line: RowNumber = "line",
        column: RowNumber = "col",
    }

    /// One speedscope profile: the stacks of one thread.
    struct Timeline {
        kind: String = "type",
        name: String = "name",
        unit: String = "unit",
        start: Option<f64> = "startValue",
        end: Option<f64> = "endValue",
        samples: List<Column> = "samples",
        weights: Measures = "weights",
        events: List<Event> = "events",
    }

    /// Start or end of a call.
    struct Event {
        kind: String = "type",
        frame: RowNumber = "frame",
        at: Option<f64> = "at",
    }
}

// V8's CPU profiles.
objects! {
    struct CallNode {
        id: RowNumber = "id",
        call: CallFrame = "callFrame",
        samples: RowNumber = "hitCount",
        children: Column = "children",
        /// In profiles without `children`.
        parent: RowNumber = "parent",
    }

    /// Numbers of lines and columns begin at 0.
    struct CallFrame {
        name: String = "functionName",
        url: String = "url",
        line: RowNumber = "lineNumber",
        column: RowNumber = "columnNumber",
    }

    /// Call with the sampled allocations that it made itself.
    struct HeapNode {
        id: RowNumber = "id",
        call: CallFrame = "callFrame",
        bytes: Option<f64> = "selfSize",
        children: List<HeapNode> = "children",
    }

    struct HeapSample {
        node: RowNumber = "nodeId",
    }

    /// Additional facts in exports of rprof.
    struct Origin {
        event: String = "event",
        unit: String = "unit",
        threads: RowNumber = "threads",
    }
}

// Chrome traces. Events of other kinds have any values.
objects! {
    struct TraceEvent {
        name: Scalar = "name",
        pid: Number = "pid",
        tid: Number = "tid",
        id: Scalar = "id",
        /// Microseconds.
        at: Scalar = "ts",
        arguments: Loose<TraceArguments> = "args",
    }

    struct TraceArguments {
        /// Name of a thread or process.
        name: Scalar = "name",
        data: Loose<TraceData> = "data",
    }

    /// Part of a CPU profile.
    struct TraceData {
        start_time: Scalar = "startTime",
        end_time: Scalar = "endTime",
        profile: Loose<TraceProfile> = "cpuProfile",
        time_deltas: Option<Box<Measures>> = "timeDeltas",
    }

    struct TraceProfile {
        nodes: List<CallNode> = "nodes",
        samples: List<NodeSample> = "samples",
        /// In profiles of one event.
        time_deltas: Option<Box<Measures>> = "timeDeltas",
        start_time: Scalar = "startTime",
        end_time: Scalar = "endTime",
    }
}

values!(
    HeapNode,
    HeapSample,
    TraceArguments,
    TraceData,
    TraceProfile,
    CallNode,
    CallFrame,
    Origin,
    Document,
    Meta,
    Library,
    Shared,
    StackTable,
    FrameTable,
    FuncTable,
    ResourceTable,
    SourceTable,
    Samples,
    SpeedscopeFrame,
    Timeline,
    Event
);

impl Value for Thread {
    fn read<'de, D: Deserializer<'de>>(input: D, held: &Held<'_, '_>) -> Result<Self, D::Error> {
        Thread::read_fields(input, held)
    }

    /// Drops threads without samples.
    fn is_wanted(&self) -> bool {
        !self.samples.stack.0.is_empty()
    }
}

impl Value for TraceEvent {
    fn read<'de, D: Deserializer<'de>>(input: D, held: &Held<'_, '_>) -> Result<Self, D::Error> {
        TraceEvent::read_fields(input, held)
    }

    /// Drops events without a part of a CPU profile or a name.
    fn is_wanted(&self) -> bool {
        matches!(
            self.name.text(),
            "Profile" | "ProfileChunk" | "CpuProfile" | "thread_name" | "process_name"
        )
    }
}

/// Sample of V8: the number of its node. Heap profiles have it in an object (`nodeId`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NodeSample(pub(super) RowNumber);

impl Value for NodeSample {
    fn read<'de, D: Deserializer<'de>>(input: D, held: &Held<'_, '_>) -> Result<Self, D::Error> {
        struct OfSample<'h, 'c, 'o>(&'h Held<'c, 'o>);

        impl<'de> Visitor<'de> for OfSample<'_, '_, '_> {
            type Value = RowNumber;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a node")
            }

            fn visit_u64<E>(self, number: u64) -> Result<RowNumber, E> {
                Ok(RowNumber::new(number))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<RowNumber, A::Error> {
                let sample = HeapSample::read(MapAccessDeserializer::new(map), self.0)?;
                Ok(sample.node)
            }
        }

        input.deserialize_any(OfSample(held)).map(NodeSample)
    }
}
