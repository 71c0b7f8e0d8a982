//! Samples with unwound user stacks: a callchain instead of registers and stack dump.

use crate::attr::Attr;
use crate::bytes::RawBytes;
use crate::encode::{EncodeError, put_record};
use crate::flags::{AttrFlags, SampleType};
use crate::header::{Misc, RecordType};
use crate::sample::{Sample, SampleField};

impl Attr {
    /// Returns the attr for samples written by [`Sample::put_unwound`]: with a callchain, without
    /// the user stack, and only with the user registers in the mask `kept`.
    ///
    /// Clears the exclusion of user callchains, so that readers look for them.
    pub fn unwound(&self, kept: u64) -> Attr {
        let mut attr = self.clone();
        attr.sample_regs_user &= kept;
        attr.sample_type |= SampleType::CALLCHAIN;
        attr.sample_type.remove(SampleType::STACK_USER);
        (attr.sample_type).set(SampleType::REGS_USER, attr.sample_regs_user != 0);
        attr.flags.remove(AttrFlags::EXCLUDE_CALLCHAIN_USER);
        attr.sample_stack_user = 0;
        attr
    }
}

impl Sample<'_> {
    /// Appends this sample as a record of an event with the attr [`Attr::unwound`]. `chain` (leaf
    /// first, with markers) becomes its callchain. Omits the stack dump, and the user registers
    /// outside `kept`. All other fields stay.
    ///
    /// # Errors
    /// Returns [`EncodeError::TooLong`] above 65,535 bytes, about 8,000 addresses. Nothing is
    /// appended then.
    pub fn put_unwound(
        &self,
        misc: Misc,
        chain: &[u64],
        kept: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        let endian = self.layout.endian;
        let before_chain = self.start_of(SampleField::Callchain);
        let after_chain = self.start_of(SampleField::Raw);
        let before_registers = self.start_of(SampleField::RegsUser);
        let after_stack = self.start_of(SampleField::Weight);
        put_record(out, RecordType::SAMPLE, misc, endian, |out| {
            self.append(0, before_chain, out);
            out.extend(endian.put_u64(chain.len() as u64));
            out.reserve(size_of_val(chain));
            out.extend(chain.iter().flat_map(|address| endian.put_u64(*address)));
            self.append(after_chain, before_registers, out);
            self.append_registers(kept, out);
            self.append(after_stack, self.body.len(), out);
        })
    }

    fn append_registers(&self, kept: u64, out: &mut Vec<u8>) {
        let endian = self.layout.endian;
        let kept = kept & self.layout.regs_user;
        let Some(registers) = self.regs_user().filter(|_| kept != 0) else {
            return;
        };
        out.extend(endian.put_u64(registers.abi));
        let values = registers
            .iter()
            .filter(|(number, _)| kept >> number & 1 != 0);
        out.extend(values.flat_map(|(_, value)| endian.put_u64(value)));
    }

    /// Returns the body offset of `field`, or of the next present field.
    fn start_of(&self, field: SampleField) -> usize {
        let rest = self.at.get(field as usize..).unwrap_or(&[]);
        let begun = rest.iter().find(|at| **at != crate::sample::ABSENT);
        begun.map_or(self.end, |at| usize::from(*at))
    }

    fn append(&self, from: usize, to: usize, out: &mut Vec<u8>) {
        let piece: Option<RawBytes<'_>> = self.body.get(from..to);
        if let Some(piece) = piece {
            piece.append_to(out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::Endian;
    use crate::encode::{RegisterValues, SampleFields};
    use crate::header::RawRecord;
    use crate::layout::SampleLayout;

    /// Every other field stays, for any set of fields.
    #[test]
    fn only_the_callchain_changes() {
        for kept in [0, 0b0011, !0] {
            only_the_callchain_changes_with(kept);
        }
    }

    fn only_the_callchain_changes_with(kept: u64) {
        let all = SampleType::from_bits_retain((1 << 25) - 1);
        let dumps = SampleType::REGS_USER | SampleType::STACK_USER;
        for without in [
            SampleType::empty(),
            SampleType::CALLCHAIN,
            SampleType::RAW | SampleType::BRANCH_STACK | SampleType::READ,
            SampleType::from_bits_retain(!0 << 14).difference(dumps),
        ] {
            for endian in [Endian::Little, Endian::Big] {
                let attr = Attr {
                    sample_type: all.difference(without | SampleType::WEIGHT_STRUCT),
                    sample_regs_user: 0b1011,
                    sample_regs_intr: 0b1,
                    sample_stack_user: 16,
                    flags: AttrFlags::EXCLUDE_CALLCHAIN_USER,
                    ..Attr::default()
                };
                let fields = SampleFields {
                    id: 1,
                    ip: 2,
                    time: 4,
                    period: 5,
                    callchain: vec![7, 8, 9],
                    raw: vec![1; 12],
                    regs_user: RegisterValues {
                        abi: 2,
                        values: vec![10, 11, 12],
                    },
                    stack_user: vec![3; 9],
                    stack_user_reserved: 16,
                    weight: 13,
                    regs_intr: RegisterValues {
                        abi: 2,
                        values: vec![14],
                    },
                    cgroup: 15,
                    aux: vec![5; 8],
                    ..SampleFields::default()
                };
                let layout = SampleLayout::new(&attr, endian);
                let mut bytes = Vec::new();
                fields.encode(Misc::USER, &layout, &mut bytes).unwrap();
                let raw = RawRecord::parse(RawBytes::from(&bytes[..]), endian).unwrap();
                let sample = Sample::parse(raw.body, &layout).unwrap();
                let mut out = Vec::new();
                sample
                    .put_unwound(raw.misc, &[21, 22], kept, &mut out)
                    .unwrap();

                let unwound = SampleLayout::new(&attr.unwound(kept), endian);
                let expected = SampleFields {
                    callchain: vec![21, 22],
                    regs_user: match kept {
                        0 => RegisterValues::default(),
                        0b0011 => RegisterValues {
                            abi: 2,
                            values: vec![10, 11],
                        },
                        _ => fields.regs_user.clone(),
                    },
                    stack_user: Vec::new(),
                    stack_user_reserved: 0,
                    ..SampleFields::from(&sample)
                };
                let mut wanted = Vec::new();
                expected.encode(Misc::USER, &unwound, &mut wanted).unwrap();
                assert_eq!(out, wanted, "without {without:?}, {endian:?}");
            }
        }
    }

    #[test]
    fn too_many_addresses_leave_nothing_behind() {
        let layout = SampleLayout::new(&Attr::default(), Endian::NATIVE);
        let sample = Sample::parse(RawBytes::from(&[][..]), &layout).unwrap();
        let mut out = vec![1];
        let long = vec![0; 9000];
        assert!(sample.put_unwound(Misc::USER, &long, 0, &mut out).is_err());
        assert_eq!(out, [1]);
    }
}
