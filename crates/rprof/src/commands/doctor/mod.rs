//! `rprof doctor`: checks whether this user can profile here, and explains why not.
//!
//! ```text
//!   Facts (settings, limits, rights, from files) -----+
//!                                                     +--> checks: each with a state and a fix
//!   Tries (recordings, really opened) ----------------+
//! ```
//!
//! Settings do not show seccomp filters and security modules. So rprof opens what `rprof record` opens;
//! the settings explain the result.
//!
//! | module | holds |
//! |---|---|
//! | `diagnosis` | checks and their states |
//! | `facts` | settings, limits and privileges, read from files |
//! | `tries` | recordings opened as a test |
//! | `checks` | conclusions and remedies |

mod checks;
mod diagnosis;
mod facts;
mod tries;

use std::io::{self, Write};
use std::path::Path;

use rprof_export::clean::clean;
use serde::Serialize;

use crate::Outcome;
use crate::cli::{DoctorArgs, HeaderFormat};
use crate::terminal::output::write_to;
use crate::terminal::wants_color;
use crate::wording::messages::Failure;
use diagnosis::{Check, Diagnosis, State};
use facts::Facts;
use tries::Tries;

const STATE_WIDTH: usize = 8;
const WHAT_WIDTH: usize = 27;

pub(crate) fn run(args: &DoctorArgs) -> Outcome {
    let found = diagnose()?;
    write_to(Path::new("-"), |out| {
        match args.format {
            HeaderFormat::Text => write_text(&found, wants_color(args.color), out)?,
            HeaderFormat::Json => {
                serde_json::to_writer_pretty(&mut *out, &Json::of(&found))?;
                writeln!(out)?;
            }
        }
        Ok(())
    })?;
    Ok(u8::from(!found.can_record))
}

fn diagnose() -> Result<Diagnosis, Failure> {
    let (facts, tries) = (Facts::read(), Tries::make()?);
    Ok(judge(&facts, &tries))
}

fn judge(facts: &Facts, tries: &Tries) -> Diagnosis {
    Diagnosis {
        checks: checks::all(facts, tries),
        can_record: tries.own_user.is_ok() && tries.stacks.is_ok() && tries.rings.is_ok(),
    }
}

#[derive(Serialize)]
struct Json<'p> {
    version: u32,
    /// True if `rprof record` works for the user's own command.
    can_record: bool,
    checks: Vec<JsonCheck<'p>>,
}

#[derive(Serialize)]
struct JsonCheck<'p> {
    id: &'p str,
    what: &'p str,
    state: &'p str,
    found: &'p str,
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<&'p str>,
}

impl Json<'_> {
    fn of(found: &Diagnosis) -> Json<'_> {
        let checks = found.checks.iter().map(|check| JsonCheck {
            id: check.id,
            what: check.what,
            state: check.state.name(),
            found: &check.found,
            fix: check.fix.as_deref(),
        });
        Json {
            version: 1,
            can_record: found.can_record,
            checks: checks.collect(),
        }
    }
}

fn write_text(found: &Diagnosis, color: bool, out: &mut dyn Write) -> io::Result<()> {
    for check in &found.checks {
        write_check(check, color, out)?;
    }
    writeln!(out)?;
    let limited = found.checks.iter().any(|c| c.state != State::Ok);
    let verdict = match (found.can_record, limited) {
        (true, false) => "`rprof record` works here, without limits",
        (true, true) => "`rprof record` works here, with the limits above",
        (false, _) => "`rprof record` does not work here: see the blocked lines above",
    };
    writeln!(out, "{verdict}")
}

fn write_check(check: &Check, color: bool, out: &mut dyn Write) -> io::Result<()> {
    let (on, off) = match (color, check.state) {
        (false, _) => ("", ""),
        (true, State::Ok) => ("\x1b[32m", "\x1b[0m"),
        (true, State::Limited) => ("\x1b[33m", "\x1b[0m"),
        (true, State::Blocked) => ("\x1b[31m", "\x1b[0m"),
    };
    writeln!(
        out,
        "{on}{:STATE_WIDTH$}{off} {:WHAT_WIDTH$} {}",
        check.state.name(),
        check.what,
        clean(&check.found)
    )?;
    if let Some(fix) = &check.fix {
        let indent = STATE_WIDTH + 1 + WHAT_WIDTH + 1;
        writeln!(out, "{:indent$}-> {}", "", clean(fix))?;
    }
    Ok(())
}
