//! [`Wakes`]: who wakes whom, by samples of `sched:sched_waking`.

use rprof_events::tracefs::Tracefs;
use rprof_records::{Endian, RawRecord, Sample, SampleLayout, WaitEnd};
use rprof_sampler::{Role, Session};
use rprof_tracepoint::EventFormat;
use rustc_hash::FxHashSet;

/// `common_flags` of what runs in an interrupt, or behind one: `TRACE_FLAG_HARDIRQ`, `TRACE_FLAG_SOFTIRQ` and `TRACE_FLAG_NMI`.
const IN_INTERRUPT: u8 = 0x08 | 0x10 | 0x40;

/// Most threads that are not watched, and whose names are told as they wake others.
const MOST_STRANGERS: usize = 4_096;

/// A wake-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wake {
    pub(super) by: WaitEnd,
    /// Time of it.
    pub(super) at: u64,
}

/// Reads wake-ups.
#[derive(Debug)]
pub(super) struct Wakes {
    ids: FxHashSet<u64>,
    layout: SampleLayout,
    fields: Fields,
    strangers: FxHashSet<i32>,
}

/// Offsets in the payload.
#[derive(Debug)]
struct Fields {
    /// Thread that is woken, 32 bits.
    pid: usize,
    /// Flags of the one that wakes, 8 bits.
    flags: usize,
}

impl Wakes {
    /// Returns the reader for a session's wake-ups, if these are told.
    pub(super) fn of(session: &Session) -> Option<Wakes> {
        let event = (session.events().iter()).find(|event| event.role == Role::Wakes)?;
        Some(Wakes {
            ids: event.ids.iter().copied().collect(),
            layout: SampleLayout::new(&event.attr, Endian::NATIVE),
            fields: Fields::read()?,
            strangers: FxHashSet::default(),
        })
    }

    /// Returns true for the sample of a wake-up.
    pub(super) fn is_one(&self, raw: &RawRecord<'_>) -> bool {
        (raw.body.u64(0, Endian::NATIVE)).is_some_and(|id| self.ids.contains(&id))
    }

    /// Returns the thread that is woken, and what wakes it.
    pub(super) fn read(&self, raw: &RawRecord<'_>) -> Option<(i32, WaitEnd)> {
        let sample = Sample::parse(raw.body, &self.layout).ok()?;
        let payload = sample.raw()?.to_cow();
        let woken = *payload.get(self.fields.pid..)?.first_chunk()?;
        let flags = payload.get(self.fields.flags)?;
        let (pid, tid) = (sample.pid()?, sample.tid()?);
        // The idle task wakes nobody by itself.
        let by = match flags & IN_INTERRUPT != 0 || pid <= 0 {
            true => WaitEnd::Interrupt,
            false => WaitEnd::Thread { pid, tid },
        };
        Some((i32::from_ne_bytes(woken), by))
    }

    /// Returns true for a thread that is not watched, the first time that it is met.
    pub(super) fn is_new_stranger(&mut self, tid: i32) -> bool {
        self.strangers.len() < MOST_STRANGERS && self.strangers.insert(tid)
    }
}

impl Fields {
    /// Reads where the fields stand on this machine.
    fn read() -> Option<Fields> {
        let text = Tracefs::find()
            .ok()?
            .format("sched", "sched_waking")
            .ok()??;
        let text = String::from_utf8(text).ok()?;
        Fields::parse(&text)
    }

    fn parse(text: &str) -> Option<Fields> {
        let long = size_of::<libc::c_long>() as u8;
        let format = EventFormat::parse("sched", text, Endian::NATIVE, long)?;
        let offset = |name: &str, size| {
            let mut fields = format.fields.iter();
            let field = fields.find(|field| field.name == name && field.size == size)?;
            usize::try_from(field.offset).ok()
        };
        Some(Fields {
            pid: offset("pid", 4)?,
            flags: offset("common_flags", 1)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_records::{Attr, Misc, RawBytes, SampleFields, SampleType};

    /// As Linux 6.18 describes it.
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
        let mut wakes = Wakes {
            ids: [5].into_iter().collect(),
            layout: SampleLayout::new(&attr, Endian::NATIVE),
            fields: Fields::parse(FORMAT).unwrap(),
            strangers: FxHashSet::default(),
        };
        let read = |wakes: &Wakes, id, pid, flags, len: usize| {
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
            (wakes.is_one(&raw), wakes.read(&raw))
        };
        let thread = WaitEnd::Thread { pid: 7, tid: 8 };
        assert_eq!(read(&wakes, 5, 7, 0x01, 36), (true, Some((77, thread))));
        for flags in [0x08, 0x10, 0x19] {
            let by = Some((77, WaitEnd::Interrupt));
            assert_eq!(read(&wakes, 5, 7, flags, 36), (true, by));
        }
        assert_eq!(read(&wakes, 5, 0, 0, 36).1, Some((77, WaitEnd::Interrupt)));
        assert!(!read(&wakes, 6, 7, 0, 36).0);
        // Cut off by a kernel that describes something else.
        assert_eq!(read(&wakes, 5, 7, 0, 20).1, None);
        assert!(Fields::parse(&FORMAT.replace("pid_t pid", "pid_t who")).is_none());
        assert!(wakes.is_new_stranger(9) && !wakes.is_new_stranger(9));
    }
}
