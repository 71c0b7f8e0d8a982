//! JIT-compiled code.

mod code_names;
mod java;
mod javascript;
mod runtimes;
mod unwinding;
