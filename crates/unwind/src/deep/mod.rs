//! [`DeepStackCompleter`]: the callers of a stack whose copy ends before the root.
//!
//! Such a copy shows a [`CutPoint`]: the slot of the next return address, and the function that was
//! called from there. Which activations lie beyond it is known from other moments of the same thread
//! only: from copies that did reach the root, and from reads of the process's memory, where
//! everything outside of the copy still stands if the thread has not returned to it. Both are
//! [observations](StackObservation).
//!
//! One observation proves nothing about another moment. A function is called by one caller now
//! and by another a moment later, at the same depth and with the same return addresses inside of it, and
//! nothing in the copy tells which. So a stack is completed only if
//!
//! - the callers were observed in at least four moments between which the thread ran, and no others at
//!   this cut point;
//! - they were observed before and after: the last look before the sample and the first one after it
//!   found the very same activations (stack pointer and return address, up to the root);
//! - or on one side only, within ten milliseconds, because the cut point is new then, or the thread
//!   ended;
//! - or once, within a second, where the four moments are of several threads whose stacks agree: the
//!   same return addresses in the same images, as far from the root, and never others at that depth
//!   under the same function in any thread. Programs that are started again and again are like that.
//!
//! A look into memory is an observation only if the samples of the thread before and after it have the cut point on their
//! stacks. Memory keeps what was popped until something else is written there, and what lies beneath a large array
//! that is used at its beginning only. So a look that comes late may find a return address of one activation and, above it,
//! that of another: callers that never were on the stack together, again and again where two paths take turns
//! (`fixtures/holes.c`, `turns`). What speaks *against* callers counts at once, proven or not.
//!
//! ```text
//!   time, ms       0          1          2          3    ...    40        41 ...          203
//!   sample      cut at P   cut at P   cut at P   cut at P   cut at P
//!   observed        A          A          A          A          B
//!   P's history     1          2          3          4      ambiguous
//!
//!   complete(sample at 1, now =   2): Pending      an observation may still contradict
//!   complete(sample at 1, now = 201): Callers(A)   if B had not been observed by then
//!   complete(sample at 1, now = 201): Unknown      since B was observed at 40
//! ```
//!
//! Each sample is pending for a fifth of a second, or until its thread ends: a *later* observation
//! counts against a completion as well as for it. Where callers change, that shows in this time. A
//! function with several ambiguous cut points is *polymorphic*, one that is called from everywhere (an
//! interpreter's loop, a recursive walk), and its callers are not believed on one side at all.
//!
//! One error remains possible: a caller that was never observed, because it came and went between two
//! looks, or two samples, while the other stood before and after it. `fixtures/ways.c` and `fixtures/paths.c` are programs made
//! to be like that.
//!
//! Observations have to be fair: whether there is one must not depend on who the callers are. That is
//! so for reads of memory, which follow each cut sample. It is not so for complete copies alone, since
//! a stack that is short enough to be copied whole may have other callers than one that is not. So this
//! is for use while recording, and a recording with stack copies in it is not completed on reading.
//!
//! | module | idea |
//! |---|---|
//! | `completer` | [`DeepStackCompleter`]: observations and cut points of all threads |
//! | `caller_history` | what was observed at one cut point |
//! | `cross_thread` | what the stacks of different threads have in common |
//! | `observation` | what goes in, and what comes out |
//! | `rule` | the rule's numbers |

mod caller_history;
mod completer;
mod cross_thread;
mod observation;
mod rule;
#[cfg(test)]
mod tests;

pub use completer::DeepStackCompleter;
pub use observation::{CodeLookup, Completion, CutPoint, StackObservation};
