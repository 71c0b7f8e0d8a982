//! Header of a perf.data file.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use rprof_records::{Attr, Endian, RawBytes};

use crate::contents::Contents;
use crate::error::Error;
use crate::features::{Feature, FeatureSections};

pub(crate) const MAGIC: [u8; 8] = *b"PERFILE2";
/// Magic of perf up to 2.6.3x, in this letter order on every machine.
const MAGIC_1: [u8; 8] = *b"PERFFILE";
/// Offset of the data length in a file header.
pub(crate) const DATA_LEN_AT: u64 = 48;
pub(crate) const HEADER_SIZE: usize = 104;
/// Size of the oldest header, without features.
const HEADER_SIZE_WITHOUT_FEATURES: u64 = 72;
/// Bytes of the magic and the header's size.
pub(crate) const PIPE_HEADER_SIZE: usize = 16;
/// Event number of the HEADER_EVENT_TYPE record with rprof's private section in a stream. Every
/// perf since 3.10 skips it. (perf 6.1 refuses unknown records and HEADER_FEATURE records with
/// unknown features.)
pub(crate) const PRIVATE_MARK: u64 = u64::from_be_bytes(*b"rprofpvt");

/// Event number of the HEADER_EVENT_TYPE records with the embedded files, in pieces.
pub(crate) const EMBEDDED_MARK: u64 = u64::from_be_bytes(*b"rprofkpt");
/// Maximum length of an attr with its ids' position. Attrs in streams are shorter, so every attr
/// read can be written.
const LONGEST_STRIDE: usize = (1 << 16) + 16;
/// A number, and a name of 64 bytes.
const EVENT_TYPE: usize = 72;

/// Returns the magic in a byte order. It is one number: big-endian machines write its letters in
/// reverse.
pub(crate) fn magic(endian: Endian) -> Vec<u8> {
    endian.put_u64(u64::from_le_bytes(MAGIC)).to_vec()
}

pub(crate) fn is_magic(bytes: &[u8]) -> bool {
    let magic = bytes.first_chunk::<8>();
    magic.is_some_and(|magic| [MAGIC, *b"2ELIFREP", MAGIC_1].contains(magic))
}

/// Detects the byte order; `None` if perf did not write the bytes.
pub(crate) fn endian_of(bytes: &[u8]) -> Option<Endian> {
    match bytes.first_chunk::<8>()? {
        b"PERFILE2" => Some(Endian::Little),
        b"2ELIFREP" => Some(Endian::Big),
        // Only the header's size shows the byte order.
        magic if *magic == MAGIC_1 => {
            let size = bytes.get(8..16)?.try_into().ok()?;
            match Endian::Big.u64(size) < Endian::Little.u64(size) {
                true => Some(Endian::Big),
                false => Some(Endian::Little),
            }
        }
        _ => None,
    }
}

fn section(raw: &RawBytes<'_>, at: usize, endian: Endian) -> Option<(u64, u64)> {
    let end = at.checked_add(8)?;
    Some((raw.u64(at, endian)?, raw.u64(end, endian)?))
}

pub(crate) type AttrsWithIds = Vec<(Attr, Vec<u64>)>;

pub(crate) struct FileHeader {
    pub(crate) attrs: AttrsWithIds,
    /// Event types, which perf wrote until 3.10.
    pub(crate) event_types: Vec<(u64, String)>,
    pub(crate) data: Range<usize>,
    pub(crate) features: FeatureSections,
    pub(crate) warnings: Vec<String>,
}

