//! `rprof diff`, and the parts it shares with `rprof gate`.

use std::io::{self, IsTerminal};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rprof_analysis::{MemoryOptions, MemoryTime, Options};
use rprof_export::diff::{DiffOptions, Environment, Hidden, SortBy, folded, svg, words};
use rprof_export::svg::SvgOptions;
use rprof_profile::compare::{
    CompareError, CompareOptions, Design, Gate, GateRules, ProfileDiff, Scope, compare,
};
use rprof_profile::{Keys, Profile};

use crate::Outcome;
use crate::cli::{
    DiffArgs, DiffSort, FilterArgs, JudgingArgs, MemoryMoment, ScopeArg, ShownArgs, ToldArgs,
    WaitArgs,
};
use crate::input::nothing_found;
use crate::input::recordings::{
    Callee, Input, Symbols, check_events, check_latency, check_requests, check_waits, open_input,
    warn,
};
use crate::input::run_folders::with_recordings_of_folders;
use crate::terminal;
use crate::terminal::output::{Output, write_to};
use crate::terminal::pager::show;
use crate::terminal::wants_color;
use crate::wording::comparison_reports::{self, Reports};
use crate::wording::environments::{RecordedOn, reservations};
use crate::wording::messages::{Failure, say};

/// Exit status of a gate that found a regression.
const REGRESSED: u8 = 3;

/// Exit status of an inconclusive strict gate.
pub(crate) const INCONCLUSIVE: u8 = 4;

pub(crate) fn run(args: &DiffArgs) -> Outcome {
    let is_number = |path: &Path| path.to_str().is_some_and(|text| text.parse::<u8>().is_ok());
    if let Some(number) = args.shown.output.as_deref().filter(|path| is_number(path)) {
        let message = format!(
            "-o {0} is the SVG to write, not a sort column as in perf: sort with `-s delta`, or \
             write the SVG with `-o ./{0}`",
            number.display()
        );
        return Err(Failure::with_status(2, anyhow::anyhow!(message)));
    }
    if args.waits.by.is_some() && args.shown.output.is_none() {
        let message = "--by groups the flame graph of `-o FILE.svg`, and the table compares functions: \
                       add -o, or select requests with --trace or --slower-than";
        return Err(Failure::with_status(2, anyhow::anyhow!(message)));
    }
    let [old, new] = paths(args)?;
    let request = Request {
        judging: &args.judging,
        shown: &args.shown,
        filter: &args.filter,
        events: &args.event,
        waits: Some(&args.waits),
        quiet: args.quiet,
        design: match args.paired {
            true => Design::Paired,
            false => Design::Independent,
        },
        limit: args.judging.fail_above,
        labels: None,
        told: &args.told,
        name: None,
    };
    let run = request.run(&old, &new);
    run.map_err(|failure| match default_of_new(args) {
        Some(path) => failure.context(format!("NEW defaults to {path}")),
        None => failure,
    })
}

pub(crate) struct Request<'a> {
    pub(crate) judging: &'a JudgingArgs,
    pub(crate) shown: &'a ShownArgs,
    pub(crate) filter: &'a FilterArgs,
    pub(crate) events: &'a [String],
    /// Wait options; `None` for `gate`.
    pub(crate) waits: Option<&'a WaitArgs>,
    pub(crate) quiet: bool,
    pub(crate) design: Design,
    /// Change that fails the comparison; `None` only shows it.
    pub(crate) limit: Option<f64>,
    /// Names for sides whose files have none.
    pub(crate) labels: Option<Labels>,
    pub(crate) told: &'a ToldArgs,
    /// Default name in reports; `None` for `diff`.
    pub(crate) name: Option<&'a str>,
}

pub(crate) struct Labels(pub(crate) [PathBuf; 2]);

