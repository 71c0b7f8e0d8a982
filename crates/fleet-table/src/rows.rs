//! A row type for each table. `docs/fleet.md` explains the columns.

use std::cmp::Ordering;

use crate::column::Column;
use crate::{Id, Table};

/// Row type of one table: its sort order and its columns.
pub trait TableRow: Sized {
    /// Table of the row.
    const TABLE: Table;

    /// Compares two rows by the sort order of the file.
    fn order(&self, other: &Self) -> Ordering;

    /// Converts rows to columns, in schema order.
    fn columns(rows: &[Self]) -> Vec<Column>;
}

/// Image with locations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageRow {
    /// Id, by build-id or path.
    pub image_id: Id,
    /// Build-id in hexadecimal digits, if it has one.
    pub build_id: Option<String>,
    /// Path on the host, or a name such as `[kernel.kallsyms]`.
    pub path: String,
    /// `file`, `kernel`, `jit` or `waiting`.
    pub kind: &'static str,
    /// `edge` if the host resolved all sampled names, `wanted` if names are missing and the
    /// build-id may resolve them, else `none`.
    pub symbols: &'static str,
}

/// Names and lines of a location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameRow {
    /// Id of the location in [`LocationRow`].
    pub location_id: Id,
    /// Quality of the names: 0 no name, or only the function's start (`app+0x1040`); 1 a symbol
    /// table name; 2 source lines. Of several rows, the highest rank applies.
    pub symbols_rank: i32,
    /// Calls at this address, innermost first. The last one is not inlined.
    pub lines: Vec<FrameLine>,
}

/// A call at an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameLine {
    /// Name of the function, if known.
    pub function: Option<String>,
    /// Path of the source file, if known.
    pub file: Option<String>,
    /// Line number from 1, if known.
    pub line: Option<i32>,
    /// True if the call was inlined into the next one.
    pub inlined: bool,
}

/// Address in stacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocationRow {
    /// Id, by image and address, or by image and names.
    pub location_id: Id,
    /// Image that contains it.
    pub image_id: Id,
    /// Offset into the image's file, if it has a file.
    pub address: Option<i64>,
}

/// Call stack as a list of locations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackRow {
    /// Id, by its locations.
    pub stack_id: Id,
    /// Locations, leaf first.
    pub location_ids: Vec<Id>,
}

/// Window of a host.
#[derive(Clone, Debug, PartialEq)]
pub struct HostRow {
    /// Start of the window, in microseconds since 1970, UTC.
    pub window_start: i64,
    /// Length of the window, in microseconds.
    pub window_us: i64,
    /// Name of the host.
    pub host: String,
    /// Number of samples of all processes in the window.
    pub samples: i64,
    /// Number of samples with stacks that reach the root.
    pub complete: i64,
    /// Number of records lost by the kernel.
    pub lost: i64,
    /// Number of times the kernel throttled sampling.
    pub throttled: i64,
    /// Number of lost windows before this one.
    pub lost_windows: i64,
    /// Requested samples a second per CPU. 0 if sampling was by event counts.
    pub rate_hz: f64,
    /// Factor that scales amounts to the whole: 1 / the sampled share of hosts or time.
    pub scale: f64,
    /// Version of rprof that wrote the row.
    pub agent_version: String,
}

/// Amount of one stack in a window.
#[derive(Clone, Debug, PartialEq)]
pub struct SampleRow {
    /// Start of the window, in microseconds since 1970, UTC.
    pub window_start: i64,
    /// Length of the window, in microseconds.
    pub window_us: i64,
    /// Workload of the samples.
    pub identity: Identity,
    /// Name of the host.
    pub host: String,
    /// Name of the process, with digits folded.
    pub comm: String,
    /// Name of the thread, with digits folded.
    pub thread: String,
    /// Name of the event.
    pub event: String,
    /// `nanoseconds`, or `events`.
    pub unit: &'static str,
    /// Mean weight of a sample of the event.
    pub period: f64,
    /// Id of the stack in [`StackRow`].
    pub stack_id: Id,
    /// Number of samples with this stack.
    pub samples: i64,
    /// Sum of their weights, in `unit`.
    pub value: i64,
    /// Factor that scales `samples` and `value` to the whole.
    pub scale: f64,
}

/// Workload of samples.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    /// Name of the service.
    pub service: String,
    /// Version of the service, if known.
    pub version: Option<String>,
    /// Namespace of the pod, if it has one.
    pub namespace: Option<String>,
    /// Uid of the pod, if it has one.
    pub pod: Option<String>,
    /// Id of the container, if it has one.
    pub container_id: Option<String>,
}

impl TableRow for ImageRow {
    const TABLE: Table = Table::Images;

    fn order(&self, other: &Self) -> Ordering {
        (self.image_id, &self.path).cmp(&(other.image_id, &other.path))
    }

