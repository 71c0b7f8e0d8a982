//! `rprof top`: live view as text and on the screen.

mod batch;
mod screen;
