//! Demangling: from linkage names to names as in the source code.
//!
//! Supports Rust (legacy and v0), C++ (Itanium ABI), D, Free Pascal, Crystal, Ada, GNU Fortran, Haskell,
//! Nim and OCaml. Other names stay unchanged. Swift demanglers compile the C++ of Swift's own library
//! (symbolic-demangle, swift-demangler, and macho-demangle through it) or call its runtime
//! (swift-demangle, swift-runtime). No Rust crate for D was found; libiberty, LLVM and D's own runtime
//! demangle it.
//!
//! Names are untrusted, so time, stack and length are limited: see [`MAX_INPUT`] and
//! [`MAX_OUTPUT`].

mod bounded;
mod cpp;
mod d;
mod default_arguments;
mod encoded;
mod pascal;
mod rust;
mod short;

pub use bounded::{CUT_MARK, MAX_OUTPUT};
pub(crate) use encoded::Language;
use std::borrow::Cow;

/// Parts of a signature to show, in C++ and D. Rust names differ only in [`Style::Mangled`] and in
/// clone suffixes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Style {
    /// `ns::f<int>`: without parameters, return type and the compiler's clone suffixes, as in `perf
    /// script` and `c++filt --no-verbose --no-params`.
    #[default]
    NoParameters,
    /// `_ZN2ns1fIiEEiT_`: the linkage name of the file, without its symbol version.
    Mangled,
    /// `int ns::f<int>(int) [clone .cold]`, as in `c++filt --no-verbose`. (`--verbose` expands
    /// `std::string` to its template.)
    Full,
}

/// Maximum length of a mangled name, in bytes. The longest seen in real C++ have about 30 KiB.
pub const MAX_INPUT: usize = 64 << 10;

/// Returns the display name for `raw`. Removes a symbol version (`foo@@GLIBC_2.2`), keeps `@plt`.
///
/// Returns other names, and those nested too deeply or longer than [`MAX_INPUT`], unchanged. So are
/// names of Ada, Fortran, Haskell, Nim and OCaml: only their file shows that they are no names of C.
#[must_use]
pub fn demangle(raw: &str, style: Style) -> Cow<'_, str> {
    demangle_in(raw, style, &|_| false)
}

/// Demangles like [`demangle`], and also names of the languages with `has_evidence`.
pub(crate) fn demangle_in<'raw>(
    raw: &'raw str,
    style: Style,
    has_evidence: &dyn Fn(Language) -> bool,
) -> Cow<'raw, str> {
    if let Some(function) = raw.strip_suffix("@plt") {
        return match demangle_in(function, style, has_evidence) {
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
        .or_else(|| d::demangle(raw, style))
        .or_else(|| pascal::demangle(raw, style))
        .or_else(|| of_crystal(raw).map(str::to_owned))
        .or_else(|| {
            // The search for evidence costs more than decoding.
            let mut decoded = Language::ALL.iter().filter_map(|language| {
                let name = language.demangle(raw, style)?;
                has_evidence(*language).then_some(name)
            });
            decoded.next()
        });
    name.map_or(Cow::Borrowed(raw), Cow::Owned)
}

/// Demangles bytes as [`demangle`] does text. Replaces invalid UTF-8 by U+FFFD.
#[must_use]
pub fn demangle_bytes(raw: &[u8], style: Style) -> Cow<'_, str> {
    demangle_bytes_in(raw, style, &|_| false)
}

/// Demangles bytes as [`demangle_in`] does text. Replaces invalid UTF-8 by U+FFFD.
pub(crate) fn demangle_bytes_in<'raw>(
    raw: &'raw [u8],
    style: Style,
    has_evidence: &dyn Fn(Language) -> bool,
) -> Cow<'raw, str> {
    match String::from_utf8_lossy(raw) {
        Cow::Borrowed(raw) => demangle_in(raw, style, has_evidence),
        Cow::Owned(raw) => Cow::Owned(raw),
    }
}

/// Returns the name of a method or function of Crystal, which its compiler marks by an asterisk:
/// `Foo(Int32)@Foo(T)#work<String>:Nil`. Crystal's own stacks omit the mark.
fn of_crystal(raw: &str) -> Option<&str> {
    raw.strip_prefix('*').filter(|name| !name.is_empty())
}

/// Removes the symbol version: `foo` for `foo@V1` and `foo@@V1`. In names of Crystal, `@` stands before
/// the class or module of a method.
pub(crate) fn without_version(raw: &str) -> &str {
    match raw.find('@') {
        Some(at) if at > 0 && of_crystal(raw).is_none() => &raw[..at],
        _ => raw,
    }
}

#[cfg(test)]
mod tests;
