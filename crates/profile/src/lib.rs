//! Profile model: the input of all exports, whatever source the samples come from.
//!
//! A [`Profile`] holds functions with the objects that they lie in, stacks of frames, threads, and
//! samples, summed up by stack and on request one by one. A [`ProfileBuilder`] makes one;
//! `rprof-analysis` makes them from recordings.
//!
//! | module | holds |
//! |---|---|
//! | [`model`] | [`Profile`], [`EventSummary`] |
//! | [`builder`] | [`ProfileBuilder`] |
//! | [`folded`] | [`read`](folded::read): profiles of folded stacks |
//! | [`limits`] | limits of what is read of other tools' profiles |
//! | [`frame`] | [`Function`], [`Object`], [`Frame`]: a function, an address in it, a line, an inline depth |
//! | [`stacks`] | [`StackId`]: stacks of frames that share their callers |
//! | [`samples`] | [`Thread`], [`AggregatedStack`], [`SampleColumns`] |
//! | [`streams`] | [`SampleStreams`]: samples one by one, in a few bytes each |
//! | [`mod@unit`] | [`WeightUnit`]: unit of weights |
//! | [`call_tree`] | [`CallTree`](call_tree::CallTree): callers and callees of functions as trees |
//! | [`stack_tree`] | [`StackTree`](stack_tree::StackTree): all stacks as one tree, weighed again where filters change |
//! | [`trie`] | [`Trie`](trie::Trie): chains of calls with their beginnings shared |
//! | [`call_branches`] | [`CallBranches`](call_branches::CallBranches): callers or callees of a function, made as they are looked at |
//! | [`selection`] | [`Selection`](selection::Selection): the samples that fulfil conditions, weighed again |
//! | [`address_hits`] | samples in chosen functions, by the addresses in them |
//! | [`filter`] | [`Filter`]: conditions on samples |
//! | [`top`] | [`TopFunctions`]: sums by function, thread, object or line |
//! | [`mod@compare`] | [`compare`](compare::compare): two sets of profiles, function by function |
//! | [`generics`] | names without their generic arguments |
//! | [`mod@merge`] | [`merge`](merge()): one profile of several |
//! | [`pattern`] | patterns of names, with `*` and `?` |
//! | [`quality`] | [`Quality`]: complete stacks and named frames, and reasons for the rest |
//! | [`mod@runtime`] | [`Runtime`]: a runtime that generates code, or keeps stacks of its own |
//! | [`waits`] | samples of waits: what was waited for, and the time on a CPU and off it as one event |
//! | [`idle`] | threads that wait in one place all the while, as one block |
//! | [`reasons`] | [`reason`](reasons::reason): what a thread waited for, by the kernel's functions |
//! | [`locks`] | functions that acquire locks |
//! | [`one_name`] | one row for a function that two manglings name |
//! | [`intern`] | [`Lists`](intern::Lists), [`Values`](intern::Values): interned lists and values |
//!
//! # Examples
//!
//! [`ProfileBuilder`] has a profile built by hand, and its top functions.

pub mod address_hits;
pub mod builder;
pub mod call_branches;
pub mod call_tree;
pub mod compare;
pub mod filter;
pub mod folded;
pub mod frame;
pub mod generics;
pub mod idle;
pub mod intern;
pub mod limits;
pub mod locks;
pub mod merge;
pub mod model;
pub mod one_name;
pub mod pattern;
pub mod quality;
pub mod reasons;
pub mod runtime;
pub mod samples;
pub mod selection;
pub mod stack_tree;
pub mod stacks;
pub mod streams;
pub mod top;
pub mod trie;
pub mod unit;
pub mod waits;

pub use builder::{ProfileBuilder, SymbolTables};
pub use filter::Filter;
pub use frame::{
    FileId, Frame, FrameAddress, FrameId, Function, FunctionId, Line, Object, ObjectId, ObjectKind,
    StackPosition, is_kernel_address,
};
pub use idle::IdleThreads;
pub use merge::{callers_of, merge};
pub use model::{EventSummary, Profile};
pub use quality::{CountedEvent, Quality, StackTally};
pub use rprof_cpu_time::{CpuTime, OffCpuTime};
pub use rprof_image::Reason;
pub use runtime::Runtime;
pub use samples::{AggregatedStack, Gap, GapCause, Sample, SampleColumns, Thread, ThreadId};
pub use stacks::{FrameListId, StackId};
pub use streams::{SampleStream, SampleStreams, StreamIter, StreamedSample};
pub use top::{Keys, RowKey, TopFunctions, TopRow, WeighBy};
pub use unit::WeightUnit;
pub use waits::WallError;
