//! Profiles of many hosts as tables: the schema, its rows, and their Parquet files.
//!
//! `docs/fleet.md` specifies the tables. The engines that read them (DataFusion, Spark, DuckDB,
//! ClickHouse) need no code of rprof.
//!
//! | module | holds |
//! |---|---|
//! | [`id`] | [`Id`]: content-based ids of locations and stacks |
//! | [`rows`] | a row type for each table |
//! | [`schema`] | [`Table`]: names and columns of the tables |
//! | [`column`](mod@column) | [`Column`](column::Column): values of a column of some rows |
//! | [`file`](mod@file) | encodes rows as a Parquet file |
//! | [`of_profile`](mod@of_profile) | converts a profile to rows |
//! | [`partition`] | path of a file: table, date, hour, and a content-based name |
//! | [`tables`] | [`Tables`]: rows of all tables of one host and hour, as files |
//! | [`folder`] | writes files atomically to a folder |
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
//! # Ok::<(), rprof_fleet_table::FleetTableError>(())
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

pub use error::FleetTableError;
pub use id::Id;
pub use of_profile::{ProfileOrigin, WINDOW_US, Window, of_profile};
pub use schema::Table;
pub use tables::{TableFile, Tables};
