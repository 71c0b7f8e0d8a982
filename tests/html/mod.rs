//! `rprof html`: a page, in a real browser.

mod browser;
mod hostile;
mod page;
mod sums;