impl Request<'_> {
    /// Compares the recordings, prints the result, and returns the exit status.
    pub(crate) fn run(&self, old: &[PathBuf], new: &[PathBuf]) -> Outcome {
        comparison_reports::check(self.told)?;
        let output = self
            .shown
            .output
            .as_deref()
            .map(Output::prepare)
            .transpose()?;
        let mut sides = self.read([old, new])?;
        if let Some(Labels(labels)) = &self.labels {
            for (side, label) in sides.iter_mut().zip(labels) {
                for profile in &mut side.profiles {
                    profile.source.clone_from(label);
                }
            }
        }
        let options = CompareOptions {
            reservations: reservations(sides.each_ref().map(SideFiles::machines), self.judging.per),
            stacks: self.shown.folded || output.is_some(),
            ..self.options()
        };
        let environments = (sides.each_ref()).map(|side| RecordedOn::environments(&side.machines));
        let [before, after] = sides.map(|side| side.profiles);
        let diff = compare(&before, &after, &options).map_err(|error| not_compared(&error))?;
        let takes_stdout = self.shown.output.as_deref() == Some(Path::new("-"));
        if self.shown.folded {
            write_to(Path::new("-"), |out| Ok(folded::write(&diff, out)?))?;
        } else if !takes_stdout {
            self.print(&diff, environments)?;
        }
        if let Some(output) = output {
            self.draw(&diff, output)?;
        }
        let status = self.limit.map_or(0, |limit| self.gate(&diff, limit));
        let reports = Reports {
            told: self.told,
            name: self.report_name(),
            plans: self.limit.is_some(),
            filter: self.filter,
            events: self.events,
            new: new.first().map(PathBuf::as_path),
        };
        reports.write(&diff)?;
        Ok(status)
    }

    pub(crate) fn options(&self) -> CompareOptions {
        let judging = self.judging;
        CompareOptions {
            weigh_by: self.filter.weight(),
            work: judging.per.unwrap_or_default(),
            fold_generics: judging.fold_generics,
            design: self.design,
            noise: judging.noise,
            threshold: self.limit.unwrap_or(CompareOptions::default().threshold),
            min_share: judging.min_share,
            q: judging.q,
            correction: judging.correction.into(),
            wanted: judging.wanted,
            rules: GateRules {
                scope: match judging.scope {
                    ScopeArg::All => Scope::All,
                    ScopeArg::Total => Scope::Program,
                    ScopeArg::Own => Scope::Own,
                    ScopeArg::Inclusive => Scope::Inclusive,
                },
                only: judging.only.clone(),
                allow: judging.allow.clone(),
            },
            ..CompareOptions::default()
        }
    }

    /// Reads recordings in parallel, because one mostly keeps a single thread busy.
    pub(crate) fn read<const N: usize>(
        &self,
        sides: [&[PathBuf]; N],
    ) -> Result<[SideFiles; N], Failure> {
        let symbols = self.filter.symbols.symbols(false, self.quiet)?;
        let options = Options {
            filter: self.filter.filter(self.events),
            latency: self.filter.latency,
            ..Options::default()
        };
        let options = match self.waits {
            Some(waits) => waits.choose(options)?,
            None => options,
        };
        let runs: Vec<(&PathBuf, Options)> = (sides.into_iter().enumerate())
            .flat_map(|(side, paths)| paths.iter().map(move |path| (side, path)))
            .map(|(side, path)| (path, of_side(side, &options)))
            .collect();
        let threads = rprof_parallel::available();
        let read = rprof_parallel::map_chunks(threads, &runs, 1, |some| {
            let of_each =
                (some.iter()).map(|(path, options)| self.read_run(path, options, &symbols));
            of_each.collect::<Vec<_>>()
        });
        symbols.finish();
        let mut read = read.into_iter().flatten();
        let mut found = [const { SideFiles::NONE }; N];
        for (number, (side, paths)) in found.iter_mut().zip(sides).enumerate() {
            for (path, run) in paths.iter().zip(read.by_ref()) {
                let (mut profile, machine) = run?;
                if let MemoryOptions::At(_, at) = of_side(number, &options).memory {
                    let name = profile.source.as_mut_os_string();
                    name.push(format!(" at {}", time_text(at)));
                }
                let path = std::slice::from_ref(path);
                nothing_found::check(&profile, path, self.filter, &options.filter)?;
                nothing_found::check_by(&profile, path, options.by_request.as_ref())?;
                let profile = self.filter.cut_to_callers(profile, Callee::Dropped);
                warn(&profile, self.quiet);
                side.profiles.push(profile);
                side.machines.extend(machine);
            }
        }
        Ok(found)
    }

    fn read_run(
        &self,
        path: &Path,
        options: &Options,
        symbols: &Symbols,
    ) -> Result<(Profile, Option<RecordedOn>), Failure> {
        Ok(match open_input(path)? {
            Input::Foreign(text) => {
                let mut profile = text.profile(&Keys::FUNCTIONS, options, &symbols.budget)?;
                if let Some(waits) = self.waits {
                    waits.join(&mut profile)?;
                }
                (profile, None)
            }
            Input::Recording(data) => {
                check_events(&data, &options.filter.events)?;
                check_latency(&data, self.filter)?;
                check_requests(&data, options)?;
                let options = Options {
                    filter: self.filter.with_times_of(&options.filter, &data)?,
                    inlined: true,
                    by_language: !self.filter.symbols.no_by_language,
                    ..options.clone()
                };
                check_waits(&data, &options)?;
                let machine = RecordedOn::of(&data);
                let mut profile = symbols.analyse(&data, &options);
                self.filter.symbols.fold_languages(&mut profile);
                if let Some(waits) = self.waits {
                    waits.join(&mut profile)?;
                }
                (profile, Some(machine))
            }
        })
    }

    fn print(
        &self,
        diff: &ProfileDiff,
        environments: [Vec<Environment>; 2],
    ) -> Result<(), Failure> {
        let (shown, format) = (&self.shown, self.shown.format);
        let is_terminal = io::stdout().is_terminal();
        let options = DiffOptions {
            sort: match shown.sort {
                DiffSort::Delta => SortBy::Change,
                DiffSort::Own => SortBy::Own,
                DiffSort::Total => SortBy::Total,
                DiffSort::Name => SortBy::Name,
            },
            all: shown.all,
            limit: match shown.limit {
                Some(0) => None,
                Some(limit) => Some(limit),
                None => (is_terminal && format.is_for_people).then_some(ROWS_ON_TERMINAL),
            },
            bare: self.quiet,
            plans: self.limit.is_some(),
            name: self.report_name(),
            color: wants_color(shown.color),
            width: terminal::width().filter(|_| !shown.wide),
            rest,
            environments,
        };
        show(|out| Ok((format.write)(diff, &options, out)?))
    }

    fn report_name(&self) -> Option<String> {
        self.told.name.as_deref().or(self.name).map(str::to_owned)
    }

    fn draw(&self, diff: &ProfileDiff, output: Output) -> Result<(), Failure> {
        let title = match &self.shown.title {
            Some(title) => title.clone(),
            None => {
                let of = |paths: &[PathBuf]| {
                    let first = paths.first().map(|path| path.display().to_string());
                    let more = if paths.len() > 1 { "…" } else { "" };
                    format!("{}{more}", first.unwrap_or_default())
                };
                format!("{} against {}", of(&diff.new.paths), of(&diff.old.paths))
            }
        };
        let options = SvgOptions {
            title,
            ..SvgOptions::default()
        };
        let path = output.path().map(Path::to_owned);
        let mut left_out = None;
        output.write(|out| {
            left_out = svg::write(diff, &options, out)?;
            Ok(())
        })?;
        if let (Some(path), false) = (path, self.quiet) {
            say(format_args!("wrote {}", path.display()));
        }
        if let (Some(left_out), false) = (left_out, self.quiet) {
            say(left_out);
        }
        Ok(())
    }

    /// Returns the exit status. Prints the reason if the gate fails or is inconclusive.
    fn gate(&self, diff: &ProfileDiff, limit: f64) -> u8 {
        let limit = limit * 100.0;
        match diff.gate() {
            Gate::Passed => 0,
            Gate::Regressed => {
                say(format_args!(
                    "failed above {limit} %: {}",
                    words::headline(diff)
                ));
                REGRESSED
            }
            Gate::Inconclusive => {
                say(format_args!(
                    "undecided at the limit of {limit} %: {}",
                    words::open_question(diff)
                ));
                if self.judging.strict { INCONCLUSIVE } else { 0 }
            }
        }
    }
}

