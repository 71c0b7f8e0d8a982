//! [`DeepStackCompleter`]: finds the callers of a stack whose copy ends before the root.
//!
//! Such a copy ends at a [`CutPoint`]: the slot of the next return address, and the function called
//! from there. The callers beyond it come only from other moments of the same thread: from copies
//! that reach the root, and from reads of the process's memory. Everything outside the copy is
//! still in memory if the thread has not returned to it. Both are [observations](StackObservation).
//!
//! One observation proves nothing about another moment. A function may have different callers from
//! one moment to the next, at the same depth and with the same inner return addresses. The copy
//! cannot distinguish them. So a stack is completed only if
//!
//! - at least four observations found the same callers, the thread ran between them, and none found
//!   other callers at this cut point;
//! - and both the last check before the sample and the first one after it found the very same
//!   activations (stack pointer and return address, up to the root);
//! - or only one of these checks did, within ten milliseconds, because the cut point is new or the
//!   thread ended;
//! - or one check did, within a second, and several threads with equal stacks have the four
//!   observations: the same return addresses in the same images, at the same distance from the
//!   root, and never others at that depth under the same function in any thread. Programs that are
//!   started repeatedly are like that.
//!
//! A read of memory is an observation only if the thread's samples before and after it have the cut
//! point on their stacks. Memory keeps popped frames until they are overwritten, and a large array
//! that is only used at its start overwrites little. So a late read may find one activation's
//! return address and another activation's callers above it. These never were on the stack
//! together, but the mixture may recur when two paths alternate (`fixtures/holes.c`, `turns`).
//! Evidence *against* callers counts at once, proven or not.
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
//! Each sample is pending for 0.2 s, or until its thread ends, because *later* observations count
//! too, for or against a completion. Changing callers show up in this time. A function with several
//! ambiguous cut points is *polymorphic*: it is called from many places (an interpreter's loop, a
//! recursive walk). Its callers need checks on both sides.
//!
//! One error remains possible: a caller that was never observed because it came and went between
//! two checks that found the other caller. `fixtures/ways.c` and `fixtures/paths.c` provoke this.
//!
//! Observations must be unbiased: their presence must not depend on the callers. Reads of memory
//! after each cut sample are unbiased. Complete copies alone are not: a stack short enough for a
//! complete copy may have other callers than a longer one. So this is for use while recording.
//! Recordings with stack copies are not completed when they are read.
//!
//! | module | idea |
//! |---|---|
//! | `completer` | [`DeepStackCompleter`]: observations and cut points of all threads |
//! | `caller_history` | observations at one cut point |
//! | `cross_thread` | callers that the stacks of several threads have in common |
//! | `observation` | input and output types |
//! | `rule` | thresholds of the rule |

mod caller_history;
mod completer;
mod cross_thread;
mod observation;
mod rule;
#[cfg(test)]
mod tests;

pub use completer::DeepStackCompleter;
pub use observation::{CodeLookup, Completion, CutPoint, StackObservation};
