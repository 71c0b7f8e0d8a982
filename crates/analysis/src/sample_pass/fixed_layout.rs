//! Fast parser for samples of fixed layout.
//!
//! Most recordings have samples of fixed fields and a callchain, in this machine's byte order. The
//! event then determines each field's offset.

use rprof_records::{AttrFlags, ContextMarker, Endian, SampleLayout, SampleType};

use rprof_perfdata::RecordedEvent;
use rprof_profile::memory::is_of_memory_over_time;
use rprof_profile::waits::WAITS;

use crate::sample_pass::branch_stack::has_branch_calls;

/// Byte offsets of one event's fields.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FixedLayoutParser {
    ip: Option<usize>,
    tid: Option<usize>,
    time: Option<usize>,
    cpu: Option<usize>,
    period: Option<usize>,
    chain: Option<usize>,
    fixed_len: usize,
    weight: u64,
    is_of_waits: bool,
}

pub(crate) struct ParsedSample<'a> {
    pub(crate) pid: i32,
    pub(crate) tid: i32,
    pub(crate) time: Option<u64>,
    pub(crate) cpu: Option<u32>,
    pub(crate) weight: u64,
    pub(crate) ip: u64,
    pub(crate) chain: Option<&'a [[u8; 8]]>,
    /// True if the fields fill the record.
    pub(crate) is_consistent: bool,
}

/// Returns the weight of samples without a period: the event's fixed period, or 1.
pub(crate) fn default_weight(event: &RecordedEvent) -> u64 {
    match event.attr.flags.contains(AttrFlags::FREQ) {
        true => 1,
        false => event.attr.period_or_freq.max(1),
    }
}

impl FixedLayoutParser {
    /// Returns `None` if samples have other variable-size fields, the other byte order or deferred
    /// callchains, or are waits with a waker, or memory over time.
    pub(crate) fn new(event: &RecordedEvent) -> Option<FixedLayoutParser> {
        let layout: &SampleLayout = &event.layout;
        let fields = layout.sample_type();
        let fixed = SampleLayout::FIXED;
        let known = fixed.iter().fold(SampleType::CALLCHAIN, |a, b| a.union(*b));
        let is_of_waits = event.name == WAITS;
        if layout.endian() != Endian::NATIVE
            || !known.contains(fields)
            || is_of_waits && fields.contains(SampleType::ADDR)
            || is_of_memory_over_time(&event.name)
            || has_branch_calls(&event.attr)
            || event.attr.flags.contains(AttrFlags::DEFER_CALLCHAIN)
        {
            return None;
        }
        let at = |field| layout.fixed_offset(field);
        let fixed_len = 8 * fixed.iter().filter(|f| at(**f).is_some()).count();
        Some(FixedLayoutParser {
            ip: at(SampleType::IP),
            tid: at(SampleType::TID),
            time: at(SampleType::TIME),
            cpu: at(SampleType::CPU),
            period: at(SampleType::PERIOD),
            chain: fields.contains(SampleType::CALLCHAIN).then_some(fixed_len),
            fixed_len,
            weight: default_weight(event),
            is_of_waits,
        })
    }

    pub(crate) fn is_of_waits(&self) -> bool {
        self.is_of_waits
    }

    pub(crate) fn has_chain(&self) -> bool {
        self.chain.is_some()
    }

