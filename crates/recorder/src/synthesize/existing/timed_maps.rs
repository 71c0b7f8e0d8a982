//! [`TimedMaps`]: reads mappings of processes with a time limit.
//!
//! The kernel reads a file to get its build-id. A file server in user space (FUSE) or on the
//! network may never respond, and only `SIGKILL` ends that wait. So a thread reads mappings. After
//! a timeout another one reads the process without build-ids.

use std::collections::HashMap;
use std::io;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender};
use rprof_image::PatientCalls;
use rprof_launch::procfs::{ExistingMapping, MapsReader};

/// Time limit per process. A process with a thousand files on a cold disk takes less.
const LIMIT: Duration = Duration::from_secs(2);

/// Maximum number of timeouts before build-ids are skipped, per user and in total.
const MAX_OF_USER: usize = 2;
const MAX_HANGING: usize = 8;

#[derive(Debug)]
pub(super) struct ReadMappings {
    pub(super) mappings: Vec<ExistingMapping>,
    pub(super) result: io::Result<()>,
    pub(super) is_hanging: bool,
}

pub(super) trait ReadMaps: Send + 'static {
    fn read(
        &mut self,
        pid: u32,
        build_ids: bool,
        into: &mut Vec<ExistingMapping>,
    ) -> io::Result<()>;
}

impl ReadMaps for MapsReader {
    fn read(
        &mut self,
        pid: u32,
        build_ids: bool,
        into: &mut Vec<ExistingMapping>,
    ) -> io::Result<()> {
        match build_ids {
            true => MapsReader::read(self, pid, into),
            false => self.read_without_build_ids(pid, into),
        }
    }
}

#[derive(Debug)]
pub(super) struct TimedMaps<R> {
    make: fn() -> R,
    thread: Option<ReadingThread>,
    hanging: HashMap<u32, usize>,
    user_of: fn(u32) -> u32,
    limit: Duration,
    most_hanging: usize,
    buffer: Vec<ExistingMapping>,
}

#[derive(Debug)]
struct ReadingThread {
    requests: Sender<(u32, bool, Vec<ExistingMapping>)>,
    answers: Receiver<(io::Result<()>, Vec<ExistingMapping>)>,
}

impl<R: ReadMaps> TimedMaps<R> {
    pub(super) fn new(make: fn() -> R) -> TimedMaps<R> {
        TimedMaps {
            make,
            thread: None,
            hanging: HashMap::new(),
            user_of: PatientCalls::user_of,
            limit: LIMIT,
            most_hanging: MAX_HANGING,
            buffer: Vec::new(),
        }
    }

    /// Reads the mappings of a process, with build-ids unless that times out.
    pub(super) fn read(&mut self, pid: u32) -> ReadMappings {
        let asks = self.hanging.is_empty() || self.asks_for((self.user_of)(pid));
        if asks && let Some((result, mappings)) = self.try_read(pid, true) {
            return ReadMappings {
                mappings,
                result,
                is_hanging: false,
            };
        }
        let (result, mappings) = self.try_read(pid, false).unwrap_or_else(|| {
            let error = io::Error::from_raw_os_error(libc::ETIMEDOUT);
            (Err(error), Vec::new())
        });
        ReadMappings {
            mappings,
            result,
            is_hanging: true,
        }
    }

    /// Returns true if build-ids of a user's processes are read.
    fn asks_for(&self, user: u32) -> bool {
        let of_user = self.hanging.get(&user).copied().unwrap_or(0);
        let of_all: usize = self.hanging.values().sum();
        of_user < MAX_OF_USER && of_all < self.most_hanging
    }

    pub(super) fn reuse(&mut self, mut mappings: Vec<ExistingMapping>) {
        mappings.clear();
        self.buffer = mappings;
    }

    /// Returns `None` on a timeout.
    fn try_read(
        &mut self,
        pid: u32,
        build_ids: bool,
    ) -> Option<(io::Result<()>, Vec<ExistingMapping>)> {
        let buffer = std::mem::take(&mut self.buffer);
        let thread = match &self.thread {
            Some(thread) => thread,
            None => self.thread.insert(ReadingThread::start(self.make)?),
        };
        let until = Instant::now() + self.limit;
        let sent = thread.requests.send((pid, build_ids, buffer));
        let answer = sent
            .ok()
            .and_then(|()| thread.answers.recv_deadline(until).ok());
        if answer.is_none() {
            // The thread ends after its call, because its channels are closed.
            self.thread = None;
            *self.hanging.entry((self.user_of)(pid)).or_default() += 1;
        }
        answer
    }
}

impl ReadingThread {
    fn start<R: ReadMaps>(make: fn() -> R) -> Option<ReadingThread> {
        let (requests, inbox) = crossbeam_channel::bounded::<(u32, bool, Vec<_>)>(1);
        let (outbox, answers) = crossbeam_channel::bounded(1);
        let work = move || {
            let mut reader = make();
            for (pid, build_ids, mut mappings) in inbox {
                let result = reader.read(pid, build_ids, &mut mappings);
                if outbox.send((result, mappings)).is_err() {
                    break;
                }
            }
        };
        let thread = std::thread::Builder::new().name("rprof-maps".into());
        thread.spawn(work).ok()?;
        Some(ReadingThread { requests, answers })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hangs on build-ids of processes below 100.
    struct Hanging;

    impl ReadMaps for Hanging {
        fn read(
            &mut self,
            pid: u32,
            build_ids: bool,
            into: &mut Vec<ExistingMapping>,
        ) -> io::Result<()> {
            if pid < 100 && build_ids {
                loop {
                    std::thread::park();
                }
            }
            into.push(ExistingMapping {
                start: pid.into(),
                flags: u32::from(build_ids),
                ..ExistingMapping::default()
            });
            Ok(())
        }
    }

    #[test]
    fn a_file_that_never_answers_costs_build_ids_and_no_more() {
        let mut maps = TimedMaps::new(|| Hanging);
        (maps.limit, maps.most_hanging) = (Duration::from_secs(1), 3);
        maps.user_of = |pid| pid % 10;
        let mut read = |pid| {
            let read = maps.read(pid);
            read.result.unwrap();
            let [one] = &read.mappings[..] else {
                panic!("{} mappings of {pid}", read.mappings.len());
            };
            let seen = (one.start, one.flags == 1, read.is_hanging);
            maps.reuse(read.mappings);
            seen
        };
        assert_eq!(read(101), (101, true, false));
        assert_eq!(read(1), (1, false, true));
        assert_eq!(read(101), (101, true, false));
        assert_eq!(read(11), (11, false, true));
        // Build-ids of this user are skipped, of others not.
        assert_eq!(read(101), (101, false, true));
        assert_eq!(read(102), (102, true, false));
        assert_eq!(read(2), (2, false, true));
        // After enough timeouts, build-ids of all users are skipped, to bound the total time.
        assert_eq!(read(103), (103, false, true));
    }
}
