//! Helpers that record commands and collect the records.

use std::io;
use std::sync::{Arc, Mutex};

use rprof_launch::{Launcher, WaitOutcome};
use rprof_perfdata::{EventDescription, FeatureSections, RecordWriter};
use rprof_recorder::{Output, RecordOptions, Recording, Summary};
use rprof_sampler::{Session, SessionBuilder};

/// Returns a session that samples at 3,999 Hz of CPU time.
pub(crate) fn session() -> SessionBuilder {
    Session::builder().frequency(3999)
}

/// Records a shell script to its end.
pub(crate) fn record(script: &str, options: RecordOptions) -> Summary {
    let command = Launcher::new("sh").args(["-c", script]);
    let mut recording = Recording::start(session(), &command, options).unwrap();
    let stopped = recording.wait(None, None).unwrap();
    let WaitOutcome::Exited(status) = stopped else {
        panic!("{script}: {stopped:?}");
    };
    assert!(status.success(), "{script}: {status}");
    recording.finish().unwrap()
}

/// A shell script that computes for some tens of milliseconds.
pub(crate) const BUSY: &str = "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done";

/// All input of a [`Collector`].
#[derive(Debug, Default)]
pub(crate) struct Collected {
    pub(crate) events: Vec<EventDescription>,
    pub(crate) records: Vec<u8>,
    pub(crate) checkpoints: usize,
    /// Features at the end.
    pub(crate) features: Option<FeatureSections>,
}

/// A writer that keeps all records, and fails beyond a number of bytes.
pub(crate) struct Collector {
    to: Arc<Mutex<Collected>>,
    written: u64,
    most: u64,
}

impl Collector {
    /// Returns an output, and its future input.
    pub(crate) fn output(most: u64) -> (Output, Arc<Mutex<Collected>>) {
        let collected = Arc::new(Mutex::new(Collected::default()));
        let to = Arc::clone(&collected);
        let output = Output::writer(move |events, _| {
            to.lock().unwrap().events = events.to_vec();
            Ok(Collector {
                to,
                written: 0,
                most,
            })
        });
        (output, collected)
    }
}

impl RecordWriter for Collector {
    fn write_records(&mut self, records: &[u8]) -> io::Result<()> {
        self.written += records.len() as u64;
        if self.written > self.most {
            return Err(io::Error::other("that is enough"));
        }
        self.to.lock().unwrap().records.extend_from_slice(records);
        Ok(())
    }

    fn checkpoint(&mut self) -> io::Result<()> {
        self.to.lock().unwrap().checkpoints += 1;
        Ok(())
    }

    fn bytes_written(&self) -> u64 {
        self.written
    }

    fn finish(self, features: FeatureSections) -> io::Result<u64> {
        self.to.lock().unwrap().features = Some(features);
        Ok(self.written)
    }
}

/// Returns test options for an output.
pub(crate) fn options(output: Output) -> RecordOptions {
    RecordOptions::new(output, vec!["test".to_owned()])
}
