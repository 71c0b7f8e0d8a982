//! Shortens stack copies to their real bytes.
//!
//! The kernel reserves the requested size in each sample, and says at its end how many bytes it
//! copied. The rest is dropped, as are bytes above the outermost frame ([`StackBases`]).

use super::stack_bases::StackBases;
use rprof_records::{Endian, RawBytes, RawRecord, RecordType, Sample, SampleLayout};
use std::collections::HashMap;

/// Layouts of samples with a stack copy, by event id.
pub(crate) type Dumps = HashMap<u64, SampleLayout>;

/// Appends a record with a shortened stack copy, if it fits into `room` bytes.
pub(super) fn put(
    record: RawBytes<'_>,
    dumps: &Dumps,
    bases: &StackBases,
    out: &mut Vec<u8>,
    room: usize,
) -> bool {
    let raw = RawRecord::parse(record, Endian::NATIVE);
    let Some(cut) = raw.and_then(|raw| Cut::find(&raw, dumps, bases)) else {
        let fits = record.len() <= room;
        if fits {
            record.append_to(out);
        }
        return fits;
    };
    // An empty copy has no length field after it.
    let length = if cut.reserved == 0 { 0 } else { 8 };
    let behind = record.len() - cut.end;
    let size = cut.at + 8 + cut.reserved + length + behind;
    if size > room {
        return false;
    }
    let start = out.len();
    let words = |from: usize, to: usize| record.get(from..to).into_iter();
    words(0, cut.at).for_each(|head| head.append_to(out));
    out[start + 6..start + 8].copy_from_slice(&(size as u16).to_ne_bytes());
    out.extend((cut.reserved as u64).to_ne_bytes());
    words(cut.at + 8, cut.at + 8 + cut.reserved).for_each(|copy| copy.append_to(out));
    if length != 0 {
        out.extend((cut.real as u64).to_ne_bytes());
    }
    words(cut.end, record.len()).for_each(|fields| fields.append_to(out));
    true
}

/// Stack pointer in the user registers: `arch/{x86,arm64}/include/uapi/asm/perf_regs.h`.
const STACK_POINTER: u32 = if cfg!(target_arch = "x86_64") { 7 } else { 31 };

struct Cut {
    at: usize,
    /// Reserved bytes in the shortened record.
    reserved: usize,
    real: usize,
    end: usize,
}

impl Cut {
    fn find(record: &RawRecord<'_>, dumps: &Dumps, bases: &StackBases) -> Option<Cut> {
        if record.kind != RecordType::SAMPLE {
            return None;
        }
        let layout = dumps.get(&record.body.u64(0, Endian::NATIVE)?)?;
        let sample = Sample::parse(record.body, layout).ok()?;
        let dump = sample.stack_user()?;
        let real = dump.bytes.len().min(Cut::needed(&sample, bases));
        let reserved = real.next_multiple_of(8);
        let old = usize::try_from(dump.reserved).ok()?;
        // Header, and length fields before and after the copy.
        let at = 8 + sample.stack_user_offset()?;
        let end = at.checked_add(16)?.checked_add(old)?;
        let is_cut = reserved < old && end <= record.size();
        is_cut.then_some(Cut {
            at,
            reserved,
            real,
            end,
        })
    }

