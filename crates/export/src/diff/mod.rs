//! Comparisons of profiles in all output formats.
//!
//! | module | holds |
//! |---|---|
//! | [`formats`](DIFF_FORMATS) | table of all formats |
//! | [`words`] | the verdict in words |
//! | [`cautions`] | reasons to distrust the verdict |
//! | `memory` | the verdict on memory with one run a side |
//! | [`rows`] | choice and order of rows |
//! | [`table`], [`markdown`], [`json`], [`csv`] | the formats |
//! | [`github`] | annotations of a pull request on GitHub |
//! | [`junit`] | verdicts as tests, for GitLab, Jenkins and others |
//! | [`calibration`] | noise of equal runs |
//! | [`folded`] | stacks with two weights, for other tools |
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
mod memory;
pub mod rows;
pub mod svg;
pub mod table;
mod tree;
pub mod words;

use std::io::{self, Write};

use rprof_profile::compare::ProfileDiff;

pub use rows::{Hidden, SortBy};

/// Options shared by the formats. Each format ignores options that do not apply to it.
#[derive(Clone, Debug)]
pub struct DiffOptions {
    /// Order of rows.
    pub sort: SortBy,
    /// Also show rows without a significant change.
    pub all: bool,
    /// Maximum number of rows.
    pub limit: Option<usize>,
    /// Omit the headers above the rows.
    pub bare: bool,
    /// Show how many runs would detect which change.
    pub plans: bool,
    /// Name of a gate, which identifies its Markdown comment; `None` for other comparisons.
    pub name: Option<String>,
    /// Colour increases and decreases.
    pub color: bool,
    /// Width of the terminal, in characters.
    pub width: Option<usize>,
    /// Words the line about hidden rows, from their number and the reason.
    pub rest: fn(usize, Hidden) -> String,
    /// Environments of the old and the new recordings, as far as known.
    pub environments: [Vec<Environment>; 2],
}

/// Environment of a recording. The texts are unsanitized.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// Model of the processor.
    pub cpu: Option<String>,
    /// Number of online CPUs.
    pub cpus: Option<String>,
    /// Kernel release.
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

/// Output format of a comparison.
#[derive(Clone, Copy, Debug)]
pub struct DiffFormat {
    /// Name on the command line.
    pub name: &'static str,
    /// One line of help.
    pub help: &'static str,
    /// True if the format shows only relevant rows, for people.
    pub is_for_people: bool,
    /// Writes a comparison in this format.
    pub write: fn(&ProfileDiff, &DiffOptions, &mut dyn Write) -> io::Result<()>,
}

/// All formats, the default first.
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
    /// Finds a format by its name.
    pub fn by_name(name: &str) -> Option<&'static DiffFormat> {
        DIFF_FORMATS.iter().find(|format| format.name == name)
    }
}

#[cfg(test)]
mod tests;