    #[inline]
    pub(crate) fn read<'a>(&self, body: &'a [u8]) -> Option<ParsedSample<'a>> {
        let fixed = body.get(..self.fixed_len)?;
        let word = |at: usize| Some(u64::from_ne_bytes(*fixed.get(at..)?.first_chunk()?));
        let half = |at: usize| Some(i32::from_ne_bytes(*fixed.get(at..)?.first_chunk()?));
        let mut end = self.fixed_len;
        let chain = match self.chain {
            Some(at) => {
                let (count, rest) = body.get(at..)?.split_first_chunk::<8>()?;
                let (words, _) = rest.as_chunks::<8>();
                let count = usize::try_from(u64::from_ne_bytes(*count)).ok()?;
                let words = words.get(..count)?;
                end += 8 * (1 + count);
                let words = match words {
                    [addresses @ .., marker, _cookie]
                        if u64::from_ne_bytes(*marker) == ContextMarker::USER_DEFERRED.0 =>
                    {
                        addresses
                    }
                    words => words,
                };
                let is_address = |word: &[u8; 8]| {
                    let entry = u64::from_ne_bytes(*word);
                    !ContextMarker::is_marker(entry)
                };
                words.iter().any(is_address).then_some(words)
            }
            None => None,
        };
        Some(ParsedSample {
            pid: self.tid.and_then(half).unwrap_or(-1),
            tid: self.tid.and_then(|at| half(at + 4)).unwrap_or(-1),
            time: self.time.and_then(word),
            cpu: self.cpu.and_then(half).map(i32::cast_unsigned),
            weight: self.period.and_then(word).unwrap_or(self.weight),
            ip: self.ip.and_then(word).unwrap_or(0),
            chain,
            is_consistent: end == body.len(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample_pass::pending::callchain;
    use rprof_records::{Attr, RawBytes, Sample, SampleFields};

    fn event(attr: Attr) -> RecordedEvent {
        let events =
            rprof_perfdata::Events::new(vec![(attr, String::new(), vec![])], Endian::NATIVE);
        events.list()[0].clone()
    }

    #[test]
    fn reads_what_the_other_reader_reads() {
        let fixed = SampleLayout::FIXED;
        for mask in 0..1u32 << fixed.len() {
            let chosen = (0..).zip(fixed).filter(|(bit, _)| mask >> bit & 1 == 1);
            let fields = chosen.fold(SampleType::empty(), |all, (_, field)| all.union(field));
            for fields in [fields, fields.union(SampleType::CALLCHAIN)] {
                let event = event(Attr {
                    sample_type: fields,
                    period_or_freq: 17,
                    ..Attr::default()
                });
                let quick = FixedLayoutParser::new(&event).unwrap();
                let sample = SampleFields {
                    id: 3,
                    ip: 5,
                    pid: 7,
                    tid: -1,
                    time: 9,
                    cpu: 11,
                    period: 13,
                    callchain: match mask % 5 {
                        0 => vec![ContextMarker::USER.0, 0x1000, 0x2000],
                        1 => vec![ContextMarker::USER.0],
                        2 => vec![ContextMarker::USER_DEFERRED.0, 0x1000],
                        3 => vec![0x3000, ContextMarker::USER_DEFERRED.0, 0x1000],
                        _ => vec![],
                    },
                    ..SampleFields::default()
                };
                let mut record = Vec::new();
                let misc = rprof_records::Misc::USER;
                sample.encode(misc, &event.layout, &mut record).unwrap();
                let body = &record[8..];
                let longer = [body, &[0; 8]].concat();
                for len in 0..=longer.len() {
                    let body = &longer[..len];
                    let all = Sample::parse(RawBytes::from(body), &event.layout).ok();
                    let read = quick.read(body);
                    assert_eq!(read.is_some(), all.is_some(), "{fields:?} {len}");
                    let (Some(read), Some(all)) = (read, all) else {
                        continue;
                    };
                    assert_eq!(read.is_consistent, all.is_consistent());
                    assert_eq!(read.pid, all.pid().unwrap_or(-1));
                    assert_eq!(read.tid, all.tid().unwrap_or(-1));
                    assert_eq!(read.time, all.time());
                    assert_eq!(read.cpu, all.cpu());
                    assert_eq!(read.weight, all.period().unwrap_or(17));
                    assert_eq!(read.ip, all.ip().unwrap_or(0));
                    let words = |words: &[[u8; 8]]| {
                        (words.iter().copied())
                            .map(u64::from_ne_bytes)
                            .collect::<Vec<_>>()
                    };
                    let chain = callchain(&all).map(|c| c.iter().collect::<Vec<_>>());
                    assert_eq!(read.chain.map(words), chain);
                }
            }
        }
        let more = SampleType::IP.union(SampleType::RAW);
        let more = event(Attr {
            sample_type: more,
            ..Attr::default()
        });
        assert!(FixedLayoutParser::new(&more).is_none());
    }
}
