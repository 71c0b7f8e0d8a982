//! Attacks by other users on recording and reading, and their limits.

mod capabilities;
mod embedding;
mod neighbour;
mod outputs;
mod races;
mod released;
mod runtimes;
mod silent;
