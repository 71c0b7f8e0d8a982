//! The table of reports: every way in which the top functions of a profile are written.
//!
//! A new one is a file of its own with a function of this form, and a line in [`FORMATS`]: the
//! command line offers what is listed here, and tests write hostile names in every form.

use std::io::{self, Write};

use rprof_profile::Profile;

use crate::options::ReportOptions;
use crate::{csv, json, table};

/// One form of a report.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// Name on the command line.
    pub name: &'static str,
    /// One line of help.
    pub help: &'static str,
    /// True if the warnings of the profile are part of what is written for people to read.
    pub shows_warnings: bool,
    /// Writes the report.
    pub write: fn(&Profile, &ReportOptions, &mut dyn Write) -> io::Result<()>,
}

/// All forms of a report, the default first.
pub const FORMATS: &[Format] = &[
    Format {
        name: "text",
        help: "A table",
        shows_warnings: true,
        write: table::write,
    },
    Format {
        name: "json",
        help: "JSON, in a stable form",
        shows_warnings: false,
        write: json::write,
    },
    Format {
        name: "csv",
        help: "CSV with headings",
        shows_warnings: false,
        write: csv::write,
    },
];

impl Format {
    /// Finds a form by its name.
    pub fn by_name(name: &str) -> Option<&'static Format> {
        FORMATS.iter().find(|format| format.name == name)
    }
}
