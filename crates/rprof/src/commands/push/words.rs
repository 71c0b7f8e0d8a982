//! Messages about the outcome of a push.

use std::path::Path;
use std::time::Duration;

use indicatif::BinaryBytes;
use rprof_profile::unit::counted;
use rprof_push::DeliveryReport;

use super::Pusher;
use crate::Outcome;
use crate::wording::messages::{Failure, say};

#[derive(Default)]
pub(super) struct Totals {
    pub(super) lost: u64,
    pub(super) unsent: u64,
    is_incomplete: bool,
}

impl Totals {
    pub(super) fn add(&mut self, path: &Path, pusher: &Pusher<'_>, report: &DeliveryReport) {
        self.lost += report.lost;
        let path = path.display();
        let quiet = pusher.args.input.quiet;
        if !quiet && (report.requests > 0 || report.lost == 0 && report.unsent.is_none()) {
            let again = match report.retries {
                0 => String::new(),
                more => format!(", after {}", counted(more, "retry")),
            };
            say(format_args!(
                "sent {path}: {} in {}, {}{again}",
                counted(report.samples, "sample"),
                counted(report.requests, "request"),
                BinaryBytes(report.bytes),
            ));
        }
        if !quiet && report.cut > 0 {
            let most = pusher.limits.depth.unwrap_or(usize::MAX);
            say(format_args!(
                "{} sent without outer frames: the server accepts {most} frames",
                counted(report.cut, "stack")
            ));
        }
        for remark in report.remarks.iter().filter(|_| !quiet) {
            say(format_args!("the server says: {remark}"));
        }
        for (why, count) in &report.losses {
            say(format_args!(
                "{path}: {} lost: {why}",
                counted(*count, "sample")
            ));
            self.is_incomplete = true;
        }
        if let Some(unsent) = &report.unsent {
            self.unsent += unsent.samples;
            say(format_args!(
                "{path}: {} not sent: {}",
                counted(unsent.samples, "sample"),
                unsent.why
            ));
            self.is_incomplete = true;
        }
    }

    pub(super) fn outcome(self) -> Outcome {
        if !self.is_incomplete {
            return Ok(0);
        }
        let mut parts = Vec::new();
        if self.lost > 0 {
            parts.push(format!("{} lost", counted(self.lost, "sample")));
        }
        if self.unsent > 0 {
            parts.push(format!("{} not sent", counted(self.unsent, "sample")));
        }
        Err(Failure::from(anyhow::anyhow!(
            "the push is incomplete: {}",
            parts.join(" and ")
        )))
    }
}

/// Formats a duration in its largest unit.
pub(super) fn seconds(time: Duration) -> String {
    match time.as_secs() {
        0 => format!("{:.1} s", time.as_secs_f64()),
        seconds @ 1..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3600),
    }
}
