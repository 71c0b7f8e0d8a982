//! [`WakeupReader`]: reads wakers and woken threads from samples of `sched:sched_waking`.

use std::borrow::Cow;
use std::io;

use rprof_events::tracefs::Tracefs;
use rprof_launch::procfs::Procfs;
use rprof_records::{
    Comm, Endian, Misc, ProcessEvent, RawRecord, Record, RecordType, Sample, SampleId,
    SampleLayout, WaitEnd,
};
use rprof_sampler::{Role, Session, Stream};
use rprof_tracepoint::EventFormat;
use rustc_hash::{FxHashMap, FxHashSet};

use super::OffCpu;
use crate::output::RotatingOutput;
use crate::pipeline::deferred::RecordSink;
use crate::pipeline::merge::Released;

/// `common_flags` of code in an interrupt or softirq: `TRACE_FLAG_HARDIRQ`, `TRACE_FLAG_SOFTIRQ`
/// and `TRACE_FLAG_NMI`.
const IN_INTERRUPT: u8 = 0x08 | 0x10 | 0x40;

/// Maximum number of unrecorded wakers whose names are recorded.
const MAX_UNWATCHED: usize = 4_096;

/// Nanoseconds until the name of such a waker is read again.
const NAME_HOLDS: u64 = 100_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wakeup {
    pub(super) by: WaitEnd,
    pub(super) at: u64,
}

#[derive(Debug)]
pub(super) struct WakeupReader {
    ids: FxHashSet<u64>,
    layout: SampleLayout,
    /// `None` if the kernel's payload format is unsupported: then wakeups are skipped.
    offsets: Option<PayloadOffsets>,
    /// Unrecorded wakers, with the time of the last read and the name.
    unwatched: FxHashMap<i32, (u64, Option<Vec<u8>>)>,
}

#[derive(Debug)]
struct PayloadOffsets {
    /// Woken thread, 32 bits.
    pid: usize,
    /// Flags of the waker, 8 bits.
    flags: usize,
}

impl WakeupReader {
    /// Returns the reader for a session's wakeups, if they are recorded.
    pub(super) fn of(session: &Session) -> Option<WakeupReader> {
        let event = (session.events().iter()).find(|event| event.role == Role::Wakeups)?;
        Some(WakeupReader {
            ids: event.ids.iter().copied().collect(),
            layout: SampleLayout::new(&event.attr, Endian::NATIVE),
            offsets: PayloadOffsets::read(),
            unwatched: FxHashMap::default(),
        })
    }

    pub(super) fn can_read(&self) -> bool {
        self.offsets.is_some()
    }

    pub(super) fn is_wakeup(&self, raw: &RawRecord<'_>) -> bool {
        (raw.body.u64(0, Endian::NATIVE)).is_some_and(|id| self.ids.contains(&id))
    }

    pub(super) fn read(&self, raw: &RawRecord<'_>) -> Option<(i32, WaitEnd)> {
        let sample = Sample::parse(raw.body, &self.layout).ok()?;
        let payload = sample.raw()?.to_cow();
        let offsets = self.offsets.as_ref()?;
        let woken = *payload.get(offsets.pid..)?.first_chunk()?;
        let flags = payload.get(offsets.flags)?;
        let (pid, tid) = (sample.pid()?, sample.tid()?);
        let by = match pid {
            // The idle task wakes no threads by itself.
            0 => WaitEnd::Interrupt,
            _ if flags & IN_INTERRUPT != 0 => WaitEnd::Interrupt,
            // The kernel has no pid any more for an exiting thread.
            ..0 => WaitEnd::Unknown,
            _ => WaitEnd::Thread { pid, tid },
        };
        Some((i32::from_ne_bytes(woken), by))
    }

