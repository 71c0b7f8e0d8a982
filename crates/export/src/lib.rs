//! A profile as something to look at, or to hand on: functions of a [`Profile`].
//!
//! | module | makes |
//! |---|---|
//! | [`folded`] | folded stacks: `comm;root;…;leaf weight` |
//! | [`svg`] | a flame graph |
//! | [`html`] | a page that explores a profile |
//! | [`pprof`] | pprof's format, with addresses, lines and inlined calls |
//! | [`otlp`] | OpenTelemetry's profiles, experimental |
//! | [`parts`] | either of them in several parts |
//! | [`firefox`] | the Firefox Profiler's format, with each thread in order of time |
//! | [`speedscope`] | speedscope's format, with each thread in order of time |
//! | [`protobuf`] | fields of protocol buffers, of which some of these are made |
//! | [`formats`] | the table of all forms: these, and the reports [`table`], [`markdown`], [`json`] and [`mod@csv`] |
//! | [`live`] | the functions of a live profile: a table, JSON |
//! | [`options`], [`rows`] | the options and rows that reports have in common |
//! | [`diff`] | comparisons: table, Markdown, JSON, CSV, folded stacks, a picture |
//! | [`verdict`] | [`Finding`](verdict::Finding): the quality verdict in words |
//! | [`tree`] | trees of callers and callees below the rows |
//! | [`threads`] | threads of different names that are one |
//! | [`names`], [`clean`] | names made safe to show |
//! | [`generics`] | names without their generic arguments |
//!
//! ```no_run
//! use std::path::Path;
//!
//! use rprof_analysis::{Options, analyse};
//! use rprof_export::svg::{self, SvgOptions};
//! use rprof_export::{Format, ReportOptions, folded};
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
//! if let Some(json) = Format::by_name("json") {
//!     (json.write)(&profile, &ReportOptions::default(), &mut out)?;
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Nothing here knows how a profile was recorded. Everything writes to a
//! [`std::io::Write`]; nothing prints.
//!
//! # A new export
//!
//! A file with a `write` function, and an entry in [`formats::FORMATS`]; the command line, the tests and the
//! fuzz target follow that table. Names come from [`CleanNames`] alone, which cannot hand
//! out a name with an escape sequence in it.
//!
//! [`Profile`]: rprof_profile::Profile

mod amounts;
pub mod clean;
pub mod csv;
pub mod diff;
pub mod firefox;
pub mod folded;
pub mod formats;
mod frame_kind;
mod frame_lists;
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
pub mod pprof;
pub mod protobuf;
pub mod rows;
pub mod speedscope;
mod summed;
pub mod svg;
pub mod table;
pub mod threads;
pub mod tree;
pub mod verdict;
pub mod wrap;

pub use formats::{Content, FORMATS, Format, WrittenAddresses};
pub use names::{CleanName, CleanNames};
pub use options::{ExportOptions, ReportOptions, SampleLabel};
pub use parts::{Encoded, PartEncoder};
pub use rows::RowOptions;
pub use rprof_profile::generics;
pub use tree::{TreeOptions, shown_branches};
