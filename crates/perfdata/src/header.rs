//! The first bytes of a perf.data file.

use std::ops::Range;
use std::path::Path;

use rprof_records::{Attr, Endian, RawBytes};

use crate::error::Error;
use crate::features::{Feature, FeatureSections};

pub(crate) const MAGIC: [u8; 8] = *b"PERFILE2";
/// Bytes of a file header.
pub(crate) const HEADER_SIZE: usize = 104;
/// Bytes of a pipe-mode header: the magic and its own size.
pub(crate) const PIPE_HEADER_SIZE: usize = 16;

/// Byte order by the magic; `None` if these are not perf's bytes.
pub(crate) fn endian_of(bytes: &[u8]) -> Option<Endian> {
    match bytes.first_chunk::<8>()? {
        b"PERFILE2" => Some(Endian::Little),
        b"2ELIFREP" => Some(Endian::Big),
        _ => None,
    }
}

/// A part of the file: offset and length, clipped to what there is.
fn section(raw: &RawBytes<'_>, at: usize, endian: Endian) -> Option<(u64, u64)> {
    Some((raw.u64(at, endian)?, raw.u64(at + 8, endian)?))
}

/// What a file's header says.
pub(crate) struct FileHeader {
    pub(crate) attrs: Vec<(Attr, Vec<u64>)>,
    pub(crate) data: Range<usize>,
    pub(crate) features: FeatureSections,
    pub(crate) warnings: Vec<String>,
}

impl FileHeader {
    pub(crate) fn parse(bytes: &[u8], endian: Endian, path: &Path) -> Result<FileHeader, Error> {
        let raw = RawBytes::from(bytes);
        let bad = |offset: usize, what: String| Error::BadHeader {
            path: path.to_owned(),
            offset: offset as u64,
            what,
        };
        let short = || bad(bytes.len(), "the file ends within its header".into());
        let mut warnings = Vec::new();
        let attr_size = raw.u64(16, endian).ok_or_else(short)?;
        let (attrs_at, attrs_len) = section(&raw, 24, endian).ok_or_else(short)?;
        let (data_at, data_len) = section(&raw, 40, endian).ok_or_else(short)?;
        if raw.len() < HEADER_SIZE {
            return Err(short());
        }
        // Each attr is followed by where its ids stand: 16 bytes.
        let stride = usize::try_from(attr_size)
            .ok()
            .filter(|s| (80..=4096).contains(s))
            .ok_or_else(|| bad(16, format!("an attribute size of {attr_size} bytes")))?;
        let attrs_bytes = clip(bytes, attrs_at, attrs_len)
            .filter(|b| b.len() as u64 == attrs_len)
            .ok_or_else(|| bad(24, "the attributes reach past the end of the file".into()))?;
        let mut attrs = Vec::new();
        for one in attrs_bytes.chunks_exact(stride) {
            let (attr, ids) = one.split_at(stride - 16);
            let attr =
                Attr::parse(attr, endian).map_err(|e| bad(attrs_at as usize, e.to_string()))?;
            let (at, len) = section(&RawBytes::from(ids), 0, endian).unwrap_or_default();
            let ids = clip(bytes, at, len).unwrap_or_default();
            if ids.len() as u64 != len {
                warnings.push("the ids of an event reach past the end of the file".into());
            }
            let ids = (ids.chunks_exact(8))
                .filter_map(|b| Some(endian.u64(b.try_into().ok()?)))
                .collect();
            attrs.push((attr, ids));
        }
        let file_len = bytes.len();
        let data_start = usize::try_from(data_at).ok().filter(|at| *at <= file_len);
        let Some(data_start) = data_start else {
            return Err(bad(
                40,
                format!("the data begins at byte {data_at}, past the end of the file"),
            ));
        };
        // 0 is what a recorder leaves that was killed before it could say how much.
        let killed = data_len == 0;
        let data_end = match killed {
            true => file_len,
            false => (data_start as u64)
                .saturating_add(data_len)
                .min(file_len as u64) as usize,
        };
        if killed && data_start < file_len {
            warnings.push(
                "the recorder did not finish this file; everything up to its end is read".into(),
            );
        } else if (data_end - data_start) as u64 != data_len && !killed {
            warnings.push(format!(
                "the file ends at byte {file_len}, {} bytes before its data does",
                data_len - (data_end - data_start) as u64
            ));
        }
        let features = match killed {
            true => FeatureSections::new(endian),
            false => read_features(
                bytes,
                endian,
                data_at.saturating_add(data_len),
                &mut warnings,
            ),
        };
        Ok(FileHeader {
            attrs,
            data: data_start..data_end,
            features,
            warnings,
        })
    }
}

fn clip(bytes: &[u8], at: u64, len: u64) -> Option<&[u8]> {
    let start = usize::try_from(at).ok()?.min(bytes.len());
    let end = usize::try_from(at.saturating_add(len)).unwrap_or(usize::MAX);
    bytes.get(start..end.min(bytes.len()))
}

/// The sections stand behind the data: first where each is, then they themselves.
fn read_features(
    bytes: &[u8],
    endian: Endian,
    table: u64,
    warnings: &mut Vec<String>,
) -> FeatureSections {
    let raw = RawBytes::from(bytes);
    let mut features = FeatureSections::new(endian);
    let mut at = usize::try_from(table).unwrap_or(usize::MAX);
    for number in 0..Feature::MAX {
        let word = raw
            .u64(72 + 8 * (number as usize / 64), endian)
            .unwrap_or(0);
        if word >> (number % 64) & 1 == 0 {
            continue;
        }
        let feature = Feature(number);
        let place = at.checked_add(16).and_then(|_| section(&raw, at, endian));
        let Some((start, len)) = place else {
            warnings.push(format!(
                "the header's section {feature} and all after it are missing"
            ));
            break;
        };
        at += 16;
        match clip(bytes, start, len).filter(|b| b.len() as u64 == len) {
            Some(section) => features.insert(feature, section.to_vec()),
            None => warnings.push(format!(
                "the header's section {feature} reaches past the end of the file"
            )),
        }
    }
    features
}
