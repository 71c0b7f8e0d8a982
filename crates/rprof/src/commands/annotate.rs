//! `rprof annotate`.

use std::io::Write;
use std::path::PathBuf;

use rprof_annotate::editor::LinesOfProfile;
use rprof_annotate::json::AnnotationReport;
use rprof_annotate::text::{Base, By, TextOptions};
use rprof_annotate::{
    Annotation, Annotator, Inlined, RemoteSources, Sources, Syntax, editor, json, skid, subject,
    text,
};
use rprof_export::CleanNames;
use rprof_export::clean::brief;
use rprof_image::BuildId;
use rprof_profile::unit::inflected;
use rprof_profile::waits::WAITS;
use rprof_profile::{Filter, Keys, Language, Profile, SourceName};

use crate::Outcome;
use crate::cli::{AnnotateArgs, AnnotateFormat, InlinedArg, PartsArg, PercentArg, SyntaxArg};
use crate::input::downloads::Downloads;
use crate::input::named_input::is_input;
use crate::input::nothing_found;
use crate::input::recordings::{Callee, read_merged, tell_others, warn};
use crate::input::similar_names;
use crate::input::with_code::{CodeInput, WithCode, with_code};
use crate::terminal;
use crate::terminal::pager::show;
use crate::terminal::wants_color;
use crate::wording::messages::{Failure, say};

/// Default number of functions, and the share of self that ends the list.
const FUNCTIONS: usize = 10;
const ENOUGH: f64 = 0.8;

pub(crate) fn run(args: &AnnotateArgs) -> Outcome {
    let (symbol, paths) = symbol_and_paths(args);
    let input = &args.input;
    if args.format == AnnotateFormat::Editor {
        return lines_for_editors(args, symbol, &paths);
    }
    let filter = input.filter.filter(&input.event);
    let code = CodeInput {
        paths: &paths,
        args: &input.filter,
        syntax: match args.syntax {
            SyntaxArg::Att => Syntax::Att,
            SyntaxArg::Intel => Syntax::Intel,
        },
        quiet: input.quiet,
        // Other filters look at callers, which may be inlined anywhere.
        is_of_objects: filter.focus.is_empty() && input.filter.callers.is_empty(),
        filter,
    };
    with_code(&code, |code| print(args, symbol, code))
}

fn print(args: &AnnotateArgs, symbol: Option<&str>, code: &WithCode<'_>) -> Outcome {
    let (profile, quiet) = (code.profile, args.input.quiet);
    warn(profile, quiet);
    let event = main_event(profile, args)?;
    tell_others(profile, event, "annotated", quiet);
    let functions = annotate(&code.annotator, profile, event, symbol, args)?;
    let mut sources = sources(args);
    if let Some(downloads) = code.downloads {
        sources.set_remote(downloads);
    }
    let shown = Shown {
        profile,
        event,
        functions: &functions,
        precision: code.precision(event),
    };
    show(|out| match args.format {
        AnnotateFormat::Text => shown.text(args, &mut sources, out),
        AnnotateFormat::Json | AnnotateFormat::Editor => shown.json(args, &mut sources, out),
    })?;
    Ok(0)
}

fn lines_for_editors(args: &AnnotateArgs, symbol: Option<&str>, paths: &[PathBuf]) -> Outcome {
    let (input, quiet) = (&args.input, args.input.quiet);
    let keys = Keys {
        line: true,
        ..Keys::FUNCTIONS
    };
    let options = input.options();
    let callee = Callee::Dropped;
    let merged = read_merged(paths, &input.filter, &options, &keys, callee, quiet)?;
    let profile = &merged.profile;
    let event = main_event(profile, args)?;
    warn(profile, quiet);
    tell_others(profile, event, "annotated", quiet);
    let names = CleanNames::new(profile);
    let shown = LinesOfProfile {
        profile,
        event,
        name: &names.event(event),
        unit: &names.unit(event),
        weight: input.filter.weight(),
        function: symbol,
    };
    let mut sources = sources(args);
    let mut lines = 0;
    show(|out| {
        lines = editor::write(&shown, &mut sources, out)?;
        Ok(())
    })?;
    if lines == 0 && !quiet {
        say(match symbol {
            Some(name) => nothing_of(profile, name),
            None => {
                "no lines: the programs have no debug information; compile them with -g".to_owned()
            }
        });
    }
    Ok(0)
}

fn main_event(profile: &Profile, args: &AnnotateArgs) -> Result<usize, Failure> {
    let no_samples = || nothing_found::without_samples(&args.input.paths());
    let event = profile.main_event().ok_or_else(no_samples)?;
    if profile.waits() == Some(event) {
        let message = format!(
            "cannot annotate {WAITS}: its samples are waits, not running code; `rprof report \
             --off-cpu -g` shows where threads waited"
        );
        return Err(Failure::with_status(2, anyhow::anyhow!(message)));
    }
    Ok(event)
}

fn symbol_and_paths(args: &AnnotateArgs) -> (Option<&str>, Vec<PathBuf>) {
    let input = &args.input;
    match &args.function {
        Some(word) if is_input(word.as_ref()) => {
            let first = [PathBuf::from(word)];
            (None, [&first[..], &input.files, &input.input].concat())
        }
        symbol => (symbol.as_deref(), input.paths()),
    }
}

