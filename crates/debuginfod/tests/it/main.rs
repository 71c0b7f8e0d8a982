//! The client against servers with arbitrary responses. `tests/symbols/debuginfod.rs` tests
//! Debian's own server with the whole of rprof.

mod answers;
mod server;
