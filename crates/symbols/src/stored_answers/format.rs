//! [`StoredAnswers`]: file format of cached results.
//!
//! ```text
//!   magic | crc32 of the rest | length of the key | number of answers | number of words
//!   key | for each answer, by rising address: SVMA | for each: its first word | words | texts
//! ```
//!
//! Magic and addresses have 64 bits; all other numbers are 32-bit words. Byte order is native, and
//! the magic reveals it. The word for a text is its offset in the texts, where a length word
//! precedes it.

use crate::dwarf::{Found, FoundFrame, FunctionEntry};
use crate::frames::SourceLine;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Magic number with the format version.
const MAGIC: u64 = u64::from_be_bytes(*b"rprofdi2");

/// Maximum length of the file, in bytes. Every run reads it as a whole.
pub(super) const LIMIT: usize = 1 << 20;

const NO_TEXT: u32 = u32::MAX;

const NO_ENTRY: u32 = u32::MAX;

#[derive(Debug)]
pub(super) struct StoredAnswers {
    len: usize,
    svmas: Box<[u64]>,
    places: Box<[u32]>,
    words: Box<[u32]>,
    texts: Box<[u8]>,
}

impl StoredAnswers {
    /// Decodes a file. `None` if it is damaged or has another key.
    pub(super) fn read(file: &[u8], key: &[u8]) -> Option<Self> {
        let (magic, rest) = file.split_first_chunk()?;
        let (crc, mut rest) = rest.split_first_chunk()?;
        if u64::from_ne_bytes(*magic) != MAGIC || u32::from_ne_bytes(*crc) != crc32fast::hash(rest)
        {
            return None;
        }
        let mut counts = [0; 3];
        for count in &mut counts {
            let (word, behind) = rest.split_first_chunk()?;
            (*count, rest) = (usize::try_from(u32::from_ne_bytes(*word)).ok()?, behind);
        }
        let [key_len, answers, words] = counts;
        let (stored_key, rest) = rest.split_at_checked(key_len)?;
        if stored_key != key {
            return None;
        }
        let (svmas, rest) = rest.split_at_checked(answers.checked_mul(8)?)?;
        let (places, rest) = rest.split_at_checked(answers.checked_mul(4)?)?;
        let (words, texts) = rest.split_at_checked(words.checked_mul(4)?)?;
        let svmas = svmas.as_chunks().0.iter();
        Some(Self {
            len: file.len(),
            svmas: svmas.map(|bytes| u64::from_ne_bytes(*bytes)).collect(),
            places: to_words(places),
            words: to_words(words),
            texts: texts.into(),
        })
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn svmas(&self) -> &[u64] {
        &self.svmas
    }
}

fn to_words(bytes: &[u8]) -> Box<[u32]> {
    let words = bytes.as_chunks().0.iter();
    words.map(|bytes| u32::from_ne_bytes(*bytes)).collect()
}

/// Decodes results. Allocates each text once.
#[derive(Debug)]
pub(super) struct Decoder<'a> {
    stored: &'a StoredAnswers,
    texts: FxHashMap<u32, Arc<str>>,
}

impl<'a> Decoder<'a> {
    pub(super) fn new(stored: &'a StoredAnswers) -> Self {
        Self {
            stored,
            texts: FxHashMap::default(),
        }
    }

