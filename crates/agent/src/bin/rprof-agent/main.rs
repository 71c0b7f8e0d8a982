//! `rprof-agent`: records a machine continuously for a fleet, and writes recordings as fleet
//! tables.
//!
//! Arguments, messages and exit statuses. The library does the work.

mod cli;
mod export;
mod signals;

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use rprof_agent::status::Status;
use rprof_agent::{AgentError, Config, Log, check};
use rprof_export::clean::{clean, shorten_words};
use rprof_perf_event::errno::with_names;

use cli::{Action, Cli, StatusFormat};
use signals::Signals;

/// The configuration cannot be used. Exits with the status of a wrong argument.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
struct WrongUsage(AgentError);

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(status) => ExitCode::from(status),
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            say(full_text(&error));
            ExitCode::from(if error.is::<WrongUsage>() { 2 } else { 1 })
        }
    }
}

fn run(cli: &Cli) -> anyhow::Result<u8> {
    let config = || Config::read(&cli.config).map_err(WrongUsage);
    match &cli.action {
        None => record(config()?),
        Some(Action::Status { format }) => show_status(&config()?, *format),
        Some(Action::Check) => show_check(&config()?),
        Some(Action::Export(args)) => export::run(args),
    }
}

fn record(config: Config) -> anyhow::Result<u8> {
    let signals = Signals::listen().context("cannot wait for signals")?;
    let log = Log::new(|line| say(line));
    match rprof_agent::run(config, signals.fd(), &log) {
        Ok(()) => Ok(0),
        Err(error @ AgentError::Config { .. }) => Err(WrongUsage(error).into()),
        Err(error) => Err(error.into()),
    }
}

fn show_status(config: &Config, format: StatusFormat) -> anyhow::Result<u8> {
    let status = Status::read(config)?;
    let text = match format {
        StatusFormat::Text => status.text(),
        StatusFormat::Json => serde_json::to_string_pretty(&status)? + "\n",
    };
    io::stdout().write_all(text.as_bytes())?;
    Ok(u8::from(!status.is_current()))
}

fn show_check(config: &Config) -> anyhow::Result<u8> {
    let findings = check::check(config);
    let text = check::text(&findings, &check::workloads(config));
    io::stdout().write_all(text.as_bytes())?;
    let has_failed = findings.iter().any(|finding| finding.result.is_err());
    Ok(u8::from(has_failed))
}

/// Prints a line to stderr. Names in it are untrusted: control characters are removed, and long
/// names shortened. Ignores errors: a full disk or closed journal must not end the agent.
fn say(message: impl Display) {
    let message = message.to_string();
    let message = with_names(&message);
    let line = format!("rprof-agent: {}\n", shorten_words(&clean(&message)));
    io::stderr().write_all(line.as_bytes()).ok();
}

/// Joins an error and its causes, without repetitions.
fn full_text(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        (cause.downcast_ref::<io::Error>()).is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
    })
}
