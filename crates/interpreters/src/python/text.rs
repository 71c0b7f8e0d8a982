//! Decodes Python strings (`str` objects).

use super::layout::Layout;

/// Bytes of a string object read at once: most names are shorter.
pub(super) const TEXT_BYTES: usize = 256;

/// Maximum characters of a name.
const MAX_CHARACTERS: usize = 512;

/// Decodes a compact string object from its first bytes. Longer strings are truncated. `None` for
/// other objects.
pub(super) fn text(bytes: &[u8], layout: &Layout) -> Option<String> {
    let word = |at: usize| Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    let length = usize::try_from(word(16)?).ok()?.min(MAX_CHARACTERS);
    // Bit fields of `state`: interned (2 bits), kind (3), compact, ascii.
    let state = *bytes.get(32)?;
    let (kind, is_compact, is_ascii) = (state >> 2 & 7, state >> 5 & 1 != 0, state >> 6 & 1 != 0);
    if !is_compact {
        return None;
    }
    let start = if is_ascii {
        layout.ascii
    } else {
        layout.compact
    };
    let data = bytes.get(start..)?;
    let characters = |width: usize| data.chunks_exact(width).take(length);
    let wide = |number: u32| char::from_u32(number).unwrap_or(char::REPLACEMENT_CHARACTER);
    Some(match (is_ascii, kind) {
        (true, 1) if data.iter().take(length).all(u8::is_ascii) => {
            characters(1).map(|c| char::from(c[0])).collect()
        }
        (false, 1) => characters(1).map(|c| char::from(c[0])).collect(),
        (false, 2) => {
            let number = |c: &[u8]| u32::from(u16::from_le_bytes([c[0], c[1]]));
            characters(2).map(|c| wide(number(c))).collect()
        }
        (false, 4) => {
            let number = |c: &[u8]| u32::from_le_bytes([c[0], c[1], c[2], c[3]]);
            characters(4).map(|c| wide(number(c))).collect()
        }
        _ => return None,
    })
}

/// Returns the number of bytes that a whole string object needs, if more than [`TEXT_BYTES`].
pub(super) fn missing_bytes(bytes: &[u8]) -> Option<usize> {
    let length = u64::from_le_bytes(*bytes.get(16..)?.first_chunk()?);
    let width = usize::from(*bytes.get(32)? >> 2 & 7).max(1);
    let length = usize::try_from(length).ok()?.min(MAX_CHARACTERS);
    let bytes = 72 + length * width;
    (bytes > TEXT_BYTES).then_some(bytes)
}

/// Returns true for the name and file of the code object, without a line, that runs after `__init__`
/// of a class that the interpreter calls itself. Python's own tracebacks do not show it.
pub(super) fn is_shim((name, file): &(String, String)) -> bool {
    name == "__init__" && file == "__init__"
}

/// Returns true for the name and file of a function that `threading` calls before or after a
/// thread's own function.
pub(super) fn begins_thread((name, file): &(String, String)) -> bool {
    let is_outside = ["Thread._bootstrap", "Thread._bootstrap_inner", "Thread.run"];
    file.ends_with("/threading.py") && !is_outside.contains(&name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_threading_around_a_thread_do_not_tell_its_kind() {
        let begins = |name: &str, file: &str| begins_thread(&(name.into(), file.into()));
        let file = "/usr/lib/python3.12/threading.py";
        assert!(begins("Event.set", file) && begins("Thread._delete", file));
        assert!(!begins("Thread.run", file) && !begins("Thread._bootstrap_inner", file));
        assert!(!begins("Event.set", "/srv/events.py"));
    }
}