    #[expect(
        clippy::option_option,
        reason = "debug information answers with an option"
    )]
    /// Returns the cached result for an address. `None` if there is none.
    pub(super) fn answer(&mut self, svma: u64) -> Option<Option<Found>> {
        let index = self.stored.svmas.binary_search(&svma).ok()?;
        let place = usize::try_from(*self.stored.places.get(index)?).ok()?;
        let mut words = self.stored.words.get(place..)?.iter();
        let mut word = || words.next().copied();
        if word()? == 0 {
            return Some(None);
        }
        let frames = word()?;
        let start = u64::from(word()?) | u64::from(word()?) << 32;
        let end = u64::from(word()?) | u64::from(word()?) << 32;
        let line = self.line([word()?, word()?, word()?])?;
        let mut found = Found {
            frames: Vec::new(),
            range: start..end,
            line,
        };
        for _ in 0..frames {
            let name = self.text(word()?)?;
            let start_line = word()?;
            let call = self.line([word()?, word()?, word()?])?;
            let entry = match word()? {
                NO_ENTRY => None,
                unit => Some(FunctionEntry {
                    unit,
                    offset: word()?,
                }),
            };
            found.frames.push(FoundFrame {
                name,
                start_line,
                call,
                entry,
                distinction: None,
            });
        }
        (start <= end).then_some(Some(found))
    }

    #[expect(
        clippy::option_option,
        reason = "there may be none, and it may be damaged"
    )]
    fn line(&mut self, [file, line, column]: [u32; 3]) -> Option<Option<SourceLine>> {
        let file = self.text(file)?;
        Some(file.map(|file| SourceLine { file, line, column }))
    }

    #[expect(
        clippy::option_option,
        reason = "there may be none, and it may be damaged"
    )]
    fn text(&mut self, place: u32) -> Option<Option<Arc<str>>> {
        if place == NO_TEXT {
            return Some(None);
        }
        if let Some(known) = self.texts.get(&place) {
            return Some(Some(Arc::clone(known)));
        }
        let bytes = self.stored.texts.get(usize::try_from(place).ok()?..)?;
        let (len, bytes) = bytes.split_first_chunk()?;
        let bytes = bytes.get(..usize::try_from(u32::from_ne_bytes(*len)).ok()?)?;
        let text: Arc<str> = str::from_utf8(bytes).ok()?.into();
        self.texts.insert(place, Arc::clone(&text));
        Some(Some(text))
    }
}

/// Encodes results, which must be ascending by SVMA without duplicates. `None` if the file would
/// exceed [`LIMIT`].
pub(super) fn encode<'a>(
    key: &[u8],
    answers: impl Iterator<Item = (u64, &'a Option<Found>)>,
) -> Option<Vec<u8>> {
    let mut encoder = Encoder::default();
    let mut svmas: Vec<u8> = Vec::new();
    let mut places: Vec<u8> = Vec::new();
    for (svma, found) in answers {
        svmas.extend(svma.to_ne_bytes());
        places.extend(u32::try_from(encoder.words.len() / 4).ok()?.to_ne_bytes());
        encoder.answer(found.as_ref())?;
        let len = svmas.len() + places.len() + encoder.words.len() + encoder.texts.len();
        if len + key.len() + HEAD > LIMIT {
            return None;
        }
    }
    let counts = [key.len(), places.len() / 4, encoder.words.len() / 4];
    let mut file = Vec::with_capacity(LIMIT.min(HEAD + svmas.len() * 16 + encoder.texts.len()));
    file.extend(MAGIC.to_ne_bytes());
    file.extend([0; 4]);
    for count in counts {
        file.extend(u32::try_from(count).ok()?.to_ne_bytes());
    }
    for part in [key, &svmas, &places, &encoder.words, &encoder.texts] {
        file.extend(part);
    }
    let crc = crc32fast::hash(&file[12..]);
    file[8..12].copy_from_slice(&crc.to_ne_bytes());
    Some(file)
}

const HEAD: usize = 24;

#[derive(Default)]
struct Encoder<'a> {
    words: Vec<u8>,
    texts: Vec<u8>,
    places: FxHashMap<&'a str, u32>,
}

impl<'a> Encoder<'a> {
    fn word(&mut self, word: u32) {
        self.words.extend(word.to_ne_bytes());
    }

    fn answer(&mut self, found: Option<&'a Found>) -> Option<()> {
        let Some(found) = found else {
            self.word(0);
            return Some(());
        };
        self.word(1);
        self.word(u32::try_from(found.frames.len()).ok()?);
        for address in [found.range.start, found.range.end] {
            self.word(address as u32);
            self.word((address >> 32) as u32);
        }
        self.line(found.line.as_ref())?;
        for frame in &found.frames {
            self.text(frame.name.as_deref())?;
            self.word(frame.start_line);
            self.line(frame.call.as_ref())?;
            match frame.entry {
                None => self.word(NO_ENTRY),
                Some(entry) => {
                    self.word(entry.unit);
                    self.word(entry.offset);
                }
            }
        }
        Some(())
    }

    fn line(&mut self, line: Option<&'a SourceLine>) -> Option<()> {
        self.text(line.map(|line| &*line.file))?;
        self.word(line.map_or(0, |line| line.line));
        self.word(line.map_or(0, |line| line.column));
        Some(())
    }