    fn needed(sample: &Sample<'_>, bases: &StackBases) -> usize {
        let tid = sample.tid().map(i32::cast_unsigned);
        let base = tid.and_then(|tid| bases.get(tid));
        let sp = sample.regs_user().and_then(|r| r.get(STACK_POINTER));
        match (base, sp) {
            // A pointer above the base may belong to another stack of the thread.
            (Some(base), Some(sp)) if sp < base => usize::try_from(base - sp).unwrap_or(usize::MAX),
            _ => usize::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_records::{Attr, Misc, RegisterValues, SampleFields, SampleType};

    fn layout(more: SampleType) -> SampleLayout {
        let attr = Attr {
            sample_type: SampleType::IDENTIFIER
                | SampleType::TIME
                | SampleType::CALLCHAIN
                | SampleType::REGS_USER
                | SampleType::STACK_USER
                | more,
            sample_regs_user: 0b11,
            sample_stack_user: 4096,
            ..Attr::default()
        };
        SampleLayout::new(&attr, Endian::NATIVE)
    }

    fn sample(id: u64, real: usize) -> SampleFields {
        SampleFields {
            id,
            time: id * 10,
            callchain: vec![1; 3],
            regs_user: RegisterValues {
                abi: 2,
                values: vec![5, 6],
            },
            stack_user: (0..real).map(|n| n as u8).collect(),
            stack_user_reserved: 4096,
            ..SampleFields::default()
        }
    }

    /// Returns the records after 24 other bytes, split at every possible end of the ring.
    fn trimmed(bytes: &[u8], dumps: &Dumps, bases: &StackBases) -> Vec<u8> {
        let (mut results, mut at) = (vec![bytes[..24].to_vec(); 3], 24);
        while at < bytes.len() {
            let size = usize::from(u16::from_ne_bytes([bytes[at + 6], bytes[at + 7]]));
            let record = &bytes[at..at + size];
            for (result, end) in results.iter_mut().zip([0, size / 2, 8]) {
                let (head, tail) = record.split_at(end);
                let record = RawBytes::split(head, tail);
                let mut out = Vec::new();
                assert!(put(record, dumps, bases, &mut out, usize::MAX));
                assert!(!put(record, dumps, bases, result, out.len() - 1));
                assert!(put(record, dumps, bases, result, out.len()));
                assert!(result.ends_with(&out));
            }
            at += size;
        }
        assert!(results.iter().all(|result| *result == results[0]));
        results.remove(0)
    }

    #[test]
    fn only_the_room_that_was_not_used_goes() {
        let layout = layout(SampleType::empty());
        let dumps = Dumps::from([(1, layout.clone()), (2, layout.clone())]);
        let reals = [(1, 0), (2, 4096), (1, 13), (3, 8), (2, 4095), (1, 800)];
        let mut bytes = vec![7; 24];
        for (id, real) in reals {
            sample(id, real)
                .encode(Misc::USER, &layout, &mut bytes)
                .unwrap();
        }
        let long = bytes.len();
        let bytes = trimmed(&bytes, &dumps, &StackBases::default());
        assert_eq!(bytes[..24], [7; 24]);
        assert!(bytes.len() < long - 4096 - 4000 - 3000);
        let mut at = 24;
        for (id, real) in reals {
            let raw = RawRecord::parse(RawBytes::from(&bytes[at..]), Endian::NATIVE).unwrap();
            let parsed = Sample::parse(raw.body, &layout).unwrap();
            assert!(parsed.rest().is_empty());
            let wanted = sample(id, real);
            let dump = parsed.stack_user().unwrap();
            assert_eq!(dump.bytes.to_cow(), wanted.stack_user);
            let known = id != 3;
            assert_eq!(
                dump.reserved,
                if known {
                    real.next_multiple_of(8) as u64
                } else {
                    4096
                }
            );
            let fields = SampleFields::from(&parsed);
            assert_eq!((fields.id, fields.callchain), (id, wanted.callchain));
            assert_eq!(fields.regs_user, wanted.regs_user);
            at += raw.size();
        }
        assert_eq!(at, bytes.len());
    }

    #[test]
    fn what_lies_above_the_outermost_frame_goes_too() {
        let attr = Attr {
            sample_type: SampleType::IDENTIFIER
                | SampleType::TID
                | SampleType::REGS_USER
                | SampleType::STACK_USER,
            sample_regs_user: 1 << STACK_POINTER,
            sample_stack_user: 4096,
            ..Attr::default()
        };
        let layout = SampleLayout::new(&attr, Endian::NATIVE);
        let dumps = Dumps::from([(1, layout.clone())]);
        let bases = StackBases::default();
        bases.set(9, 0x1_0000);
        bases.disable(8);
        let kept = [
            (9, 0xff00, 4096, 256),
            (9, 0xff08, 100, 100),
            (9, 0xff08, 4096, 248),
            (9, 0x1_0000, 4096, 4096),
            (9, 0x100, 4096, 4096),
            (8, 0xff00, 4096, 4096),
        ];
        for (tid, sp, real, wanted) in kept {
            let fields = SampleFields {
                tid,
                regs_user: RegisterValues {
                    abi: 2,
                    values: vec![sp],
                },
                ..sample(1, real)
            };
            let mut bytes = vec![0; 24];
            fields.encode(Misc::USER, &layout, &mut bytes).unwrap();
            let bytes = trimmed(&bytes, &dumps, &bases);
            let raw = RawRecord::parse(RawBytes::from(&bytes[24..]), Endian::NATIVE).unwrap();
            let parsed = Sample::parse(raw.body, &layout).unwrap();
            let dump = parsed.stack_user().unwrap();
            assert_eq!(*dump.bytes.to_cow(), fields.stack_user[..wanted]);
        }
    }

    #[test]
    fn fields_behind_the_copy_stay_as_they_are() {
        let more = SampleType::WEIGHT | SampleType::CGROUP | SampleType::REGS_INTR;
        let layout = layout(more | SampleType::CODE_PAGE_SIZE);
        let dumps = Dumps::from([(1, layout.clone())]);
        for real in [0, 13, 4095, 4096] {
            let fields = SampleFields {
                weight: 5,
                cgroup: 6,
                code_page_size: 7,
                ..sample(1, real)
            };
            let mut bytes = vec![0; 24];
            fields.encode(Misc::USER, &layout, &mut bytes).unwrap();
            let bytes = trimmed(&bytes, &dumps, &StackBases::default());
            let raw = RawRecord::parse(RawBytes::from(&bytes[24..]), Endian::NATIVE).unwrap();
            let parsed = Sample::parse(raw.body, &layout).unwrap();
            assert!(parsed.rest().is_empty());
            let reserved = real.next_multiple_of(8) as u64;
            let wanted = SampleFields {
                stack_user_reserved: reserved,
                ..fields
            };
            assert_eq!(SampleFields::from(&parsed), wanted);
            assert_eq!(bytes.len() % 8, 0);
        }
    }
}
