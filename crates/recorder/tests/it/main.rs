//! Recordings of real commands with the library.

mod embedding;
mod rotation;
mod support;
mod writers;
