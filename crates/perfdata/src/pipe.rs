//! Pipe mode: everything comes as records, the header too.

use rprof_records::{Attr, Endian, RawBytes, RawRecord, RecordType};

use crate::blocks::Blocks;
use crate::events::Events;
use crate::features::{BuildIdEntry, Feature, FeatureSections, build_id_entry};

/// Collects what a stream says of itself.
pub(crate) struct PipeHeader {
    pub(crate) events: Events,
    pub(crate) features: FeatureSections,
    build_ids: Vec<BuildIdEntry>,
}

impl PipeHeader {
    pub(crate) fn scan(blocks: Blocks<'_>, endian: Endian) -> PipeHeader {
        let mut header = PipeHeader {
            events: Events::default(),
            features: FeatureSections::new(endian),
            build_ids: Vec::new(),
        };
        for block in blocks {
            for walked in block.walk() {
                header.take(&walked.record, walked.payload);
            }
        }
        if !header.build_ids.is_empty() {
            header.features.insert_build_ids(&header.build_ids);
        }
        header.name_events();
        header
    }

    fn take(&mut self, record: &RawRecord<'_>, payload: &[u8]) {
        let (body, endian) = (record.body, record.endian);
        match record.kind {
            RecordType::HEADER_ATTR => {
                let bytes = body.to_cow();
                let size = match body.u32(4, endian) {
                    Some(0) | None => 64,
                    Some(size) => size as usize,
                };
                if let Ok(attr) = Attr::parse(&bytes, endian) {
                    let ids = bytes.get(size..).unwrap_or_default();
                    let ids = (ids.chunks_exact(8))
                        .filter_map(|b| Some(endian.u64(b.try_into().ok()?)))
                        .collect();
                    self.events.push(attr, String::new(), ids, endian);
                }
            }
            // The name of an event (kind 2): id, kind, text.
            RecordType::EVENT_UPDATE if body.u64(0, endian) == Some(2) => {
                if let (Some(id), Some(name)) = (body.u64(8, endian), body.c_str(16)) {
                    self.events
                        .set_name(id, String::from_utf8_lossy(&name).into_owned());
                }
            }
            RecordType::HEADER_FEATURE => {
                let number = body.u64(0, endian).filter(|n| *n < u64::from(Feature::MAX));
                if let (Some(number), Some(bytes)) = (number, body.get_from(8)) {
                    self.features
                        .insert(Feature(number as u32), bytes.to_cow().into_owned());
                }
            }
            RecordType::HEADER_BUILD_ID => self.build_ids.extend(build_id_entry(record)),
            RecordType::HEADER_TRACING_DATA => {
                let len = body.u32(0, endian).unwrap_or(0) as usize;
                let data = payload.get(..len).unwrap_or(payload);
                self.features.insert(Feature::TRACING_DATA, data.to_vec());
            }
            _ => {}
        }
    }

    fn name_events(&mut self) {
        for event in self.features.event_descriptions().unwrap_or_default() {
            if let Some(id) = event.ids.first() {
                self.events.set_name(*id, event.name);
            }
        }
    }
}

/// Whether the header is that of a stream: its size says so.
pub(crate) fn is_pipe(bytes: &[u8], endian: Endian) -> bool {
    RawBytes::from(bytes).u64(8, endian) == Some(crate::header::PIPE_HEADER_SIZE as u64)
}
