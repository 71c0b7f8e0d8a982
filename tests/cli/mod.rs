//! Help, lists, diagnosis and demonstration.

mod cargo;
mod demo;
mod doctor;
mod list;
mod usage;
