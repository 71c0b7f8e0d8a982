//! Reads recordings together with the code of their functions, for annotation.

use std::path::PathBuf;

use rprof_analysis::{CodeImages, Options, analyse_with_code};
use rprof_annotate::{Annotator, Syntax};
use rprof_perfdata::PerfData;
use rprof_profile::{Filter, Profile, merge};

use crate::cli::FilterArgs;
use crate::input::downloads::Downloads;
use crate::input::not_shown;
use crate::input::nothing_found;
use crate::input::recordings::{Callee, check_events, check_latency, check_requests, open};
use crate::input::similar_names;
use crate::wording::messages::Failure;

pub(crate) struct CodeInput<'a> {
    pub(crate) paths: &'a [PathBuf],
    pub(crate) args: &'a FilterArgs,
    pub(crate) filter: Filter,
    pub(crate) syntax: Syntax,
    pub(crate) quiet: bool,
    /// Annotate only functions of the filter's objects, if any.
    pub(crate) is_of_objects: bool,
}

pub(crate) struct WithCode<'a> {
    pub(crate) profile: &'a Profile,
    pub(crate) annotator: Annotator<'a>,
    pub(crate) images: &'a [CodeImages<'a>],
    pub(crate) downloads: Option<&'a Downloads>,
}

impl WithCode<'_> {
    /// Returns the lowest precision of an event in all recordings.
    pub(crate) fn precision(&self, event: usize) -> u8 {
        let promised = self.images.iter().map(|code| code.precision(event));
        promised.min().unwrap_or(0)
    }
}

pub(crate) fn with_code<T>(
    input: &CodeInput<'_>,
    then: impl FnOnce(&WithCode<'_>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let names = &input.args.symbols;
    let downloads = names.downloads(input.quiet)?;
    let symbolizer = names.symbolizer(false, !names.no_located, downloads.as_ref());
    // Lines take time: only for shown code.
    let with_lines = names.symbolizer(true, !names.no_located, downloads.as_ref());
    let recordings: Vec<PerfData> = (input.paths.iter())
        .map(|path| open(path))
        .collect::<Result<_, _>>()?;
    let mut profiles = Vec::new();
    let mut images = Vec::new();
    for data in &recordings {
        check_events(data, &input.filter.events)?;
        check_latency(data, input.args)?;
        not_shown::tell(data, input.args, input.quiet);
        let options = Options {
            addresses: true,
            details_of_filter: input.is_of_objects,
            latency: input.args.latency,
            filter: input.args.with_times_of(&input.filter, data)?,
            ..Options::default()
        };
        check_requests(data, &options)?;
        let (profile, code) = analyse_with_code(data, &symbolizer, &options);
        profiles.push(profile);
        images.push(code);
    }
    let mut profile = merge(profiles);
    nothing_found::check(&profile, input.paths, input.args, &input.filter)?;
    let unmatched = similar_names::unmatched(&profile, &input.filter);
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
    // Exit follows soon, and is faster than freeing the tables.
    std::mem::forget((symbolizer, with_lines));
    Ok(result)
}
