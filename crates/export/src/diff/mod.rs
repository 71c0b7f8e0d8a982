//! Comparisons of profiles: a table, Markdown, JSON, CSV, folded stacks with two weights, and a picture.
//!
//! | module | holds |
//! |---|---|
//! | [`formats`](DIFF_FORMATS) | the table of all forms |
//! | [`words`] | the verdict in words |
//! | [`cautions`] | what is to be known before the verdict is believed |
//! | [`rows`] | choice and order of rows |
//! | [`table`], [`markdown`], [`json`], [`csv`] | the forms |
//! | [`github`] | annotations of a change on GitHub |
//! | [`junit`] | the verdicts as tests, for GitLab, Jenkins and others |
//! | [`calibration`] | what equal runs look like |
//! | [`folded`] | stacks with two weights, for others' tools |
//! | [`svg`] | the differential flame graph |
//! | `amount` | amounts and changes as text |
//! | `tree` | stacks of both sides as a tree |

mod amount;
pub mod calibration;
pub mod cautions;
pub mod csv;
pub mod folded;
pub mod github;
pub mod json;
pub mod junit;
pub mod markdown;
pub mod rows;
pub mod svg;
pub mod table;
mod tree;
pub mod words;

use std::io::{self, Write};

use rprof_profile::compare::ProfileDiff;

pub use rows::{Hidden, SortBy};

/// Options that the forms have in common. Each uses those that mean something for it.
#[derive(Clone, Debug)]
pub struct DiffOptions {
    /// Order of rows.
    pub sort: SortBy,
    /// Show rows without a sure change too.
    pub all: bool,
    /// Most rows.
    pub limit: Option<usize>,
    /// Leave out what stands above the rows.
    pub bare: bool,
    /// Say how many runs would show how much.
    pub plans: bool,
    /// Name by which Markdown is found again; `None` for a comparison that is no gate.
    pub name: Option<String>,
    /// Colour what takes more and what takes less.
    pub color: bool,
    /// Width of the terminal that a table is for, in characters.
    pub width: Option<usize>,
    /// Words the line about rows that are not shown, by their number and the reason.
    pub rest: fn(usize, Hidden) -> String,
    /// Places where the runs of the old and of the new side were recorded, as far as it is known.
    pub environments: [Vec<Environment>; 2],
}

/// Place where a recording was made. Texts are as recorded, and may hold any character.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// Model of the processor.
    pub cpu: Option<String>,
    /// Number of CPUs that were online.
    pub cpus: Option<String>,
    /// Release of the kernel.
    pub kernel: Option<String>,
}

impl Default for DiffOptions {
    fn default() -> Self {
        DiffOptions {
            sort: SortBy::Change,
            all: false,
            limit: None,
            bare: false,
            plans: false,
            name: None,
            color: false,
            width: None,
            rest: |count, _| format!("{count} functions not shown"),
            environments: Default::default(),
        }
    }
}

/// One form in which a comparison is written.
#[derive(Clone, Copy, Debug)]
pub struct DiffFormat {
    /// Name on the command line.
    pub name: &'static str,
    /// One line of help.
    pub help: &'static str,
    /// True if it is for people, who want the rows that matter; else all rows are written.
    pub is_for_people: bool,
    /// Writes it.
    pub write: fn(&ProfileDiff, &DiffOptions, &mut dyn Write) -> io::Result<()>,
}

/// All forms, the default first.
pub const DIFF_FORMATS: &[DiffFormat] = &[
    DiffFormat {
        name: "text",
        help: "A verdict and a table",
        is_for_people: true,
        write: table::write,
    },
    DiffFormat {
        name: "markdown",
        help: "The same for a comment on a change, at most 60 KB",
        is_for_people: true,
        write: markdown::write,
    },
    DiffFormat {
        name: "json",
        help: "JSON, in a stable form",
        is_for_people: false,
        write: json::write,
    },
    DiffFormat {
        name: "csv",
        help: "CSV with headings",
        is_for_people: false,
        write: csv::write,
    },
];

impl DiffFormat {
    /// Finds a form by its name.
    pub fn by_name(name: &str) -> Option<&'static DiffFormat> {
        DIFF_FORMATS.iter().find(|format| format.name == name)
    }
}

#[cfg(test)]
mod tests;