    /// Returns an unrecorded waker's name if it changed. `read` returns the current name, so call
    /// this soon after the wakeup.
    pub(super) fn new_name(
        &mut self,
        tid: i32,
        time: u64,
        read: impl FnOnce() -> Option<Vec<u8>>,
    ) -> Option<Vec<u8>> {
        let known = self.unwatched.get(&tid);
        let is_full = known.is_none() && self.unwatched.len() >= MAX_UNWATCHED;
        if is_full || known.is_some_and(|(at, _)| time.saturating_sub(*at) < NAME_HOLDS) {
            return None;
        }
        let before = known.and_then(|(_, name)| name.clone());
        let name = read();
        let is_new = name.is_some() && name != before;
        let kept = name.clone().or(before);
        self.unwatched.insert(tid, (time, kept));
        name.filter(|_| is_new)
    }
}

impl PayloadOffsets {
    fn read() -> Option<PayloadOffsets> {
        let text = Tracefs::find()
            .ok()?
            .format("sched", "sched_waking")
            .ok()??;
        let text = String::from_utf8(text).ok()?;
        PayloadOffsets::parse(&text)
    }

    fn parse(text: &str) -> Option<PayloadOffsets> {
        let long = size_of::<libc::c_long>() as u8;
        let format = EventFormat::parse("sched", text, Endian::NATIVE, long)?;
        let offset = |name: &str, size| {
            let mut fields = format.fields.iter();
            let field = fields.find(|field| field.name == name && field.size == size)?;
            usize::try_from(field.offset).ok()
        };
        Some(PayloadOffsets {
            pid: offset("pid", 4)?,
            flags: offset("common_flags", 1)?,
        })
    }
}

impl OffCpu {
    pub(crate) fn reads_wakeups(&self) -> bool {
        self.wakes.as_ref().is_some_and(WakeupReader::can_read)
    }

    /// Returns true for a sample of a wakeup, whose thread may be unrecorded.
    pub(crate) fn is_wakeup(&self, released: &Released<'_>) -> bool {
        let Some(wakes) = (self.wakes.as_ref()).filter(|_| released.stream == Stream::Samples)
        else {
            return false;
        };
        let raw = released.raw();
        raw.is_some_and(|raw| raw.kind == RecordType::SAMPLE && wakes.is_wakeup(&raw))
    }

