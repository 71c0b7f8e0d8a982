//! `rprof agent`: continuous recording, for a fleet.

use crate::Outcome;
use crate::cli::AgentArgs;
use crate::wording::messages::Failure;

#[cfg(not(feature = "agent"))]
pub(crate) fn run(_: &AgentArgs) -> Outcome {
    let message = "this build of rprof has no agent: rebuild with `cargo install --path \
        crates/rprof --features agent`";
    Err(Failure::with_status(2, anyhow::anyhow!(message)))
}

#[cfg(feature = "agent")]
pub(crate) use with_agent::run;

#[cfg(feature = "agent")]
mod with_agent {
    use std::path::Path;

    use anyhow::Context;
    use rprof_agent::check::{check, workloads};
    use rprof_agent::status::Status;
    use rprof_agent::{AgentError, Config, Log};
    use rprof_export::clean::clean;

    use super::{AgentArgs, Failure, Outcome};
    use crate::cli::{AgentAction, StatusFormat};
    use crate::recording::session::failed_start;
    use crate::recording::signals::Signals;
    use crate::terminal::output::write_to;
    use crate::wording::messages::say;

    pub(crate) fn run(args: &AgentArgs) -> Outcome {
        let usage = |error: AgentError| Failure::with_status(2, error);
        let config = Config::read(&args.config).map_err(usage)?;
        match args.action {
            None => record(config),
            Some(AgentAction::Status { format }) => status(&config, format),
            Some(AgentAction::Check) => show_check(&config),
        }
    }

    fn record(config: Config) -> Outcome {
        let signals = Signals::listen(false).context("cannot wait for signals")?;
        let log = Log::new(|line| say(line));
        match rprof_agent::run(config, signals.fd(), &log) {
            Ok(()) => Ok(0),
            Err(AgentError::Record(error)) => Err(failed_start(error)),
            Err(error @ AgentError::Config { .. }) => Err(Failure::with_status(2, error)),
            Err(error) => Err(error.into()),
        }
    }

    fn status(config: &Config, format: StatusFormat) -> Outcome {
        let status = Status::read(config)?;
        let text = match format {
            StatusFormat::Text => status.text(),
            StatusFormat::Json => serde_json::to_string_pretty(&status)? + "\n",
        };
        write_to(Path::new("-"), |out| Ok(out.write_all(text.as_bytes())?))?;
        Ok(u8::from(!status.is_current()))
    }

    fn show_check(config: &Config) -> Outcome {
        let findings = check(config);
        let mut text = String::new();
        for finding in &findings {
            let (state, words) = match &finding.result {
                Ok(words) => ("ok", words),
                Err(words) => ("FAILED", words),
            };
            let line = format!("{state:<8}{}: {words}", finding.what);
            text += &clean(&line);
            text.push('\n');
        }
        text += "\nrunning processes by workload:\n";
        for (identity, count) in workloads(config) {
            let mut line = format!("{count:>6}  {}", identity.service);
            let facts = [
                ("version", &identity.version),
                ("namespace", &identity.namespace),
                ("pod", &identity.pod),
                ("container", &identity.container_id),
            ];
            for (name, value) in facts {
                if let Some(value) = value {
                    line += &format!("  {name}={value}");
                }
            }
            text += &clean(&line);
            text.push('\n');
        }
        write_to(Path::new("-"), |out| Ok(out.write_all(text.as_bytes())?))?;
        let has_failed = findings.iter().any(|finding| finding.result.is_err());
        Ok(u8::from(has_failed))
    }
}
