//! Options that the reports have in common.

use crate::rows::RowOptions;
use crate::verdict::Finding;

/// Options that the reports have in common. Each uses those that mean something for it.
#[derive(Clone, Debug)]
pub struct ReportOptions {
    /// Selection and order of rows.
    pub rows: RowOptions,
    /// Colour the shares, where the output is for a terminal.
    pub color: bool,
    /// Leave out everything above the rows.
    pub bare: bool,
    /// Width of the terminal that a table is for, in characters: objects are shown by file name,
    /// and long names shortened, so that no row is wider. `None` shows names in full.
    pub width: Option<usize>,
    /// Height of the terminal that a table is for, in lines: as many rows are shown as fit below the verdict, ten at
    /// least, and none that has nothing of what rows are sorted by. `None` shows what [`rows`](Self::rows) says.
    pub height: Option<usize>,
    /// Headings of the columns of names, in the order in which they stand; others follow in the order of all columns. Empty for
    /// that order.
    pub column_order: Vec<&'static str>,
    /// Words the last line of a table from which the limit left out this many rows. `None` leaves
    /// the line out.
    pub rest: Option<fn(usize) -> String>,
    /// Words a finding of the quality verdict: `Display`, or what names a program's own options.
    pub wording: fn(&Finding) -> String,
    /// Options of the formats of other tools.
    pub export: ExportOptions,
}

/// Options of the formats of other tools: pprof and OpenTelemetry's.
#[derive(Clone, Debug)]
pub struct ExportOptions {
    /// Labels of samples. Samples that differ in one of them are not summed up.
    pub labels: Vec<SampleLabel>,
    /// Attributes of the resource that OpenTelemetry's profiles are of, by name: `service.name`. One without that name gets
    /// `unknown_service`.
    pub resource: Vec<(String, String)>,
    /// Most locations of a stack. Of a deeper one the innermost are kept. `None`: all.
    pub max_depth: Option<usize>,
}

impl Default for ExportOptions {
    fn default() -> Self {
        ExportOptions {
            labels: vec![SampleLabel::Thread],
            resource: Vec::new(),
            max_depth: None,
        }
    }
}

/// Label of samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum SampleLabel {
    /// Name of the thread.
    Thread,
    /// Name of the process; only of profiles that tell threads apart.
    Process,
    /// Number of the process; only of profiles that tell threads apart.
    Pid,
    /// Number of the thread; only of profiles that tell threads apart.
    Tid,
    /// Number of the CPU; only of profiles that keep samples one by one.
    Cpu,
    /// `user` or `kernel`: whose code the sample was taken in.
    Mode,
}

impl SampleLabel {
    /// All labels, in the order in which they are written.
    pub const ALL: [SampleLabel; 6] = [
        SampleLabel::Thread,
        SampleLabel::Process,
        SampleLabel::Pid,
        SampleLabel::Tid,
        SampleLabel::Cpu,
        SampleLabel::Mode,
    ];

    /// Returns the name of the label in pprof. That of a thread is `comm`, as perf's converters have it.
    pub fn key(self) -> &'static str {
        match self {
            SampleLabel::Thread => "comm",
            SampleLabel::Process => "process",
            SampleLabel::Pid => "pid",
            SampleLabel::Tid => "tid",
            SampleLabel::Cpu => "cpu",
            SampleLabel::Mode => "mode",
        }
    }

    /// Returns the name of the attribute by OpenTelemetry's semantic conventions.
    pub fn attribute(self) -> &'static str {
        match self {
            SampleLabel::Thread => "thread.name",
            SampleLabel::Process => "process.executable.name",
            SampleLabel::Pid => "process.pid",
            SampleLabel::Tid => "thread.id",
            SampleLabel::Cpu => "cpu.logical_number",
            SampleLabel::Mode => "cpu.mode",
        }
    }

    /// Returns whether threads must be told apart by their numbers for it.
    pub fn is_by_thread(self) -> bool {
        matches!(
            self,
            SampleLabel::Process | SampleLabel::Pid | SampleLabel::Tid
        )
    }
}

impl ReportOptions {
    /// Returns the place of a column in the order that is asked for.
    pub(crate) fn place_of_column(&self, heading: &str) -> usize {
        let place = self.column_order.iter().position(|other| *other == heading);
        place.unwrap_or(self.column_order.len())
    }
}

impl Default for ReportOptions {
    fn default() -> Self {
        ReportOptions {
            rows: RowOptions::default(),
            color: false,
            bare: false,
            width: None,
            height: None,
            column_order: Vec::new(),
            rest: None,
            wording: Finding::to_string,
            export: ExportOptions::default(),
        }
    }
}
