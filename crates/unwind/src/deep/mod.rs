//! [`DeepStackCompleter`]: finds the callers of stacks that were cut before the root.
//!
//! A cut copy ends at a [`CutPoint`]: the slot of the next return address, and the function called
//! from there. The callers beyond it come from other moments of the same thread: from copies that
//! reach the root, and from reads of the process's memory, which still holds the rest of the stack
//! if the thread has not returned to it. Both are [observations](StackObservation).
//!
//! One observation proves nothing about another moment. The same function may soon have another
//! caller, with the same depth and inner return addresses. So a stack is completed only if
//!
//! - at least four observations found the same callers at this cut point and none found others, and
//!   the thread ran between them;
//! - and the last check before the sample and the first one after it both found the very same
//!   activations (stack pointer and return address, up to the root);
//! - or only one of these checks did, within ten milliseconds, because the cut point is new or the
//!   thread ended;
//! - or one check did, within a second, and several threads with equal stacks have the four
//!   observations: the same return addresses in the same images, at the same distance from the
//!   root, and never others at that depth under the same function. Programs that are started
//!   repeatedly are like that.
//!
//! A read of memory is an observation only if the thread's samples before and after it have the cut
//! point on their stacks. Memory keeps popped frames, also below a large array. So a late read may
//! find one activation's return address below another activation's callers. This may recur when two
//! paths alternate (`fixtures/holes.c`, `turns`). A copy with other callers counts at once. A read
//! with other callers came too late if the cut point was gone right after it and does not return.
//! Otherwise the callers change, and no stack with this cut point is completed.
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
//! too. Changing callers show up in this time. A function with several ambiguous cut points is
//! *polymorphic*: it is called from many places (an interpreter's loop, a recursive walk). Its
//! callers need checks on both sides.
//!
//! One error remains possible: a caller that comes and goes between two checks, which find another
//! one. `fixtures/ways.c` and `fixtures/paths.c` provoke this.
//!
//! Observations must not depend on the callers. Reads of memory after each cut sample do not.
//! Complete copies alone do: a stack short enough for a complete copy may have other callers than a
//! longer one. So stacks are completed only while recording, not when a recording is read.
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
