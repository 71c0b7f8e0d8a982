//! `rprof export` and `rprof collapse`.

use std::io::Write;
use std::path::Path;

use rprof_export::{
    Content, ExportFormat, ExportOptions, FORMATS, ReportOptions, RowOptions, folded,
};
use rprof_profile::waits::is_of_waits;
use rprof_profile::{EventSummary, Keys, Profile, WeighBy, WeightUnit};

use crate::Outcome;
use crate::cli::{CollapseArgs, ExportArgs, LabelArg};
use crate::input::nothing_found;
use crate::input::recordings::{Callee, read_merged, tell_others, warn};
use crate::terminal::output::Output;
use crate::terminal::progress::{CountedWriter, WorkLine};
use crate::wording::messages::{Failure, say};

const LABELLED: [&str; 2] = ["pprof", "otlp"];

pub(crate) fn run(args: &ExportArgs) -> Outcome {
    let format = match args.format {
        Some(format) => format,
        None => by_suffix(&args.output)?,
    };
    if args.unit.is_some() && format.name != "folded" {
        let message = "--unit is for folded stacks; other formats have a unit of their own";
        return Err(Failure::with_status(2, anyhow::anyhow!(message)));
    }
    if args.labels.is_some() && !LABELLED.contains(&format.name) {
        let message = "--labels is for pprof and otlp; other formats have no labels";
        return Err(Failure::with_status(2, anyhow::anyhow!(message)));
    }
    let output = Output::prepare(&args.output)?;
    let content = format.content;
    let labels = args.labels.as_deref().map(LabelArg::labels);
    let export = ExportOptions {
        labels: labels.unwrap_or_else(|| ExportOptions::default().labels),
        ..ExportOptions::default()
    };
    let options = args
        .waits
        .choose(args.input.options_for(content, &export))?;
    let input = &args.input;
    let (paths, quiet) = (input.paths(), input.quiet);
    let keys = &Keys::FUNCTIONS;
    let line = WorkLine::new(quiet);
    line.say("reading");
    let merged = read_merged(&paths, &input.filter, &options, keys, Callee::Kept, quiet)?;
    line.clear();
    let mut profile = merged.profile;
    args.waits.join(&mut profile)?;
    warn(&profile, input.quiet);
    if let (Some(main), true) = (profile.main_event(), content != Content::Addresses) {
        let with_waits = content == Content::SamplesAndWaits;
        let are_shown = |(index, event): (usize, &EventSummary)| {
            index == main || event.samples == 0 || with_waits && is_of_waits(&event.name)
        };
        if !profile.events.iter().enumerate().all(are_shown) {
            tell_others(&profile, main, "exported", input.quiet);
        }
    }
    let missing = match content {
        Content::Addresses if !profile.has_addresses() => Some("addresses and lines"),
        _ if content.is_by_time() && profile.streams.is_none() => Some("times of samples"),
        _ => None,
    };
    if let (Some(missing), false) = (missing, input.quiet) {
        say(format_args!(
            "the input has no {missing}: the {} output lacks them too",
            format.name
        ));
    }
    let options = ReportOptions {
        rows: RowOptions {
            weight: input.filter.weight(),
            ..RowOptions::default()
        },
        export,
        ..ReportOptions::default()
    };
    let path = output.path().map(Path::to_owned);
    let name = path.as_deref().unwrap_or(Path::new("standard output"));
    let what = format!("writing {}", name.display());
    let line = WorkLine::new(quiet);
    let output = output.private_if(format.writes_kernel_addresses(&profile));
    output.write(|out| {
        let mut out = CountedWriter::new(out, &line, what);
        write(args, format, &profile, &options, &mut out)
    })?;
    line.clear();
    if let (Some(path), false) = (path, args.input.quiet) {
        say(format_args!("wrote {}", path.display()));
    }
    Ok(0)
}

fn write(
    args: &ExportArgs,
    format: &ExportFormat,
    profile: &Profile,
    options: &ReportOptions,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    match (args.unit, profile.main_event()) {
        (Some(unit), Some(event)) => {
            let weight = options.rows.weight;
            let is_time =
                weight == WeighBy::Period && profile.events[event].unit == WeightUnit::Nanoseconds;
            let unit = if is_time { unit.nanoseconds() } else { 1 };
            if !is_time && !args.input.quiet {
                say("--unit is ignored: the weights are not times");
            }
            Ok(folded::write_in_units(profile, event, weight, unit, out)?)
        }
        _ => Ok((format.write)(profile, options, out)?),
    }
}

fn by_suffix(path: &Path) -> Result<&'static ExportFormat, Failure> {
    let name = path.to_string_lossy();
    ExportFormat::by_suffix(&name).ok_or_else(|| {
        let all = FORMATS.iter().flat_map(|format| format.suffixes);
        let message = format!(
            "unknown format of {name}: give --format, or a name that ends in {}",
            all.copied().collect::<Vec<_>>().join(", ")
        );
        Failure::with_status(2, anyhow::anyhow!(message))
    })
}

pub(crate) fn collapse(args: &CollapseArgs) -> Outcome {
    let output = Output::prepare(&args.output)?;
    let options = args.waits.choose(args.input.options())?;
    let mut profile = (args.input).profile_and(None, &options, &Keys::FUNCTIONS, Callee::Kept)?;
    args.waits.join(&mut profile)?;
    warn(&profile, args.input.quiet);
    let no_samples = || nothing_found::without_samples(&args.input.paths());
    let event = profile.main_event().ok_or_else(no_samples)?;
    tell_others(&profile, event, "folded", args.input.quiet);
    output.write(|out| {
        Ok(folded::write(
            &profile,
            event,
            args.input.filter.weight(),
            out,
        )?)
    })?;
    Ok(0)
}
