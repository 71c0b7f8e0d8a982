//! Profiles of real and synthetic recordings.

mod coarse;
mod common;
mod groups;
mod made_up;
mod on_request;
mod pages;
mod rewriting;
