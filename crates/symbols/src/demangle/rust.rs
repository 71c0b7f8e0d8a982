//! Rust names: legacy (`_ZN..17h<hash>E`) and v0 (`_R..`).

use super::Style;
use super::bounded::Bounded;
use std::fmt::Write;

/// Demangles without hashes and crate disambiguators. `None` for other names.
pub(super) fn demangle(raw: &str, style: Style) -> Option<String> {
    // rustc_demangle also accepts fewer or more underscores (macOS, Windows). Those are ambiguous:
    // `ZN` alone is a valid C name.
    if !raw.starts_with("_ZN") && !raw.starts_with("_R") {
        return None;
    }
    let raw = if style == Style::NoParameters {
        without_clone(raw)
    } else {
        raw
    };
    let name = rustc_demangle::try_demangle(raw).ok()?;
    let mut out = Bounded::default();
    let failed = write!(out, "{name:#}").is_err();
    out.finish(failed)
}

/// Removes the suffixes of LLVM for split or privatised symbols: `.0`, `.llvm.123`, `.cold`.
fn without_clone(raw: &str) -> &str {
    let end = if raw.starts_with("_R") {
        raw.find('.')
    } else {
        // Legacy names contain dots and end with the hash: 17h, 16 digits, E.
        raw.rfind("17h").map(|at| at + 20).filter(|&end| {
            raw.get(end - 1..)
                .is_some_and(|rest| rest.starts_with("E."))
        })
    };
    end.map_or(raw, |end| &raw[..end])
}
