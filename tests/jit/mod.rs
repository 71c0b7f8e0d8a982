//! Code that was generated at run time.

mod code_names;
mod java;
mod runtimes;
mod unwinding;
