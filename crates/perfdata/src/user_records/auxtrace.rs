//! AUX traces: data of a trace unit, stored beside the records.

use rprof_records::{EncodeError, Endian, Misc, RecordType, put_record};

use super::fields::Fields;

/// Type of an AUX trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuxtraceInfo {
    /// Type: 1 Intel PT, 2 Intel BTS, 3 Arm CoreSight ETM, 4 Arm SPE, 5 s390, 6 HiSilicon PTT, 7
    /// PowerPC VPA dispatch log.
    pub kind: u32,
    /// Settings, which depend on the type.
    pub settings: Vec<u64>,
}

/// AUX data of one CPU or thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Auxtrace {
    /// Bytes that follow the record.
    pub size: u64,
    /// Offset of the bytes in the CPU's or thread's trace.
    pub offset: u64,
    /// Number that separates data of different reads.
    pub reference: u64,
    /// Number of the AUX ring.
    pub index: u32,
    /// Thread; -1 for all.
    pub tid: i32,
    /// CPU; -1 for all.
    pub cpu: i32,
}

/// Error of an AUX trace decoder. perf inject writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuxtraceError {
    /// Type of error; 1 is "instruction trace".
    pub kind: u32,
    /// Error code, which depends on the type.
    pub code: u32,
    /// Number of the traced CPU.
    pub cpu: i32,
    /// Process.
    pub pid: i32,
    /// Thread.
    pub tid: i32,
    /// Instruction address.
    pub ip: u64,
    /// Time in nanoseconds, if the format has it.
    pub time: Option<u64>,
    /// Error message.
    pub message: String,
}

impl AuxtraceInfo {
    /// Appends the record. It must precede all traces.
    ///
    /// # Errors
    /// Returns [`EncodeError::TooLong`] if the settings exceed a record.
    pub fn encode(&self, endian: Endian, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        put_record(out, RecordType::AUXTRACE_INFO, Misc(0), endian, |out| {
            out.extend(endian.put_u32(self.kind));
            out.extend(endian.put_u32(0));
            out.extend(self.settings.iter().flat_map(|word| endian.put_u64(*word)));
        })
    }
}

impl Auxtrace {
    /// Appends the record and its trace, padded with zeroes to a multiple of eight bytes like
    /// perf's. The padded length replaces [`size`](Self::size). A compressing writer must receive
    /// the trace uncompressed.
    ///
    /// # Errors
    /// Never in practice: the record has a fixed length.
    pub fn encode(
        &self,
        trace: &[u8],
        endian: Endian,
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        let size = trace.len().next_multiple_of(8);
        put_record(out, RecordType::AUXTRACE, Misc(0), endian, |out| {
            for word in [size as u64, self.offset, self.reference] {
                out.extend(endian.put_u64(word));
            }
            let cpu_and_thread = [self.tid as u32, self.cpu as u32];
            out.extend(endian.put_u32(self.index));
            out.extend(cpu_and_thread.into_iter().flat_map(|id| endian.put_u32(id)));
            out.extend(endian.put_u32(0));
        })?;
        out.extend_from_slice(trace);
        out.resize(out.len() + size - trace.len(), 0);
        Ok(())
    }
}

/// Bytes of an error's message.
const MESSAGE: usize = 64;

pub(super) fn info(fields: &Fields<'_>) -> Option<AuxtraceInfo> {
    let count = fields.body.len().checked_sub(8)? / 8;
    Some(AuxtraceInfo {
        kind: fields.u32(0)?,
        settings: fields.items(8, count as u64, 8, |at| fields.u64(at))?,
    })
}

pub(super) fn data(fields: &Fields<'_>) -> Option<Auxtrace> {
    Some(Auxtrace {
        size: fields.u64(0)?,
        offset: fields.u64(8)?,
        reference: fields.u64(16)?,
        index: fields.u32(24)?,
        tid: fields.i32(28)?,
        cpu: fields.i32(32)?,
    })
}

pub(super) fn error(fields: &Fields<'_>) -> Option<AuxtraceError> {
    // Format 0 has no time.
    let format = fields.u32(20)?;
    let (time, message_at) = match format {
        0 => (None, 32),
        _ => (Some(fields.u64(32)?), 40),
    };
    Some(AuxtraceError {
        kind: fields.u32(0)?,
        code: fields.u32(4)?,
        cpu: fields.i32(8)?,
        pid: fields.i32(12)?,
        tid: fields.i32(16)?,
        ip: fields.u64(24)?,
        time,
        // The record may end with the message.
        message: fields.text(
            message_at,
            MESSAGE.min(fields.body.len().checked_sub(message_at)?),
        )?,
    })
}

#[cfg(test)]
mod tests {
    use super::super::{UserRecord, raw};
    use super::*;
    use rprof_records::{RawBytes, RawRecord};

    #[test]
    fn errors_of_both_formats_are_read() {
        for (format, time) in [(0u32, None), (1, Some(99))] {
            let mut body = Vec::new();
            for word in [1, 2, 3, 4, 5, format] {
                body.extend(word.to_le_bytes());
            }
            body.extend(77u64.to_le_bytes());
            if let Some(time) = time {
                body.extend(u64::to_le_bytes(time));
            }
            body.extend(b"lost\0\0\0\0");
            let read = UserRecord::decode(&raw(RecordType::AUXTRACE_ERROR, &body)).unwrap();
            let UserRecord::AuxtraceError(error) = read else {
                panic!("{read:?}");
            };
            assert_eq!((error.ip, error.time), (77, time));
            assert_eq!(error.message, "lost");
        }
    }

    #[test]
    fn traces_are_written_as_they_are_read() {
        let info = AuxtraceInfo {
            kind: 4,
            settings: vec![1, u64::MAX],
        };
        let trace = Auxtrace {
            size: 16,
            offset: 0x3000,
            reference: 7,
            index: 2,
            tid: -1,
            cpu: 3,
        };
        for endian in [Endian::Little, Endian::Big] {
            let mut bytes = Vec::new();
            info.encode(endian, &mut bytes).unwrap();
            let at = bytes.len();
            trace.encode(b"twelve bytes", endian, &mut bytes).unwrap();
            let read = |at: usize| RawRecord::parse(RawBytes::from(&bytes[at..]), endian).unwrap();
            let decoded = UserRecord::decode(&read(0)).unwrap();
            assert_eq!(decoded, UserRecord::AuxtraceInfo(info.clone()));
            let record = read(at);
            let decoded = UserRecord::decode(&record).unwrap();
            assert_eq!(decoded, UserRecord::Auxtrace(trace));
            assert_eq!(bytes[at + record.size()..], *b"twelve bytes\0\0\0\0");
        }
    }

    #[test]
    fn settings_are_as_many_as_there_are() {
        let body: Vec<u8> = [1u64, 10, 11]
            .into_iter()
            .flat_map(u64::to_le_bytes)
            .collect();
        let read = UserRecord::decode(&raw(RecordType::AUXTRACE_INFO, &body)).unwrap();
        let info = AuxtraceInfo {
            kind: 1,
            settings: vec![10, 11],
        };
        assert_eq!(read, UserRecord::AuxtraceInfo(info));
    }
}
