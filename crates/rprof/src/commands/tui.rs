//! `rprof report --tui`.

use std::io::{self, IsTerminal};
use std::sync::Arc;

use rprof_analysis::Options;
use rprof_export::CleanNames;
use rprof_export::clean::clean;
use rprof_export::verdict::{self, Finding};
use rprof_profile::unit::inflected;
use rprof_profile::{Keys, Profile};
use rprof_tui::terminal::{End, Inbox};
use rprof_tui::{Effect, Source, Theme, terminal};

use crate::Outcome;
use crate::cli::{Color, ReportArgs};
use crate::commands::tui_code::CodeReader;
use crate::input::nothing_found;
use crate::input::recordings::{Callee, Merged, read_merged};
use crate::terminal::wants_color;
use crate::wording::messages::Failure;
use crate::wording::remedies;

pub(crate) fn run(args: &ReportArgs) -> Outcome {
    check_terminal("--tui", "without it the report is text")?;
    let input = &args.input;
    let options = args.waits.choose(Options {
        by_thread: args.waits.by.is_none(),
        columns: true,
        ..input.options()
    })?;
    let mut merged = read_merged(
        &input.paths(),
        &input.filter,
        &options,
        &Keys::FUNCTIONS,
        Callee::Dropped,
        input.quiet,
    )?;
    args.waits.join(&mut merged.profile)?;
    let no_samples = || nothing_found::without_samples(&input.paths());
    let event = merged.profile.main_event().ok_or_else(no_samples)?;
    let source = Source {
        event,
        weight: input.filter.weight(),
        title: clean(&input.paths()[0].display().to_string()).into_owned(),
        about: about(&merged),
        by_total: args.rows.children,
        facts: facts(&merged.profile),
        hint: hint(&merged.profile),
        command: words(),
        profile: Arc::new(merged.profile),
        generation: 0,
        live: None,
    };
    let inbox = Inbox::new();
    let profile = Arc::clone(&source.profile);
    let code = CodeReader::new(input.clone(), inbox.sender());
    let end = terminal::run(source, theme(args.color), &inbox, |effect| match effect {
        Effect::Annotate(function) => Some(code.read(&profile, function)),
        _ => None,
    });
    finish(end)
}

pub(crate) fn check_terminal(flag: &str, instead: &str) -> Result<(), Failure> {
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    let reason = match (io::stdout().is_terminal(), is_dumb) {
        (false, _) => "standard output is not a terminal",
        (true, true) => "TERM names a terminal without cursor control",
        (true, false) => return Ok(()),
    };
    let message = format!("{flag} needs a terminal, and {reason}; {instead}");
    Err(Failure::with_status(2, anyhow::anyhow!(message)))
}

/// Ends by the signal that ended the loop, if any.
pub(crate) fn finish(end: io::Result<End>) -> Outcome {
    match end {
        Ok(End::Quit) => Ok(0),
        Ok(End::Gone) => Ok(1),
        Ok(End::Signal(signal)) => {
            signal_hook::low_level::emulate_default_handler(signal).ok();
            Ok(u8::try_from(128 + signal).unwrap_or(1))
        }
        Err(error) => Err(anyhow::Error::new(error)
            .context("cannot use the terminal")
            .into()),
    }
}

/// Returns the terminal's capabilities, from NO_COLOR and similar variables and the locale.
pub(crate) fn theme(color: Color) -> Theme {
    let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .find_map(variable);
    let locale = locale.unwrap_or_default().to_lowercase();
    Theme {
        colors: wants_color(color),
        ascii: !(locale.contains("utf-8") || locale.contains("utf8")),
    }
}

pub(crate) fn words() -> Vec<String> {
    let rest = std::env::args_os().skip(1);
    let rest = rest.map(|word| clean(&word.to_string_lossy()).into_owned());
    std::iter::once("rprof".to_owned()).chain(rest).collect()
}

/// Returns the title's text after file and event.
fn about(merged: &Merged) -> String {
    let profile = &merged.profile;
    let mut words = Vec::new();
    if let Some((first, last)) = profile.time {
        words.push(format!("{:.2} s", last.saturating_sub(first) as f64 / 1e9));
    }
    if profile.quality.stacks.total > 0 {
        let share = profile.quality.complete_share() * 100.0;
        words.push(format!("stacks {share:.1}% complete"));
    }
    words.push(format!("lost {}", profile.quality.lost));
    words.extend(merged.subjects.iter().cloned());
    clean(&words.join("  ")).into_owned()
}

fn hint(profile: &Profile) -> Option<String> {
    let findings = verdict::findings(profile);
    let rank = |finding: &Finding| match finding {
        Finding::Lost { .. } => Some(0),
        Finding::Waited { .. } => Some(1),
        Finding::Interpreter { .. } => Some(2),
        Finding::Unsampled { .. } => Some(3),
        _ => None,
    };
    let ranked = findings
        .iter()
        .filter_map(|finding| Some((rank(finding)?, finding)));
    let (_, telling) = ranked.min_by_key(|(rank, _)| *rank)?;
    let statement = telling.statement();
    Some(clean(&format!("{statement} (more by 7)")).into_owned())
}

pub(crate) fn facts(profile: &Profile) -> Vec<String> {
    let names = CleanNames::new(profile);
    // Events such as `dummy` have no samples.
    let sampled = (profile.events.iter().enumerate()).filter(|(_, event)| event.samples > 0);
    let events = sampled.map(|(index, event)| {
        format!(
            "event {}: {} {}, {}, lost {}",
            names.event(index),
            event.samples,
            inflected(event.samples, "sample"),
            names.weight(index),
            event.lost
        )
    });
    let findings = verdict::findings(profile);
    let findings = findings.iter().map(remedies::of_finding);
    findings
        .chain(events)
        .map(|line| clean(&line).into_owned())
        .collect()
}
