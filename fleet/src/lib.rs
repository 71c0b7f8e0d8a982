//! Profiles of many hosts, asked by SQL: engines over the tables that `rprof-fleet-table` writes, and answers as a
//! [`Profile`](rprof_profile::Profile), for which rprof has pictures, tables and comparisons.
//!
//! | module | holds |
//! |---|---|
//! | [`store`] | [`Store`](store::Store): the folder or bucket |
//! | [`hours`] | [`Hours`](hours::Hours): the partitions that a question is about |
//! | [`columns`] | columns of the tables, as engines have them |
//! | [`files`] | [`Files`](files::Files): the files of a table that count |
//! | [`engine`] | [`Fleet`](engine::Fleet): tables behind DataFusion, or behind Ballista |
//! | [`filter`] | [`Filter`](filter::Filter): conditions on samples |
//! | [`names`] | [`Names`](names::Names): stacks, locations, frames and images by their ids |
//! | [`profile`] | sums of samples as profiles |
//! | [`compare`] | two versions of services |
//! | [`compact`] | the files of an hour as one |
//! | [`symbolize`] | names that hosts lacked |
//! | [`retain`] | old dates dropped |
//! | [`ddl`] | the tables in the dialects of other engines |
//! | [`stop`] | jobs in clusters cancelled where this process is asked to end |
//! | [`cluster`] | Ballista's scheduler and executors |
//! | `remote` | questions to a cluster, with a deadline |
//! | `tasks` | tasks of an executor, which end with their job |

#[cfg(feature = "ballista")]
pub mod cluster;
pub mod columns;
pub mod compact;
pub mod compare;
pub mod ddl;
pub mod engine;
mod error;
pub mod files;
pub mod filter;
pub mod hours;
pub mod names;
pub mod profile;
#[cfg(feature = "ballista")]
mod remote;
pub mod retain;
mod rows;
#[cfg(feature = "ballista")]
pub mod stop;
pub mod store;
pub mod symbolize;
#[cfg(feature = "ballista")]
mod tasks;

pub use error::FleetError;
