//! SQL queries over the profiles of many hosts. Runs an engine on the tables that
//! `rprof-fleet-table` writes, and converts results to a [`Profile`](rprof_profile::Profile), which
//! rprof can display, export and compare.
//!
//! | module | holds |
//! |---|---|
//! | [`store`] | [`Store`](store::Store): the folder or bucket |
//! | [`hours`] | [`Hours`](hours::Hours): the time range of a query |
//! | [`columns`] | Arrow schemas of the tables |
//! | [`files`] | [`Files`](files::Files): the current files of a table |
//! | [`engine`] | [`Fleet`](engine::Fleet): tables in DataFusion or Ballista |
//! | [`filter`] | [`Filter`](filter::Filter): conditions on samples |
//! | [`names`] | [`Names`](names::Names): stacks, locations, frames and images by their ids |
//! | [`profile`] | aggregates samples to profiles |
//! | [`compare`] | compares two versions of services |
//! | [`compact`] | merges the files of an hour |
//! | [`symbolize`] | adds missing names |
//! | [`retain`] | deletes old dates |
//! | [`ddl`] | table definitions in the dialects of other engines |
//! | [`stop`] | cancels cluster jobs before this process ends |
//! | [`cluster`] | Ballista's scheduler and executors |
//! | `remote` | queries to a cluster, with a deadline |
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
