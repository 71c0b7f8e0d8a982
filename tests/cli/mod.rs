//! Help, lists, diagnosis, demo, guide and the action for CI.

mod action;
mod cargo;
mod demo;
mod doctor;
mod guide;
mod list;
mod usage;
