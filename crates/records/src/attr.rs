//! `struct perf_event_attr`, in all of its sizes.

use crate::bytes::{Endian, RawBytes};
use crate::flags::{AttrFlags, BranchSampleType, ReadFormat, SampleType};

/// Type of event that an attr opens: `perf_event_attr.type`.
///
/// Numbers from 6 are PMUs of one machine, listed in `/sys/bus/event_source/devices/*/type`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct EventKind(pub u32);

impl EventKind {
    /// Generic hardware event (`PERF_COUNT_HW_*` in `config`).
    pub const HARDWARE: EventKind = EventKind(0);
    /// Software event (`PERF_COUNT_SW_*`).
    pub const SOFTWARE: EventKind = EventKind(1);
    /// Tracepoint, with its id in `config`.
    pub const TRACEPOINT: EventKind = EventKind(2);
    /// Generic cache event.
    pub const HW_CACHE: EventKind = EventKind(3);
    /// Raw event of the CPU's PMU.
    pub const RAW: EventKind = EventKind(4);
    /// Breakpoint on an address, or on an access to it.
    pub const BREAKPOINT: EventKind = EventKind(5);
}

/// Failure to decode or encode an attr.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AttrError {
    /// The attr has fewer bytes than the first version.
    #[error("an event attribute of {got} bytes is shorter than the first version's 64")]
    TooShort {
        /// Number of bytes.
        got: usize,
    },
    /// The attr exceeds the requested size.
    #[error("the event attribute needs {needed} bytes, but {size} were requested")]
    DoesNotFit {
        /// Minimum size for all set fields.
        needed: usize,
        /// Requested size.
        size: usize,
    },
}

/// `struct perf_event_attr`: the definition of an event and the contents of its records.
///
/// The fields are described in perf_event_open(2). Fields missing in an older, shorter attr are
/// zero. Additional bytes of a newer, longer attr are in `rest`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attr {
    /// Type of event (`type`).
    pub kind: EventKind,
    /// Event number within its type, usually defined by the PMU.
    pub config: u64,
    /// Period in events, or samples per second with [`AttrFlags::FREQ`].
    pub period_or_freq: u64,
    /// Fields of a sample.
    pub sample_type: SampleType,
    /// Fields of a counter reading.
    pub read_format: ReadFormat,
    /// Bit field.
    pub flags: AttrFlags,
    /// Events, or bytes with [`AttrFlags::WATERMARK`], before a wake-up.
    pub wakeup: u32,
    /// Breakpoint type.
    pub bp_type: u32,
    /// `bp_addr`, `kprobe_func`, `uprobe_path` or `config1`.
    pub config1: u64,
    /// `bp_len`, `kprobe_addr`, `probe_offset` or `config2`.
    pub config2: u64,
    /// Contents of branch records.
    pub branch_sample_type: BranchSampleType,
    /// Mask of user registers in a sample, with the architecture's numbers (`asm/perf_regs.h`).
    pub sample_regs_user: u64,
    /// Bytes of user stack in a sample.
    pub sample_stack_user: u32,
    /// Clock of time fields, with [`AttrFlags::USE_CLOCKID`].
    pub clockid: i32,
    /// Mask of interrupt registers in a sample.
    pub sample_regs_intr: u64,
    /// AUX bytes before a wake-up.
    pub aux_watermark: u32,
    /// Maximum number of addresses in a callchain; 0 for the system's limit.
    pub sample_max_stack: u16,
    /// Unused bits (`__reserved_2`), kept for a round trip.
    pub reserved_2: u16,
    /// Bytes of AUX area in a sample.
    pub aux_sample_size: u32,
    /// `aux_action`, formerly `__reserved_3`.
    pub aux_action: u32,
    /// Data delivered with SIGTRAP.
    pub sig_data: u64,
    /// Extension of `config2`.
    pub config3: u64,
    /// Extension of `config3`.
    pub config4: u64,
    /// Raw bytes beyond the newest known field.
    pub rest: Vec<u8>,
}

/// Sizes of the published versions, oldest first (`PERF_ATTR_SIZE_VER*`).
pub const ATTR_SIZES: [usize; 10] = [64, 72, 80, 96, 104, 112, 120, 128, 136, 144];

/// Size of the newest known version.
const KNOWN: usize = 144;

