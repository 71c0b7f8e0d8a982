//! Sums over a profile: tables of functions, trees of calls, and conditions on samples.

pub mod address_hits;
pub mod call_branches;
pub mod call_tree;
pub mod selection;
pub mod stack_tree;
pub mod top;
pub mod trie;
