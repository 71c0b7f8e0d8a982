//! Pipe mode: all data comes as records, including the header.

use rprof_records::{Attr, Endian, RawBytes, RecordType};

use crate::features::{BuildIdEntry, Feature, FeatureSections, build_id_entry};
use crate::header::{AttrsWithIds, EMBEDDED_MARK, PRIVATE_MARK, event_type, words};
use crate::read::events::Events;
use crate::read::walk::{RecordAt, Walk, tracing_data};
use crate::user_records::EventUpdate;

/// Header data of a stream.
pub(crate) struct PipeHeader {
    pub(crate) events: Events,
    pub(crate) features: FeatureSections,
}

#[derive(Default)]
struct Scan {
    attrs: AttrsWithIds,
    event_types: Vec<(u64, String)>,
    updates: Vec<(u64, EventUpdate)>,
    build_ids: Vec<BuildIdEntry>,
    features: FeatureSections,
    embedded: Vec<u8>,
}

impl PipeHeader {
    /// Collects header data from uncompressed records. Recorders never compress it.
    pub(crate) fn scan(bytes: &[u8], base: u64, endian: Endian) -> PipeHeader {
        let mut scan = Scan {
            features: FeatureSections::new(endian),
            ..Scan::default()
        };
        for walked in Walk::new(bytes, base, endian) {
            scan.handle_record(&walked);
        }
        if !scan.build_ids.is_empty() {
            scan.features.insert_build_ids(&scan.build_ids);
        }
        if !scan.embedded.is_empty() {
            scan.features.insert(Feature::RPROF_FILES, scan.embedded);
        }
        let mut events = name_events(scan.attrs, &scan.event_types, &scan.features);
        for (id, update) in scan.updates {
            events.update(id, update);
        }
        PipeHeader {
            events,
            features: scan.features,
        }
    }
}

impl Scan {
    fn handle_record(&mut self, walked: &RecordAt<'_>) {
        let record = &walked.record;
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
                    self.attrs.push((attr, words(ids, endian)));
                }
            }
            RecordType::HEADER_EVENT_TYPE if body.u64(0, endian) == Some(PRIVATE_MARK) => {
                let bytes = body.get_from(8).map(|bytes| bytes.to_cow().into_owned());
                self.features
                    .insert(Feature::RPROF, bytes.unwrap_or_default());
            }
            RecordType::HEADER_EVENT_TYPE if body.u64(0, endian) == Some(EMBEDDED_MARK) => {
                if let Some(bytes) = body.get_from(8) {
                    self.embedded.extend_from_slice(&bytes.to_cow());
                }
            }
            RecordType::HEADER_EVENT_TYPE => self.event_types.extend(event_type(&body, endian)),
            RecordType::EVENT_UPDATE => self.updates.extend(EventUpdate::decode(record)),
            RecordType::HEADER_FEATURE => {
                let number = body.u64(0, endian).filter(|n| *n < u64::from(Feature::MAX));
                if let (Some(number), Some(bytes)) = (number, body.get_from(8)) {
                    let feature = Feature(number as u32);
                    // perf ends the features with an empty one, whose number means something else
                    // in later versions.
                    let may_be_empty = [Feature::BRANCH_STACK, Feature::STAT].contains(&feature);
                    if !bytes.is_empty() || may_be_empty {
                        self.features.insert(feature, bytes.to_cow().into_owned());
                    }
                }
            }
            RecordType::HEADER_BUILD_ID => self.build_ids.extend(build_id_entry(record)),
            RecordType::HEADER_TRACING_DATA => {
                if let Some(formats) = tracing_data(walked) {
                    self.features
                        .insert(Feature::TRACING_DATA, formats.into_owned());
                }
            }
            _ => {}
        }
    }
}

/// Names events from EVENT_DESC or else from the event types.
pub(crate) fn name_events(
    attrs: AttrsWithIds,
    event_types: &[(u64, String)],
    features: &FeatureSections,
) -> Events {
    let described = features.event_descriptions().unwrap_or_default();
    let mut by_id: Vec<(u64, usize)> = (described.iter().enumerate())
        .filter_map(|(i, event)| Some((*event.ids.first()?, i)))
        .collect();
    by_id.sort_unstable();
    // `config` without the type: usable by position, or if unique.
    let in_place = event_types.len() == attrs.len();
    let list = (attrs.into_iter().enumerate())
        .map(|(i, (attr, ids))| {
            // By id if there are ids, else by position.
            let found = (ids.first())
                .and_then(|id| by_id.binary_search_by_key(id, |(id, _)| *id).ok())
                .map(|at| by_id[at].1)
                .or_else(|| (ids.is_empty() || described.get(i)?.ids.is_empty()).then_some(i))
                .and_then(|i| described.get(i));
            let old_name = || match in_place {
                true => Some(&event_types[i]).filter(|(config, _)| *config == attr.config),
                false => None,
            };
            let name = match (found, old_name()) {
                (Some(described), _) => described.name.clone(),
                (None, Some((_, name))) => name.clone(),
                (None, None) => String::new(),
            };
            let ids = match found {
                Some(described) if ids.is_empty() => described.ids.clone(),
                _ => ids,
            };
            (attr, name, ids)
        })
        .collect();
    Events::new(list, features.endian())
}

pub(crate) fn is_pipe(bytes: &[u8], endian: Endian) -> bool {
    RawBytes::from(bytes).u64(8, endian) == Some(crate::header::PIPE_HEADER_SIZE as u64)
}
