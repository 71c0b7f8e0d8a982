//! `rprof export --format parquet`: recordings as fleet tables.

use crate::Outcome;
use crate::cli::ExportArgs;
use crate::wording::messages::Failure;

#[cfg(not(feature = "parquet"))]
pub(crate) fn run(_: &ExportArgs) -> Outcome {
    let message = "this build of rprof has no Parquet support: rebuild with `cargo install --path \
        crates/rprof --features parquet`";
    Err(Failure::with_status(2, anyhow::anyhow!(message)))
}

/// Writes the tables of each recording below the output folder. Existing files stay.
#[cfg(feature = "parquet")]
pub(crate) fn run(args: &ExportArgs) -> Outcome {
    use rprof_export::{CleanNames, Content, ExportOptions, SampleLabel};
    use rprof_fleet_table::rows::Identity;
    use rprof_fleet_table::{Origin, folder, of_profile};
    use rprof_profile::{Keys, Thread};

    use crate::input::recordings::{Callee, read_merged, warn};
    use crate::terminal::progress::WorkLine;
    use crate::wording::messages::say;

    let input = &args.input;
    let quiet = input.quiet;
    if args.unit.is_some() || args.labels.is_some() {
        let message = "--unit and --labels are not for parquet: all columns are written";
        return Err(Failure::with_status(2, anyhow::anyhow!(message)));
    }
    if args.output.extension().is_some() || args.output.as_os_str() == "-" {
        let message = format!(
            "{} is not a folder name: parquet writes a folder of tables, such as `-o profiles`",
            args.output.display()
        );
        return Err(Failure::with_status(2, anyhow::anyhow!(message)));
    }
    let export = ExportOptions {
        labels: vec![SampleLabel::Process],
        ..ExportOptions::default()
    };
    let options = input.options_for(Content::Samples, &export);
    let (mut new, mut there) = (0, 0);
    for path in input.paths() {
        let line = WorkLine::new(quiet);
        line.say(&format!("reading {}", path.display()));
        let paths = std::slice::from_ref(&path);
        let keys = &Keys::FUNCTIONS;
        let merged = read_merged(paths, &input.filter, &options, keys, Callee::Kept, quiet)?;
        let profile = merged.profile;
        let facts = merged.facts.iter().flatten();
        let host = facts
            .filter(|(name, _)| name == "host")
            .map(|(_, host)| host.as_str())
            .next();
        let identity = |thread: &Thread| Identity {
            service: match &args.service {
                Some(service) => service.clone(),
                None => {
                    let comm = thread.process_comm.unwrap_or(thread.comm);
                    CleanNames::new(&profile).comm(comm).into_owned()
                }
            },
            version: args.service_version.clone(),
            ..Identity::default()
        };
        let origin = Origin {
            window: None,
            host: host.unwrap_or("unknown"),
            rate_hz: 0.0,
            scale: 1.0,
            lost_windows: 0,
            identity: &identity,
        };
        let failed = |error| anyhow::Error::new(error).context(path.display().to_string());
        for (hour, mut tables) in of_profile(&profile, &origin).map_err(failed)? {
            for file in tables.files(origin.host, hour).map_err(failed)? {
                match folder::put(&args.output, &file).map_err(failed)? {
                    true => new += 1,
                    false => there += 1,
                }
            }
        }
        line.clear();
        warn(&profile, quiet);
    }
    if !quiet {
        let there = match there {
            0 => String::new(),
            there => format!("; {there} existed already"),
        };
        say(format_args!(
            "wrote {new} files below {}{there}",
            args.output.display()
        ));
    }
    Ok(0)
}