/// Returns the options of a side. With two times of memory, the old side shows the first one, and
/// the new side the second one.
fn of_side(side: usize, options: &Options) -> Options {
    let memory = match (options.memory, side) {
        (MemoryOptions::At(Some(old), _), 0) => MemoryOptions::At(None, old),
        (MemoryOptions::At(_, new), _) => MemoryOptions::At(None, new),
        (other, _) => other,
    };
    Options {
        memory,
        ..options.clone()
    }
}

fn time_text(time: MemoryTime) -> String {
    let seconds = |ns: u64| ns as f64 / 1e9;
    match time {
        MemoryTime::AfterStart(after) => format!("{} s", seconds(after)),
        MemoryTime::BeforeEnd(before) => format!("{} s before the end", seconds(before)),
        MemoryTime::Share(share) => format!("{}%", share * 100.0),
    }
}

fn rest(count: usize, why: Hidden) -> String {
    match (why, count) {
        (Hidden::BeyondLimit, _) => format!("… {count} more (-n 0 for all)"),
        (Hidden::Callers, 1) => "1 caller changed because of these, not shown (--all)".into(),
        (Hidden::Callers, _) => {
            format!("{count} callers changed because of these, not shown (--all)")
        }
        (Hidden::NothingSure, 1) => {
            "1 function without a significant change, not shown (--all)".into()
        }
        (Hidden::NothingSure, _) => {
            format!("{count} functions without a significant change, not shown (--all)")
        }
    }
}

