//! Analyses recordings: turns perf.data files, or live records, into profiles.
//!
//! | item | purpose |
//! |---|---|
//! | [`analyse`] | returns a [`Profile`](rprof_profile::Profile): samples aggregated by stack |
//! | [`analyse_with_code`] | also returns [`CodeImages`], which find the code of functions |
//! | [`LiveAnalysis`] | makes profiles of live records, without a file |
//! | [`Samples`] | lists single samples in time order |
//! | [`Index`] | holds the processes with their mappings over time, and the losses |
//!
//! A [`Symbolizer`](rprof_symbols::Symbolizer) supplies the names. A function without a name has a
//! [`Reason`](rprof_profile::Reason). Damage is not an error: the records before it are analysed,
//! with a warning.
//!
//! Time is linear in the samples and shared by all cores. Memory is linear in distinct stacks, each
//! resolved once.
//!
//! # Examples
//!
//! Analyses a recording made in memory:
//!
//! ```
//! use std::io::Cursor;
//! use std::path::Path;
//!
//! use rprof_analysis::{Options, Samples, analyse};
//! use rprof_perfdata::{EventDescription, FeatureSections, FileWriter, PerfData, RecordWriter};
//! use rprof_profile::{Filter, Reason};
//! use rprof_records::{Attr, Endian, Misc, SampleFields, SampleLayout, SampleType};
//! use rprof_symbols::Symbolizer;
//!
//! let attr = Attr {
//!     sample_type: SampleType::IP | SampleType::TID | SampleType::TIME | SampleType::PERIOD,
//!     ..Attr::default()
//! };
//! let layout = SampleLayout::new(&attr, Endian::NATIVE);
//! let event = EventDescription { attr, name: "cycles".into(), ids: vec![] };
//! let mut bytes = Vec::new();
//! let mut writer = FileWriter::create(Cursor::new(&mut bytes), vec![event])?;
//! for time in [20, 10] {
//!     let (ip, pid, tid, period) = (0x1234, 7, 8, 100);
//!     let fields = SampleFields { ip, pid, tid, time, period, ..SampleFields::default() };
//!     let mut record = Vec::new();
//!     fields.encode(Misc::USER, &layout, &mut record)?;
//!     writer.write_records(&record)?;
//! }
//! writer.finish(FeatureSections::new(Endian::NATIVE))?;
//!
//! let data = PerfData::read(&bytes[..], Path::new("example"))?;
//! let symbolizer = Symbolizer::builder().build();
//! let profile = analyse(&data, &symbolizer, &Options::default());
//! assert_eq!((profile.events[0].samples, profile.events[0].weight), (2, 200));
//! // Without a recorded mapping, no function has a name.
//! assert_eq!(profile.quality.unnamed[&Reason::Unmapped], 2);
//!
//! let samples = Samples::read(&data, &symbolizer, &Filter::default());
//! let times: Vec<u64> = samples.iter().map(|sample| sample.time).collect();
//! assert_eq!(times, [10, 20]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

// Data flow of the passes:
//
//    PerfData --> sideband_pass: Index --> sample_pass (all cores): distinct locations and stacks
//                                                           |
//                         Profile  <--  assemble  <--  symbolize (images in parallel)

mod analyse;
mod assemble;
mod caches;
mod code;
mod comms;
mod counted;
mod deferred_callchains;
mod group_reads;
mod groups;
mod image_lookup;
mod jit;
mod latency;
mod live;
mod location;
mod machine;
mod memory_over_time;
mod options;
mod requests;
mod sample_pass;
pub mod samples;
mod sideband_pass;
mod stack_end;
mod stack_filter;
mod symbolize;
mod unwind;
mod warnings;

pub use analyse::{analyse, analyse_with_code};
pub use code::{CodeImages, ObjectCode};
pub use latency::tells_latency;
pub use live::{LiveAnalysis, LiveMoment, LiveView, LiveWriter, Span};
pub use options::{MemoryOptions, MemoryTime, Options, WaitOptions};
pub use samples::{Details, Item, RecordView, SampleFrame, SampleView, Samples};
pub use sideband_pass::{EventTally, Index, UnknownRecords};
