//! Messages: their form, remedies with rprof's flags, and facts of recordings in words.

pub(crate) mod comparison_reports;
pub(crate) mod environments;
pub(crate) mod messages;
pub(crate) mod object_remedies;
pub(crate) mod packages;
pub(crate) mod recording_facts;
pub(crate) mod remedies;
