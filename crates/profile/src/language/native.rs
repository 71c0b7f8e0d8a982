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

/// Prefixes of C functions that are Node.js's own, or that lead from its event loop to JavaScript.
const OF_NODE: [&str; 14] = [
    "Builtins_",
    "_GLOBAL_",
    "_fini",
    "_init",
    "_start",
    "ares_",
    "llhttp_",
    "main",
    "napi_",
    "nghttp2_",
    "nghttp3_",
    "ngtcp2_",
    "node_",
    "uv_",
];

/// Namespaces of C++ libraries in the image of Node.js.
const IN_NODE: [&str; 6] = [
    "ada::",
    "brotli::",
    "icu_",
    "simdjson::",
    "simdutf::",
    "zlib_internal::",
];

/// Prefixes of the libraries that builds of Python may contain: OpenSSL, zlib, bzip2, LZMA, Zstandard, SQLite, libffi.
const IN_PYTHON: [&str; 24] = [
    "AES_", "BN_", "BZ2_", "CRYPTO_", "EVP_", "MD5_", "OPENSSL_", "SHA1_", "SHA256_", "SHA512_",
    "SSL_", "X509_", "ZSTD_", "_tr_", "adler32", "aesni_", "bn_", "crc32_", "deflate", "ffi_",
    "inflate", "lzma_", "ossl_", "sqlite3",
];

/// Returns true for a function of a library that the runtime's image contains, as by static linking. It is
/// native code as in a shared library.
pub(super) fn is_of_library(name: &str, runtime: Language) -> bool {
    let begins = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    let is_c = !name.contains([':', '(', '<', ' ']);
    match runtime {
        Language::JavaScript if is_c => !begins(&OF_NODE),
        Language::JavaScript => begins(&IN_NODE),
        Language::Python => is_c && begins(&IN_PYTHON),
        _ => false,
    }
}

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
    fn libraries_in_the_image_of_a_runtime_are_told_apart_by_name() {
        for (name, runtime, expected) in [
            ("deflate_slow.part.0", Language::JavaScript, true),
            ("sha512_block_data_order_avx2", Language::JavaScript, true),
            ("_vpaes_encrypt_core", Language::JavaScript, true),
            (
                "icu_78::Normalizer2Impl::decompose",
                Language::JavaScript,
                true,
            ),
            (
                "v8::internal::JSFunction::Name",
                Language::JavaScript,
                false,
            ),
            ("Builtins_ArrayMap", Language::JavaScript, false),
            ("uv__io_poll", Language::JavaScript, false),
            ("llhttp__internal__run", Language::JavaScript, false),
            ("std::vector<int>::push_back", Language::JavaScript, false),
            ("sqlite3VdbeExec", Language::Python, true),
            ("deflate_slow", Language::Python, true),
            ("unicode_concatenate", Language::Python, false),
            ("deflate_slow", Language::Java, false),
        ] {
            assert_eq!(is_of_library(name, runtime), expected, "{name}");
        }
    }

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
