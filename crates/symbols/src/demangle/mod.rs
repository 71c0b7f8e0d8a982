//! Demangling: from the linkage name in a symbol table to the name in the source code.
//!
//! Rust (legacy and v0) and C++ (Itanium ABI); everything else is left unchanged, D and Swift too.
//! Demanglers of Swift compile the C++ of Swift's own library (symbolic-demangle, swift-demangler,
//! and macho-demangle through it) or call its runtime (swift-demangle, swift-runtime). For D
//! nothing was found in Rust; libiberty, LLVM and D's own runtime do it.
//!
//! Time, stack and length are bounded, for names come from files that nobody vouches for: see
//! [`MAX_INPUT`] and [`MAX_OUTPUT`].

mod bounded;
mod cpp;
mod rust;
mod short;
mod style;

pub use bounded::{CUT_MARK, MAX_OUTPUT};
use std::borrow::Cow;
pub use style::Style;

/// Longest name that is demangled, in bytes; longer ones are returned unchanged. The longest seen
/// in real C++ are near 30 KiB.
pub const MAX_INPUT: usize = 64 << 10;

/// Returns the name to show for `raw`. A symbol version (`foo@@GLIBC_2.2`) is cut, `@plt` is kept.
///
/// A name that is not mangled, or nested too deeply, or longer than [`MAX_INPUT`],
/// is returned unchanged.
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
    // Rust first: its legacy names are valid C++ names as well.
    let name = rust::demangle(raw, style).or_else(|| cpp::demangle(raw, style));
    name.map_or(Cow::Borrowed(raw), Cow::Owned)
}

/// Demangles bytes as [`demangle`] does text; invalid UTF-8 is replaced by U+FFFD.
#[must_use]
pub fn demangle_bytes(raw: &[u8], style: Style) -> Cow<'_, str> {
    match String::from_utf8_lossy(raw) {
        Cow::Borrowed(raw) => demangle(raw, style),
        // No mangling scheme yields invalid UTF-8.
        Cow::Owned(raw) => Cow::Owned(raw),
    }
}

/// Cuts the symbol version: `foo` for `foo@V1` and `foo@@V1`.
fn without_version(raw: &str) -> &str {
    match raw.find('@') {
        Some(at) if at > 0 => &raw[..at],
        _ => raw,
    }
}

#[cfg(test)]
mod tests;
