//! Function names, source lines, and their files.

mod archive;
mod containers;
mod debuginfod;
mod inlines;
mod kept_answers;
mod kernel;
mod lines;
mod located;
mod names;
mod overlay;
mod same_names;
mod vmlinux;
