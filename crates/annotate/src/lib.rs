//! Source and instructions of functions, with the samples of each line and instruction.
//!
//! A profile [with addresses](rprof_analysis::Options::addresses), the images that it was made of and a symbolizer with lines go
//! in; rows come out, which whoever shows them draws: [`text`] for a terminal, [`json`] for machines.
//!
//! | item | is |
//! |---|---|
//! | [`subject::hottest`], [`subject::named`] | the functions of a profile to be annotated: [`Subject`] |
//! | [`Annotator`] | makes an [`Annotation`] of a subject |
//! | [`Annotation`] | parts of code with their [`Instruction`]s and [`Loop`]s, samples of each, and the lines' by [`Annotation::lines`] |
//! | [`Instruction`] | address, text, samples, where it leads, and its [`Place`]s in the source: in the function, and in each call that was inlined |
//! | [`Amount`] | self and total, as weight and as samples |
//! | [`flow::arrows`] | arrows of jumps, in lanes |
//! | [`Sources`] | texts of source files, as far as they may be read |
//! | [`skid`] | what the event promises about addresses |
//! | [`disassembly`] | machine code to instructions, for each kind of processor |
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
//! Names, paths and lines of source are as hostile as the programs that they come from: what is written here is made safe to
//! show, and who draws by other means cleans them ([`rprof_export::clean`]). Code is decoded up to a MiB at a time; images, debug
//! information and source files are opened by the rules of `rprof-image`, `rprof-symbols` and [`sources`].

mod amount;
mod annotation;
mod annotator;
pub mod disassembly;
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
pub use annotation::{Annotation, Inlined, Instruction, LineKey, Loop, Part, Place};
pub use annotator::{AnnotateError, Annotator};
pub use disassembly::{Flow, Syntax};
pub use sources::{RemoteSources, SourceRefusal, SourceText, Sources};
pub use subject::Subject;
