//! Memory: the events that a recording with `--memory` or `--alloc` has, and how much they explain.

pub use crate::event_names::{
    ALLOCATED, ALLOCATED_OBJECTS, HEAP, HEAP_OBJECTS, HEAP_PEAK, PEAK, RESIDENT, TOUCHED,
    is_of_memory,
};
pub use rprof_memory::{Coverage, FRAME_PREFIX, Requests};

/// Object of the frames for memory: kinds of mappings, and memory without a stack.
pub const MEMORY_OBJECT: &str = "[memory]";
