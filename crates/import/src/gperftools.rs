//! CPU profiles of gperftools
//! (<https://gperftools.github.io/gperftools/cpuprofile-fileformat.html>): words in the program's
//! size and byte order, then the text of `/proc/self/maps`. They contain addresses without names.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::path::Path;

use rprof_profile::limits::MAX_FRAMES;
use rprof_profile::{Frame, FrameAddress, ObjectId, Profile, WeightUnit};

use crate::collector::{Collector, Row, UNKNOWN};
use crate::{Failed, ImportOptions};

/// Size and byte order of words.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Words {
    size: usize,
    is_big: bool,
}

impl Words {
    /// Detects them from the header of a profile: 0, the number of following header words, 0, and
    /// the period in microseconds.
    fn of(start: &[u8]) -> Option<Words> {
        let forms = [(8, false), (8, true), (4, false), (4, true)];
        let mut forms = forms
            .map(|(size, is_big)| Words { size, is_big })
            .into_iter();
        forms.find(|words| {
            let is = |nth, range: std::ops::Range<u64>| {
                let word = words.get(start, nth);
                word.is_some_and(|word| range.contains(&word))
            };
            is(0, 0..1) && is(1, 3..1 << 16) && is(2, 0..1) && is(3, 1..100_000_001)
        })
    }

    fn get(self, bytes: &[u8], nth: usize) -> Option<u64> {
        let at = nth.checked_mul(self.size)?;
        let word = bytes.get(at..at.checked_add(self.size)?)?;
        let add = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
        Some(match self.is_big {
            true => word.iter().fold(0, add),
            false => word.iter().rev().fold(0, add),
        })
    }
}

/// Returns true if the bytes begin like a profile.
pub(crate) fn is_cpu_profile(start: &[u8]) -> bool {
    Words::of(start).is_some()
}

struct Mapping {
    end: u64,
    offset: u64,
    object: ObjectId,
}

const MAPPING_BYTES: usize = 64;

/// Parses mappings, by start address.
fn mappings(text: &str, out: &mut Collector<'_>) -> Result<BTreeMap<u64, Mapping>, String> {
    let mut found = BTreeMap::new();
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    for line in text.lines() {
        // Range, permissions, offset, device, inode, and a path that may contain spaces.
        let mut words = line.splitn(6, ' ');
        let range = words.next().and_then(|range| range.split_once('-'));
        let range = range.and_then(|(start, end)| Some((hex(start)?, hex(end)?)));
        let (Some((start, end)), Some(offset)) = (range, words.nth(1).and_then(hex)) else {
            continue;
        };
        let path = words.nth(2).map_or("", str::trim);
        let object = out.object(if path.is_empty() { UNKNOWN } else { path }, None)?;
        out.hold(MAPPING_BYTES)?;
        found.insert(
            start,
            Mapping {
                end,
                offset,
                object,
            },
        );
    }
    Ok(found)
}

pub(crate) fn read(
    input: &mut dyn BufRead,
    source: &Path,
    options: &ImportOptions,
) -> Result<Profile, Failed> {
    let mut out = Collector::new(source, options, false);
    let bytes = out.read_whole(input)?;
    let words = Words::of(&bytes).ok_or("its header is damaged")?;
    Ok(of_words(&bytes, words, out)?)
}

fn of_words(bytes: &[u8], words: Words, mut out: Collector<'_>) -> Result<Profile, String> {
    let word = |nth| words.get(bytes, nth).ok_or("it is cut short");
    // Sample entries: count, number of addresses, addresses. An entry with count 0 ends the list.
    let mut places = Vec::new();
    let mut at = word(1)? as usize + 2;
    let end = loop {
        let (samples, depth) = (word(at)?, word(at + 1)?);
        let depth = usize::try_from(depth).map_err(|_| "it is damaged")?;
        let next = (at + 2).checked_add(depth).ok_or("it is damaged")?;
        word(next.saturating_sub(1))?;
        if samples == 0 {
            break next;
        }
        out.hold(2 * size_of::<(u64, usize, usize)>())?;
        places.push((samples, at + 2, depth));
        at = next;
    };
    let text = String::from_utf8_lossy(&bytes[end * words.size..]);
    let mappings = mappings(&text, &mut out)?;
    let unknown = out.object(UNKNOWN, None)?;
    let period = word(3)?.saturating_mul(1000);
    let event = out.event("cpu", WeightUnit::Nanoseconds);
    let thread = out.thread(None, None, "", None)?;
    let mut frames = Vec::new();
    for (samples, first, depth) in places {
        frames.clear();
        for nth in 0..depth.min(MAX_FRAMES + 1) {
            let address = word(first + nth)?;
            let mapping = mappings.range(..=address).next_back();
            let mapping = mapping.filter(|(_, mapping)| address < mapping.end);
            let (object, offset) = match mapping {
                Some((start, mapping)) => (
                    mapping.object,
                    (address - start).wrapping_add(mapping.offset),
                ),
                None => (unknown, address),
            };
            let function = out.function("", object)?;
            frames.push(out.frame(Frame {
                address: Some(match nth {
                    0 => FrameAddress::InstructionPointer(offset),
                    _ => FrameAddress::ReturnAddress(offset),
                }),
                ..Frame::of(function)
            })?);
        }
        frames.reverse();
        let stack = out.stack(&frames)?;
        out.add(&Row {
            event,
            thread,
            stack,
            samples,
            weight: samples.saturating_mul(period),
            ..Row::default()
        })?;
    }
    out.warn(
        "gperftools profiles have addresses but no names; add them with `go tool pprof -proto \
         PROGRAM FILE > NAMED.pb.gz`",
    );
    out.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(words: Words, numbers: &[u64], text: &str) -> Vec<u8> {
        let mut all = Vec::new();
        for number in numbers {
            let mut word = number.to_le_bytes()[..words.size].to_vec();
            if words.is_big {
                word.reverse();
            }
            all.extend(word);
        }
        all.extend(text.as_bytes());
        all
    }

    #[test]
    fn words_of_all_sizes_and_orders_are_read() {
        let header = [0, 3, 0, 10_000, 0];
        let samples = [2, 2, 0x1010, 0x2020, 1, 1, 0x9999, 0, 1, 0];
        let maps = "1000-2000 r-xp 00000400 08:01 7  /opt/a b\n2000-3000 r-xp 0 08:01 8  /lib/c\n";
        for (size, is_big) in [(8, false), (8, true), (4, false), (4, true)] {
            let words = Words { size, is_big };
            let bytes = bytes(words, &[&header[..], &samples].concat(), maps);
            assert_eq!(Words::of(&bytes), Some(words));
            let read = |bytes: &[u8]| {
                read(&mut &bytes[..], Path::new("x"), &ImportOptions::default())
                    .map_err(|error| error.to_string())
            };
            let profile = read(&bytes).unwrap();
            assert_eq!(
                (profile.events[0].samples, profile.events[0].weight),
                (3, 30_000_000)
            );
            let stack: Vec<_> = (profile.frames(profile.aggregated[0].stack))
                .map(|id| profile.frame(id))
                .map(|frame| {
                    let object = profile.function(frame.function).object;
                    (&*profile.object(object).name, frame.address.unwrap())
                })
                .collect();
            let wanted = [
                ("/lib/c", FrameAddress::ReturnAddress(0x20)),
                ("/opt/a b", FrameAddress::InstructionPointer(0x410)),
            ];
            assert_eq!(stack, wanted);
            // Truncated within the samples.
            for len in 1..(header.len() + samples.len()) * size {
                assert!(read(&bytes[..len]).is_err(), "{len}");
            }
        }
    }
}
