//! Help, lists, diagnosis and demo.

mod cargo;
mod demo;
mod doctor;
mod guide;
mod list;
mod usage;
