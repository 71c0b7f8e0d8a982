//! Canonical names of functions and objects, identical in every build.
//!
//! Names differ between builds in hashes, crate disambiguators, numbers of clones and closures, and
//! library versions. Sources: `getCanonicalFnName` of LLVM's sample profiles (suffixes), RFC 2603
//! (Rust), the manual of GCC's `-fdump-ipa-clones` (clones).

use std::borrow::Cow;

use crate::frame::{Object, ObjectKind};
use crate::generics::elide_arguments;
use crate::pattern::without_distinction;

/// Clone suffixes with a number.
const NUMBERED: [&str; 7] = [
    "llvm",
    "isra",
    "part",
    "constprop",
    "specialized",
    "lto_priv",
    "__uniq",
];

/// Clone suffixes with or without a number.
const ALONE: [&str; 5] = ["cold", "warm", "cfi", "argprom", "localalias"];

/// Minimum length of a crate disambiguator. Shorter numbers may be array lengths.
const DISAMBIGUATOR: usize = 8;

/// Length of hashes in legacy Rust names and cargo's file names.
const HASH: usize = 16;

pub(super) const JIT_OBJECT: &str = "[jit]";

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct CanonicalName {
    /// `None` for an object's unnamed code.
    pub(super) function: Option<Box<str>>,
    pub(super) object: Box<str>,
}

/// Returns a function's canonical name, without clone suffixes, hash, disambiguators and
/// parameters. `fold_generics` merges instances of generic functions.
pub fn function_name(name: &str, fold_generics: bool) -> Cow<'_, str> {
    of_any_build(without_distinction(name).unwrap_or(name), fold_generics)
}

/// Acts like [`function_name`], but keeps distinctions.
pub(super) fn of_any_build(name: &str, fold_generics: bool) -> Cow<'_, str> {
    let mut name = Cow::Borrowed(without_hash(without_clones(name)));
    if name.contains('[') {
        name = Cow::Owned(without_disambiguators(&name));
    }
    for other in ["{anonymous}", "_GLOBAL__N_1"] {
        if name.contains(other) {
            name = Cow::Owned(name.replace(other, "(anonymous namespace)"));
        }
    }
    match fold_generics {
        true => Cow::Owned(elide_arguments(&name).into_owned()),
        false => name,
    }
}

/// Removes addresses and counters: `0x7f…`, `@12`.
pub(super) fn jit_name(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(c) = rest.chars().next() {
        let digits = |text: &str, radix| text.chars().take_while(|c| c.is_digit(radix)).count();
        let (kept, skipped) = match c {
            '0' if rest.starts_with("0x") => ("0x", 2 + digits(&rest[2..], 16)),
            '@' => ("@", 1 + digits(&rest[1..], 10)),
            _ => (&rest[..c.len_utf8()], c.len_utf8()),
        };
        out.push_str(kept);
        rest = &rest[skipped..];
    }
    out
}

/// Removes the numbers of closures, lambdas and impl blocks: `{closure#0}`, `{impl#3}`,
/// `{lambda(int)#2}`. Edits above change them. `None` without numbers.
pub(super) fn without_numbers(name: &str) -> Option<String> {
    if !name.contains('#') {
        return None;
    }
    let mut out = String::with_capacity(name.len());
    let mut parts = name.split('#');
    out.push_str(parts.next().unwrap_or_default());
    let mut any = false;
    for part in parts {
        let bare = part.trim_start_matches(|c: char| c.is_ascii_digit());
        let is_number = bare.len() < part.len() && bare.starts_with('}');
        any |= is_number;
        out.push('#');
        out.push_str(if is_number { bare } else { part });
    }
    any.then_some(out)
}

