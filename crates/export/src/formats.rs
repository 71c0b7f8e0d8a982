//! The table of forms: every way in which a profile is written.
//!
//! A new one is a file of its own with a function of this form, and an entry in [`FORMATS`]: the
//! command line offers what is listed here, tests write hostile names in every form, and the fuzz target
//! `analyse` writes whatever it comes to in each.

use std::io::{self, Write};

use rprof_profile::Profile;

use crate::options::ReportOptions;
use crate::svg::{SvgError, SvgOptions};
use crate::{csv, firefox, folded, json, markdown, otlp, pprof, speedscope, svg, table};

/// One form in which a profile is written.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// Name on the command line.
    pub name: &'static str,
    /// One line of help.
    pub help: &'static str,
    /// Part of the profile that the form is made for.
    pub content: Content,
    /// True if the warnings of the profile are part of what is written for people to read.
    pub shows_warnings: bool,
    /// Writes it. A form has options of its own besides, if it has a module with more than this.
    pub write: fn(&Profile, &ReportOptions, &mut dyn Write) -> io::Result<()>,
}

/// Part of a profile that a form is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Content {
    /// The top functions of every event, a row for each: a report.
    Functions,
    /// Every stack of the main event.
    Stacks,
    /// Every stack of all events, with addresses, lines and inlined calls.
    Addresses,
    /// Every sample of the main event in order of time, by thread, with lines and inlined calls.
    Samples,
}

/// All forms: the reports, the default first, and then the others.
pub const FORMATS: &[Format] = &[
    Format {
        name: "text",
        help: "A table",
        content: Content::Functions,
        shows_warnings: true,
        write: table::write,
    },
    Format {
        name: "json",
        help: "JSON, in a stable form",
        content: Content::Functions,
        shows_warnings: false,
        write: json::write,
    },
    Format {
        name: "csv",
        help: "CSV with headings",
        content: Content::Functions,
        shows_warnings: false,
        write: csv::write,
    },
    Format {
        name: "markdown",
        help: "Markdown, for a comment or a page: the first 20 rows, unless -n says otherwise",
        content: Content::Functions,
        shows_warnings: true,
        write: markdown::write,
    },
    Format {
        name: "folded",
        help: "Folded stacks, a line for each",
        content: Content::Stacks,
        shows_warnings: false,
        write: |profile, options, out| match profile.main_event() {
            Some(event) => folded::write(profile, event, options.rows.weight, out),
            None => Ok(()),
        },
    },
    Format {
        name: "svg",
        help: "A flame graph",
        content: Content::Stacks,
        shows_warnings: false,
        write: |profile, options, out| {
            let event = profile.main_event().ok_or(SvgError::NoSamples);
            let svg = SvgOptions {
                weight: options.rows.weight,
                ..SvgOptions::default()
            };
            event
                .and_then(|event| svg::write(profile, event, &svg, out).map(drop))
                .map_err(|error| match error {
                    SvgError::Write(error) => error,
                    error => io::Error::other(error),
                })
        },
    },
    Format {
        name: "pprof",
        help: "pprof's profile.proto with gzip, for `go tool pprof`, Pyroscope, Parca",
        content: Content::Addresses,
        shows_warnings: false,
        write: pprof::write,
    },
    Format {
        name: "otlp",
        help: "OpenTelemetry profiles with gzip, proto 1.10: experimental",
        content: Content::Addresses,
        shows_warnings: false,
        write: otlp::write,
    },
    Format {
        name: "firefox",
        help: "The Firefox Profiler's JSON with gzip: each thread in order of time",
        content: Content::Samples,
        shows_warnings: false,
        write: firefox::write,
    },
    Format {
        name: "speedscope",
        help: "speedscope's JSON: each thread in order of time",
        content: Content::Samples,
        shows_warnings: false,
        write: speedscope::write,
    },
];

impl Format {
    /// Finds a form by its name.
    pub fn by_name(name: &str) -> Option<&'static Format> {
        FORMATS.iter().find(|format| format.name == name)
    }

    /// Forms with this content, the default first.
    pub fn of(content: Content) -> impl Iterator<Item = &'static Format> {
        (FORMATS.iter()).filter(move |format| format.content == content)
    }
}
