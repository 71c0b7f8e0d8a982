//! Packed words of a sample: data source, transaction, branch, and cost.
//!
//! Each is a newtype of the kernel's word, so that unnamed bits survive a round trip. `Display`
//! uses the words of perf 6.1.
//!
//! | module | holds |
//! |---|---|
//! | [`data_source`] | [`DataSource`]: `union perf_mem_data_src` |
//! | [`transaction`] | [`Transaction`]: `PERF_TXN_*` |
//! | [`aux_flags`] | [`AuxFlags`]: `PERF_AUX_FLAG_*` |
//! | [`branch_flags`] | [`BranchFlags`]: the third word of `struct perf_branch_entry` |
//! | [`weight`] | [`Weight`]: `union perf_sample_weight` |

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
