//! Profiles of many hosts as tables: the schema, its rows, and the Parquet files that they are kept in.
//!
//! The contract is `docs/fleet.md`; engines that read these files (DataFusion, Spark, DuckDB, ClickHouse) know nothing of rprof.
//!
//! | module | holds |
//! |---|---|
//! | [`id`] | [`Id`]: names of locations and stacks that are made of their content |
//! | [`rows`] | a type for the rows of each table |
//! | [`schema`] | [`Table`]: names and columns of the tables |
//! | [`column`](mod@column) | [`Column`](column::Column): values of a column of some rows |
//! | [`file`](mod@file) | rows to the bytes of a Parquet file |
//! | [`of_profile`](mod@of_profile) | the rows of a profile |
//! | [`partition`] | where a file lies: tables, then date and hour, then a name that follows from what is in it |
//! | [`tables`] | [`Tables`]: rows of all tables of one host and hour, as files |
//! | [`folder`] | files put in their place, whole or not at all |
//!
//! # Examples
//! ```
//! use rprof_fleet_table::{Id, Tables, rows::StackRow};
//!
//! let main = Id::of_address("0123abcd", 0x1139);
//! let mut tables = Tables::default();
//! tables.stacks.push(StackRow { stack_id: Id::of_stack([main]), location_ids: vec![main] });
//! let files = tables.files("web-1", 1_700_000_000)?;
//! assert!(files[0].path.starts_with("stacks/date=2023-11-14/hour=22/"));
//! # Ok::<(), rprof_fleet_table::TableError>(())
//! ```

pub mod column;
mod error;
pub mod file;
pub mod folder;
pub mod id;
pub mod of_profile;
pub mod partition;
pub mod rows;
pub mod schema;
pub mod tables;

pub use error::TableError;
pub use id::Id;
pub use of_profile::{Origin, WINDOW_US, Window, of_profile};
pub use schema::Table;
pub use tables::{TableFile, Tables};
