//! Commands, one file or folder each, and parts that two of them share.

pub(crate) mod annotate;
pub(crate) mod code_of_page;
pub(crate) mod demo;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod drawing;
pub(crate) mod explain;
pub(crate) mod export;
pub(crate) mod flamegraph;
pub(crate) mod gate;
pub(crate) mod header;
pub(crate) mod hot_code;
pub(crate) mod html;
pub(crate) mod list;
pub(crate) mod manual;
pub(crate) mod pages;
pub(crate) mod push;
pub(crate) mod record;
pub(crate) mod report;
pub(crate) mod script;
pub(crate) mod stat;
pub(crate) mod top;
pub(crate) mod tui;
pub(crate) mod tui_code;
pub(crate) mod workload;
