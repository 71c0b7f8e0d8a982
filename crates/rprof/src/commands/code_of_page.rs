//! `rprof html --annotate`: source lines and instructions of the hottest functions, for the page.

use std::collections::BTreeSet;
use std::path::Path;

use rprof_analysis::{Options, analyse_with_code};
use rprof_annotate::json::{self, AnnotationReport};
use rprof_annotate::{Annotation, Annotator, Inlined, Sources, Syntax, skid, subject};
use rprof_export::CleanNames;
use rprof_export::clean::{brief, clean};
use rprof_export::html::AnnotatedFunction;
use rprof_perfdata::PerfData;
use rprof_profile::unit::counted_are;
use rprof_profile::{Profile, WeighBy, is_kernel_address, merge};
use serde_json::Value;

use crate::cli::HtmlArgs;
use crate::commands::drawing::About;
use crate::input::recordings::{Input, open_input};
use crate::wording::messages::{Failure, say};

#[derive(Default)]
pub(crate) struct CodeOfPage {
    pub(crate) functions: Vec<AnnotatedFunction>,
    pub(crate) holds_kernel_addresses: bool,
}

/// Annotates up to `--annotate` functions. Folded stacks have no code and add nothing.
///
/// # Errors
///
/// Fails if a recording cannot be read again. Standard input is wrong usage (status 2).
pub(crate) fn annotated(args: &HtmlArgs, about: &About) -> Result<CodeOfPage, Failure> {
    let Some(most) = args.annotate.map(usize::from) else {
        return Ok(CodeOfPage::default());
    };
    let quiet = args.picture.sampling.quiet;
    let names = &args.picture.filter.symbols;
    let downloads = names.downloads(quiet)?;
    let symbolizer = names.symbolizer(false, !names.no_located, downloads.as_ref());
    let with_lines = names.symbolizer(true, !names.no_located, downloads.as_ref());
    let mut recordings: Vec<PerfData> = Vec::new();
    for path in &about.files {
        if path == Path::new("-") {
            let message = anyhow::anyhow!(
                "--annotate cannot use standard input: it reads the recording twice; save it to a \
                 file first"
            );
            return Err(Failure::with_status(2, message));
        }
        if let Input::Recording(data) = open_input(path)? {
            recordings.push(*data);
        }
    }
    let (mut profiles, mut images) = (Vec::new(), Vec::new());
    for data in &recordings {
        let options = Options {
            addresses: true,
            latency: args.picture.filter.latency,
            filter: args.picture.filter.with_times_of(&about.filter, data)?,
            ..Options::default()
        };
        let (profile, code) = analyse_with_code(data, &symbolizer, &options);
        profiles.push(profile);
        images.push(code);
    }
    let profile = merge(profiles);
    let Some(event) = profile.main_event() else {
        return Ok(CodeOfPage::default());
    };
    let annotator = Annotator {
        symbolizer: &with_lines,
        images: &images,
        syntax: Syntax::Intel,
    };
    let precision = images.iter().map(|code| code.precision(event)).min();
    let weight = args.picture.filter.weight();
    let functions = hottest(&annotator, &profile, event, weight, most);
    if functions.len() < most && !quiet {
        say(format_args!(
            "only {} annotated: the others have no samples, or their code is not on this machine",
            counted_are(functions.len() as u64, "function")
        ));
    }
    let clean_names = CleanNames::new(&profile);
    let mut sources = Sources::new();
    let mut embedded = BTreeSet::new();
    let mut made = Vec::new();
    for function in &functions {
        let report = AnnotationReport {
            event: &clean_names.event(event),
            unit: &clean_names.unit(event),
            whole: match weight {
                WeighBy::Period => profile.events[event].weight,
                WeighBy::Samples => profile.events[event].samples,
            },
            samples: profile.events[event].samples,
            skid: skid::sentence(&profile.events[event].unit, precision.unwrap_or(0)),
            functions: std::slice::from_ref(function),
            inlined: Inlined::CallSite,
        };
        let mut bytes = Vec::new();
        json::write(&report, &mut sources, &mut bytes)?;
        made.push(AnnotatedFunction {
            name: clean(&function.name).into_owned(),
            object: clean(&function.object).into_owned(),
            json: for_page(&bytes, args.with_source, &mut embedded)?,
        });
    }
    for path in embedded.iter().filter(|_| !quiet) {
        say(format_args!(
            "the page embeds source lines of {}",
            brief(path)
        ));
    }
    let mut parts = functions.iter().flat_map(|function| &function.parts);
    Ok(CodeOfPage {
        functions: made,
        holds_kernel_addresses: parts.any(|part| is_kernel_address(part.start)),
    })
}

/// Annotates the hottest functions whose code is on this machine.
fn hottest(
    annotator: &Annotator<'_>,
    profile: &Profile,
    event: usize,
    weight: WeighBy,
    most: usize,
) -> Vec<Annotation> {
    let subjects = subject::hottest(profile, event, weight, most.saturating_mul(2), 1.0);
    let subjects = subjects.iter();
    let found =
        subjects.filter_map(|subject| annotator.annotate(profile, event, weight, subject).ok());
    found.take(most).collect()
}

/// Strips code bytes from an annotation, and source text unless `with_source`. Adds source files to
/// `embedded`.
fn for_page(
    json: &[u8],
    with_source: bool,
    embedded: &mut BTreeSet<String>,
) -> Result<String, Failure> {
    let mut report: Value = serde_json::from_slice(json)?;
    let functions = report["functions"].as_array_mut().into_iter().flatten();
    for function in functions {
        for line in function["lines"].as_array_mut().into_iter().flatten() {
            let Value::Object(line) = line else { continue };
            if !with_source {
                line.remove("text");
            } else if line.contains_key("text")
                && let Some(Value::String(file)) = line.get("file")
            {
                embedded.insert(file.clone());
            }
        }
        for part in function["parts"].as_array_mut().into_iter().flatten() {
            for instruction in part["instructions"].as_array_mut().into_iter().flatten() {
                if let Value::Object(instruction) = instruction {
                    instruction.remove("bytes");
                }
            }
        }
    }
    Ok(report.to_string())
}
