//! Descriptions of many tracepoints.

use rprof_records::Endian;
use rustc_hash::FxHashMap;

use crate::format::EventFormat;

/// Descriptions of tracepoints by event id, compiled on demand. The texts come from a recording
/// (`rprof_perfdata::features::tracing_data`) or from tracefs.
#[derive(Clone, Debug)]
pub struct Tracepoints<'a> {
    endian: Endian,
    long_size: u8,
    /// System and text by id.
    formats: FxHashMap<u64, (&'a [u8], &'a [u8])>,
}

impl<'a> Tracepoints<'a> {
    /// Creates an empty catalog. `endian` and `long_size`, the bytes of a `long`, belong to the
    /// recording machine.
    pub fn new(endian: Endian, long_size: u8) -> Tracepoints<'a> {
        Tracepoints {
            endian,
            long_size,
            formats: FxHashMap::default(),
        }
    }

    /// Adds the text of a `format` file. Replaces an earlier one of the same id; skips a text
    /// without an id.
    pub fn add(&mut self, system: &'a [u8], text: &'a [u8]) {
        // The id is near the start, and texts can be long.
        let start = String::from_utf8_lossy(&text[..text.len().min(1024)]);
        if let Some(id) = EventFormat::id_of(&start) {
            self.formats.insert(id, (system, text));
        }
    }

    /// Compiles the tracepoint with this id: `config` of its attr.
    pub fn format(&self, id: u64) -> Option<EventFormat> {
        let (system, text) = self.formats.get(&id)?;
        let text = String::from_utf8_lossy(text);
        let system = String::from_utf8_lossy(system);
        EventFormat::parse(&system, &text, self.endian, self.long_size)
    }

    /// Returns the ids of all described tracepoints, in arbitrary order.
    pub fn ids(&self) -> impl Iterator<Item = u64> {
        self.formats.keys().copied()
    }
}
