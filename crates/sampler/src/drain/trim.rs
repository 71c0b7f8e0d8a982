//! Cuts copies of stacks to the bytes that are there.
//!
//! The kernel reserves as many bytes in each sample as were asked for, and says at their end how
//! many it could copy: most stacks are much shorter. What is behind is not worth carrying on.

use rprof_records::{Endian, RawBytes, RawRecord, RecordType, Sample, SampleLayout};
use std::collections::HashMap;

/// Layouts of the samples that have a copy of the stack, by the id that each begins with.
pub(crate) type Dumps = HashMap<u64, SampleLayout>;

/// Shortens the records from `start` on in place.
pub(super) fn trim(bytes: &mut Vec<u8>, start: usize, dumps: &Dumps) {
    let (mut read, mut write) = (start, start);
    while let Some(rest) = bytes.get(read..).filter(|rest| !rest.is_empty()) {
        let Some(record) = RawRecord::parse(RawBytes::from(rest), Endian::NATIVE) else {
            // What is no record goes on as it is: whoever reads it counts it.
            bytes.copy_within(read.., write);
            write += bytes.len() - read;
            break;
        };
        let size = record.size();
        let cut = Cut::of(&record, dumps);
        match cut {
            None => {
                bytes.copy_within(read..read + size, write);
                write += size;
            }
            Some(cut) => {
                let kept = cut.at + 8 + cut.reserved;
                bytes.copy_within(read..read + kept, write);
                // A copy of no bytes has no length behind it.
                let length = (cut.real as u64).to_ne_bytes();
                let length = if cut.reserved == 0 { &[][..] } else { &length };
                let whole = kept + length.len();
                let mut put = |at: usize, word: &[u8]| {
                    bytes[write + at..write + at + word.len()].copy_from_slice(word);
                };
                put(6, &(whole as u16).to_ne_bytes());
                put(cut.at, &(cut.reserved as u64).to_ne_bytes());
                put(kept, length);
                write += whole;
            }
        }
        read += size;
    }
    bytes.truncate(write);
}

/// What is left of the copy in one record.
struct Cut {
    /// Where the field begins in the record.
    at: usize,
    /// Bytes reserved for the copy.
    reserved: usize,
    /// Bytes of the copy.
    real: usize,
}

impl Cut {
    /// `None` where there is nothing to cut, or the copy is not the last field.
    fn of(record: &RawRecord<'_>, dumps: &Dumps) -> Option<Cut> {
        if record.kind != RecordType::SAMPLE {
            return None;
        }
        let layout = dumps.get(&record.body.u64(0, Endian::NATIVE)?)?;
        let sample = Sample::parse(record.body, layout).ok()?;
        let dump = sample.stack_user()?;
        let real = dump.bytes.len();
        let reserved = real.next_multiple_of(8);
        let old = usize::try_from(dump.reserved).ok()?;
        // Behind the copy is only its length.
        let at = record.size().checked_sub(old.checked_add(16)?)?;
        let is_last = sample.rest().is_empty() && sample.stack_user_offset()? + 8 == at;
        (is_last && reserved < old).then_some(Cut { at, reserved, real })
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
        trim(&mut bytes, 24, &dumps);
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
            // Of events that are not known nothing is cut.
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
    fn a_copy_with_fields_behind_it_stays() {
        let layout = layout(SampleType::WEIGHT);
        let mut bytes = Vec::new();
        sample(1, 8)
            .encode(Misc::USER, &layout, &mut bytes)
            .unwrap();
        let before = bytes.clone();
        trim(&mut bytes, 0, &Dumps::from([(1, layout)]));
        assert_eq!(bytes, before);
    }

    #[test]
    fn what_is_no_record_goes_on() {
        let mut bytes = vec![0; 40];
        trim(&mut bytes, 0, &Dumps::new());
        assert_eq!(bytes, [0; 40]);
    }
}
