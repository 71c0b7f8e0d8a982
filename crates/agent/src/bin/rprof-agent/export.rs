//! `rprof-agent export`: recordings as fleet tables.

use std::io;
use std::path::Path;

use anyhow::Context;
use rprof_analysis::{Options, analyse};
use rprof_export::CleanNames;
use rprof_fleet_table::rows::Identity;
use rprof_fleet_table::{ProfileOrigin, folder, of_profile};
use rprof_output::PrivateCache;
use rprof_perfdata::{Feature, PerfData};
use rprof_profile::unit::counted;
use rprof_profile::{Profile, Thread};
use rprof_symbols::Symbolizer;

use crate::cli::ExportArgs;
use crate::say;

/// Writes the tables of each recording below the output folder. Existing files stay.
pub(crate) fn run(args: &ExportArgs) -> anyhow::Result<u8> {
    let symbolizer = Symbolizer::builder()
        .inlines(true)
        .lines(true)
        .locates(true)
        // A function has the same name in all tables.
        .tells_apart(false)
        .kernel_cache(PrivateCache::of_user())
        .answer_cache(PrivateCache::of_user())
        .build();
    let (mut new, mut existing) = (0, 0);
    for path in &args.recordings {
        let data = open(path)?;
        let profile = profile_of(&data, &symbolizer);
        for warning in &profile.quality.warnings {
            if !args.quiet {
                say(format_args!("warning: {}: {warning}", path.display()));
            }
        }
        let host = data.features().string(Feature::HOSTNAME);
        let written = write(&profile, host.as_deref().unwrap_or("unknown"), args)
            .with_context(|| path.display().to_string())?;
        new += written.new;
        existing += written.existing;
    }
    if !args.quiet {
        let existing = match existing {
            0 => String::new(),
            existing => format!("; {existing} existed already"),
        };
        let folder = args.output.display();
        let new = counted(new as u64, "file");
        say(format_args!("wrote {new} below {folder}{existing}"));
    }
    Ok(0)
}

fn open(path: &Path) -> anyhow::Result<PerfData> {
    let opened = match path == Path::new("-") {
        true => PerfData::read(io::stdin().lock(), Path::new("standard input")),
        false => PerfData::open(path),
    };
    Ok(opened?)
}

fn profile_of(data: &PerfData, symbolizer: &Symbolizer) -> Profile {
    let options = Options {
        addresses: true,
        inlined: true,
        streams: true,
        by_thread: true,
        by_language: true,
        ..Options::default()
    };
    let mut profile = analyse(data, symbolizer, &options);
    profile.fold_languages();
    profile
}

struct Written {
    new: usize,
    existing: usize,
}

fn write(profile: &Profile, host: &str, args: &ExportArgs) -> anyhow::Result<Written> {
    let identity = |thread: &Thread| Identity {
        service: match &args.service {
            Some(service) => service.clone(),
            None => {
                let comm = thread.process_comm.unwrap_or(thread.comm);
                CleanNames::new(profile).comm(comm).into_owned()
            }
        },
        version: args.service_version.clone(),
        ..Identity::default()
    };
    let origin = ProfileOrigin {
        window: None,
        host,
        rate_hz: 0.0,
        scale: 1.0,
        lost_windows: 0,
        identity: &identity,
    };
    let (mut new, mut existing) = (0, 0);
    for (hour, mut tables) in of_profile(profile, &origin)? {
        for file in tables.files(host, hour)? {
            match folder::put(&args.output, &file)? {
                true => new += 1,
                false => existing += 1,
            }
        }
    }
    Ok(Written { new, existing })
}
