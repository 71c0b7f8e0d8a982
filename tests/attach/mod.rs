//! Attaching to running targets: processes, threads, users, cgroups, the whole system.

mod children;
mod targets;
