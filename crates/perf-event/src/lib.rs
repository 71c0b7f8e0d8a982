//! perf_event_open(2) made safe: events, counters and ring buffers of this kernel.
//!
//! ```text
//!   Attr --OpenOptions--> PerfFd --reading--> Reading { value, enabled, running }   (counting)
//!                           |
//!                           +---Ring::map---> Ring --drain--> records as bytes      (sampling)
//! ```
//!
//! One event, one group, one counter or one ring: there are no sessions, no threads and no files
//! here. `rprof-records` has [`Attr`](rprof_records::Attr) and decodes records, `rprof-sampler`
//! watches many CPUs and threads at once. Nearly all of the project's `unsafe` is in this crate.
//!
//! | module | holds |
//! |---|---|
//! | [`fd`] | [`OpenOptions`], [`PerfFd`]: the system call and its ioctls |
//! | [`counter`] | [`Reading`], [`ReadError`]: counter values, scaled |
//! | [`ring`] | [`Ring`]: one ring buffer |
//! | [`error`] | [`OpenEventError`], [`MapRingError`]: what was refused, and why |
//! | [`remedy`] | [`Remedy`]: what to do about it |
//! | [`limits`] | [`Limits`]: what the administrator allows |
//! | [`errno`] | [`Errno`]: error numbers and their text |
//!
//! # Example
//!
//! ```no_run
//! use rprof_perf_event::PerfFd;
//! use rprof_records::{Attr, AttrFlags, EventKind, ReadFormat};
//!
//! let attr = Attr {
//!     kind: EventKind::SOFTWARE,
//!     config: 2, // PERF_COUNT_SW_PAGE_FAULTS
//!     flags: AttrFlags::DISABLED | AttrFlags::EXCLUDE_KERNEL,
//!     read_format: ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING,
//!     ..Attr::default()
//! };
//! let faults = PerfFd::open(&attr, 0, None)?;
//! faults.enable()?;
//! let touched = vec![1_u8; 1 << 20];
//! faults.disable()?;
//! let reading = faults.reading()?;
//! println!("{:?} page faults for {} bytes", reading.scaled(), touched.len());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The reference is perf_event_open(2) and `include/uapi/linux/perf_event.h`.

pub mod counter;
pub mod errno;
pub mod error;
pub mod fd;
pub mod limits;
pub mod remedy;
pub mod ring;

pub use counter::{ReadError, Reading};
pub use errno::{Errno, ErrnoName, ErrnoText};
pub use error::{MapRingError, OpenEventError};
pub use fd::{OpenOptions, PerfFd, Subject};
pub use limits::Limits;
pub use remedy::Remedy;
pub use ring::Ring;
