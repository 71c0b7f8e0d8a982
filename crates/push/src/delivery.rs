//! [`Delivery`]: all requests of one profile, and the [`Report`] of what became of them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::answer::Answer;
use crate::client::Client;
use crate::error::PushError;
use crate::labels::Label;
use crate::parts::{Part, Parts};
use crate::policy::Policy;

/// Interval at which it is looked whether to stop, while nothing is done.
const TICK: Duration = Duration::from_millis(50);

/// Outcome of sending a profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Requests that the server took.
    pub requests: u64,
    /// Samples in them.
    pub samples: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
    /// Tries beyond the first of each request.
    pub retries: u64,
    /// Samples that are lost: refused, or larger than the server takes.
    pub lost: u64,
    /// Reasons for which samples are lost, with their number.
    pub losses: Vec<(String, u64)>,
    /// Samples that were not taken yet, and why: the server did not answer for too long, or refuses everything.
    pub unsent: Option<Unsent>,
    /// Stacks that were sent without their outer frames.
    pub cut: u64,
    /// Words of the server with what it took.
    pub remarks: Vec<String>,
}

/// Samples that were not taken yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsent {
    /// Number of samples.
    pub samples: u64,
    /// Why.
    pub why: String,
    /// True if another try is in vain until something is set right: address, credentials, certificates.
    pub is_misconfigured: bool,
    /// Time that the server wants to be left alone.
    pub after: Option<Duration>,
}

/// State of a delivery, for a line of progress.
#[derive(Clone, Copy, Debug)]
pub enum Progress<'a> {
    /// So many requests were taken.
    Sent(u64),
    /// The next try is after this time.
    Waiting(&'a str, Duration),
}

/// Delivery of a profile that is under way. What was taken is not sent again by another [`run`](Delivery::run).
pub struct Delivery<'e> {
    parts: Parts<'e>,
    labels: Vec<Label>,
    /// Part that was not taken yet.
    pending: Option<Part>,
    report: Report,
}

impl<'e> Delivery<'e> {
    /// Begins to deliver parts of a profile.
    pub fn new(parts: Parts<'e>, labels: Vec<Label>) -> Delivery<'e> {
        Delivery {
            parts,
            labels,
            pending: None,
            report: Report::default(),
        }
    }

    /// Sends what was not taken yet, until all is, or the policy gives a request up, or `stop` is true. Returns what became of
    /// it since the beginning.
    ///
    /// # Errors
    /// [`PushError::Encode`].
    pub fn run(
        &mut self,
        client: &Client,
        policy: &Policy,
        stop: &AtomicBool,
        on_progress: &dyn Fn(Progress<'_>),
    ) -> Result<&Report, PushError> {
        self.report.unsent = None;
        loop {
            let part = match self.pending.take() {
                Some(part) => part,
                None => match self.parts.next_part()? {
                    Some(part) => part,
                    None => break,
                },
            };
            if part.is_too_large {
                let why = format!(
                    "one stack needs {} bytes, more than the server accepts",
                    part.bytes
                );
                self.lose(&part, why);
                continue;
            }
            if let Some(unsent) = self.deliver(part, client, policy, stop, on_progress) {
                self.report.unsent = Some(unsent);
                break;
            }
            on_progress(Progress::Sent(self.report.requests));
        }
        Ok(&self.report)
    }

    /// Sends a part until it is taken or refused. Returns what is unsent if neither comes about.
    fn deliver(
        &mut self,
        part: Part,
        client: &Client,
        policy: &Policy,
        stop: &AtomicBool,
        on_progress: &dyn Fn(Progress<'_>),
    ) -> Option<Unsent> {
        let body = client.body(&self.labels, part.profile.clone());
        let begin = Instant::now();
        for tried in 1.. {
            let (why, after) = match client.send(&body) {
                Answer::Taken { rejected, message } => {
                    self.taken(&part, body.len() as u64, rejected, message);
                    return None;
                }
                Answer::TooLarge { .. } if self.parts.split(&part) => return None,
                Answer::TooLarge { why } | Answer::Refused { why } => {
                    self.lose(&part, why);
                    return None;
                }
                Answer::Misconfigured { why } => {
                    return Some(self.unsent(part, why, true, None));
                }
                Answer::Later { why, after } => (why, after),
            };
            let wait = policy.wait(tried, begin.elapsed(), after);
            let is_over = match wait {
                Some(wait) => {
                    on_progress(Progress::Waiting(&why, wait));
                    !sleep(wait, stop)
                }
                None => true,
            };
            if is_over {
                return Some(self.unsent(part, why, false, after));
            }
            self.report.retries += 1;
        }
        None
    }

    fn taken(&mut self, part: &Part, bytes: u64, rejected: u64, message: String) {
        if rejected > 0 {
            self.lose(part, format!("accepted in part: {message}"));
            return;
        }
        let report = &mut self.report;
        report.requests += 1;
        report.samples = report.samples.saturating_add(part.samples);
        report.bytes += bytes;
        report.cut += part.cut;
        if !message.is_empty() && !report.remarks.contains(&message) {
            report.remarks.push(message);
        }
    }

    /// Counts the samples of a part as lost.
    fn lose(&mut self, part: &Part, why: String) {
        let report = &mut self.report;
        report.lost = report.lost.saturating_add(part.samples);
        match report.losses.iter_mut().find(|(known, _)| *known == why) {
            Some((_, samples)) => *samples = samples.saturating_add(part.samples),
            None => report.losses.push((why, part.samples)),
        }
    }

    /// Keeps a part for another run.
    fn unsent(
        &mut self,
        part: Part,
        why: String,
        is_misconfigured: bool,
        after: Option<Duration>,
    ) -> Unsent {
        let samples = part.samples.saturating_add(self.parts.samples_left());
        self.pending = Some(part);
        Unsent {
            samples,
            why,
            is_misconfigured,
            after,
        }
    }
}

/// Sleeps. Returns false once it is to stop.
fn sleep(time: Duration, stop: &AtomicBool) -> bool {
    let begin = Instant::now();
    loop {
        if stop.load(Ordering::Relaxed) {
            return false;
        }
        match time.checked_sub(begin.elapsed()) {
            None | Some(Duration::ZERO) => return true,
            Some(left) => std::thread::sleep(left.min(TICK)),
        }
    }
}
