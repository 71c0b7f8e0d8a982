//! Recordings read with the code of their functions, for whoever annotates.

use std::path::PathBuf;

use rprof_analysis::{CodeImages, Options, analyse_with_code};
use rprof_annotate::{Annotator, Syntax};
use rprof_perfdata::PerfData;
use rprof_profile::{Filter, Profile, merge};

use crate::cli::FilterArgs;
use crate::downloads::Downloads;
use crate::input::{Callee, check_events, open};
use crate::messages::Failure;
use crate::{nearest, nothing_found, unshown};

/// Recordings to read, and how.
pub(crate) struct CodeInput<'a> {
    pub(crate) paths: &'a [PathBuf],
    pub(crate) args: &'a FilterArgs,
    pub(crate) filter: Filter,
    pub(crate) syntax: Syntax,
    pub(crate) quiet: bool,
    /// Only functions of the filter's objects are annotated, if it has some.
    pub(crate) is_of_objects: bool,
}

/// Recordings that were read.
pub(crate) struct WithCode<'a> {
    pub(crate) profile: &'a Profile,
    pub(crate) annotator: Annotator<'a>,
    /// Images of each recording.
    pub(crate) images: &'a [CodeImages<'a>],
    pub(crate) downloads: Option<&'a Downloads>,
}

impl WithCode<'_> {
    /// Returns what an event promises at least, in all recordings.
    pub(crate) fn precision(&self, event: usize) -> u8 {
        let promised = self.images.iter().map(|code| code.precision(event));
        promised.min().unwrap_or(0)
    }
}

/// Reads recordings, and hands them to `then`.
pub(crate) fn with_code<T>(
    input: &CodeInput<'_>,
    then: impl FnOnce(&WithCode<'_>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let names = &input.args.symbols;
    let downloads = names.downloads(input.quiet)?;
    let symbolizer = names.symbolizer(false, !names.no_located, downloads.as_ref());
    // Lines take time, and are wanted of what is shown alone.
    let with_lines = names.symbolizer(true, !names.no_located, downloads.as_ref());
    let recordings: Vec<PerfData> = (input.paths.iter())
        .map(|path| open(path))
        .collect::<Result<_, _>>()?;
    let mut profiles = Vec::new();
    let mut images = Vec::new();
    for data in &recordings {
        check_events(data, &input.filter.events)?;
        unshown::tell(data, input.quiet);
        let options = Options {
            addresses: true,
            details_of_filter: input.is_of_objects,
            filter: input.args.with_times_of(&input.filter, data)?,
            ..Options::default()
        };
        let (profile, code) = analyse_with_code(data, &symbolizer, &options);
        profiles.push(profile);
        images.push(code);
    }
    let mut profile = merge(profiles);
    nothing_found::check(&profile, input.paths, input.args, &input.filter)?;
    let unmatched = nearest::unmatched(&profile, &input.filter);
    profile.quality.warnings.extend(unmatched);
    let profile = input.args.cut_to_callers(profile, Callee::Dropped);
    let result = then(&WithCode {
        profile: &profile,
        annotator: Annotator {
            symbolizer: &with_lines,
            images: &images,
            syntax: input.syntax,
        },
        images: &images,
        downloads: downloads.as_ref(),
    })?;
    if let Some(downloads) = downloads {
        downloads.print_summary();
    }
    // Tables in many pieces, which the system takes back faster when the process ends, as it does soon.
    std::mem::forget((symbolizer, with_lines));
    Ok(result)
}
