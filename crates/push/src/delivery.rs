//! [`Delivery`]: sends all requests of one profile, and counts the results in a [`DeliveryReport`].

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::answer::Answer;
use crate::client::PushClient;
use crate::error::PushError;
use crate::labels::Label;
use crate::parts::{EncodedPart, Parts};
use crate::policy::Policy;

/// Interval for checking the stop flag during a wait.
const TICK: Duration = Duration::from_millis(50);

/// Outcome of sending a profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeliveryReport {
    /// Requests accepted by the server.
    pub requests: u64,
    /// Samples in accepted requests.
    pub samples: u64,
    /// Bytes of accepted bodies.
    pub bytes: u64,
    /// Retries of all requests.
    pub retries: u64,
    /// Lost samples: rejected, or too large for the server.
    pub lost: u64,
    /// Causes of lost samples, with their numbers.
    pub losses: Vec<(String, u64)>,
    /// Remaining samples, with the reason: the server did not respond in time, or rejects all
    /// requests.
    pub unsent: Option<Unsent>,
    /// Stacks sent without their outermost frames.
    pub cut: u64,
    /// Messages of the server in accepted requests.
    pub remarks: Vec<String>,
}

/// Samples not yet accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsent {
    /// Number of samples not yet accepted.
    pub samples: u64,
    /// Cause.
    pub why: String,
    /// True if a retry is useless until the address, credentials or certificates are corrected.
    pub is_misconfigured: bool,
    /// Delay requested by the server.
    pub after: Option<Duration>,
}

/// Event during a delivery, for a progress line.
#[derive(Clone, Copy, Debug)]
pub enum DeliveryProgress<'a> {
    /// Number of accepted requests.
    Sent(u64),
    /// Cause of a failure, and delay before the retry.
    Waiting(&'a str, Duration),
}

/// Delivery of a profile in progress. Another [`run`](Delivery::run) does not resend accepted
/// parts.
pub struct Delivery<'e> {
    parts: Parts<'e>,
    labels: Vec<Label>,
    /// Part not yet accepted.
    pending: Option<EncodedPart>,
    report: DeliveryReport,
}

impl<'e> Delivery<'e> {
    /// Creates a delivery of parts.
    pub fn new(parts: Parts<'e>, labels: Vec<Label>) -> Delivery<'e> {
        Delivery {
            parts,
            labels,
            pending: None,
            report: DeliveryReport::default(),
        }
    }

    /// Sends the remaining parts, until all are accepted, a request exhausts its retries, or `stop`
    /// is true. Returns the report since the creation.
    ///
    /// # Errors
    /// Returns [`PushError::Encode`].
    pub fn run(
        &mut self,
        client: &PushClient,
        policy: &Policy,
        stop: &AtomicBool,
        on_progress: &dyn Fn(DeliveryProgress<'_>),
    ) -> Result<&DeliveryReport, PushError> {
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
            on_progress(DeliveryProgress::Sent(self.report.requests));
        }
        Ok(&self.report)
    }

    /// Sends a part until it is accepted or rejected. Otherwise, returns the unsent samples.
    fn deliver(
        &mut self,
        part: EncodedPart,
        client: &PushClient,
        policy: &Policy,
        stop: &AtomicBool,
        on_progress: &dyn Fn(DeliveryProgress<'_>),
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
                    on_progress(DeliveryProgress::Waiting(&why, wait));
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

    fn taken(&mut self, part: &EncodedPart, bytes: u64, rejected: u64, message: String) {
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

    fn lose(&mut self, part: &EncodedPart, why: String) {
        let report = &mut self.report;
        report.lost = report.lost.saturating_add(part.samples);
        match report.losses.iter_mut().find(|(known, _)| *known == why) {
            Some((_, samples)) => *samples = samples.saturating_add(part.samples),
            None => report.losses.push((why, part.samples)),
        }
    }

    fn unsent(
        &mut self,
        part: EncodedPart,
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

/// Sleeps. Returns false if `stop` becomes true.
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
