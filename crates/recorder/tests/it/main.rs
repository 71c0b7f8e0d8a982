//! Recordings of real commands by the library.

mod embedding;
mod rotation;
mod support;
mod writers;