fn annotate(
    annotator: &Annotator<'_>,
    profile: &Profile,
    event: usize,
    symbol: Option<&str>,
    args: &AnnotateArgs,
) -> Result<Vec<Annotation>, Failure> {
    let weight = args.input.filter.weight();
    let most = args.limit.unwrap_or(FUNCTIONS).max(1);
    let subjects = match symbol {
        Some(name) => subject::named(profile, event, weight, name),
        None => subject::hottest(profile, event, weight, most, ENOUGH),
    };
    let (mut functions, mut failures) = (Vec::new(), Vec::new());
    for subject in subjects {
        if functions.len() == most {
            break;
        }
        match annotator.annotate(profile, event, weight, &subject) {
            Ok(found) => functions.push(found),
            Err(why) => {
                let name = subject.name.as_deref().unwrap_or("unnamed function");
                let object = &profile.object(subject.object).name;
                failures.push(match interpreted(profile, &subject) {
                    Some(text) => text,
                    None => format!("{} in {}: {why}", brief(name), brief(object)),
                });
            }
        }
    }
    if functions.is_empty() {
        let message = match (failures.is_empty(), symbol) {
            (false, _) => failures.join("; "),
            (true, Some(name)) => nothing_of(profile, name),
            (true, None) => "no function has samples".to_owned(),
        };
        return Err(anyhow::anyhow!(message).into());
    }
    if !args.input.quiet {
        failures.truncate(FUNCTIONS);
        failures.iter().for_each(say);
    }
    Ok(functions)
}

/// Returns a message for a function that an interpreter runs, which has no instructions.
fn interpreted(profile: &Profile, subject: &subject::AnnotatedCode) -> Option<String> {
    let function = profile.function(*subject.functions.first()?);
    let source = SourceName::of(function, profile.object(function.object))?;
    (source.language == Language::Python).then(|| {
        format!(
            "{} has no instructions of its own: the interpreter runs it; `rprof report -g` shows \
             what it calls",
            brief(&source.text(0))
        )
    })
}

fn nothing_of(profile: &Profile, name: &str) -> String {
    let filter = Filter {
        symbols: vec![name.to_owned()],
        ..Filter::default()
    };
    let near = similar_names::unmatched(profile, &filter);
    match near.first() {
        Some(near) => near.clone(),
        None => format!("no samples in `{}`", brief(name)),
    }
}

fn sources<'a>(args: &AnnotateArgs) -> Sources<'a> {
    let mut sources = Sources::new();
    for text in &args.source_path {
        match text.split_once('=') {
            Some((from, to)) => sources.add_mapping(from, to),
            None => sources.add_root(text),
        }
    }
    sources
}

impl RemoteSources for Downloads {
    fn source(&self, build_id: &BuildId, path: &str) -> Option<Vec<u8>> {
        self.client().source(build_id, path)
    }
}

struct Shown<'a> {
    profile: &'a Profile,
    event: usize,
    functions: &'a [Annotation],
    precision: u8,
}

impl Shown<'_> {
    fn whole(&self, args: &AnnotateArgs) -> u64 {
        let event = &self.profile.events[self.event];
        match args.input.filter.weight() {
            rprof_profile::WeighBy::Period => event.weight,
            rprof_profile::WeighBy::Samples => event.samples,
        }
    }

    fn skid(&self) -> &'static str {
        skid::sentence(&self.profile.events[self.event].unit, self.precision)
    }

    fn text(
        &self,
        args: &AnnotateArgs,
        sources: &mut Sources<'_>,
        out: &mut dyn Write,
    ) -> Result<(), Failure> {
        let event = &self.profile.events[self.event];
        let names = CleanNames::new(self.profile);
        let name = names.event(self.event).to_string();
        if !args.input.quiet {
            let samples = inflected(event.samples, "sample");
            writeln!(out, "# event {name}: {} {samples}", event.samples)?;
            writeln!(out, "# {}", self.skid())?;
        }
        let options = TextOptions {
            by: match args.show {
                PartsArg::Source => By::Source,
                PartsArg::Asm => By::Asm,
                PartsArg::Both => By::Both,
            },
            inlined: inlined(args),
            base: match args.percent_type {
                PercentArg::Global => Base::Global,
                PercentArg::Local => Base::Local,
            },
            event: name,
            whole: self.whole(args),
            all: args.all,
            bytes: args.asm_raw,
            color: wants_color(args.color),
            width: terminal::width().filter(|_| !args.wide),
        };
        for function in self.functions {
            writeln!(out)?;
            text::write(function, sources, &options, out)?;
        }
        Ok(())
    }

    fn json(
        &self,
        args: &AnnotateArgs,
        sources: &mut Sources<'_>,
        out: &mut dyn Write,
    ) -> Result<(), Failure> {
        let event = &self.profile.events[self.event];
        let names = CleanNames::new(self.profile);
        let report = AnnotationReport {
            event: &names.event(self.event),
            unit: &names.unit(self.event),
            whole: self.whole(args),
            samples: event.samples,
            skid: self.skid(),
            functions: self.functions,
            inlined: inlined(args),
        };
        Ok(json::write(&report, sources, out)?)
    }
}

fn inlined(args: &AnnotateArgs) -> Inlined {
    match args.inlined {
        InlinedArg::CallSite => Inlined::CallSite,
        InlinedArg::Definition => Inlined::Definition,
    }
}
