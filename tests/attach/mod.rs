//! Recordings of what runs already: processes, threads, users, control groups, the whole system.

mod children;
mod targets;