    fn columns(rows: &[Self]) -> Vec<Column> {
        vec![
            Column::id(rows.iter().map(|row| row.image_id)),
            Column::optional_text(rows.iter().map(|row| row.build_id.as_deref())),
            Column::text(rows.iter().map(|row| row.path.as_str())),
            Column::text(rows.iter().map(|row| row.kind)),
            Column::text(rows.iter().map(|row| row.symbols)),
        ]
    }
}

impl TableRow for FrameRow {
    const TABLE: Table = Table::Frames;

    fn order(&self, other: &Self) -> Ordering {
        let key = |row: &Self| (row.location_id, row.symbols_rank);
        key(self).cmp(&key(other))
    }

    fn columns(rows: &[Self]) -> Vec<Column> {
        let lines = || rows.iter().map(|row| row.lines.iter());
        vec![
            Column::id(rows.iter().map(|row| row.location_id)),
            Column::int32(rows.iter().map(|row| row.symbols_rank)),
            Column::optional_texts(lines().map(|lines| lines.map(|line| line.function.as_deref()))),
            Column::optional_texts(lines().map(|lines| lines.map(|line| line.file.as_deref()))),
            Column::optional_int32s(lines().map(|lines| lines.map(|line| line.line))),
            Column::bools(lines().map(|lines| lines.map(|line| line.inlined))),
        ]
    }
}

impl TableRow for LocationRow {
    const TABLE: Table = Table::Locations;

    fn order(&self, other: &Self) -> Ordering {
        self.location_id.cmp(&other.location_id)
    }

    fn columns(rows: &[Self]) -> Vec<Column> {
        vec![
            Column::id(rows.iter().map(|row| row.location_id)),
            Column::id(rows.iter().map(|row| row.image_id)),
            Column::optional_int64(rows.iter().map(|row| row.address)),
        ]
    }
}

impl TableRow for StackRow {
    const TABLE: Table = Table::Stacks;

    fn order(&self, other: &Self) -> Ordering {
        self.stack_id.cmp(&other.stack_id)
    }

    fn columns(rows: &[Self]) -> Vec<Column> {
        vec![
            Column::id(rows.iter().map(|row| row.stack_id)),
            Column::ids(rows.iter().map(|row| row.location_ids.as_slice())),
        ]
    }
}

impl TableRow for HostRow {
    const TABLE: Table = Table::Hosts;

    fn order(&self, other: &Self) -> Ordering {
        (&self.host, self.window_start).cmp(&(&other.host, other.window_start))
    }

    fn columns(rows: &[Self]) -> Vec<Column> {
        vec![
            Column::int64(rows.iter().map(|row| row.window_start)),
            Column::int64(rows.iter().map(|row| row.window_us)),
            Column::text(rows.iter().map(|row| row.host.as_str())),
            Column::int64(rows.iter().map(|row| row.samples)),
            Column::int64(rows.iter().map(|row| row.complete)),
            Column::int64(rows.iter().map(|row| row.lost)),
            Column::int64(rows.iter().map(|row| row.throttled)),
            Column::int64(rows.iter().map(|row| row.lost_windows)),
            Column::double(rows.iter().map(|row| row.rate_hz)),
            Column::double(rows.iter().map(|row| row.scale)),
            Column::text(rows.iter().map(|row| row.agent_version.as_str())),
        ]
    }
}

impl TableRow for SampleRow {
    const TABLE: Table = Table::Samples;

    /// Sorts by service, then by stack. Queries select by them, and this order compresses best.
    fn order(&self, other: &Self) -> Ordering {
        fn key(row: &SampleRow) -> impl Ord + '_ {
            let names = (&row.comm, &row.thread, &row.host);
            (
                &row.identity,
                &row.event,
                row.stack_id,
                row.window_start,
                names,
            )
        }
        key(self).cmp(&key(other))
    }

    fn columns(rows: &[Self]) -> Vec<Column> {
        let identity = || rows.iter().map(|row| &row.identity);
        vec![
            Column::int64(rows.iter().map(|row| row.window_start)),
            Column::int64(rows.iter().map(|row| row.window_us)),
            Column::text(identity().map(|identity| identity.service.as_str())),
            Column::optional_text(identity().map(|identity| identity.version.as_deref())),
            Column::text(rows.iter().map(|row| row.host.as_str())),
            Column::optional_text(identity().map(|identity| identity.namespace.as_deref())),
            Column::optional_text(identity().map(|identity| identity.pod.as_deref())),
            Column::optional_text(identity().map(|identity| identity.container_id.as_deref())),
            Column::text(rows.iter().map(|row| row.comm.as_str())),
            Column::text(rows.iter().map(|row| row.thread.as_str())),
            Column::text(rows.iter().map(|row| row.event.as_str())),
            Column::text(rows.iter().map(|row| row.unit)),
            Column::double(rows.iter().map(|row| row.period)),
            Column::id(rows.iter().map(|row| row.stack_id)),
            Column::int64(rows.iter().map(|row| row.samples)),
            Column::int64(rows.iter().map(|row| row.value)),
            Column::double(rows.iter().map(|row| row.scale)),
        ]
    }
}