    /// Handles a wakeup, and records the name of an unrecorded waker.
    pub(super) fn wake(
        &mut self,
        raw: &RawRecord<'_>,
        released: &Released<'_>,
        output: &mut RotatingOutput,
    ) -> io::Result<()> {
        let Some(wakes) = &mut self.wakes else {
            return Ok(());
        };
        let Some((tid, by)) = wakes.read(raw) else {
            return Ok(());
        };
        let wake = Wakeup {
            by,
            at: released.time,
        };
        self.boundaries.count_wakeup(released.cpu);
        if !self.pairing.woken(tid, released.cpu, wake) {
            return Ok(());
        }
        let WaitEnd::Thread { pid, tid } = by else {
            return Ok(());
        };
        if self.watched.by_cpu || self.pairing.knows(tid) {
            return Ok(());
        }
        let read = || Procfs::default().comm(pid.cast_unsigned(), tid.cast_unsigned());
        let Some(name) = wakes.new_name(tid, released.time, read).map(Cow::Owned) else {
            return Ok(());
        };
        self.write_before(
            |sums| sums.flush_of(|wait| wait.is_ended_by(tid)),
            released.time,
            output,
        )?;
        let record = Record::Comm(Comm {
            pid,
            tid,
            name: Cow::Borrowed(&name),
        });
        let trailer = SampleId {
            pid: Some(pid),
            tid: Some(tid),
            time: Some(released.time),
            id: Some(self.sideband_id),
            cpu: Some(released.cpu),
            ..SampleId::default()
        };
        self.bytes.clear();
        let layout = &self.layouts.sideband;
        (record.encode(Misc(0), layout, &trailer, &mut self.bytes)).map_err(io::Error::other)?;
        let released = Released {
            stream: Stream::Sideband,
            bytes: &self.bytes,
            ..*released
        };
        output.put(&released, Some(&ProcessEvent::Renamed { pid, tid, name }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_records::{Attr, RawBytes, SampleFields, SampleType};

    /// Format of Linux 6.18.
    const FORMAT: &str = "name: sched_waking
ID: 375
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;
\tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;
\tfield:int prio;\toffset:28;\tsize:4;\tsigned:1;
\tfield:int target_cpu;\toffset:32;\tsize:4;\tsigned:1;
";

    #[test]
    fn a_wake_up_tells_who_is_woken_by_whom() {
        let attr = Attr {
            sample_type: SampleType::IDENTIFIER | SampleType::TID | SampleType::RAW,
            ..Attr::default()
        };
        let mut wakes = WakeupReader {
            ids: [5].into_iter().collect(),
            layout: SampleLayout::new(&attr, Endian::NATIVE),
            offsets: PayloadOffsets::parse(FORMAT),
            unwatched: FxHashMap::default(),
        };
        let read = |wakes: &WakeupReader, id, pid, flags, len: usize| {
            let mut raw = vec![0; 36];
            raw[2] = flags;
            raw[24..28].copy_from_slice(&77i32.to_ne_bytes());
            raw.truncate(len);
            let fields = SampleFields {
                id,
                pid,
                tid: pid + 1,
                raw,
                ..SampleFields::default()
            };
            let mut record = Vec::new();
            let layout = &wakes.layout;
            fields.encode(Misc::USER, layout, &mut record).unwrap();
            let raw = RawRecord::parse(RawBytes::from(&record[..]), Endian::NATIVE).unwrap();
            (wakes.is_wakeup(&raw), wakes.read(&raw))
        };
        let thread = WaitEnd::Thread { pid: 7, tid: 8 };
        assert_eq!(read(&wakes, 5, 7, 0x01, 36), (true, Some((77, thread))));
        for flags in [0x08, 0x10, 0x19] {
            let by = Some((77, WaitEnd::Interrupt));
            assert_eq!(read(&wakes, 5, 7, flags, 36), (true, by));
        }
        assert_eq!(read(&wakes, 5, 0, 0, 36).1, Some((77, WaitEnd::Interrupt)));
        assert!(!read(&wakes, 6, 7, 0, 36).0);
        // A payload that is too short.
        assert_eq!(read(&wakes, 5, 7, 0, 20).1, None);
        assert_eq!(read(&wakes, 5, -1, 0, 36).1, Some((77, WaitEnd::Unknown)));
        assert!(PayloadOffsets::parse(&FORMAT.replace("pid_t pid", "pid_t who")).is_none());
        wakes.offsets = None;
        assert!(!wakes.can_read() && read(&wakes, 5, 7, 0, 36).1.is_none());
    }

    #[test]
    fn the_name_of_an_unwatched_waker_is_read_again_after_a_while() {
        let mut wakes = WakeupReader {
            ids: FxHashSet::default(),
            layout: SampleLayout::new(&Attr::default(), Endian::NATIVE),
            offsets: None,
            unwatched: FxHashMap::default(),
        };
        let named = |name: &str| Some(name.as_bytes().to_vec());
        assert_eq!(wakes.new_name(9, 0, || named("sh")), named("sh"));
        assert_eq!(wakes.new_name(9, NAME_HOLDS - 1, || named("cat")), None);
        assert_eq!(wakes.new_name(9, NAME_HOLDS, || named("cat")), named("cat"));
        assert_eq!(wakes.new_name(9, 3 * NAME_HOLDS, || None), None);
        assert_eq!(wakes.new_name(9, 5 * NAME_HOLDS, || named("cat")), None);
        for tid in 0..MAX_UNWATCHED as i32 + 10 {
            wakes.new_name(tid, 0, || named("many"));
        }
        assert_eq!(wakes.unwatched.len(), MAX_UNWATCHED);
    }
}
