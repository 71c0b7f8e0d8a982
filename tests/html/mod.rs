//! `rprof html`: a page, in a real browser.

mod browser;
mod firefox;
mod hostile;
mod marionette;
mod page;
mod sums;
