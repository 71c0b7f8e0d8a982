//! Messages about the outcome of a push.

use std::path::Path;
use std::time::Duration;

use indicatif::{BinaryBytes, HumanCount};
use rprof_push::DeliveryReport;

use super::Pusher;
use crate::Outcome;
use crate::wording::messages::{Failure, say};

#[derive(Default)]
pub(super) struct Totals {
    pub(super) lost: u64,
    pub(super) unsent: u64,
    why: Option<String>,
}

impl Totals {
    pub(super) fn add(&mut self, path: &Path, pusher: &Pusher<'_>, report: &DeliveryReport) {
        self.lost += report.lost;
        let path = path.display();
        let quiet = pusher.args.input.quiet;
        if !quiet && (report.requests > 0 || report.lost == 0 && report.unsent.is_none()) {
            let again = match report.retries {
                0 => String::new(),
                more => format!(", after {}", tries(more)),
            };
            say(format_args!(
                "sent {path}: {} in {}, {}{again}",
                samples(report.samples),
                requests(report.requests),
                BinaryBytes(report.bytes),
            ));
        }
        if !quiet && report.cut > 0 {
            let most = pusher.limits.depth.unwrap_or(usize::MAX);
            say(format_args!(
                "{} sent without outer frames: the server accepts {most} frames",
                stacks(report.cut)
            ));
        }
        for remark in report.remarks.iter().filter(|_| !quiet) {
            say(format_args!("the server says: {remark}"));
        }
        for (why, count) in &report.losses {
            say(format_args!("{path}: {} lost: {why}", samples(*count)));
            self.why.get_or_insert_with(|| why.clone());
        }
        if let Some(unsent) = &report.unsent {
            self.unsent += unsent.samples;
            say(format_args!(
                "{path}: {} not sent: {}",
                samples(unsent.samples),
                unsent.why
            ));
            self.why.get_or_insert_with(|| unsent.why.clone());
        }
    }

    pub(super) fn outcome(self) -> Outcome {
        let Some(why) = self.why else {
            return Ok(0);
        };
        let mut parts = Vec::new();
        if self.lost > 0 {
            parts.push(format!("{} lost", samples(self.lost)));
        }
        if self.unsent > 0 {
            parts.push(format!("{} not sent", samples(self.unsent)));
        }
        Err(Failure::from(anyhow::anyhow!(
            "the push is incomplete, {}: {why}",
            parts.join(" and ")
        )))
    }
}

pub(super) fn samples(count: u64) -> String {
    match count {
        1 => "1 sample".to_owned(),
        count => format!("{} samples", HumanCount(count)),
    }
}

pub(super) fn stacks(count: u64) -> String {
    match count {
        1 => "1 stack".to_owned(),
        count => format!("{} stacks", HumanCount(count)),
    }
}

pub(super) fn files(count: u64) -> String {
    match count {
        1 => "1 file".to_owned(),
        count => format!("{} files", HumanCount(count)),
    }
}

pub(super) fn tries(count: u64) -> String {
    match count {
        1 => "1 retry".to_owned(),
        count => format!("{} retries", HumanCount(count)),
    }
}

pub(super) fn requests(count: u64) -> String {
    match count {
        1 => "1 request".to_owned(),
        count => format!("{} requests", HumanCount(count)),
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