/// Shortens closures among type arguments, because their paths contain enclosing functions:
/// `run<app::parse::{closure#0}::{closure_env#1}, u8>` becomes `run<{closure}, u8>`.
pub(super) fn without_paths_of_closures(name: &str) -> Option<String> {
    const CLOSURE: &str = "{closure";
    if !name.contains(CLOSURE) {
        return None;
    }
    let mut out = String::with_capacity(name.len());
    let (mut depth, mut any) = (0_usize, false);
    let is_end = |c: char| matches!(c, '<' | '>' | '(' | ')' | ',' | ' ' | '&');
    for piece in name.split_inclusive(is_end) {
        let path = piece.trim_end_matches(is_end);
        match depth > 0 && path.contains(CLOSURE) {
            true => {
                any = true;
                out.push_str("{closure}");
                out.push_str(&piece[path.len()..]);
            }
            false => out.push_str(piece),
        }
        match piece.chars().next_back() {
            Some('<') => depth += 1,
            Some('>') => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    any.then_some(out)
}

/// Returns true for a bare closure: `{closure#0}`, or `operator()` in C++. Line tables omit its
/// enclosing function and arguments.
pub(super) fn is_any_closure(name: &str) -> bool {
    let inside = name.strip_prefix('{').and_then(|n| n.strip_suffix('}'));
    let inside = inside.map(|n| n.trim_matches(['{', '}']));
    let is_closure = |inside: &str| {
        inside.strip_prefix("closure").is_some_and(|number| {
            let digits = number.trim_start_matches("_env").trim_start_matches('#');
            digits.bytes().all(|b| b.is_ascii_digit())
        })
    };
    name == "operator()" || inside.is_some_and(is_closure)
}

/// Returns an object's canonical name, without folder, version and hash: `libfoo.so` for
/// `/usr/lib/libfoo.so.1.2`, `app` for `target/release/deps/app-0123456789abcdef`.
pub fn object_name(object: &Object) -> Cow<'_, str> {
    let base = object.base_name();
    match object.kind {
        ObjectKind::Jit => Cow::Borrowed(JIT_OBJECT),
        ObjectKind::Kernel if base.starts_with("vmlinux") => Cow::Borrowed("[kernel.kallsyms]"),
        ObjectKind::Kernel => match base.split_once(".ko") {
            Some((module, _)) => Cow::Owned(format!("[{}]", module.replace('-', "_"))),
            None => Cow::Borrowed(base),
        },
        ObjectKind::Waiting => Cow::Borrowed(base),
        ObjectKind::File => file_name(base.strip_suffix(" (deleted)").unwrap_or(base)),
    }
}

fn file_name(base: &str) -> Cow<'_, str> {
    if base.starts_with('[') {
        return Cow::Borrowed(base);
    }
    let library = base
        .strip_suffix(".so")
        .or_else(|| Some(&base[..base.find(".so.")?]));
    match library {
        Some(stem) => Cow::Owned(format!("{}.so", without_version(stem))),
        None => Cow::Borrowed(without_version(base)),
    }
}

/// Removes a version or hash: `-2.31`, `_v3`, `-0123456789abcdef`, `3.11`.
fn without_version(name: &str) -> &str {
    let is_version = |text: &str| {
        let text = text.strip_prefix('v').unwrap_or(text);
        text.starts_with(|c: char| c.is_ascii_digit())
            && text.chars().all(|c| c.is_ascii_digit() || c == '.')
    };
    let is_hash = |text: &str| text.len() == HASH && text.bytes().all(|b| b.is_ascii_hexdigit());
    if let Some((stem, last)) = name.rsplit_once(['-', '_'])
        && !stem.is_empty()
        && (is_version(last) || is_hash(last))
    {
        return stem;
    }
    // Without a dot, a number belongs to the name: bzip2.
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    match name[stem.len()..].contains('.') && !stem.is_empty() {
        true => stem,
        false => name,
    }
}

fn without_clones(mut name: &str) -> &str {
    loop {
        if let Some((before, _)) = name
            .strip_suffix(']')
            .and_then(|n| n.rsplit_once(" [clone "))
        {
            name = before;
            continue;
        }
        let Some((before, last)) = name.rsplit_once('.') else {
            return name;
        };
        let is_number = !last.is_empty() && last.bytes().all(|b| b.is_ascii_digit());
        let cut = match is_number {
            true => before
                .rsplit_once('.')
                .filter(|(_, word)| NUMBERED.contains(word) || ALONE.contains(word))
                .map(|(function, _)| function),
            false => Some(before).filter(|_| ALONE.contains(&last)),
        };
        match cut {
            Some(function) if !function.is_empty() => name = function,
            _ => return name,
        }
    }
}

fn without_hash(name: &str) -> &str {
    let is_hash = |hash: &str| {
        let is_digit = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        hash.len() == HASH && hash.bytes().all(is_digit)
    };
    match name.rsplit_once("::h") {
        Some((function, hash)) if is_hash(hash) && !function.is_empty() => function,
        _ => name,
    }
}

