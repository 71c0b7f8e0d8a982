//! Profile model, independent of the sample source. All exports read it.
//!
//! A [`Profile`] holds functions with their objects, stacks of frames, threads, and samples,
//! aggregated by stack. On request, single samples are stored too. This crate parses no recordings
//! and writes no export formats.
//!
//! | module | contents |
//! |---|---|
//! | [`model`] | [`Profile`], [`EventSummary`] |
//! | [`builder`] | [`ProfileBuilder`] |
//! | [`folded`] | [`read`](folded::read): reader of folded stacks |
//! | [`limits`] | limits for reading profiles of other tools |
//! | [`frame`] | [`Function`], [`Object`], [`Frame`] (function, address, line, inline depth) |
//! | [`stacks`] | [`StackId`]: stacks that share their callers |
//! | [`samples`] | [`Thread`], [`AggregatedStack`], [`SampleColumns`] |
//! | [`streams`] | [`SampleStreams`]: single samples, compressed to a few bytes each |
//! | [`mod@unit`] | [`WeightUnit`]: unit of weights; counts in words |
//! | [`views::call_tree`] | [`CallTree`](views::call_tree::CallTree): callers and callees of functions |
//! | [`views::stack_tree`] | [`StackTree`](views::stack_tree::StackTree): all stacks as one reweightable tree |
//! | [`views::trie`] | [`Trie`](views::trie::Trie): prefix tree of call paths |
//! | [`views::call_branches`] | [`CallBranches`](views::call_branches::CallBranches): lazy call tree |
//! | [`views::selection`] | [`Selection`](views::selection::Selection): samples that meet conditions |
//! | [`views::address_hits`] | weights by address in selected functions |
//! | [`filter`] | [`Filter`]: conditions on samples |
//! | [`views::top`] | [`TopFunctions`]: sums by function, thread, object or line |
//! | [`mod@compare`] | [`compare`](compare::compare): compares two sets of profiles by function |
//! | [`generics`] | function names without generic arguments |
//! | [`mod@merge`] | [`merge`](merge()): merges several profiles |
//! | [`pattern`] | name patterns with `*` and `?` |
//! | [`quality`] | [`Quality`]: complete stacks, named frames, and reasons for the rest |
//! | [`language`] | [`Language`]: languages of functions; stacks without interpreter code |
//! | [`mod@runtime`] | [`Runtime`]: runtimes with JIT code or their own stacks |
//! | `event_names` | names of events of waits, wall-clock time and memory |
//! | [`memory`] | events of resident memory |
//! | [`waits`] | off-CPU samples: wait reasons, and wall-clock time as one event |
//! | [`waits::idle`] | merges the waits of idle threads |
//! | [`waits::reasons`] | [`reason`](waits::reasons::reason): derives wait reasons from kernel functions |
//! | [`waits::locks`] | detects functions that acquire locks |
//! | [`one_name`] | merges rows of one function with two manglings |
//! | [`intern`] | [`Lists`](intern::Lists), [`Values`](intern::Values): interned lists and values |
//!
//! # Examples
//!
//! [`ProfileBuilder`] shows how to build a profile and list its top functions.

pub mod builder;
pub mod compare;
mod event_names;
pub mod filter;
pub mod folded;
pub mod frame;
pub mod generics;
pub mod intern;
pub mod language;
pub mod limits;
pub mod memory;
pub mod merge;
pub mod model;
pub mod one_name;
pub mod pattern;
pub mod quality;
pub mod runtime;
pub mod samples;
pub mod stacks;
pub mod streams;
pub mod unit;
pub mod views;
pub mod waits;

pub use builder::{IntoFrame, ProfileBuilder, SymbolTables};
pub use event_names::is_modifier;
pub use filter::{Filter, NO_REQUEST, RequestKey};
pub use frame::{
    FileId, Frame, FrameAddress, FrameId, Function, FunctionId, Line, Object, ObjectId, ObjectKind,
    SourceFunction, StackPosition, is_kernel_address,
};
pub use language::{Language, SourceName};
pub use merge::{callers_of, merge};
pub use model::{EventSummary, Profile};
pub use quality::{IdleThreads, LatencyTally, Quality, RecordingCount, StackEnds};
pub use rprof_cpu_time::{CpuTime, OffCpuTime};
pub use rprof_image::Reason;
pub use runtime::Runtime;
pub use samples::{
    AggregatedStack, Gap, GapCause, ProfileSample, RequestIds, SampleColumns, Thread, ThreadId, hex,
};
pub use stacks::{FrameListId, StackId};
pub use streams::{SampleStream, SampleStreams, StreamIter, StreamedSample};
pub use unit::WeightUnit;
pub use views::top::{Keys, RowKey, TopFunctions, TopRow, WeighBy};
pub use waits::WallError;
