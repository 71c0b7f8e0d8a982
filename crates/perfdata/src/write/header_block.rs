//! Header of a file, with its attrs and ids.

use std::io;

use rprof_records::{Attr, Endian};

use super::compress::Compressor;
use super::options::EventDescription;
use crate::features::{Feature, FeatureSections};
use crate::header::{HEADER_SIZE, magic};

/// Length of the attrs that perf 6.1 supports. It refuses longer ones, even with a zero tail, so
/// these are written only for newer fields.
const ATTR_SIZE: usize = 128;

#[derive(Debug)]
pub(crate) struct HeaderBlock {
    pub(crate) events: Vec<EventDescription>,
    pub(crate) endian: Endian,
    pub(crate) attr_size: usize,
}

impl HeaderBlock {
    pub(crate) fn new(events: Vec<EventDescription>, endian: Endian) -> HeaderBlock {
        HeaderBlock {
            attr_size: attr_size(&events),
            events,
            endian,
        }
    }

    fn stride(&self) -> usize {
        self.attr_size + 16
    }

    /// Returns the offset of the records if nothing else precedes them.
    pub(crate) fn len(&self) -> usize {
        let ids: usize = self.events.iter().map(|e| e.ids.len() * 8).sum();
        HEADER_SIZE + self.stride() * self.events.len() + ids
    }

    /// Encodes attrs, each with offset and length of its ids, then the ids.
    pub(crate) fn encode(&self) -> io::Result<Vec<u8>> {
        let endian = self.endian;
        let mut body = Vec::new();
        let mut ids_at = HEADER_SIZE + self.stride() * self.events.len();
        for event in &self.events {
            body.extend(encode_attr(&event.attr, self.attr_size, endian)?);
            body.extend(endian.put_u64(ids_at as u64));
            body.extend(endian.put_u64(event.ids.len() as u64 * 8));
            ids_at += event.ids.len() * 8;
        }
        for event in &self.events {
            body.extend(event.ids.iter().flat_map(|id| endian.put_u64(*id)));
        }
        Ok(body)
    }

    pub(crate) fn header(
        &self,
        data_start: u64,
        data_len: u64,
        features: impl Iterator<Item = Feature>,
    ) -> Vec<u8> {
        let mut bitmap = [0u64; Feature::MAX as usize / 64];
        for feature in features {
            if let Some(word) = bitmap.get_mut(feature.0 as usize / 64) {
                *word |= 1 << (feature.0 % 64);
            }
        }
        let stride = self.stride() as u64;
        let words = [
            HEADER_SIZE as u64,
            stride,
            HEADER_SIZE as u64,
            stride * self.events.len() as u64,
            data_start,
            data_len,
            0,
            0,
        ];
        let mut header = magic(self.endian);
        header.extend((words.into_iter().chain(bitmap)).flat_map(|word| self.endian.put_u64(word)));
        header
    }

    /// Adds EVENT_DESC if missing, and COMPRESSED for compressed records. Drops sections whose
    /// number has no bit in the header.
    pub(crate) fn complete(&self, features: &mut FeatureSections, compressor: Option<&Compressor>) {
        features.retain(|feature| feature.0 < Feature::MAX);
        if !features.has(Feature::EVENT_DESC) {
            features.insert_event_descriptions(&self.events, self.attr_size);
        }
        if let Some(compressor) = compressor {
            features.insert_compression(&compressor.description());
        }
    }
}

pub(crate) fn attr_size(events: &[EventDescription]) -> usize {
    (events.iter())
        .map(|e| e.attr.needed_size())
        .fold(ATTR_SIZE, usize::max)
}

/// Encodes an attr in `size` bytes.
///
/// # Errors
/// Returns [`io::ErrorKind::InvalidInput`] if it has fields beyond them.
pub(crate) fn encode_attr(attr: &Attr, size: usize, endian: Endian) -> io::Result<Vec<u8>> {
    attr.encode(endian, size)
        .map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, e))
}
