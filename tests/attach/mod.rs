//! Attaching to running targets: processes, threads, users, cgroups, the whole system.

mod children;
mod few_files;
mod targets;
