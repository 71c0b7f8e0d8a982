//! `rprof diff`.

mod gate;
mod inputs;
mod recordings;
mod runs;
mod shapes;
