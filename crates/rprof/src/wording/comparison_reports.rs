//! Reports of a comparison beside its table: Markdown, JUnit, and GitHub annotations.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use rprof_analysis::Options;
use rprof_export::diff::github::{self, RepositoryLine};
use rprof_export::diff::{DiffOptions, junit, markdown};
use rprof_profile::Profile;
use rprof_profile::compare::{FunctionDiff, ProfileDiff, canonical};

use crate::cli::{FilterArgs, ToldArgs};
use crate::input::recordings::{Input, analyse, open_input};
use crate::terminal::output::{Output, write_to};
use crate::wording::messages::{Failure, say};

/// Size above which GitHub drops the whole step summary, in bytes.
const MAX_SUMMARY: u64 = 1 << 20;

const SUMMARY: &str = "GITHUB_STEP_SUMMARY";

/// Checks that the reports can be written, before recording or reading.
pub(crate) fn check(told: &ToldArgs) -> Result<(), Failure> {
    for (flag, path) in [("--markdown", &told.markdown), ("--junit", &told.junit)] {
        let Some(path) = path else { continue };
        Output::checked(path)
            .map_err(|error| anyhow::anyhow!("{error}. Choose another file with {flag}"))?;
    }
    Ok(())
}

/// Requested reports and their subject.
pub(crate) struct Reports<'a> {
    pub(crate) told: &'a ToldArgs,
    pub(crate) name: Option<String>,
    /// State how many runs would show how much.
    pub(crate) plans: bool,
    pub(crate) filter: &'a FilterArgs,
    pub(crate) events: &'a [String],
    pub(crate) new: Option<&'a Path>,
}

impl Reports<'_> {
    pub(crate) fn write(&self, diff: &ProfileDiff) -> Result<(), Failure> {
        let told = self.told;
        let title = self.name.as_deref().unwrap_or("rprof diff");
        let options = DiffOptions {
            plans: self.plans,
            name: self.name.clone(),
            ..DiffOptions::default()
        };
        if let Some(path) = &told.markdown {
            write_to(path, |out| Ok(markdown::write(diff, &options, out)?))?;
        }
        if let Some(path) = &told.junit {
            write_to(path, |out| Ok(junit::write(diff, title, out)?))?;
        }
        if !told.github {
            return Ok(());
        }
        let has_failed = diff.failing().next().is_some();
        let lines = self
            .new
            .filter(|_| has_failed)
            .map(|new| self.function_lines(new));
        let place = |row: &FunctionDiff| lines.as_ref()?.place(row);
        // GitHub's runner reads stderr too.
        let text = github::annotations(diff, title, &place);
        anstream::stderr().write_all(text.as_bytes()).ok();
        let mut text = Vec::new();
        markdown::write(diff, &options, &mut text)?;
        text.push(b'\n');
        append_summary(&text)
    }

    /// Reads a recording again, with lines. Without lines, annotations have none.
    fn function_lines(&self, path: &Path) -> FunctionLines {
        let read = || -> Result<Option<Profile>, Failure> {
            let Input::Recording(data) = open_input(path)? else {
                return Ok(None);
            };
            let options = Options {
                filter: self.filter.filter(self.events),
                by_line: true,
                // Start lines of functions need addresses.
                addresses: true,
                ..Options::default()
            };
            analyse(&data, &self.filter.symbols, &options, true).map(Some)
        };
        FunctionLines {
            profile: read().ok().flatten(),
        }
    }
}

/// Appends to the step summary, if there is room.
fn append_summary(text: &[u8]) -> Result<(), Failure> {
    let Some(path) = std::env::var_os(SUMMARY).map(PathBuf::from) else {
        say(format_args!("{SUMMARY} is not set: no summary was written"));
        return Ok(());
    };
    let cannot = || format!("cannot write {}", path.display());
    let size = std::fs::metadata(&path).map_or(0, |meta| meta.len());
    if size + text.len() as u64 >= MAX_SUMMARY {
        say("the summary of this step is full: nothing was added");
        return Ok(());
    }
    let file = OpenOptions::new().append(true).create(true).open(&path);
    Ok(file
        .and_then(|mut file| file.write_all(text))
        .with_context(cannot)?)
}

struct FunctionLines {
    profile: Option<Profile>,
}

impl FunctionLines {
    /// Returns the start line of a function, or its hottest line if debug information lacks the
    /// start.
    fn place(&self, row: &FunctionDiff) -> Option<RepositoryLine> {
        let profile = self.profile.as_ref()?;
        let wanted = row.name.as_deref()?;
        let mut hottest: Option<(u64, usize)> = None;
        let is_it = |name: &str| {
            let name = canonical::function_name(name, false);
            name == wanted || canonical::function_name(&name, true) == wanted
        };
        let functions = profile.functions.iter().enumerate();
        for (index, function) in functions {
            if function.line.is_none() || !function.name.as_deref().is_ok_and(is_it) {
                continue;
            }
            let weight = weight_of(profile, index);
            if hottest.is_none_or(|(most, _)| weight > most) {
                hottest = Some((weight, index));
            }
        }
        let (_, index) = hottest?;
        let line = profile
            .functions
            .get(index)?
            .line
            .filter(|line| line.line > 0)?;
        let file = profile.files.get(line.file.0 as usize)?;
        Some(RepositoryLine {
            file: below_the_repository(Path::new(&**file))?,
            line: start_line(profile, index).unwrap_or(line.line),
        })
    }
}

fn start_line(profile: &Profile, function: usize) -> Option<u32> {
    let entries = profile.aggregated.iter();
    let frames = entries.flat_map(|entry| profile.frames(entry.stack));
    let mut frames = frames.map(|id| profile.frame(id));
    let frame =
        frames.find(|frame| frame.function.0 as usize == function && frame.start_line > 0)?;
    Some(frame.start_line)
}

fn weight_of(profile: &Profile, function: usize) -> u64 {
    let ends_there = |stack| {
        let leaf = profile.frames(stack).last();
        leaf.is_some_and(|leaf| profile.frame(leaf).function.0 as usize == function)
    };
    let entries = profile
        .aggregated
        .iter()
        .filter(|entry| ends_there(entry.stack));
    entries.map(|entry| entry.weight).sum()
}

/// Returns a path relative to the repository root, without `..`; `None` for files outside.
fn below_the_repository(path: &Path) -> Option<String> {
    let root = std::env::var_os("GITHUB_WORKSPACE").map(PathBuf::from);
    let root = root.or_else(|| std::env::current_dir().ok())?;
    let root = root.canonicalize().ok()?;
    let path = root.join(path).canonicalize().ok()?;
    let below = path.strip_prefix(&root).ok()?;
    path.is_file().then(|| below.to_string_lossy().into_owned())
}
