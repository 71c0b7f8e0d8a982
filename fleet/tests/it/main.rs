//! Runs `rprof-fleet` on generated tables, and compares with other engines.

#[path = "../../examples/generate/hosts.rs"]
mod hosts;
#[path = "../../../crates/debuginfod/tests/it/server.rs"]
#[allow(dead_code, reason = "tests of debuginfod itself need more of it")]
mod server;

mod agents;
mod buckets;
mod cluster;
mod compaction;
mod damaged;
mod debuginfod;
mod late_names;
mod other_engines;
mod recordings;
mod retention;
mod support;
mod versions;
