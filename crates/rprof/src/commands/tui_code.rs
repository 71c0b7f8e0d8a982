//! Source and instructions of the selected function.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::thread::Builder;

use rprof_annotate::text::{Base, By, TextOptions};
use rprof_annotate::{AnnotatedCode, Inlined, Sources, Syntax, skid, subject, text};
use rprof_export::CleanNames;
use rprof_export::clean::{brief, clean};
use rprof_profile::{FunctionId, Profile, WeighBy};
use rprof_tui::{InputEvent, terminal};

use crate::cli::InputArgs;
use crate::input::recordings::{Input, open_input};
use crate::input::with_code::{CodeInput, WithCode, with_code};
use crate::wording::messages::Failure;

struct Wanted {
    name: String,
    object: String,
}

/// Reads code on its own thread. The first request reads the recordings again, with addresses.
pub(crate) struct CodeReader {
    wanted: Option<Sender<Wanted>>,
    /// Reason why no code can be read.
    refusal: Option<String>,
}

impl CodeReader {
    /// Starts the thread, which answers with pages. It is not joined.
    pub(crate) fn new(input: InputArgs, screen: terminal::Sender) -> CodeReader {
        let (sender, wanted) = channel::<Wanted>();
        let read = move || {
            let Ok(first) = wanted.recv() else {
                return;
            };
            let answer = |code: &WithCode<'_>| {
                for wanted in std::iter::once(first).chain(wanted.iter()) {
                    let event = page(code, &wanted, input.filter.weight());
                    screen
                        .send(event.unwrap_or_else(|failure| InputEvent::Message(failure.text())));
                }
                Ok(())
            };
            let paths = input.paths();
            let read = check(&paths).and_then(|()| with_code(&of(&input, &paths), answer));
            if let Err(failure) = read {
                screen.send(InputEvent::Message(failure.text()));
            }
        };
        match Builder::new().name("code".into()).spawn(read) {
            Ok(_) => CodeReader {
                wanted: Some(sender),
                refusal: None,
            },
            Err(error) => CodeReader {
                wanted: None,
                refusal: Some(format!("cannot start a thread: {error}")),
            },
        }
    }

    /// Requests the code of a function; returns the message to show meanwhile.
    pub(crate) fn read(&self, profile: &Profile, function: FunctionId) -> InputEvent {
        let function = profile.function(function);
        let Ok(name) = &function.name else {
            return InputEvent::Message(
                "cannot show the code of an unnamed function: `rprof annotate` shows the hottest \
                 functions"
                    .into(),
            );
        };
        let wanted = Wanted {
            name: name.to_string(),
            object: profile.object(function.object).name.to_string(),
        };
        let told = format!("reading the code of {} …", brief(name));
        let is_sent = (self.wanted.as_ref()).is_some_and(|sender| sender.send(wanted).is_ok());
        let ended = || "the recording could not be read again".to_owned();
        InputEvent::Message(match is_sent {
            true => told,
            false => self.refusal.clone().unwrap_or_else(ended),
        })
    }
}

fn of<'a>(input: &'a InputArgs, paths: &'a [PathBuf]) -> CodeInput<'a> {
    CodeInput {
        paths,
        args: &input.filter,
        filter: input.filter.filter(&input.event),
        syntax: Syntax::Att,
        quiet: true,
        is_of_objects: false,
    }
}

/// Rejects inputs without code, and inputs that cannot be read twice.
fn check(paths: &[PathBuf]) -> Result<(), Failure> {
    for path in paths {
        if path == Path::new("-") {
            let why = "cannot show code: it needs a second read, and standard input can be read \
                only once; save it to a file";
            return Err(anyhow::anyhow!(why).into());
        }
        if let Input::Foreign(_) = open_input(path)? {
            let why = format!("cannot show code: {} has no addresses", path.display());
            return Err(anyhow::anyhow!(why).into());
        }
    }
    Ok(())
}

fn page(code: &WithCode<'_>, wanted: &Wanted, weight: WeighBy) -> Result<InputEvent, Failure> {
    let profile = code.profile;
    let none = || anyhow::anyhow!("no samples in `{}`", brief(&wanted.name));
    let event = profile.main_event().ok_or_else(none)?;
    let subject = chosen(profile, event, wanted, weight).ok_or_else(none)?;
    let annotation = (code.annotator)
        .annotate(profile, event, weight, &subject)
        .map_err(|why| anyhow::anyhow!("{}: {why}", brief(&wanted.name)))?;
    let summary = &profile.events[event];
    let names = CleanNames::new(profile);
    let options = TextOptions {
        by: By::Both,
        inlined: Inlined::CallSite,
        base: Base::Global,
        event: names.event(event).to_string(),
        whole: match weight {
            WeighBy::Period => summary.weight,
            WeighBy::Samples => summary.samples,
        },
        all: false,
        bytes: false,
        color: false,
        width: crate::terminal::width(),
    };
    let mut sources = Sources::new();
    if let Some(downloads) = code.downloads {
        sources.set_remote(downloads);
    }
    let mut bytes = Vec::new();
    text::write(&annotation, &mut sources, &options, &mut bytes)?;
    let lines = String::from_utf8_lossy(&bytes);
    let mut lines: Vec<String> = lines.lines().map(|line| clean(line).into_owned()).collect();
    lines.insert(
        0,
        skid::sentence(&summary.unit, code.precision(event)).to_owned(),
    );
    let heading = format!("{}  (shares of all samples)", clean(&wanted.name));
    Ok(InputEvent::Page(heading, lines))
}

/// Returns the match with the same name and object.
fn chosen(
    profile: &Profile,
    event: usize,
    wanted: &Wanted,
    weight: WeighBy,
) -> Option<AnnotatedCode> {
    let found = subject::named(profile, event, weight, &wanted.name);
    let rank = |subject: &AnnotatedCode| {
        let is_name = subject.name.as_deref() == Some(&*wanted.name);
        let is_object = *profile.object(subject.object).name == *wanted.object;
        (is_name, is_object)
    };
    // On ties the first, which has the most samples.
    found.into_iter().rev().max_by_key(rank)
}
