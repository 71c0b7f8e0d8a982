//! Packed words of a sample: data source, transaction, branch, and cost.
//!
//! Unnamed bits of the kernel's words survive a round trip. `Display` uses the words of perf 6.1.

pub mod aux_flags;
pub mod branch_flags;
pub mod data_source;
pub mod transaction;
pub mod weight;

pub use aux_flags::AuxFlags;
pub use branch_flags::{BranchFlags, BranchKind};
pub use data_source::DataSource;
pub use transaction::Transaction;
pub use weight::Weight;
