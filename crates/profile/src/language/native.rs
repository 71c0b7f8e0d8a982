//! Languages of compiled functions, where their demangled names prove them.

use super::Language;

/// Marks that only Rust's names contain.
const OF_RUST: [&str; 8] = [
    "{closure#",
    "{{closure}}",
    "{impl#",
    "{shim:",
    "<impl ",
    "::<impl",
    "_RNv",
    "core::fmt::",
];

/// Marks that only C++'s names contain.
const OF_CPP: [&str; 6] = [
    "(anonymous namespace)",
    "{lambda(",
    "std::__cxx11::",
    "std::__1::",
    "__gnu_cxx::",
    "operator()",
];

/// Returns the language that a demangled name proves, or else [`Language::Native`].
///
/// ```
/// use rprof_profile::Language;
/// use rprof_profile::language::native::language_of;
///
/// assert_eq!(language_of("<alloc::vec::Vec<u8> as core::ops::Drop>::drop"), Language::Rust);
/// assert_eq!(language_of("net/http.(*Client).Do"), Language::Go);
/// assert_eq!(language_of("qsort"), Language::Native);
/// ```
pub fn language_of(name: &str) -> Language {
    let is_rust = OF_RUST.iter().any(|mark| name.contains(mark))
        || name.starts_with("alloc::")
        || name.starts_with("core::")
        || name.starts_with('<') && name.contains(" as ") && name.contains(">::");
    if is_rust {
        return Language::Rust;
    }
    if OF_CPP.iter().any(|mark| name.contains(mark)) || name.starts_with("_ZN") && !has_hash(name) {
        return Language::Cpp;
    }
    match is_go(name) {
        true => Language::Go,
        false => Language::Native,
    }
}

/// Returns true for the hash of Rust's legacy scheme: `17h` and 16 hex digits.
fn has_hash(name: &str) -> bool {
    name.contains("17h")
}

/// Returns true for `path/package.Function` and `package.(*Type).Method`.
fn is_go(name: &str) -> bool {
    let has_receiver = name.contains(".(*");
    let (path, rest) = name.rsplit_once('/').unwrap_or(("", name));
    let is_path = |c: char| c.is_ascii_alphanumeric() || "._-~/".contains(c);
    let is_package = !path.is_empty()
        && path.starts_with(|c: char| c.is_ascii_alphanumeric())
        && path.chars().all(is_path)
        && rest.contains('.')
        && !rest.contains(' ');
    let is_runtime = |name: &str| {
        name.strip_prefix("runtime.")
            .or(name.strip_prefix("main."))
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_alphabetic()))
    };
    has_receiver || is_package || is_runtime(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_prove_a_language_have_one() {
        for (name, language) in [
            ("main", Language::Native),
            ("copy.isra.0", Language::Native),
            ("std::sort", Language::Native),
            ("zlib::compress", Language::Native),
            ("malloc@plt", Language::Native),
            ("operator new", Language::Native),
            ("app::run::{closure#0}", Language::Rust),
            ("core::slice::sort::<impl [T]>::run", Language::Rust),
            ("<Foo as Bar>::baz", Language::Rust),
            ("f(int)::{lambda(int)#1}::operator()", Language::Cpp),
            ("(anonymous namespace)::run", Language::Cpp),
            ("runtime.mallocgc", Language::Go),
            ("main.main.func1", Language::Go),
            ("github.com/a/b.Run", Language::Go),
            ("/usr/lib/x.so", Language::Native),
        ] {
            assert_eq!(language_of(name), language, "{name}");
        }
    }
}