impl FileHeader {
    pub(crate) fn parse(
        contents: &Arc<Contents>,
        endian: Endian,
        path: &Path,
    ) -> Result<FileHeader, Error> {
        let bytes: &[u8] = contents;
        let raw = RawBytes::from(bytes);
        let bad = |offset: usize, what: String| Error::BadHeader {
            path: path.to_owned(),
            offset: offset as u64,
            what,
        };
        let short = || bad(bytes.len(), "the file ends within its header".into());
        let header_size = raw.u64(8, endian).ok_or_else(short)?;
        let (data_at, data_len) = section(&raw, 40, endian).ok_or_else(short)?;
        if raw.len() < HEADER_SIZE && header_size != HEADER_SIZE_WITHOUT_FEATURES {
            return Err(short());
        }
        let mut warnings = Vec::new();
        let attrs =
            read_attrs(bytes, endian, &mut warnings).map_err(|(offset, what)| bad(offset, what))?;
        let file_len = bytes.len();
        let data_start = usize::try_from(data_at).ok().filter(|at| *at <= file_len);
        let Some(data_start) = data_start else {
            return Err(bad(
                40,
                format!("the data begins at byte {data_at}, past the end of the file"),
            ));
        };
        // The recorder was killed, or there was nothing to record.
        let no_features = header_size == HEADER_SIZE_WITHOUT_FEATURES;
        let killed = data_len == 0 && (no_features || !sections_follow(&raw, endian, data_start));
        // A header updated during the recording has that time's data length, and no sections.
        let unfinished = killed || (!no_features && bitmap_is_empty(&raw, endian));
        let data_end = match killed {
            true => file_len,
            false => (data_start as u64)
                .saturating_add(data_len)
                .min(file_len as u64) as usize,
        };
        if unfinished && data_start < file_len {
            warnings.push(
                "the recorder did not finish this file: data about the machine is missing, and the \
                 last records may be missing"
                    .into(),
            );
        }
        if (data_end - data_start) as u64 != data_len && !killed {
            warnings.push(format!(
                "the file ends at byte {file_len}: the last {} bytes of its records are missing",
                data_len - (data_end - data_start) as u64
            ));
        }
        let features = match (unfinished, no_features) {
            (_, true) => FeatureSections::new(endian),
            (true, false) => FeatureSections::unwritten(endian),
            (false, false) => read_features(
                contents,
                endian,
                data_at.saturating_add(data_len),
                &mut warnings,
            ),
        };
        if features.is_unfinished() {
            warnings.push(
                "the recorder did not finish this file: final data such as build-ids is missing, \
                 and the last records may be missing"
                    .into(),
            );
        }
        Ok(FileHeader {
            attrs,
            event_types: read_event_types(bytes, endian),
            data: data_start..data_end,
            features,
            warnings,
        })
    }
}

/// Cuts the range at the end of the file.
fn clip(bytes: &[u8], at: u64, len: u64) -> Range<usize> {
    let start = usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
    let end = usize::try_from(at.saturating_add(len)).unwrap_or(usize::MAX);
    start..end.clamp(start, bytes.len())
}

/// An error contains the offset of the damage.
fn read_attrs(
    bytes: &[u8],
    endian: Endian,
    warnings: &mut Vec<String>,
) -> Result<AttrsWithIds, (usize, String)> {
    let raw = RawBytes::from(bytes);
    let attr_size = raw.u64(16, endian).unwrap_or(0);
    let (attrs_at, attrs_len) = section(&raw, 24, endian).unwrap_or_default();
    // With the position of its ids: 16 bytes.
    let stride = usize::try_from(attr_size)
        .ok()
        .filter(|s| (80..=LONGEST_STRIDE).contains(s))
        .ok_or_else(|| (16, format!("invalid attribute size of {attr_size} bytes")))?;
    let attrs_range = clip(bytes, attrs_at, attrs_len);
    if attrs_range.len() as u64 != attrs_len {
        let what = "the attributes reach past the end of the file";
        return Err((24, what.into()));
    }
    let mut attrs = Vec::new();
    // Attrs may share ids. Their total cannot exceed the file's words.
    let mut ids_left = bytes.len() / 8;
    for (i, one) in bytes[attrs_range.clone()].chunks_exact(stride).enumerate() {
        let at = attrs_range.start + i * stride;
        let (attr, ids) = one.split_at(stride - 16);
        let attr = Attr::parse(attr, endian).map_err(|e| (at, e.to_string()))?;
        let (ids_at, ids_len) = section(&RawBytes::from(ids), 0, endian).unwrap_or_default();
        let mut ids = &bytes[clip(bytes, ids_at, ids_len)];
        if ids.len() as u64 != ids_len {
            warnings.push(format!("the ids of event {i} reach past the file's end"));
        }
        if ids.len() / 8 > ids_left {
            warnings.push(format!(
                "event {i} shares its ids with other events; its ids were dropped"
            ));
            ids = &[];
        }
        ids_left -= ids.len() / 8;
        attrs.push((attr, words(ids, endian)));
    }
    warnings.truncate(4);
    Ok(attrs)
}

/// Returns true without feature bits, the mark of an unfinished file.
fn bitmap_is_empty(raw: &RawBytes<'_>, endian: Endian) -> bool {
    (0..4).all(|word| raw.u64(72 + 8 * word, endian) == Some(0))
}

pub(crate) fn words(bytes: &[u8], endian: Endian) -> Vec<u64> {
    (bytes.chunks_exact(8))
        .filter_map(|b| Some(endian.u64(b.try_into().ok()?)))
        .collect()
}

