//! `rprof push`.
//!
//! | module | holds |
//! |---|---|
//! | `source` | a recording prepared for sending |
//! | `dry_run` | requests printed instead of sent |
//! | `follow` | finished files of a running recorder |
//! | `words` | messages about the outcome |

mod dry_run;
mod follow;
mod source;
mod words;

use std::path::Path;
use std::sync::atomic::AtomicBool;

use rprof_export::ExportOptions;
use rprof_profile::unit::counted;
use rprof_push::{
    ClientOptions, Delivery, DeliveryProgress, DeliveryReport, Parts, Policy, PushClient,
    PushError, SenderCredentials, ServerLimits,
};

use crate::Outcome;
use crate::cli::{AccessArgs, LabelArg, LimitArgs, PushArgs};
use crate::terminal::progress::WorkLine;
use crate::wording::messages::{Failure, say};
use source::Source;
use words::Totals;

pub(crate) fn run(args: &PushArgs) -> Outcome {
    let pusher = Pusher::new(args)?;
    if let Some(recording) = &args.follow {
        return follow::run(&pusher, recording);
    }
    let mut totals = Totals::default();
    for path in args.input.paths() {
        let source = Source::read(args, &pusher.export, &path)?;
        if args.dry_run {
            dry_run::print(&pusher, &source)?;
            continue;
        }
        let report = pusher.push(&source)?;
        totals.add(&path, &pusher, &report);
        if report
            .unsent
            .as_ref()
            .is_some_and(|unsent| unsent.is_misconfigured)
        {
            // The other files would fail too.
            break;
        }
    }
    totals.outcome()
}

/// Server, and the settings shared by all profiles.
struct Pusher<'a> {
    args: &'a PushArgs,
    client: PushClient,
    limits: ServerLimits,
    policy: Policy,
    export: ExportOptions,
}

impl<'a> Pusher<'a> {
    fn new(args: &'a PushArgs) -> Result<Pusher<'a>, Failure> {
        let target = args.to.target();
        let usage = |error: PushError| Failure::with_status(2, error);
        let credentials = credentials(&args.access).map_err(usage)?;
        for path in credentials.open_files() {
            if !args.input.quiet {
                say(format_args!(
                    "{} is readable by other users: protect it with chmod 600",
                    path.display()
                ));
            }
        }
        let client = PushClient::new(ClientOptions {
            target,
            server: args.url.clone(),
            credentials,
            plain_http: args.access.plain_http,
            authorities: args.access.ca_file.clone(),
            tenant: args.access.tenant.clone().unwrap_or_default(),
            patience: args.limits.timeout,
        });
        let limits = limits(&args.limits, target.limits());
        Ok(Pusher {
            client: client.map_err(usage)?,
            limits,
            policy: Policy {
                total: args.limits.retry_for,
                ..Policy::default()
            },
            export: ExportOptions {
                labels: LabelArg::labels(&args.labels.labels),
                resource: Vec::new(),
                max_depth: limits.depth,
            },
            args,
        })
    }

    /// Splits a profile into parts within the server's limits.
    fn parts<'s>(&self, source: &'s Source) -> Parts<'s> {
        let target = self.client.target();
        let labels = source.labels.iter();
        let options = ExportOptions {
            resource: labels
                .map(|label| (label.name.clone(), label.value.clone()))
                .collect(),
            ..self.export.clone()
        };
        let weight = self.args.input.filter.weight();
        let encoder = target.encoder(&source.profile, weight, &options);
        Parts::new(encoder, self.limits)
    }

    fn push(&self, source: &Source) -> Result<DeliveryReport, Failure> {
        let line = WorkLine::new(self.args.input.quiet);
        let mut delivery = Delivery::new(self.parts(source), source.labels.clone());
        let stop = AtomicBool::new(false);
        let report = delivery.run(&self.client, &self.policy, &stop, &|progress| {
            self.show(&line, &source.path, progress);
        });
        Ok(report?.clone())
    }

    fn show(&self, line: &WorkLine, path: &Path, progress: DeliveryProgress<'_>) {
        match progress {
            DeliveryProgress::Sent(requests) => line.say(&format!(
                "sending {}: {} accepted",
                path.display(),
                counted(requests, "request")
            )),
            DeliveryProgress::Waiting(why, wait) => {
                let wait = words::seconds(wait);
                if !self.args.input.quiet {
                    say(format_args!("cannot send yet: {why}; retrying in {wait}"));
                }
                line.say(&format!("sending {}: waiting {wait}", path.display()));
            }
        }
    }
}

fn credentials(args: &AccessArgs) -> Result<SenderCredentials, PushError> {
    let mut credentials = SenderCredentials::default();
    if let Some(path) = &args.token_file {
        credentials.add_token(path)?;
    }
    if let Some(path) = &args.basic_auth_file {
        credentials.add_password(path)?;
    }
    if let Some(path) = &args.header_file {
        credentials.add_headers(path)?;
    }
    Ok(credentials)
}

fn limits(args: &LimitArgs, usual: ServerLimits) -> ServerLimits {
    ServerLimits {
        samples: args.max_samples.map_or(usual.samples, |most| most as usize),
        bytes: args.max_bytes.unwrap_or(usual.bytes),
        ..usual
    }
}
