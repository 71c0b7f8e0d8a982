//! Names of functions, source lines, and the files that they come from.

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
