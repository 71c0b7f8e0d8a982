//! `rprof html` in a real browser.

pub(crate) mod browser;
mod firefox;
mod hostile;
mod marionette;
mod page;
mod paper;
mod sums;
mod svg_search;
mod waits;
