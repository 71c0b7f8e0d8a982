//! Help, lists, diagnosis and demonstration.

mod cargo;
mod demo;
mod doctor;
mod guide;
mod list;
mod usage;
