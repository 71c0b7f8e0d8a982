//! Counters that run together with sampling, as in `perf stat`.

use std::time::Duration;

use rprof_counting::{CountError, CountingSession, Part, Per, SessionOptions};
use rprof_events::Event;
use rprof_launch::ResourceUsage;
use rprof_sampler::Session;

/// Counters for the target of a recording, over the same time.
#[derive(Debug)]
pub(crate) struct CountsBeside {
    session: CountingSession,
}

impl CountsBeside {
    /// Opens counters for the target of a sampling session that has not begun.
    pub(crate) fn open(events: Vec<Event>, session: &Session) -> Result<CountsBeside, CountError> {
        let options = SessionOptions {
            explicit: false,
            target: session.target().clone(),
            cpus: match session.target().is_by_cpu() {
                true => session.cpus().to_vec(),
                false => Vec::new(),
            },
            enabled_from_start: session.is_enabled_from_start(),
            inherit: session.inherits(),
            ..SessionOptions::new(events)
        };
        let command = session.child().map(|child| child.pid() as u32);
        let session = CountingSession::beside(&options, command)?;
        Ok(CountsBeside { session })
    }

    /// Starts counting, unless the command's exec or a later [`enable`](Self::enable) does.
    pub(crate) fn start(&mut self) {
        // An event that fails to start counts 0 for a time of 0, which its note shows.
        self.session.start().ok();
    }

    pub(crate) fn enable(&mut self) {
        self.session.enable().ok();
    }

    pub(crate) fn disable(&mut self) {
        self.session.disable().ok();
    }

    /// Ends counting. Returns notes for the file: each event's count and counted share of the time,
    /// and the command's CPU times and memory.
    pub(crate) fn finish(
        mut self,
        wall: Duration,
        usage: Option<ResourceUsage>,
    ) -> Vec<(String, String)> {
        self.disable();
        let table = self.session.read().table(Per::All);
        let mut notes = vec![("stat.wall.ns".to_owned(), wall.as_nanos().to_string())];
        if let Some(usage) = usage {
            let mut note =
                |key: &str, value: u128| notes.push((format!("stat.{key}"), value.to_string()));
            note("user.ns", usage.user.as_nanos());
            note("system.ns", usage.system.as_nanos());
            note("max-rss.bytes", usage.max_rss.into());
        }
        for (index, event) in self.session.events().iter().enumerate() {
            let count = table
                .count(Part::All, index)
                .filter(|_| event.state.is_counted());
            if let Some(count) = count {
                let value = count
                    .value()
                    .map_or_else(|| "unknown".to_owned(), |value| value.to_string());
                notes.push((
                    format!("stat.event.{}", event.name),
                    format!("{value} {:.4}", count.share()),
                ));
            }
        }
        notes
    }
}
