//! [`Style`] of demangled names.

/// Parts of a C++ signature that are shown. Makes no difference to other languages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Style {
    /// `ns::f<int>`: without parameters, return type and the compiler's clone suffixes, as `perf
    /// script` and `c++filt --no-verbose --no-params` print names.
    #[default]
    NoParameters,
    /// `_ZN2ns1fIiEEiT_`: the linkage name of the file, without its symbol version.
    Mangled,
    /// `int ns::f<int>(int) [clone .cold]`, as `c++filt --no-verbose` prints names. (With
    /// `--verbose` it expands `std::string` to its template.)
    Full,
}
