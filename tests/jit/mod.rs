//! JIT-compiled code.

mod code_names;
mod interpreters;
mod java;
mod java_methods;
mod javascript;
mod runtimes;
mod unwinding;
