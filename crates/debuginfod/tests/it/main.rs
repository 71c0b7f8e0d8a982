//! The client against servers that answer as they like. What Debian's own server does is tested
//! with the whole of rprof, in `tests/symbols/debuginfod.rs`.

mod answers;
mod server;