const ROWS_ON_TERMINAL: usize = 30;

const DEFAULT_NEW: &str = "perf.data";

/// Returns the second recording if only the first one was typed.
fn default_of_new(args: &DiffArgs) -> Option<&'static str> {
    let is_default = args.old_file.is_some() && args.new_file.is_none() && args.base.is_empty();
    let is_one_file = matches!(args.waits.memory.moment(), Some(MemoryMoment::Between(..)));
    (is_default && !is_one_file).then_some(DEFAULT_NEW)
}

fn paths(args: &DiffArgs) -> Result<[Vec<PathBuf>; 2], Failure> {
    let or = |file: &Option<PathBuf>, default: &str| {
        vec![file.clone().unwrap_or_else(|| default.into())]
    };
    if let Some(MemoryMoment::Between(..)) = args.waits.memory.moment()
        && args.base.is_empty()
    {
        // Two moments of one recording, unless there are two.
        let old = or(&args.old_file, "perf.data");
        let new = (args.new_file.clone()).map_or_else(|| old.clone(), |new| vec![new]);
        return Ok([old, new]);
    }
    // As in perf, a single file is the old side.
    let [old, new] = match args.base.is_empty() {
        true => [
            or(&args.old_file, "perf.data.old"),
            or(&args.new_file, DEFAULT_NEW),
        ],
        false => [args.base.clone(), args.new.clone()],
    };
    // Without NEW, both sides may be perf.data.
    if args.base.is_empty() && args.new_file.is_none() && is_same_file(&old[0], &new[0]) {
        let message = format!(
            "both sides are {}: name the old and the new recording (`rprof diff OLD NEW`)",
            new[0].display()
        );
        return Err(Failure::with_status(2, anyhow::anyhow!(message)));
    }
    Ok([
        with_recordings_of_folders(&old)?,
        with_recordings_of_folders(&new)?,
    ])
}

fn is_same_file(one: &Path, other: &Path) -> bool {
    let inode = |path: &Path| {
        let meta = std::fs::metadata(path).ok()?;
        Some((meta.dev(), meta.ino()))
    };
    inode(one).is_some_and(|inode_of_one| inode(other) == Some(inode_of_one))
}

/// Runs of one side, and the machines that recorded them.
pub(crate) struct SideFiles {
    pub(crate) profiles: Vec<Profile>,
    machines: Vec<RecordedOn>,
}

impl SideFiles {
    const NONE: SideFiles = SideFiles {
        profiles: Vec::new(),
        machines: Vec::new(),
    };

    fn machines(&self) -> &[RecordedOn] {
        &self.machines
    }
}

pub(crate) fn not_compared(error: &CompareError) -> Failure {
    let remedy = match error {
        CompareError::OtherEvent { .. } => {
            "; choose one that both have with --event, or record both with the same -e"
        }
        CompareError::NoSamples { .. } => {
            "; record for longer or with a higher -F, and check the filters"
        }
        CompareError::NoWork { .. } => {
            "; --per second needs recordings with timestamps, --per N sets the amount of work"
        }
        CompareError::Statistics(_) => "; --paired needs the same number of runs on both sides",
        _ => "",
    };
    let status = match error {
        CompareError::NoSamples { .. } => 1,
        _ => 2,
    };
    Failure::with_status(status, anyhow::anyhow!("{error}{remedy}"))
}
