//! `rprof diff`.

mod bases;
mod gate;
mod inputs;
mod recordings;
mod reports;
mod runs;
mod shapes;
mod signals;
