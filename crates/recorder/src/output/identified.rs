//! [`IdentifiedFiles`]: build-ids of mapped files, read by the recorder itself.
//!
//! The kernel can put build-ids into MMAP2 records (`attr.build_id`), but then it marks records of
//! other listeners too, which crashes perf 6.1. So the embedding thread reads them while the files
//! are mapped, and the writer never waits for it. Late results go to the table at the end of the
//! file.

use std::collections::{BTreeSet, HashMap};

use rprof_perfdata::EmbeddedFile;
use rprof_records::{BuildId, Header, Mapped, Misc, MmapIdentity, RecordType};

/// Maximum number of known build-ids, and of entries in a file's table.
const LIMIT: usize = 1 << 15;

/// Offset of the 24 identity bytes in an MMAP2 record, including the header (`perf_event_open(2)`).
const IDENTITY_AT: usize = Header::SIZE + 4 + 4 + 8 + 8 + 8;

#[derive(Debug, Default)]
pub(super) struct IdentifiedFiles {
    known: HashMap<MmapIdentity, BuildId>,
    /// Files mapped since the current output file began.
    mapped: BTreeSet<Key>,
    record: Vec<u8>,
}

type Key = (u32, u32, u64, u64);

fn key(identity: &MmapIdentity) -> Option<Key> {
    match *identity {
        MmapIdentity::Inode {
            major,
            minor,
            inode,
            generation,
        } if inode != 0 => Some((major, minor, inode, generation)),
        MmapIdentity::Inode { .. } | MmapIdentity::BuildId(_) => None,
    }
}

fn identity((major, minor, inode, generation): Key) -> MmapIdentity {
    MmapIdentity::Inode {
        major,
        minor,
        inode,
        generation,
    }
}

impl IdentifiedFiles {
    pub(super) fn add(&mut self, identity: MmapIdentity, build_id: BuildId) {
        if self.known.len() < LIMIT || self.known.contains_key(&identity) {
            self.known.insert(identity, build_id);
        }
    }

    pub(super) fn get(&self, identity: &MmapIdentity) -> Option<BuildId> {
        match identity {
            MmapIdentity::BuildId(id) => Some(*id),
            inode => self.known.get(inode).copied(),
        }
    }

    pub(super) fn handle(&mut self, mapped: &Mapped<'_>) {
        let key = mapped.identity.as_ref().and_then(key);
        if let Some(key) = key
            && self.mapped.len() < LIMIT
        {
            self.mapped.insert(key);
        }
    }

    /// Returns the mapping record with the known build-id instead of device and inode.
    pub(super) fn with_build_id(&mut self, record: &[u8], mapped: &Mapped<'_>) -> Option<&[u8]> {
        let inode = mapped.identity.filter(|identity| key(identity).is_some())?;
        let build_id = self.known.get(&inode)?.as_bytes();
        if record.get(..4)? != RecordType::MMAP2.0.to_ne_bytes() {
            return None;
        }
        let mut bytes = [0; 24];
        *bytes.first_mut()? = u8::try_from(build_id.len()).ok()?;
        // A longer one does not fit, and is only in the table.
        (bytes.get_mut(4..4 + build_id.len())?).copy_from_slice(build_id);
        self.record.clear();
        self.record.extend_from_slice(record);
        (self.record.get_mut(IDENTITY_AT..)?.get_mut(..bytes.len())?).copy_from_slice(&bytes);
        let misc = mapped.misc.0 | Misc::MMAP_BUILD_ID.0;
        (self.record.get_mut(4..6)?).copy_from_slice(&misc.to_ne_bytes());
        Some(&self.record)
    }

    pub(super) fn take_table(&mut self) -> Vec<EmbeddedFile<'static>> {
        let mapped = std::mem::take(&mut self.mapped);
        let entry = |key| {
            let identity = identity(key);
            EmbeddedFile::of_build_id(&identity, self.known.get(&identity)?)
        };
        mapped.into_iter().filter_map(entry).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_records::{
        Attr, Endian, Mmap2, ProcessEvent, RawBytes, RawRecord, Record, SampleId, SampleLayout,
    };

    fn inode(inode: u64) -> MmapIdentity {
        identity((254, 1, inode, 77))
    }

    fn record(identity: MmapIdentity) -> Vec<u8> {
        let attr = Attr {
            flags: rprof_records::AttrFlags::SAMPLE_ID_ALL,
            sample_type: rprof_records::SampleType::TIME,
            ..Attr::default()
        };
        let record = Record::Mmap2(Mmap2 {
            pid: 3,
            tid: 4,
            start: 0x5000,
            len: 0x6000,
            pgoff: 0x7000,
            identity,
            prot: 5,
            flags: 2,
            path: b"/lib/libc.so.6".into(),
        });
        let id = SampleId {
            time: Some(99),
            ..SampleId::default()
        };
        let layout = SampleLayout::new(&attr, Endian::NATIVE);
        let mut bytes = Vec::new();
        record.encode(Misc::USER, &layout, &id, &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn a_record_gets_the_build_id_that_is_known() {
        let id = BuildId::new(&[0xab; 20]).unwrap();
        let mut files = IdentifiedFiles::default();
        let bytes = record(inode(8));
        let raw = RawRecord::parse(RawBytes::from(&bytes[..]), Endian::NATIVE).unwrap();
        let event = ProcessEvent::decode(&raw, None).unwrap().unwrap();
        let ProcessEvent::Mapped(mapped) = event else {
            panic!("{event:?}");
        };
        files.handle(&mapped);
        assert_eq!(files.with_build_id(&bytes, &mapped), None);
        files.add(inode(8), id);
        files.add(inode(9), id);
        // Equal to a record encoded with the build-id.
        let expected = record(MmapIdentity::BuildId(id));
        assert_eq!(files.with_build_id(&bytes, &mapped), Some(&expected[..]));
        // The table contains only mapped files.
        let table = files.take_table();
        assert_eq!((table.len(), table[0].inode), (1, 8));
        assert_eq!(table[0].build_id, id.as_bytes());
        assert!(files.take_table().is_empty());
        assert_eq!(files.get(&inode(9)), Some(id));
    }
}
