//! Exports a [`Profile`] as reports, flame graphs, web pages and other tools' formats.
//!
//! | module | writes |
//! |---|---|
//! | [`folded`] | folded stacks: `comm;root;…;leaf weight` |
//! | [`svg`] | a flame graph |
//! | [`html`] | an interactive page |
//! | [`pprof`] | pprof's format, with addresses, lines and inlined calls |
//! | [`otlp`] | OpenTelemetry profiles (experimental) |
//! | [`parts`] | pprof or OpenTelemetry profiles, split into parts |
//! | [`firefox`] | the Firefox Profiler's format, with each thread in time order |
//! | [`speedscope`] | speedscope's format, with each thread in time order |
//! | [`perfetto`] | Perfetto's trace format, with waits beside samples |
//! | [`cpuprofile`] | V8's CPU profile, with all threads in one time line |
//! | [`table`], [`markdown`], [`json`], [`mod@csv`] | reports: the top functions |
//! | [`live`] | the functions of a live profile: a table, JSON |
//! | [`diff`] | comparisons: table, Markdown, JSON, CSV, folded stacks, a picture |
//!
//! | module | helps the writers |
//! |---|---|
//! | [`formats`] | table of all output formats |
//! | [`options`], [`rows`] | options and rows shared by the reports |
//! | [`protobuf`] | encoder of protocol buffers |
//! | [`verdict`] | [`Finding`](verdict::Finding): the quality verdict in words |
//! | [`tree`] | trees of callers and callees below the rows |
//! | [`threads`] | merges threads of different names |
//! | [`names`], [`clean`] | sanitized names |
//! | [`generics`] | names without their generic arguments |
//!
//! ```no_run
//! use std::path::Path;
//!
//! use rprof_analysis::{Options, analyse};
//! use rprof_export::svg::{self, SvgOptions};
//! use rprof_export::{ExportFormat, ReportOptions, folded};
//! use rprof_perfdata::PerfData;
//! use rprof_profile::WeighBy;
//! use rprof_symbols::Symbolizer;
//!
//! let data = PerfData::open(Path::new("perf.data"))?;
//! let profile = analyse(&data, &Symbolizer::builder().build(), &Options::default());
//! let mut out = std::io::stdout().lock();
//! if let Some(event) = profile.main_event() {
//!     folded::write(&profile, event, WeighBy::Period, &mut out)?;
//!     svg::write(&profile, event, &SvgOptions::default(), &mut out)?;
//! }
//! if let Some(json) = ExportFormat::by_name("json") {
//!     (json.write)(&profile, &ReportOptions::default(), &mut out)?;
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The crate does not depend on how a profile was recorded. All output goes to a
//! [`std::io::Write`]; nothing prints.
//!
//! # A new export
//!
//! Add a file with a `write` function, and an entry in [`formats::FORMATS`]. The command line, the
//! tests and the fuzz target use that table. Get names only from [`CleanNames`], which removes
//! escape sequences.
//!
//! [`Profile`]: rprof_profile::Profile

pub mod amounts;
pub mod clean;
pub mod cpuprofile;
pub mod csv;
pub mod diff;
pub mod firefox;
pub mod folded;
pub mod formats;
mod frame_kind;
mod frame_lists;
mod frame_ranks;
mod frame_text;
mod gzip;
mod heat;
pub mod html;
pub mod json;
mod json_writer;
pub mod live;
mod locations;
pub mod markdown;
mod markdown_text;
mod name_ranks;
pub mod names;
pub mod options;
pub mod otlp;
pub mod parts;
pub mod perfetto;
pub mod pprof;
pub mod protobuf;
pub mod rows;
pub mod speedscope;
mod summed;
pub mod svg;
pub mod table;
pub mod threads;
mod timelines;
pub mod tree;
pub mod verdict;
pub mod wrap;

pub use formats::{Content, ExportFormat, FORMATS, WrittenAddresses};
pub use names::{CleanName, CleanNames};
pub use options::{ExportOptions, ReportOptions, SampleLabel};
pub use parts::{Encoded, PartEncoder};
pub use rows::RowOptions;
pub use rprof_profile::generics;
pub use tree::{TreeOptions, shown_branches};
