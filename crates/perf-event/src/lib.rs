//! perf_event_open(2) made safe: events, counters and ring buffers of this kernel.
//!
//! ```text
//!   Builder ---open----> Counter --read--> Reading { value, enabled, running } --> Scaled { value, share }
//!      |                 Group, ProcessCounter: several of them
//!      |
//!   Attr --OpenOptions--> PerfFd: the descriptor, and all ioctls
//!                           |
//!                           +---Ring::map---> Ring --drain--> records as bytes
//!      |                    |                  ControlPage: counts and times without a system call
//!      |                    +- AuxRing, OverwriteRing, BackwardRing; signals
//!      +---Sampler::open--> Sampler, ProcessSampler, SignalSampler --next(timeout)--> typed records
//! ```
//!
//! One event, one group, one counter or one ring: there are no sessions and no files
//! here, and no thread but that of a `SignalSampler`. `rprof-records` has [`Attr`](rprof_records::Attr) and decodes records, `rprof-sampler`
//! watches many CPUs and threads at once. Nearly all of the project's `unsafe` is in this crate.
//!
//! | module | holds |
//! |---|---|
//! | [`builder`] | [`Builder`]: every field and bit of an event, its target, and how to open it |
//! | [`event`] | numbers of events: [`Hardware`], [`Software`], [`Cache`], [`Breakpoint`] |
//! | [`clock`] | [`Clock`]: clocks of the times in records |
//! | [`fd`] | [`OpenOptions`], [`PerfFd`]: the system call |
//! | [`open_flags`] | [`OpenFlags`] of the system call |
//! | [`control`] | ioctls of [`PerfFd`]; prctl |
//! | [`counter`] | [`Counter`]: one event that is counted |
//! | [`group`] | [`Group`]: events that are counted together |
//! | [`process`] | [`ProcessCounter`]: all threads of a process |
//! | [`reading`] | [`Reading`], [`ReadError`]: counter values |
//! | [`scaled`] | [`Scaled`]: values that say for which share of the time they were counted |
//! | [`ring`] | [`Ring`]: one ring buffer |
//! | [`sampler`] | [`Sampler`]: records of one ring, one by one, with a time-out |
//! | [`process_sampler`] | [`ProcessSampler`]: the same for all threads of a process |
//! | [`decoder`] | [`RecordDecoder`]: bytes of a ring to typed records |
//! | [`overwrite`] | [`OverwriteRing`], [`BackwardRing`]: rings that the kernel overwrites |
//! | [`aux`] | [`AuxRing`]: traces of hardware |
//! | [`page`] | [`ControlPage`]: counts, times and clocks without a system call |
//! | [`signal`] | [`OverflowSignals`], [`SignalSampler`], [`Traps`]: overflows as signals |
//! | [`error`] | [`OpenEventError`], [`MapRingError`]: what was refused, and why |
//! | [`remedy`] | [`Remedy`]: what to do about it |
//! | [`attr_part`] | [`AttrPart`]: which part of an attr a refusal is about |
//! | [`limits`] | [`Limits`]: what the administrator allows |
//! | [`errno`] | [`Errno`]: error numbers and their text |
//!
//! # Example
//!
//! ```no_run
//! use rprof_perf_event::{Builder, Software};
//!
//! let faults = Builder::software(Software::PAGE_FAULTS).exclude_kernel(true).open()?;
//! let (touched, counted) = faults.measure(|| vec![1_u8; 1 << 20])?;
//! match counted.scaled() {
//!     Some(faults) => println!("{faults} page faults for {} bytes", touched.len()),
//!     None => println!("the event never ran"),
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The reference is perf_event_open(2) and `include/uapi/linux/perf_event.h`.

pub mod attr_part;
pub mod aux;
pub mod builder;
pub mod clock;
pub mod control;
pub mod counter;
pub mod decoder;
pub mod errno;
pub mod error;
pub mod event;
pub mod fd;
pub mod group;
pub mod limits;
mod mapping;
pub mod open_flags;
pub mod overwrite;
pub mod page;
pub mod process;
pub mod process_sampler;
pub mod reading;
pub mod remedy;
pub mod ring;
pub mod sampler;
pub mod scaled;
pub mod signal;
mod wait;

pub use attr_part::{AttrPart, PartObstacle};
pub use aux::AuxRing;
pub use builder::Builder;
pub use clock::{Clock, UnknownClock};
pub use control::{BpfPrograms, disable_all_opened_here, enable_all_opened_here};
pub use counter::{CountError, Counter};
pub use decoder::{RecordDecoder, RingRecord};
pub use errno::{Errno, ErrnoName, ErrnoText};
pub use error::{MapRingError, OpenEventError};
pub use event::{Breakpoint, BreakpointAccess, Cache, CacheOp, CacheResult, Hardware, Software};
pub use fd::{OpenOptions, PerfFd, Subject};
pub use group::{Group, GroupReading, Member};
pub use limits::Limits;
pub use open_flags::OpenFlags;
pub use overwrite::{BackwardRing, Followed, OverwriteRing, Snapshot};
pub use page::{
    ControlPage, PageCapabilities, PageFields, PagePositions, TscConversion, UserReading,
};
pub use process::{ProcessCounter, ProcessError};
pub use process_sampler::ProcessSampler;
pub use reading::{ReadError, Reading};
pub use remedy::Remedy;
pub use ring::Ring;
pub use sampler::{Next, SampleError, Sampler};
pub use scaled::Scaled;
pub use signal::{
    Overflow, OverflowCode, OverflowSignals, SignalInfo, SignalSampler, SignalSamples, Trap, Traps,
    TrapsError,
};
