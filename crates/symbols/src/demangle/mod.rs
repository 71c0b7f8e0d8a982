//! From the name in the symbol table to the name people wrote.
//!
//! Rust (legacy and v0) and C++ (Itanium ABI); everything else is left as it is, D and Swift too.
//! What demangles Swift compiles the C++ of Swift's own library (symbolic-demangle, swift-demangler, and
//! macho-demangle by means of it) or asks its runtime (swift-demangle, swift-runtime). For D nothing
//! was found in Rust; libiberty, LLVM and D's own runtime do it.
//!
//! Time, stack and length are bounded, for names come from files that nobody vouches for: see
//! [`MAX_INPUT`] and [`MAX_OUTPUT`].

mod bounded;
mod cpp;
mod rust;
mod short;

use bounded::Bounded;
use std::borrow::Cow;

/// Longer names are not demangled at all. The longest seen in real C++ are near 30 KiB.
pub const MAX_INPUT: usize = 64 << 10;

/// A demangled name is cut here, in bytes, and [`CUT_MARK`] appended: substitutions let
/// a short name expand without bound.
pub const MAX_OUTPUT: usize = 64 << 10;

/// What ends a demangled name that was cut.
pub const CUT_MARK: &str = "[...]";

/// How much of a C++ signature is shown. Makes no difference to other languages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Style {
    /// `ns::f<int>`: without parameters, return type and compiler's clone suffixes. What
    /// `perf script` prints, and `c++filt --no-verbose --no-params`.
    #[default]
    NoParameters,
    /// `_ZN2ns1fIiEEiT_`: as in the file, but for its version.
    Mangled,
    /// `int ns::f<int>(int) [clone .cold]`: what `c++filt --no-verbose` prints.
    /// (Verbose, it writes out `std::string` as the template that it stands for.)
    Full,
}

/// The name to show for `raw`. A symbol version (`foo@@GLIBC_2.2`) is cut, `@plt` is not.
///
/// What is not a mangled name, or nested too deeply, or longer than [`MAX_INPUT`],
/// comes back untouched.
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

/// [`demangle`] for bytes; invalid UTF-8 is replaced by U+FFFD.
#[must_use]
pub fn demangle_bytes(raw: &[u8], style: Style) -> Cow<'_, str> {
    match String::from_utf8_lossy(raw) {
        Cow::Borrowed(raw) => demangle(raw, style),
        // No mangling scheme yields invalid UTF-8.
        Cow::Owned(raw) => Cow::Owned(raw),
    }
}

/// `foo` for `foo@V1` and `foo@@V1`.
fn without_version(raw: &str) -> &str {
    match raw.find('@') {
        Some(at) if at > 0 => &raw[..at],
        _ => raw,
    }
}

#[cfg(test)]
mod tests;
