//! JIT-compiled code.

mod code_names;
mod java;
mod runtimes;
mod unwinding;
