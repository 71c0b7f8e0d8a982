//! Resident memory: the events that a recording with `--memory` has, and how much they explain.

pub use crate::event_names::{PEAK, RESIDENT, TOUCHED, is_of_memory};
pub use rprof_memory::{Coverage, FRAME_PREFIX};

/// Object of the frames for memory: kinds of mappings, and memory without a stack.
pub const MEMORY_OBJECT: &str = "[memory]";