fn read_event_types(bytes: &[u8], endian: Endian) -> Vec<(u64, String)> {
    let raw = RawBytes::from(bytes);
    let (at, len) = section(&raw, 56, endian).unwrap_or_default();
    (bytes[clip(bytes, at, len)].chunks_exact(EVENT_TYPE))
        .filter_map(|one| event_type(&RawBytes::from(one), endian))
        .collect()
}

/// Decodes an event type entry, or a HEADER_EVENT_TYPE record's body.
pub(crate) fn event_type(entry: &RawBytes<'_>, endian: Endian) -> Option<(u64, String)> {
    let name = entry.get(8..entry.len().min(EVENT_TYPE))?.to_cow();
    let end = name.iter().position(|b| *b == 0).unwrap_or(name.len());
    let name = String::from_utf8_lossy(&name[..end]).into_owned();
    Some((entry.u64(0, endian)?, name))
}

/// Decodes the feature bits.
///
/// The bitmap is an array of the recorder's `unsigned long`. On a 32-bit big-endian machine, the
/// halves of each word are swapped. As in perf, HOSTNAME decides: every recorder writes it.
fn feature_bits(raw: &RawBytes<'_>, endian: Endian) -> impl Fn(u32) -> bool + use<> {
    let word = |at| raw.u64(72 + 8 * at, endian).unwrap_or(0);
    let mut bitmap = [0usize, 1, 2, 3].map(word);
    let has = |bitmap: &[u64; 4], bit: u32| bitmap[bit as usize / 64] >> (bit % 64) & 1 == 1;
    let swapped = bitmap.map(|word| word.rotate_left(32));
    let host = Feature::HOSTNAME.0;
    if endian == Endian::Big && !has(&bitmap, host) && has(&swapped, host) {
        bitmap = swapped;
    }
    move |bit| has(&bitmap, bit)
}

/// Returns true if consecutive feature sections start at `table`. Records do not look like that.
fn sections_follow(raw: &RawBytes<'_>, endian: Endian, table: usize) -> bool {
    let has = feature_bits(raw, endian);
    let count = (0..Feature::MAX).filter(|bit| has(*bit)).count();
    let mut end = (table + 16 * count) as u64;
    for i in 0..count {
        match section(raw, table + 16 * i, endian) {
            Some((start, len)) if start == end => end = end.saturating_add(len),
            _ => return false,
        }
    }
    count > 0 && end <= raw.len() as u64
}

/// Reads all offsets and lengths, then the contents.
fn read_features(
    contents: &Arc<Contents>,
    endian: Endian,
    table: u64,
    warnings: &mut Vec<String>,
) -> FeatureSections {
    let raw = RawBytes::from(&contents[..]);
    let mut features = FeatureSections::new(endian);
    let mut at = usize::try_from(table).unwrap_or(usize::MAX);
    let has = feature_bits(&raw, endian);
    for feature in (0..Feature::MAX).filter(|bit| has(*bit)).map(Feature) {
        let Some((start, len)) = section(&raw, at, endian) else {
            warnings.push(format!(
                "the header's section {feature} and all after it are missing: build-ids and the \
                 ends of stacks may be unknown"
            ));
            features.mark_cut();
            break;
        };
        at = at.saturating_add(16);
        let range = clip(contents, start, len);
        match range.len() as u64 == len {
            true => features.insert_in_file(feature, contents, range),
            false => {
                features.mark_cut();
                warnings.push(format!(
                    "the header's section {feature} reaches past the end of the file"
                ));
            }
        }
    }
    features
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_magic_does_not_tell_the_byte_order_but_the_size_does() {
        let header = |size: [u8; 8]| [*b"PERFFILE", size].concat();
        let of = |size| endian_of(&header(size));
        assert_eq!(of(104u64.to_le_bytes()), Some(Endian::Little));
        assert_eq!(of(104u64.to_be_bytes()), Some(Endian::Big));
        assert_eq!(endian_of(b"PERFFILE"), None);
        assert_eq!(endian_of(b"PERFILE3"), None);
    }

    #[test]
    fn feature_bits_of_a_32_bit_big_endian_recorder_are_found() {
        let mut header = [0; HEADER_SIZE];
        let bits = (1u32 << Feature::HOSTNAME.0) | (1 << Feature::BUILD_ID.0);
        header[72..76].copy_from_slice(&bits.to_be_bytes());
        let has = feature_bits(&RawBytes::from(&header[..]), Endian::Big);
        let set: Vec<u32> = (0..Feature::MAX).filter(|bit| has(*bit)).collect();
        assert_eq!(set, [Feature::BUILD_ID.0, Feature::HOSTNAME.0]);
    }
}