    fn text(&mut self, text: Option<&'a str>) -> Option<()> {
        let Some(text) = text else {
            self.word(NO_TEXT);
            return Some(());
        };
        let place = match self.places.get(text) {
            Some(place) => *place,
            None => {
                let place = u32::try_from(self.texts.len()).ok()?;
                self.texts
                    .extend(u32::try_from(text.len()).ok()?.to_ne_bytes());
                self.texts.extend(text.as_bytes());
                self.places.insert(text, place);
                place
            }
        };
        self.word(place);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(file: &str, line: u32) -> Option<SourceLine> {
        let file = file.into();
        Some(SourceLine {
            file,
            line,
            column: 7,
        })
    }

    fn answers() -> Vec<(u64, Option<Found>)> {
        let frame = |name: Option<&str>, call| FoundFrame {
            name: name.map(Into::into),
            start_line: 3,
            call,
            entry: name.filter(|name| *name != "outer").map(|_| FunctionEntry {
                unit: 0x8000_0002,
                offset: 77,
            }),
            distinction: None,
        };
        let inlined = Found {
            frames: vec![
                frame(Some("outer"), None),
                frame(Some("inner"), line("/a.c", 9)),
                frame(None, line("/é.c", 0)),
            ],
            range: 0x1000..0xffff_ffff_8000_0000,
            line: line("/a.c", u32::MAX),
        };
        let plain = Found {
            frames: vec![frame(Some(""), None)],
            range: 5..5,
            line: None,
        };
        vec![
            (0, None),
            (0x1234, Some(inlined)),
            (0x2000, Some(Found::default())),
            (u64::MAX, Some(plain)),
        ]
    }

    fn file(key: &[u8], answers: &[(u64, Option<Found>)]) -> Vec<u8> {
        let answers = answers.iter().map(|(svma, found)| (*svma, found));
        encode(key, answers).unwrap()
    }

    #[test]
    fn answers_are_read_as_they_were_stored() {
        let file = file(b"key", &answers());
        let stored = StoredAnswers::read(&file, b"key").unwrap();
        assert_eq!(stored.svmas(), [0, 0x1234, 0x2000, u64::MAX]);
        assert_eq!(stored.len(), file.len());
        let mut decoder = Decoder::new(&stored);
        for _ in 0..2 {
            for (svma, found) in answers() {
                assert_eq!(decoder.answer(svma), Some(found), "{svma:#x}");
            }
        }
        assert_eq!(decoder.answer(0x1235), None);
        let found = decoder.answer(0x1234).flatten().unwrap();
        let (first, second) = (found.line.unwrap().file, found.frames[1].call.clone());
        assert!(Arc::ptr_eq(&first, &second.unwrap().file), "made once");
    }

    #[test]
    fn a_file_of_another_key_is_not_read() {
        let bytes = file(b"key", &answers());
        for key in [&b"kez"[..], b"", b"key2"] {
            assert!(StoredAnswers::read(&bytes, key).is_none());
        }
        let nothing = file(b"", &[]);
        assert!(
            StoredAnswers::read(&nothing, b"")
                .unwrap()
                .svmas()
                .is_empty()
        );
    }

    #[test]
    fn what_is_damaged_is_not_read() {
        let whole = file(b"key", &answers());
        for end in 0..whole.len() {
            assert!(
                StoredAnswers::read(&whole[..end], b"key").is_none(),
                "{end}"
            );
        }
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            assert!(StoredAnswers::read(&damaged, b"key").is_none(), "{at}");
        }
    }

    /// A writer of the file can forge the checksum.
    #[test]
    fn nonsense_with_the_right_checksum_is_no_answer_and_does_no_harm() {
        let whole = file(b"key", &answers());
        let mut read = 0;
        for at in 12..whole.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut bytes = whole.clone();
                bytes[at] = value;
                let crc = crc32fast::hash(&bytes[12..]);
                bytes[8..12].copy_from_slice(&crc.to_ne_bytes());
                let Some(stored) = StoredAnswers::read(&bytes, b"key") else {
                    continue;
                };
                read += 1;
                let mut decoder = Decoder::new(&stored);
                for svma in stored.svmas() {
                    if let Some(Some(found)) = decoder.answer(*svma) {
                        assert!(found.range.start <= found.range.end);
                    }
                }
            }
        }
        assert!(read > 100, "{read}");
    }

    #[test]
    fn what_is_too_long_is_not_stored() {
        let many = |count: u64| (0..count).map(|svma| (svma, &None));
        assert!(encode(b"", many(1000)).is_some());
        let most = LIMIT as u64 / 16;
        let longest = encode(b"", many(most - 2)).unwrap();
        assert!(longest.len() <= LIMIT && longest.len() + 32 > LIMIT);
        assert!(encode(b"", many(most)).is_none());
    }
}
