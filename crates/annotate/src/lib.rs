//! Annotates functions: source lines and instructions with their samples.
//!
//! The input is a profile [with addresses](rprof_analysis::Options::addresses), its images, and a
//! symbolizer with lines. [`text`] writes the result for a terminal, [`json`] for programs.
//! [`editor`] writes the lines of a whole profile for editors.
//!
//! | item | is |
//! |---|---|
//! | [`subject::hottest`], [`subject::named`] | select functions of a profile: [`AnnotatedCode`] |
//! | [`Annotator`] | creates the [`Annotation`] of a subject |
//! | [`Annotation`] | code with [`Instruction`]s, [`Loop`]s, samples; [`Annotation::lines`] |
//! | [`Instruction`] | address, text, samples, control flow, and its [`Place`]s in the source |
//! | [`Amount`] | self and total, as weight and as number of samples |
//! | [`flow::arrows`] | arrows of jumps, in lanes |
//! | [`Sources`] | texts of source files that may be read |
//! | [`skid`] | precision of an event's addresses |
//! | [`disassembly`] | disassemblers by processor |
//!
//! ```no_run
//! use std::path::Path;
//!
//! use rprof_analysis::{Options, analyse_with_code};
//! use rprof_annotate::{Annotator, Inlined, Syntax, subject};
//! use rprof_perfdata::PerfData;
//! use rprof_profile::WeighBy;
//! use rprof_symbols::Symbolizer;
//!
//! let data = PerfData::open(Path::new("perf.data"))?;
//! let symbolizer = Symbolizer::builder().lines(true).build();
//! let options = Options { addresses: true, ..Options::default() };
//! let (profile, images) = analyse_with_code(&data, &symbolizer, &options);
//! let images = [images];
//! let annotator = Annotator { symbolizer: &symbolizer, images: &images, syntax: Syntax::Att };
//! for subject in subject::hottest(&profile, 0, WeighBy::Period, 3, 0.8) {
//!     let annotation = annotator.annotate(&profile, 0, WeighBy::Period, &subject)?;
//!     for instruction in annotation.instructions() {
//!         println!("{:x} {} {}", instruction.address, instruction.amount.own, instruction.text);
//!     }
//!     for (line, amount) in annotation.lines(Inlined::CallSite) {
//!         println!("{}:{} {}", annotation.file(line), line.line, amount.own);
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Names, paths and source lines are untrusted. The output of this crate is sanitized; other front
//! ends must call [`rprof_export::clean`]. The decoder reads at most 1 MiB of code at a time.
//! `rprof-image`, `rprof-symbols` and [`sources`] define which images, debug information and source
//! files may be opened.

mod amount;
mod annotation;
mod annotator;
pub mod disassembly;
pub mod editor;
pub mod flow;
pub mod json;
mod names;
pub mod skid;
pub mod sources;
pub mod subject;
pub mod text;
mod text_arrows;
mod text_rows;

pub use amount::Amount;
pub use annotation::{Annotation, CodePart, Inlined, Instruction, LineKey, Loop, Place};
pub use annotator::{AnnotateError, Annotator};
pub use disassembly::{Flow, Syntax};
pub use sources::{RemoteSources, SourceRefusal, SourceText, Sources};
pub use subject::AnnotatedCode;
