//! Demangling: from linkage names to names as in the source code.
//!
//! Supports Rust (legacy and v0), C++ (Itanium ABI) and OCaml. Other names stay unchanged. Swift
//! demanglers compile the C++ of Swift's own library (symbolic-demangle, swift-demangler, and
//! macho-demangle through it) or call its runtime (swift-demangle, swift-runtime). No Rust crate
//! for D was found; libiberty, LLVM and D's own runtime demangle it.
//!
//! Names are untrusted, so time, stack and length are limited: see [`MAX_INPUT`] and
//! [`MAX_OUTPUT`].

mod bounded;
mod cpp;
mod default_arguments;
mod ocaml;
mod rust;
mod short;
mod style;

pub use bounded::{CUT_MARK, MAX_OUTPUT};
use std::borrow::Cow;
pub use style::Style;

/// Maximum length of a mangled name, in bytes. The longest seen in real C++ have about 30 KiB.
pub const MAX_INPUT: usize = 64 << 10;

/// Returns the display name for `raw`. Removes a symbol version (`foo@@GLIBC_2.2`), keeps `@plt`.
///
/// Returns other names, and those nested too deeply or longer than [`MAX_INPUT`], unchanged.
#[must_use]
pub fn demangle(raw: &str, style: Style) -> Cow<'_, str> {
    if let Some(function) = raw.strip_suffix("@plt") {
        return match demangle(function, style) {
            Cow::Borrowed(_) => Cow::Borrowed(raw),
            Cow::Owned(name) => Cow::Owned(name + "@plt"),
        };
    }
    let raw = without_version(raw);
    if style == Style::Mangled || raw.len() > MAX_INPUT {
        return Cow::Borrowed(raw);
    }
    // Legacy names of Rust are valid C++ names too.
    let name = rust::demangle(raw, style)
        .or_else(|| cpp::demangle(raw, style))
        .or_else(|| ocaml::demangle(raw));
    name.map_or(Cow::Borrowed(raw), Cow::Owned)
}

/// Demangles bytes as [`demangle`] does text. Replaces invalid UTF-8 by U+FFFD.
#[must_use]
pub fn demangle_bytes(raw: &[u8], style: Style) -> Cow<'_, str> {
    match String::from_utf8_lossy(raw) {
        Cow::Borrowed(raw) => demangle(raw, style),
        Cow::Owned(raw) => Cow::Owned(raw),
    }
}

/// Removes the symbol version: `foo` for `foo@V1` and `foo@@V1`.
pub(crate) fn without_version(raw: &str) -> &str {
    match raw.find('@') {
        Some(at) if at > 0 => &raw[..at],
        _ => raw,
    }
}

#[cfg(test)]
mod tests;
