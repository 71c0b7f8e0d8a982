//! `rprof record`: its files, side effects, and end.

mod alloc;
mod beside_perf;
mod cpu_time;
mod cpus;
mod events;
mod exit_status;
mod extras;
mod interruptions;
mod many_processes;
mod memory;
mod overwrite;
mod periods;
mod privileges;
mod recording;
mod requests;
mod rotation;
mod runs;
mod signals;
mod sleepers;
mod waits;
mod wakers;
