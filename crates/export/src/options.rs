//! Options shared by the reports.

use crate::rows::RowOptions;
use crate::verdict::Finding;

/// Options shared by the reports. Each format ignores options that do not apply to it.
#[derive(Clone, Debug)]
pub struct ReportOptions {
    /// Selection and order of rows.
    pub rows: RowOptions,
    /// Colour the shares, for a terminal.
    pub color: bool,
    /// Omit the headers above the rows.
    pub bare: bool,
    /// Width of the terminal, in characters. A table then shortens names so that every row fits.
    /// `None` shows full names.
    pub width: Option<usize>,
    /// Height of the terminal, in lines. A table then shows as many nonzero rows as fit, but at
    /// least ten. `None` uses the limit of [`rows`](Self::rows).
    pub height: Option<usize>,
    /// Words the last line of a table, from the number of hidden rows. `None` omits it.
    pub rest: Option<fn(usize) -> String>,
    /// Words a finding: `Display`, or a function that names the program's options.
    pub wording: fn(&Finding) -> String,
    /// Options of the pprof and OpenTelemetry formats.
    pub export: ExportOptions,
}

/// Options of the pprof and OpenTelemetry formats.
#[derive(Clone, Debug)]
pub struct ExportOptions {
    /// Labels of samples. Samples with different labels are not merged.
    pub labels: Vec<SampleLabel>,
    /// Attributes of the OpenTelemetry resource. `service.name` defaults to `unknown_service`.
    pub resource: Vec<(String, String)>,
    /// Maximum number of locations per stack, innermost first. `None`: all.
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
    /// Thread name.
    Thread,
    /// Process name. Requires a profile that separates threads.
    Process,
    /// Process id. Requires a profile that separates threads.
    Pid,
    /// Thread id. Requires a profile that separates threads.
    Tid,
    /// CPU number. Requires a profile that keeps single samples.
    Cpu,
    /// CPU mode: `user` or `kernel`.
    Mode,
    /// Trace id of the request. Requires a profile that separates requests.
    Trace,
    /// Span id of the request. Requires a profile that separates requests.
    Span,
}

impl SampleLabel {
    /// All labels, in output order.
    pub const ALL: [SampleLabel; 8] = [
        SampleLabel::Thread,
        SampleLabel::Process,
        SampleLabel::Pid,
        SampleLabel::Tid,
        SampleLabel::Cpu,
        SampleLabel::Mode,
        SampleLabel::Trace,
        SampleLabel::Span,
    ];

    /// Returns the label's name in pprof. A thread name is `comm`, as in perf's converters.
    pub fn key(self) -> &'static str {
        match self {
            SampleLabel::Thread => "comm",
            SampleLabel::Process => "process",
            SampleLabel::Pid => "pid",
            SampleLabel::Tid => "tid",
            SampleLabel::Cpu => "cpu",
            SampleLabel::Mode => "mode",
            SampleLabel::Trace => "trace_id",
            SampleLabel::Span => "span_id",
        }
    }

    /// Returns the attribute's name in OpenTelemetry's semantic conventions.
    pub fn attribute(self) -> &'static str {
        match self {
            SampleLabel::Thread => "thread.name",
            SampleLabel::Process => "process.executable.name",
            SampleLabel::Pid => "process.pid",
            SampleLabel::Tid => "thread.id",
            SampleLabel::Cpu => "cpu.logical_number",
            SampleLabel::Mode => "cpu.mode",
            SampleLabel::Trace => "trace_id",
            SampleLabel::Span => "span_id",
        }
    }

    /// Returns true if the label requires a profile that separates requests.
    pub fn is_of_request(self) -> bool {
        matches!(self, SampleLabel::Trace | SampleLabel::Span)
    }

    /// Returns true if the label requires a profile that separates threads.
    pub fn is_by_thread(self) -> bool {
        matches!(
            self,
            SampleLabel::Process | SampleLabel::Pid | SampleLabel::Tid
        )
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
            rest: None,
            wording: Finding::to_string,
            export: ExportOptions::default(),
        }
    }
}
