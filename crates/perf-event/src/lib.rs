//! Safe interface to perf_event_open(2): events, counters and ring buffers of this kernel.
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
//! The crate handles single events, groups, counters and ring buffers. It has no sessions and no
//! files, and starts no threads except for `SignalSampler`. `rprof-sampler` profiles many CPUs and
//! threads at once. Most of the project's `unsafe` code is here.
//!
//! | module | holds |
//! |---|---|
//! | [`builder`] | [`Builder`]: sets fields, bits and target of an event, and opens it |
//! | [`event`] | event numbers: [`Hardware`], [`Software`], [`GenericCache`], [`Breakpoint`] |
//! | [`clock`] | [`Clock`]: clocks of records |
//! | [`fd`] | [`OpenOptions`], [`PerfFd`]: the system call |
//! | [`open_flags`] | [`OpenFlags`] of the system call |
//! | [`control`] | ioctls of [`PerfFd`]; prctl |
//! | [`counter`] | [`Counter`]: one counting event |
//! | [`group`] | [`Group`]: events counted together |
//! | [`process`] | [`ProcessCounter`]: all threads of a process |
//! | [`reading`] | [`Reading`], [`ReadError`]: counter values |
//! | [`scaled`] | [`Scaled`]: extrapolated counts with their share of measured time |
//! | [`ring`] | [`Ring`]: one ring buffer |
//! | [`sampler`] | [`Sampler`]: single records of one ring buffer, with a timeout |
//! | [`process_sampler`] | [`ProcessSampler`]: the same for all threads of a process |
//! | [`decoder`] | [`RecordDecoder`]: decodes records of a ring buffer |
//! | [`overwrite`] | [`OverwriteRing`], [`BackwardRing`]: ring buffers that the kernel overwrites |
//! | [`aux`] | [`AuxRing`]: hardware traces |
//! | [`bpf`] | [`ContextProgram`]: reads thread contexts at each sample |
//! | [`page`] | [`ControlPage`]: counts, times and clocks without a system call |
//! | [`signal`] | [`OverflowSignals`], [`SignalSampler`], [`Traps`]: overflows as signals |
//! | [`error`] | [`OpenEventError`], [`MapRingError`]: refusals with causes |
//! | [`remedy`] | [`Remedy`]: suggestions after a refusal |
//! | [`attr_part`] | [`AttrPart`]: the part of an attr that caused a refusal |
//! | [`limits`] | [`Limits`]: system settings |
//! | [`capability`] | [`Capability`]: the right that lifts them |
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
pub mod bpf;
pub mod builder;
pub mod capability;
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
pub use bpf::{ContextPlace, ContextPlaces, ContextProgram};
pub use builder::Builder;
pub use capability::Capability;
pub use clock::{Clock, UnknownClock};
pub use control::{BpfPrograms, disable_all_opened_here, enable_all_opened_here};
pub use counter::{Counter, CounterError};
pub use decoder::{RecordDecoder, RingRecord};
pub use errno::{Errno, ErrnoName, ErrnoText};
pub use error::{MapRingError, OpenEventError};
pub use event::{
    Breakpoint, BreakpointAccess, CacheOp, CacheResult, GenericCache, Hardware, Software,
};
pub use fd::{OpenOptions, PerfFd, Subject};
pub use group::{Group, GroupReading, Member};
pub use limits::Limits;
pub use open_flags::OpenFlags;
pub use overwrite::{BackwardRing, Followed, OverwriteRing, RingSnapshot};
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
