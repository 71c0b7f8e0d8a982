//! [`Style`] of demangled names.

/// Parts of a C++ signature to show. Rust names differ only in [`Style::Mangled`] and in clone
/// suffixes.
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
