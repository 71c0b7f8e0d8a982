//! Recording: from the arguments to the closing summary.

pub(crate) mod alloc;
pub(crate) mod alloc_probes;
pub(crate) mod end;
pub(crate) mod event_list;
pub(crate) mod memory;
pub(crate) mod rights;
pub(crate) mod runtimes;
pub(crate) mod session;
pub(crate) mod signals;
pub(crate) mod status;
pub(crate) mod summary;
pub(crate) mod target;
pub(crate) mod two_commands;
pub(crate) mod verbose;
pub(crate) mod waits;
