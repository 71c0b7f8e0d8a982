//! Formats of kernel tracepoints, and their payloads as text.
//!
//! The kernel describes each tracepoint in a text file,
//! `/sys/kernel/tracing/events/SYSTEM/NAME/format`. It contains offset and type of each payload
//! field, and a `print fmt`, a printf call in C. Recordings contain these texts, too. A text is
//! compiled once, and run for each sample:
//!
//! ```text
//!   text    --> EventFormat: fields, and the print format as literals and conversions,
//!               each conversion with a Program (operations on a stack, no jumps)
//!   payload --> Program --> Value --> printf conversion --> text
//! ```
//!
//! ```
//! use rprof_records::Endian;
//! use rprof_tracepoint::EventFormat;
//!
//! let text = "\
//! name: sched_wakeup
//! ID: 318
//! format:
//! \tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;
//! \tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;
//!
//! print fmt: \"comm=%s pid=%d\", REC->comm, REC->pid
//! ";
//! let format = EventFormat::parse("sched", text, Endian::Little, 8).ok_or("no format")?;
//! let mut payload = [0; 28];
//! payload[8..14].copy_from_slice(b"worker");
//! payload[24..].copy_from_slice(&1234_i32.to_le_bytes());
//!
//! let mut out = String::new();
//! format.print(&payload, &(), &mut out);
//! assert_eq!(out, "comm=worker pid=1234");
//! # Ok::<(), &str>(())
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`mod@format`] | [`EventFormat`]: one tracepoint |
//! | [`catalog`] | [`Tracepoints`]: many, by event id |
//! | [`field`] | [`Field`]: one value of a payload |
//! | [`names`] | [`KernelNames`]: names for kernel addresses in payloads |
//! | `payload` | a payload with its work budget |
//! | `lexer` | tokens of the C text |
//! | `compile`, `calls` | compiler for expressions and helper calls |
//! | `types` | widths and signs of C types by name |
//! | `ops` | programs, as data |
//! | `program` | evaluation of programs |
//! | `value` | values of expressions: integers, bytes and strings |
//! | `helpers` | `__print_flags` and other helpers |
//! | `template` | print format: literals and conversions |
//! | `printf` | numbers and strings by printf's rules |
//! | `pointers` | the kernel's `%p` extensions: symbols, addresses, UUIDs |
//! | `fallback` | `field=value` for unsupported print formats |
//!
//! # Unknown values
//!
//! Some names only the kernel can evaluate, such as `jiffies` or an unresolved enum. Their
//! conversions print `?`, and table entries with such a name are skipped. perf uses 0 for these
//! names. An unknown function, or syntax beyond an expression, makes the event fall back to
//! `[FAILED TO PARSE] field=value …`, as in perf.
//!
//! # Hostile input
//!
//! Text and payload are not trusted. Nesting is limited, reads are checked against the payload, and
//! evaluation has a budget. Values beyond the budget are unknown.

mod calls;
pub mod catalog;
mod compile;
mod fallback;
pub mod field;
pub mod format;
mod helpers;
mod lexer;
pub mod names;
mod ops;
mod payload;
mod pointers;
mod printf;
mod program;
mod template;
#[cfg(test)]
mod tests;
mod types;
mod value;

pub use catalog::Tracepoints;
pub use field::{Field, FieldKind};
pub use format::EventFormat;
pub use names::KernelNames;
