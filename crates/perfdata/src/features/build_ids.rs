//! Build-ids of mapped images.

use rprof_records::{Endian, Misc, RawRecord, RecordType, put_record};

use super::{Feature, FeatureSections};

/// Build-id of a mapped image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildIdEntry {
    /// CPU mode of the image: [`Misc::KERNEL`] or [`Misc::USER`].
    pub misc: Misc,
    /// Process; -1 for "all".
    pub pid: i32,
    /// Build-id of 1 to 20 bytes.
    pub build_id: Vec<u8>,
    /// Path, or a name such as `[kernel.kallsyms]`.
    pub path: Vec<u8>,
}

/// Bit in `misc` if the record contains the length. Older ones imply 20 bytes.
const BUILD_ID_SIZE: u16 = 1 << 15;

/// Offset of the build-id after the pid, which the first perf omitted.
const WITH_PID: usize = 4;

impl FeatureSections {
    /// Returns the build-ids. Stops at a damaged entry.
    pub fn build_ids(&self) -> Option<Vec<BuildIdEntry>> {
        let bytes = self.get(Feature::BUILD_ID)?;
        let read = |id_at| {
            crate::read::walk::Walk::new(bytes, 0, self.endian())
                .filter_map(|walked| entry(&walked.record, id_at))
                .collect::<Vec<_>>()
        };
        let entries = read(WITH_PID);
        // This name results from skipping four bytes too many in "[kernel.kallsyms]", as in perf.
        match entries.iter().any(|e| e.path == b"nel.kallsyms]") {
            true => Some(read(0)),
            false => Some(entries),
        }
    }

    /// Sets the build-ids. Skips an entry whose path is too long for a record.
    pub fn insert_build_ids(&mut self, entries: &[BuildIdEntry]) {
        self.encode(Feature::BUILD_ID, |out| {
            let endian = out.endian();
            for entry in entries {
                // perf never used this type.
                put_build_id(&mut out.bytes, RecordType(0), entry, endian);
            }
        });
    }
}

pub(crate) fn put_build_id(
    out: &mut Vec<u8>,
    kind: RecordType,
    entry: &BuildIdEntry,
    endian: Endian,
) {
    let mut id = [0; 24];
    let len = entry.build_id.len().min(20);
    id[..len].copy_from_slice(&entry.build_id[..len]);
    id[20] = len as u8;
    let misc = Misc(entry.misc.0 | BUILD_ID_SIZE);
    put_record(out, kind, misc, endian, |out| {
        out.extend(endian.put_u32(entry.pid as u32));
        out.extend(id);
        out.extend_from_slice(&entry.path);
        // As perf's reader expects.
        let padded = (entry.path.len() + 1).next_multiple_of(64);
        out.extend(std::iter::repeat_n(0, padded - entry.path.len()));
    })
    .ok();
}

/// Decodes an entry of the section, or a pipe's HEADER_BUILD_ID record.
pub(crate) fn build_id_entry(record: &RawRecord<'_>) -> Option<BuildIdEntry> {
    entry(record, WITH_PID)
}

fn entry(record: &RawRecord<'_>, id_at: usize) -> Option<BuildIdEntry> {
    let body = record.body;
    let id = body.get(id_at..id_at + 24)?.to_cow();
    let len = match record.misc.0 & BUILD_ID_SIZE != 0 {
        true => usize::from(id[20]).min(20),
        false => 20,
    };
    Some(BuildIdEntry {
        misc: Misc(record.misc.0 & 7),
        pid: match id_at {
            WITH_PID => body.u32(0, record.endian)? as i32,
            _ => -1,
        },
        build_id: id[..len].to_vec(),
        path: body.c_str(id_at + 24)?.into_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::in_both_orders;
    use super::*;

    #[test]
    fn reads_back_what_was_set() {
        in_both_orders(|f| {
            let ids = [BuildIdEntry {
                misc: Misc::USER,
                pid: -1,
                build_id: vec![7; 16],
                path: b"/bin/true".to_vec(),
            }];
            f.insert_build_ids(&ids);
            assert_eq!(f.build_ids().unwrap(), ids);
        });
    }

    #[test]
    fn entries_without_a_pid_are_told_by_the_kernels_name() {
        in_both_orders(|f| {
            let mut section = Vec::new();
            let endian = f.endian();
            put_record(&mut section, RecordType(0), Misc::KERNEL, endian, |out| {
                out.extend([9; 20]);
                out.extend([0; 4]);
                out.extend(b"[kernel.kallsyms]");
                out.extend([0; 47]);
            })
            .unwrap();
            f.insert(Feature::BUILD_ID, section);
            let ids = f.build_ids().unwrap();
            assert_eq!(ids[0].path, b"[kernel.kallsyms]");
            assert_eq!(ids[0].build_id, [9; 20]);
        });
    }
}
