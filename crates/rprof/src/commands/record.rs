//! `rprof record`: one recording, or several runs of a command with `--runs`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use rprof_profile::unit::counted;

use crate::Outcome;
use crate::cli::{OutputArgs, RecordArgs};
use crate::recording::session::run_into;
use crate::wording::messages::{Failure, say};

pub(crate) fn run(args: &RecordArgs) -> Outcome {
    let Some(runs) = args.output.runs else {
        let recorded = run_into(args, &args.output)?;
        recorded.summary?;
        return Ok(recorded.status);
    };
    if args.command.is_empty() {
        return Err(usage("--runs needs a COMMAND to run each time"));
    }
    if args.output.output == Path::new("-") {
        return Err(usage(
            "--runs makes several files; name them with -o FILE or a folder, not `-`",
        ));
    }
    let names = Names::of(&args.output.output)?;
    for number in 1..=runs {
        let output = OutputArgs {
            output: names.path(number),
            ..args.output.clone()
        };
        let recorded = run_into(args, &output)?;
        recorded.summary?;
        if recorded.status != 0 || recorded.is_interrupted {
            // An incomplete run has no meaningful duration.
            std::fs::remove_file(&output.output).ok();
            let how = match recorded.is_interrupted {
                true => "a signal ended it".to_owned(),
                false => format!("it ended with status {}", recorded.status),
            };
            say(format_args!(
                "stopped at run {number} of {runs}, which is not kept: {how}"
            ));
            return Ok(recorded.status.max(1));
        }
    }
    let (first, last) = (names.path(1), names.path(runs));
    if !args.sampling.quiet {
        say(format_args!(
            "saved {} in {} to {}",
            counted(runs.into(), "run"),
            first.display(),
            last.display()
        ));
        let next = names.path(runs + 1);
        if next.exists() {
            say(format_args!("{} is from earlier runs", next.display()));
        }
    }
    Ok(0)
}

fn usage(message: &'static str) -> Failure {
    Failure::with_status(2, anyhow::anyhow!(message))
}

enum Names {
    /// `1.data`, `2.data`, … in a folder.
    In(PathBuf),
    /// `FILE.1`, `FILE.2`, …
    Beside(PathBuf),
}

impl Names {
    /// Treats a path as a folder if it is one or ends with a slash, and creates it.
    fn of(path: &Path) -> Result<Names, Failure> {
        let is_folder = path.as_os_str().as_bytes().ends_with(b"/") || path.is_dir();
        if !is_folder {
            return Ok(Names::Beside(path.to_owned()));
        }
        let cannot = || format!("cannot make {}", path.display());
        std::fs::create_dir_all(path).with_context(cannot)?;
        Ok(Names::In(path.to_owned()))
    }

    fn path(&self, number: u32) -> PathBuf {
        match self {
            Names::In(folder) => folder.join(format!("{number}.data")),
            Names::Beside(path) => {
                let mut name = OsString::from(path);
                name.push(format!(".{number}"));
                name.into()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_have_numbers_beside_a_file_or_in_a_folder() {
        let beside = Names::Beside("perf.data".into());
        assert_eq!(
            [beside.path(1), beside.path(10)],
            ["perf.data.1", "perf.data.10"].map(PathBuf::from)
        );
        let folder = tempfile::tempdir().unwrap();
        let mut path = folder.path().join("base").into_os_string();
        path.push("/");
        let inside = Names::of(Path::new(&path));
        assert!(inside.is_ok_and(|names| names.path(2).ends_with("base/2.data")));
        assert!(folder.path().join("base").is_dir());
    }
}