impl Attr {
    /// Decodes an attr.
    ///
    /// `bytes` may be longer than the attr. Its own size field (0 means 64) limits the decoding.
    ///
    /// # Errors
    /// Returns [`AttrError::TooShort`] for fewer than 64 bytes.
    pub fn parse(bytes: &[u8], endian: Endian) -> Result<Attr, AttrError> {
        let raw = RawBytes::from(bytes);
        let said = match raw.u32(4, endian) {
            Some(0) => 64,
            Some(said) => said as usize,
            None => return Err(AttrError::TooShort { got: bytes.len() }),
        };
        let size = said.min(bytes.len());
        if size < 64 {
            return Err(AttrError::TooShort { got: size });
        }
        let u64_at = |at: usize| match at + 8 <= size {
            true => raw.u64(at, endian).unwrap_or(0),
            false => 0,
        };
        let u32_at = |at: usize| match at + 4 <= size {
            true => raw.u32(at, endian).unwrap_or(0),
            false => 0,
        };
        let u16_at = |at: usize| match at + 2 <= size {
            true => raw.u16(at, endian).unwrap_or(0),
            false => 0,
        };
        Ok(Attr {
            kind: EventKind(u32_at(0)),
            config: u64_at(8),
            period_or_freq: u64_at(16),
            sample_type: SampleType::from_bits_retain(u64_at(24)),
            read_format: ReadFormat::from_bits_retain(u64_at(32)),
            flags: AttrFlags::from_bits_retain(bit_field(u64_at(40), endian)),
            wakeup: u32_at(48),
            bp_type: u32_at(52),
            config1: u64_at(56),
            config2: u64_at(64),
            branch_sample_type: BranchSampleType::from_bits_retain(u64_at(72)),
            sample_regs_user: u64_at(80),
            sample_stack_user: u32_at(88),
            clockid: u32_at(92) as i32,
            sample_regs_intr: u64_at(96),
            aux_watermark: u32_at(104),
            sample_max_stack: u16_at(108),
            reserved_2: u16_at(110),
            aux_sample_size: u32_at(112),
            aux_action: u32_at(116),
            sig_data: u64_at(120),
            config3: u64_at(128),
            config4: u64_at(136),
            rest: bytes.get(KNOWN..size).unwrap_or_default().to_vec(),
        })
    }

    /// Returns the smallest published size that holds every set field.
    pub fn needed_size(&self) -> usize {
        if self.rest.iter().any(|b| *b != 0) {
            return KNOWN + self.rest.len();
        }
        let full = self.encode_full(Endian::Little);
        let last = full.iter().rposition(|b| *b != 0).map_or(0, |at| at + 1);
        (ATTR_SIZES.into_iter())
            .find(|size| *size >= last)
            .unwrap_or(KNOWN)
    }

    /// Encodes the attr in `size` bytes, with `size` in its size field.
    ///
    /// # Errors
    /// Returns [`AttrError::DoesNotFit`] if a set field is beyond `size`.
    pub fn encode(&self, endian: Endian, size: usize) -> Result<Vec<u8>, AttrError> {
        let needed = self.needed_size();
        if needed > size {
            return Err(AttrError::DoesNotFit { needed, size });
        }
        let mut out = self.encode_full(endian);
        out.resize(size, 0);
        let said = u32::try_from(size).unwrap_or(u32::MAX);
        out[4..8].copy_from_slice(&endian.put_u32(said));
        Ok(out)
    }

    fn encode_full(&self, endian: Endian) -> Vec<u8> {
        let mut out = Vec::with_capacity(KNOWN + self.rest.len());
        let flags = put_bit_field(self.flags.bits(), endian);
        out.extend(endian.put_u32(self.kind.0));
        out.extend([0; 4]);
        for v in [
            self.config,
            self.period_or_freq,
            self.sample_type.bits(),
            self.read_format.bits(),
            flags,
        ] {
            out.extend(endian.put_u64(v));
        }
        out.extend(endian.put_u32(self.wakeup));
        out.extend(endian.put_u32(self.bp_type));
        for v in [
            self.config1,
            self.config2,
            self.branch_sample_type.bits(),
            self.sample_regs_user,
        ] {
            out.extend(endian.put_u64(v));
        }
        out.extend(endian.put_u32(self.sample_stack_user));
        out.extend(endian.put_u32(self.clockid as u32));
        out.extend(endian.put_u64(self.sample_regs_intr));
        out.extend(endian.put_u32(self.aux_watermark));
        out.extend(endian.put_u16(self.sample_max_stack));
        out.extend(endian.put_u16(self.reserved_2));
        out.extend(endian.put_u32(self.aux_sample_size));
        out.extend(endian.put_u32(self.aux_action));
        for v in [self.sig_data, self.config3, self.config4] {
            out.extend(endian.put_u64(v));
        }
        out.extend_from_slice(&self.rest);
        out
    }