fn without_disambiguators(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(at) = rest.find('[') {
        let (before, bracket) = rest.split_at(at);
        out.push_str(before);
        let follows_word = before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let end = bracket.find(']').unwrap_or(bracket.len() - 1);
        let inside = &bracket[1..end.max(1)];
        let is_hex = inside.bytes().all(|b| b.is_ascii_hexdigit());
        let is_one = follows_word && (DISAMBIGUATOR..=HASH).contains(&inside.len()) && is_hex;
        let taken = if is_one { end + 1 } else { 1 };
        if !is_one {
            out.push('[');
        }
        rest = &bracket[taken..];
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_builds_add_is_cut_and_names_stay() {
        for (name, canonical) in [
            ("main", "main"),
            ("parse.cold", "parse"),
            ("parse.isra.0.part.1.cold", "parse"),
            ("parse.constprop.0", "parse"),
            ("work.llvm.1234567890123", "work"),
            ("f.__uniq.3141592.llvm.77", "f"),
            ("f.lto_priv.0", "f"),
            ("f.cold.12", "f"),
            ("ns::f(int) [clone .isra.0]", "ns::f(int)"),
            ("ns::f(int) [clone .part.0] [clone .cold]", "ns::f(int)"),
            ("app::run::h0123456789abcdef", "app::run"),
            ("core[8f3a12bc90de]::fmt::write", "core::fmt::write"),
            (
                "<alloc[6d2f0a1b2c3d4e5f]::vec::Vec<[u8; 4]>>::push",
                "<alloc::vec::Vec<[u8; 4]>>::push",
            ),
            ("{anonymous}::f()", "(anonymous namespace)::f()"),
            ("step (parser.rs:12)", "step"),
            ("{closure#0} (parser/mod.rs:7)", "{closure#0}"),
            ("F::operator() (int, ns::T*) const", "F::operator()"),
            ("f<int> (void (*)(int))", "f<int>"),
            ("f [_Z1fIiEvT_Q5SmallIS0_E]", "f"),
            ("f(a:1)", "f(a:1)"),
            ("f (a:b)", "f (a:b)"),
            ("f (/usr/lib/x.so)", "f (/usr/lib/x.so)"),
            ("poll (inlined)", "poll (inlined)"),
            ("f(int) const", "f(int) const"),
            ("f [x]", "f [x]"),
            ("com.example.Foo.part", "com.example.Foo.part"),
            ("main.func1", "main.func1"),
            ("runtime.mallocgc", "runtime.mallocgc"),
            (".cold", ".cold"),
            ("app::habc", "app::habc"),
            ("table[12]::f", "table[12]::f"),
            ("f[", "f["),
            ("x[abcdef0", "x[abcdef0"),
            ("a.", "a."),
        ] {
            assert_eq!(function_name(name, false), canonical, "{name}");
        }
        assert_eq!(function_name("sort<u8>.cold", true), "sort<…>");
    }

    #[test]
    fn numbers_of_closures_are_dropped_for_the_second_look() {
        for (name, expected) in [
            ("app::f::{closure#0}", Some("app::f::{closure#}")),
            (
                "a::{impl#12}::b::{closure_env#3}",
                Some("a::{impl#}::b::{closure_env#}"),
            ),
            (
                "f()::{lambda(int)#2}::operator()(int) const",
                Some("f()::{lambda(int)#}::operator()(int) const"),
            ),
            ("main", None),
            ("c#sharp", None),
            ("#7", None),
        ] {
            assert_eq!(without_numbers(name).as_deref(), expected, "{name}");
        }
        assert_eq!(jit_name("stub 0x7f00ab@12 @ x"), "stub 0x@ @ x");
    }

    #[test]
    fn closures_without_a_function_are_any() {
        for name in [
            "{closure#0}",
            "{closure_env#12}",
            "{{closure}}",
            "operator()",
        ] {
            assert!(is_any_closure(name), "{name}");
        }
        for name in [
            "{closure#0}<u8>",
            "app::f::{{closure}}",
            "{impl#0}",
            "closure",
            "{closure#0}::{closure#1}",
            "f()::{lambda()#1}::operator()() const",
            "",
        ] {
            assert!(!is_any_closure(name), "{name}");
        }
    }

    #[test]
    fn objects_lose_folders_versions_and_hashes() {
        let of = |name: &str, kind| {
            let object = Object {
                name: name.into(),
                kind,
                build_id: None,
                runtime: None,
            };
            object_name(&object).into_owned()
        };
        for (name, expected) in [
            ("/usr/lib/libfoo.so.1.2", "libfoo.so"),
            ("/usr/lib/libc-2.31.so", "libc.so"),
            ("/usr/lib/libc.so.6", "libc.so"),
            ("/x/target/release/deps/app-0123456789abcdef", "app"),
            ("/opt/app-v2", "app"),
            ("/opt/app_1.2.3 (deleted)", "app"),
            ("/usr/bin/python3.11", "python"),
            ("/usr/bin/bzip2", "bzip2"),
            ("/usr/bin/x86_64-linux-gnu-gcc-12", "x86_64-linux-gnu-gcc"),
            ("[vdso]", "[vdso]"),
            ("1.2", "1.2"),
            ("", ""),
        ] {
            assert_eq!(of(name, ObjectKind::File), expected, "{name}");
        }
        assert_eq!(of("/tmp/perf-77.map", ObjectKind::Jit), "[jit]");
        let kernel = |name| of(name, ObjectKind::Kernel);
        assert_eq!(kernel("[kernel.kallsyms]"), "[kernel.kallsyms]");
        assert_eq!(kernel("/boot/vmlinux-6.1.0"), "[kernel.kallsyms]");
        assert_eq!(kernel("/lib/modules/6.1/nf-nat.ko.xz"), "[nf_nat]");
    }
}
