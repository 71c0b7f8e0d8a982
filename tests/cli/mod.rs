//! Help, lists, diagnosis and demonstration.

mod demo;
mod doctor;
mod list;
mod usage;