    /// Returns `precise_ip`, the limit on skid: from 0 (any) to 3 (none).
    pub fn precise_ip(&self) -> u8 {
        u8::from(self.flags.contains(AttrFlags::PRECISE_IP_1))
            + 2 * u8::from(self.flags.contains(AttrFlags::PRECISE_IP_2))
    }
}

/// Converts the bit field. Big-endian machines lay out C bit fields from the most significant bit.
fn bit_field(word: u64, endian: Endian) -> u64 {
    match endian {
        Endian::Little => word,
        Endian::Big => swap_precise_ip(word.reverse_bits()),
    }
}

fn put_bit_field(word: u64, endian: Endian) -> u64 {
    match endian {
        Endian::Little => word,
        Endian::Big => swap_precise_ip(word).reverse_bits(),
    }
}

/// Swaps the two bits of `precise_ip` (15 and 16) back: within a field, the more significant bit
/// comes first.
fn swap_precise_ip(word: u64) -> u64 {
    let (low, high) = (word >> 15 & 1, word >> 16 & 1);
    word & !(3 << 15) | low << 16 | high << 15
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> Attr {
        Attr {
            kind: EventKind::SOFTWARE,
            config: 1,
            period_or_freq: 999,
            sample_type: SampleType::IP | SampleType::IDENTIFIER,
            read_format: ReadFormat::ID,
            flags: AttrFlags::DISABLED | AttrFlags::PRECISE_IP_1 | AttrFlags::BUILD_ID,
            wakeup: 2,
            bp_type: 3,
            config1: 4,
            config2: 5,
            branch_sample_type: BranchSampleType::ANY,
            sample_regs_user: 6,
            sample_stack_user: 7,
            clockid: -1,
            sample_regs_intr: 8,
            aux_watermark: 9,
            sample_max_stack: 10,
            reserved_2: 11,
            aux_sample_size: 12,
            aux_action: 13,
            sig_data: 14,
            config3: 15,
            config4: 16,
            rest: vec![17; 8],
        }
    }

    #[test]
    fn round_trip_in_both_orders() {
        for endian in [Endian::Little, Endian::Big] {
            let bytes = full().encode(endian, 152).unwrap();
            assert_eq!(bytes.len(), 152);
            assert_eq!(Attr::parse(&bytes, endian).unwrap(), full());
        }
    }

    #[test]
    fn big_endian_bit_field_as_gcc_lays_it_out() {
        // On s390x, `disabled` is the top bit of the first byte, and precise_ip has its high bit
        // first.
        let attr = Attr {
            flags: AttrFlags::DISABLED | AttrFlags::PRECISE_IP_1,
            ..Attr::default()
        };
        let bytes = attr.encode(Endian::Big, 64).unwrap();
        assert_eq!(bytes[40], 0x80);
        // precise_ip == 1: declaration bit 15 is the high bit (0), 16 the low bit (1).
        assert_eq!(bytes[41] & 1, 0);
        assert_eq!(bytes[42] & 0x80, 0x80);
        assert_eq!(Attr::parse(&bytes, Endian::Big).unwrap().flags, attr.flags);
    }

    #[test]
    fn sizes() {
        let mut attr = Attr::default();
        assert_eq!(attr.needed_size(), 64);
        attr.sig_data = 1;
        assert_eq!(attr.needed_size(), 128);
        assert!(matches!(
            attr.encode(Endian::Little, 120),
            Err(AttrError::DoesNotFit {
                needed: 128,
                size: 120
            })
        ));
        for size in ATTR_SIZES {
            let bytes = Attr::default().encode(Endian::Little, size).unwrap();
            assert_eq!(
                Attr::parse(&bytes, Endian::Little).unwrap(),
                Attr::default()
            );
        }
        assert_eq!(
            Attr::parse(&[0; 63], Endian::Little),
            Err(AttrError::TooShort { got: 63 })
        );
        // perf of the first kernels wrote a size of zero.
        assert!(Attr::parse(&[0; 64], Endian::Little).is_ok());
    }
}
