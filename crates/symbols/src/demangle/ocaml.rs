//! OCaml names: `camlStdlib__Array__map_154`.

/// Returns the name as in the source: `Stdlib.Array.map_154`. `__` separates modules, and `$5b` is
/// the byte 0x5b. The number at the end tells functions of one name apart.
///
/// Code of modules begins with `caml` and a capital letter, unlike the runtime (`caml_alloc`).
pub(super) fn demangle(raw: &str) -> Option<String> {
    let mut rest = raw.strip_prefix("caml")?;
    if !rest.starts_with(|first: char| first.is_ascii_uppercase()) {
        return None;
    }
    let mut name = String::with_capacity(rest.len());
    while let Some(next) = rest.chars().next() {
        if let Some(behind) = rest.strip_prefix("__") {
            name.push('.');
            rest = behind;
        } else if let Some((letter, behind)) = escaped(rest) {
            name.push(letter);
            rest = behind;
        } else {
            name.push(next);
            rest = &rest[next.len_utf8()..];
        }
    }
    Some(name)
}

/// Splits off `$`, two hexadecimal digits, which stand for an ASCII character.
fn escaped(text: &str) -> Option<(char, &str)> {
    let digits = text.strip_prefix('$')?.get(..2)?;
    let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let byte = u8::from_str_radix(digits, 16).ok()?;
    (is_hex && byte.is_ascii_graphic()).then(|| (byte.into(), &text[3..]))
}
