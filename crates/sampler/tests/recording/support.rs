use rprof_events::Event;
use rprof_launch::Launcher;
use rprof_perf_event::Errno;
use rprof_records::{Endian, Misc, RawBytes, RawRecord, Record, RecordType, SampleLayout};
use rprof_sampler::{
    Batch, EventIds, FinalCounts, OpenEventsError, Role, Session, SessionBuilder, SessionError,
    Stream,
};
use std::path::{Path, PathBuf};

/// A shell loop that uses some tenths of a second of CPU time.
pub(crate) const LOOP: &str = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";

pub(crate) fn sh(script: &str) -> Launcher {
    Launcher::new("sh").args(["-c", script])
}

/// Samples by the timer, which every machine has.
pub(crate) fn cpu_clock() -> SessionBuilder {
    Session::builder().event(Event::cpu_clock())
}

/// Launches. Skips the test without permission.
#[track_caller]
pub(crate) fn launch(builder: SessionBuilder, command: &Launcher) -> Option<Session> {
    permitted(builder.launch(command))
}

#[track_caller]
pub(crate) fn permitted(session: Result<Session, SessionError>) -> Option<Session> {
    match session {
        Ok(session) => Some(session),
        // Concurrent recordings may exhaust an unprivileged user's limit.
        Err(SessionError::Open(error)) if is_forbidden(&error) => {
            rprof_testing::skip(format!("needs perf events: {error}"));
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Returns true if this user may not open events or map rings here.
fn is_forbidden(error: &OpenEventsError) -> bool {
    let errno = match error {
        OpenEventsError::Event(refused) => refused.errno,
        OpenEventsError::Ring(refused) => refused.errno,
        _ => return false,
    };
    [Errno::ACCESS, Errno::PERM, Errno::NOSYS].contains(&errno)
}

#[derive(Clone, Debug)]
pub(crate) struct Got {
    pub(crate) cpu: u32,
    pub(crate) stream: Stream,
    pub(crate) kind: RecordType,
    pub(crate) misc: Misc,
    pub(crate) time: u64,
    body: Vec<u8>,
}

/// All records in order of arrival.
#[derive(Debug, Default)]
pub(crate) struct Recorded {
    pub(crate) records: Vec<Got>,
    /// CPU, number of records up to the end of the batch, watermark.
    pub(crate) watermarks: Vec<(u32, usize, u64)>,
    pub(crate) counts: FinalCounts,
    layouts: Vec<(Role, SampleLayout)>,
}

impl Recorded {
    pub(crate) fn new(events: &[EventIds]) -> Recorded {
        let layout =
            |event: &EventIds| (event.role, SampleLayout::new(&event.attr, Endian::NATIVE));
        Recorded {
            layouts: events.iter().map(layout).collect(),
            ..Recorded::default()
        }
    }

    fn layout(&self, stream: Stream) -> &SampleLayout {
        let role = match stream {
            Stream::Samples => Role::Samples,
            Stream::Sideband => Role::Sideband,
        };
        &self.layouts.iter().find(|(of, _)| *of == role).unwrap().1
    }

    pub(crate) fn add(&mut self, batch: &Batch) {
        let mut rest = RawBytes::from(batch.bytes.as_slice());
        while !rest.is_empty() {
            let record = RawRecord::parse(rest, Endian::NATIVE).expect("a whole record");
            rest = rest.get_from(record.size()).unwrap();
            let layout = self.layout(batch.stream);
            let time = layout.time_of(&record);
            self.records.push(Got {
                cpu: batch.cpu,
                stream: batch.stream,
                kind: record.kind,
                misc: record.misc,
                time: time.expect("every record has a time"),
                body: record.body.to_cow().into_owned(),
            });
        }
        self.watermarks
            .push((batch.cpu, self.records.len(), batch.watermark));
    }

    pub(crate) fn of(&self, kind: RecordType) -> impl Iterator<Item = &Got> {
        self.records.iter().filter(move |got| got.kind == kind)
    }

    pub(crate) fn decoded<'a>(&'a self, got: &'a Got) -> Record<'a> {
        let raw = RawRecord {
            kind: got.kind,
            misc: got.misc,
            body: RawBytes::from(got.body.as_slice()),
            endian: Endian::NATIVE,
        };
        Record::decode(&raw, Some(self.layout(got.stream))).unwrap()
    }

    /// Returns the sum of a stream's LOST records.
    pub(crate) fn told_lost(&self, stream: Stream) -> u64 {
        let lost = self.of(RecordType::LOST).filter(|got| got.stream == stream);
        lost.map(|got| match self.decoded(got) {
            Record::Lost(lost) => lost.lost,
            other => panic!("{other:?}"),
        })
        .sum()
    }
}

/// Receives on a separate thread until the program ends, and stops.
pub(crate) fn record(mut session: Session) -> Recorded {
    let mut recorded = Recorded::new(session.events());
    let (batches, recycler) = (session.batches().clone(), session.recycler());
    session.start().unwrap();
    let receiving = std::thread::spawn(move || {
        for batch in batches {
            recorded.add(&batch);
            recycler.recycle(batch);
        }
        recorded
    });
    let status = session.child_mut().unwrap().wait().unwrap();
    assert!(status.success(), "{status}");
    let counts = session.stop();
    let mut recorded = receiving.join().unwrap();
    recorded.counts = counts;
    recorded
}

pub(crate) fn fifo(folder: &Path, name: &str) -> PathBuf {
    let path = folder.join(name);
    let made = std::process::Command::new("mkfifo").arg(&path).status();
    assert!(made.unwrap().success());
    path
}
