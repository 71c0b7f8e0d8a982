//! [`SourceMap`]: places in the files that a compiler read.
//!
//! `tsx`, `ts-node`, test runners and bundlers compile TypeScript and modern JavaScript in memory.
//! The script keeps the name of the user's file, but its lines are the compiler's, often a single
//! one. Such scripts end with a source map: `//# sourceMappingURL=data:application/json;base64,...`.
//! Format: ECMA-426. Maps in separate files belong to scripts that exist as files, so their places
//! are right as they are.

use std::borrow::Cow;

use serde_json::Value;

const COMMENT: &[u8] = b"//# sourceMappingURL=data:application/json";
const BASE64: &[u8] = b";base64,";

/// Maximum number of characters of a map, and of its `mappings`. Finding a place takes time for each
/// of the latter.
const MAX_MAP: usize = 2 << 20;
const MAX_MAPPINGS: usize = 256 << 10;

/// Characters at the end of a script that show whether it may end with a map.
pub(super) const END: usize = 64;

/// Source map of one script.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SourceMap {
    sources: Vec<String>,
    mappings: String,
}

/// Place in a file, with lines and columns from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place<'m> {
    pub(super) file: &'m str,
    pub(super) line: u32,
    pub(super) column: u32,
}

/// Fields of a segment; the last three only with a source.
#[derive(Clone, Copy, Debug, Default)]
struct Fields {
    column: i64,
    source: i64,
    line: i64,
    source_column: i64,
}

/// Returns true if a script with this end may end with a map.
pub(super) fn may_end_with_map(end: &[u8]) -> bool {
    let end = end.trim_ascii_end();
    end.len() >= END / 2
        && end
            .iter()
            .all(|byte| digit(*byte).is_some() || *byte == b'=')
}

impl SourceMap {
    /// Parses the map at the end of a script with this name. `None` without a usable one.
    pub(super) fn at_end_of(text: &[u8], script: &str) -> Option<Self> {
        let text = text.trim_ascii_end();
        let last = text.iter().rposition(|byte| *byte == b'\n');
        let line = text.get(last.map_or(0, |end| end + 1)..)?;
        // Minified code may stand before it on the same line.
        let begin = line
            .windows(COMMENT.len())
            .rposition(|part| part == COMMENT)?;
        let url = line.get(begin + COMMENT.len()..)?;
        let data = url.windows(BASE64.len()).position(|part| part == BASE64)?;
        let data = url.get(data + BASE64.len()..)?;
        if data.len() > MAX_MAP {
            return None;
        }
        Self::parse(&decoded(data)?, script)
    }

    fn parse(json: &[u8], script: &str) -> Option<Self> {
        let map: Value = serde_json::from_slice(json).ok()?;
        let mappings = map.get("mappings")?.as_str()?;
        let root = map.get("sourceRoot").and_then(Value::as_str).unwrap_or("");
        let sources = map.get("sources")?.as_array()?.iter();
        let sources = sources.map(|source| file_of(script, root, source.as_str().unwrap_or("")));
        (mappings.len() <= MAX_MAPPINGS).then(|| Self {
            sources: sources.collect(),
            mappings: mappings.to_owned(),
        })
    }

    /// Bytes in memory.
    pub(super) const fn len(&self) -> usize {
        self.mappings.len()
    }

    /// Returns the place that code at a line and column, from 0, was compiled from. `None` for code
    /// that the compiler has added.
    pub(super) fn original(&self, line: u32, column: u32) -> Option<Place<'_>> {
        let mut at = Fields::default();
        let mut found = None;
        for (segments, number) in self.mappings.split(';').zip(0..=line) {
            at.column = 0;
            for segment in segments.split(',').filter(|segment| !segment.is_empty()) {
                let has_source = at.add(segment.as_bytes())?;
                if number == line && at.column > i64::from(column) {
                    break;
                }
                found = (number == line && has_source).then_some(at);
            }
            if number < line {
                found = None;
            }
        }
        let found = found?;
        Some(Place {
            file: self.sources.get(usize::try_from(found.source).ok()?)?,
            line: found.line.try_into().ok()?,
            column: found.source_column.try_into().ok()?,
        })
    }
}

impl Fields {
    /// Adds the differences of a segment. Returns whether it has a source.
    fn add(&mut self, segment: &[u8]) -> Option<bool> {
        let mut rest = segment;
        let fields = [
            &mut self.column,
            &mut self.source,
            &mut self.line,
            &mut self.source_column,
        ];
        let mut count = 0;
        for field in fields {
            if rest.is_empty() {
                break;
            }
            *field = field.checked_add(difference(&mut rest)?)?;
            count += 1;
        }
        Some(count == 4)
    }
}

/// Takes a number in base 64 with 5 bits in each digit; the lowest one of the number is its sign.
fn difference(digits: &mut &[u8]) -> Option<i64> {
    let (mut number, mut shift) = (0_i64, 0);
    loop {
        let (first, rest) = digits.split_first()?;
        *digits = rest;
        let value = i64::from(digit(*first)?);
        number |= (value & 31).checked_shl(shift).filter(|_| shift <= 30)?;
        if value & 32 == 0 {
            break;
        }
        shift += 5;
    }
    Some(match number & 1 {
        0 => number >> 1,
        _ => -(number >> 1),
    })
}

