//! `rprof top`: what runs now, as text and on the screen.

mod batch;
mod screen;
