//! `rprof push` to simulated servers: Pyroscope, Parca and a collector. They check every request
//! field by field, and fail in all the ways that real servers do.

mod failures;
mod follow;
mod requests;
mod tls;