fn digit(byte: u8) -> Option<u8> {
    Some(match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    })
}

/// Decodes base 64.
fn decoded(text: &[u8]) -> Option<Vec<u8>> {
    let text = text.trim_ascii_end();
    let digits = text.iter().take_while(|byte| **byte != b'=');
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut count) = (0_u32, 0);
    for byte in digits {
        bits = bits << 6 | u32::from(digit(*byte)?);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    Some(bytes)
}

/// Returns the file of a source, as the script's name gives paths. A map of a single file often
/// names it relative to an unknown folder: then it is the script's.
fn file_of(script: &str, root: &str, source: &str) -> String {
    let joined = match root.is_empty() || source.contains("://") || source.starts_with('/') {
        true => Cow::Borrowed(source),
        false => Cow::Owned(format!("{}/{source}", root.trim_end_matches('/'))),
    };
    let last = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
    let without_query = script.split('?').next().unwrap_or(script);
    if joined.is_empty() || last(&joined) == last(without_query) {
        return without_query.to_owned();
    }
    if joined.contains("://") || joined.starts_with('/') {
        return joined.into_owned();
    }
    let folder = script.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut parts: Vec<&str> = folder.split('/').collect();
    for part in joined.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    fn map(json: &str) -> SourceMap {
        SourceMap::parse(json.as_bytes(), "/app/src/hot.ts").unwrap()
    }

    fn place(file: &str, line: u32, column: u32) -> Option<Place<'_>> {
        Some(Place { file, line, column })
    }

    /// Base 64 with the digits above.
    fn encoded(bytes: &[u8]) -> String {
        let digits = bytes.chunks(3).flat_map(|three| {
            let word = (three.iter().chain(&[0, 0]).take(3))
                .fold(0, |word, byte| word << 8 | u32::from(*byte));
            (0..=three.len()).map(move |at| DIGITS[(word >> (18 - 6 * at) & 63) as usize] as char)
        });
        digits.collect()
    }

    #[test]
    fn places_are_of_the_last_segment_before_them() {
        // Line 0: no source at column 0, source 0 at 4 (line 5, column 2) and at 10 (line 6,
        // column 0). Line 2: source 1 at 3 (line 7, column 1).
        let map =
            map(r#"{"version":3,"sources":["hot.ts","lib/b.ts"],"mappings":"A,IAKE,MACF;;GCCC"}"#);
        let hot = "/app/src/hot.ts";
        assert_eq!(map.original(0, 3), None, "added by the compiler");
        assert_eq!(map.original(0, 4), place(hot, 5, 2));
        assert_eq!(map.original(0, 9), place(hot, 5, 2));
        assert_eq!(map.original(0, 900), place(hot, 6, 0));
        assert_eq!(map.original(1, 0), None);
        assert_eq!(map.original(2, 2), None);
        assert_eq!(map.original(2, 3), place("/app/src/lib/b.ts", 7, 1));
        assert_eq!(map.original(99, 0), None);
    }

    #[test]
    fn a_script_ends_with_its_map() {
        let json =
            r#"{"mappings":"AAAA","sources":["a.ts"],"sourcesContent":["f();"],"version":3}"#;
        let script = |comment: &str| {
            let text = format!("f();\n{comment}{}\n", encoded(json.as_bytes()));
            let end = text.len() - END.min(text.len());
            let is_seen = may_end_with_map(&text.as_bytes()[end..]);
            (
                is_seen,
                SourceMap::at_end_of(text.as_bytes(), "/a.js").is_some(),
            )
        };
        let usual = "//# sourceMappingURL=data:application/json;base64,";
        assert_eq!(script(usual), (true, true));
        assert_eq!(
            script(&usual.replace(";base", ";charset=utf-8;base")),
            (true, true)
        );
        assert_eq!(script(&format!("g();{usual}")), (true, true));
        assert_eq!(script("// "), (true, false));
        assert!(!may_end_with_map(
            b"//# sourceMappingURL=a.js.map and a text that is long enough"
        ));
        assert!(!may_end_with_map(b"AAAA"));
    }

    #[test]
    fn sources_become_files() {
        let of = |root: &str, source: &str| file_of("/app/dist/main.js", root, source);
        assert_eq!(of("", "../src/a.ts"), "/app/src/a.ts");
        assert_eq!(of("", "/b/a.ts"), "/b/a.ts");
        assert_eq!(of("/r/", "a.ts"), "/r/a.ts");
        assert_eq!(of("", "webpack://app/./a.ts"), "webpack://app/./a.ts");
        assert_eq!(of("", "src/main.js"), "/app/dist/main.js");
        let module = file_of("file:///app/hot.ts?namespace=1", "", "/elsewhere/hot.ts");
        assert_eq!(module, "file:///app/hot.ts");
    }

    #[test]
    fn damaged_maps_give_no_place() {
        for mappings in ["!", "A!", "gggggggggggggggggggggggA", "D", "AACDDD"] {
            let json = format!(r#"{{"mappings":"{mappings}","sources":["a.ts"]}}"#);
            assert_eq!(map(&json).original(0, 5), None, "{mappings}");
        }
        for json in ["", "[]", "{}", r#"{"mappings":3,"sources":[]}"#] {
            assert_eq!(SourceMap::parse(json.as_bytes(), "a.js"), None);
        }
    }
}
