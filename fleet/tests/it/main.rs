//! Runs `rprof-fleet` on tables that are made for it, and asks others the same.

#[path = "../../examples/generate/hosts.rs"]
mod hosts;

mod buckets;
mod cluster;
mod compaction;
mod damaged;
mod late_names;
mod other_engines;
mod recordings;
mod retention;
mod support;
mod versions;
