//! `rprof push`, to servers that stand in for Pyroscope, Parca and a collector: made from their published protos, they check
//! every request field by field, and fail in every way that servers do.

mod failures;
mod follow;
pub(crate) mod requests;
pub(crate) mod server;
mod tls;
mod wire;
