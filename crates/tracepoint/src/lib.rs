//! Tracepoint payloads as text, by the descriptions that the recording itself holds.
//!
//! The TRACING_DATA section has, for each recorded tracepoint, the text that the
//! kernel shows under `/sys/kernel/tracing/events/SYSTEM/NAME/format`: where each
//! field stands in the payload, and a `print fmt`, a printf call in C. The text is
//! compiled once and run for each sample:
//!
//! ```text
//!   section --> EventFormat: fields, and the print format as literals and conversions,
//!               each conversion with a Program (operations on a stack, no jumps)
//!   payload --> Program --> Value --> printf conversion --> text
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`section`] | [`Tracepoints`]: the section, format texts by event id |
//! | [`mod@format`] | [`EventFormat`]: fields, and how a payload is printed |
//! | `lexer` | tokens of the C text |
//! | `compile` | expressions to programs |
//! | `calls` | the helpers among them |
//! | `types` | widths and signs of C types by name |
//! | `program` | running a program over a payload |
//! | `value` | what it works with |
//! | `helpers` | `__print_flags` and its relatives |
//! | `template` | the print format: literals and conversions |
//! | `printf` | numbers and strings by printf's rules |
//! | `pointers` | the kernel's `%p` extensions: symbols, addresses, UUIDs |
//! | `fallback` | `field=value`, where the print format is beyond us |
//!
//! # What is not known
//!
//! A name that only the kernel can evaluate (`jiffies`, an enum that was not replaced
//! by its number) makes the conversion print `?`; entries of a flag or symbol table
//! with such a name are left out. perf takes these names for 0. A call of a function
//! that is not among the helpers, or syntax beyond an expression, makes the event fall
//! back to `[FAILED TO PARSE] field=value …`, as in perf.
//!
//! # Hostile input
//!
//! Text and payload are not trusted: nesting is limited, every read is checked against
//! the payload, and evaluation has a budget, after which values are unknown.

mod calls;
mod compile;
mod fallback;
pub mod format;
mod helpers;
mod lexer;
mod pointers;
mod printf;
mod program;
pub mod section;
mod template;
#[cfg(test)]
mod tests;
mod types;
mod value;

pub use format::{EventFormat, Field, FieldKind, Names};
pub use section::Tracepoints;
