//! [`Spelling`]: common form of a Rust function's names.
//!
//! | source | name |
//! |---|---|
//! | legacy mangling | `<alloc::vec::Vec<T,A> as core::iter::FromIterator<T>>::from_iter` |
//! | | `alloc::slice::<impl [T]>::sort_by` |
//! | v0 (RFC 2603) | `<alloc::vec::Vec<u64> as core::iter::FromIterator<u64>>::from_iter::<I>` |
//! | | `<[u64]>::sort_by::<F>` |
//! | line tables | `from_iter<u64, alloc::alloc::Global, I>` |
//! | | `sort_by<u64, F>` |
//!
//! Legacy mangling has one name for all instances, with the parameters of the `impl`. The others
//! distinguish instances. Line tables only have the last path segment.

use crate::generics::split_arguments;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Spelling {
    /// Path without arguments: `<alloc::vec::Vec as core::iter::FromIterator>::from_iter`,
    /// `<[]>::sort_by`.
    pub(super) path: Box<str>,
    /// Arguments and closure numbers, if any.
    told: Box<str>,
}

impl Spelling {
    /// Parses a name. `None` for other languages than Rust, such as C++ with parameters.
    pub(super) fn of(name: &str) -> Option<Spelling> {
        let mut told = String::new();
        let mut has_parameters = false;
        let elided = split_arguments(name, |list| {
            has_parameters |= tokens(list).any(is_parameter);
            told.extend(list.chars().filter(|c| !c.is_whitespace()));
            told.push(';');
        });
        if elided.contains(['(', ' ']) && !elided.contains(" as ") && !elided.contains("<impl ") {
            return None;
        }
        let path = elided.replace("::<…>", "").replace("<…>", "");
        let path = plain_closures(&path, &mut told);
        let path = without_place_of_impl(&path);
        has_parameters |= tokens(&path).any(is_parameter);
        if has_parameters {
            told.clear();
        }
        Some(Spelling {
            path: plain_type(&path).into(),
            told: told.into(),
        })
    }

    pub(super) fn tells(&self) -> bool {
        !self.told.is_empty()
    }

    /// Returns false only if both names have different arguments.
    pub(super) fn agrees(&self, other: &Spelling) -> bool {
        !(self.tells() && other.tells()) || self.told == other.told
    }

    /// Returns the last segment of a longer path: `from_iter`.
    pub(super) fn last_of_path(&self) -> Option<&str> {
        let (_, last) = self.path.rsplit_once("::")?;
        (!last.starts_with('{')).then_some(last)
    }

    /// Returns the name unless it is a path: `from_iter`.
    pub(super) fn bare(&self) -> Option<&str> {
        (!self.path.contains("::") && !self.path.starts_with(['<', '{'])).then_some(&self.path)
    }

    /// Returns trait and method: `core::hash::BuildHasher::hash_one` for
    /// `<std::hash::RandomState as core::hash::BuildHasher>::hash_one`.
    pub(super) fn of_trait(&self) -> Option<String> {
        let (_, of_trait) = self.path.strip_prefix('<')?.split_once(" as ")?;
        let (of_trait, method) = of_trait.split_once(">::")?;
        Some(format!("{of_trait}::{method}"))
    }
}

fn tokens(list: &str) -> impl Iterator<Item = &str> {
    list.split(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | ':')))
}

/// Returns true for an `impl` parameter: `T`, `K2`.
fn is_parameter(token: &str) -> bool {
    let mut letters = token.chars();
    letters
        .next()
        .is_some_and(|first| first.is_ascii_uppercase())
        && letters.all(|c| c.is_ascii_uppercase() || c.is_ascii_digit())
}

/// Normalizes `{{closure}}`, `{closure#1}` and `{closure_env#1}` to `{closure}`. Appends numbers to
/// `told`.
fn plain_closures(path: &str, told: &mut String) -> String {
    let mut out = String::with_capacity(path.len());
    let mut rest = path;
    while let Some((before, after)) = rest.split_once('{') {
        let Some((inside, behind)) = after.trim_start_matches('{').split_once('}') else {
            break;
        };
        let (name, number) = inside.split_once('#').unwrap_or((inside, ""));
        out.push_str(before);
        out.push('{');
        out.push_str(name.strip_suffix("_env").unwrap_or(name));
        out.push('}');
        if !number.is_empty() {
            told.push('#');
            told.push_str(number);
        }
        rest = behind.trim_start_matches('}');
    }
    out + rest
}

/// Removes the module of an `impl`: `alloc::slice::<impl [T]>::sort_by` becomes `<[T]>::sort_by`,
/// and `core::fmt::num::<impl core::fmt::Display for u64>::fmt` becomes
/// `<u64 as core::fmt::Display>::fmt`.
fn without_place_of_impl(path: &str) -> String {
    let Some((_, after)) = path.split_once("<impl ") else {
        return path.to_owned();
    };
    let Some((inside, method)) = after.rsplit_once(">::") else {
        return path.to_owned();
    };
    match inside.split_once(" for ") {
        Some((of_trait, of_type)) => format!("<{of_type} as {of_trait}>::{method}"),
        None => format!("<{inside}>::{method}"),
    }
}

/// Removes element types of slices, and writes legacy method names: `a::B::c` for `<a::B>::c`.
fn plain_type(path: &str) -> String {
    let Some((of_type, rest)) = path.strip_prefix('<').and_then(|p| p.split_once('>')) else {
        return path.to_owned();
    };
    let (of_type, of_trait) = match of_type.split_once(" as ") {
        Some((of_type, of_trait)) => (of_type, Some(of_trait)),
        None => (of_type, None),
    };
    let of_type = if of_type.starts_with('[') {
        "[]"
    } else {
        of_type
    };
    match of_trait {
        Some(of_trait) => format!("<{of_type} as {of_trait}>{rest}"),
        None if of_type.contains("::") => format!("{of_type}{rest}"),
        None => format!("<{of_type}>{rest}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str) -> Spelling {
        Spelling::of(name).unwrap()
    }

    #[test]
    fn one_function_has_one_path_by_both_manglings() {
        for (older, v0) in [
            (
                "<core::hash::sip::Hasher<S> as core::hash::Hasher>::write",
                "<core::hash::sip::Hasher<core::hash::sip::Sip13Rounds> as core::hash::Hasher>::write",
            ),
            ("app::count", "app::count::<u64>"),
            (
                "hashbrown::rustc_entry::<impl hashbrown::map::HashMap<K,V,S,A>>::rustc_entry",
                "<hashbrown::map::HashMap<alloc::string::String, usize>>::rustc_entry",
            ),
            (
                "alloc::raw_vec::RawVecInner<A>::grow",
                "<alloc::raw_vec::RawVecInner>::grow",
            ),
            (
                "alloc::slice::<impl [T]>::sort_by",
                "<[u64]>::sort_by::<app::F>",
            ),
            (
                "core::fmt::num::imp::<impl core::fmt::Display for u64>::fmt",
                "<u64 as core::fmt::Display>::fmt",
            ),
            ("app::main::{{closure}}", "app::main::{closure#1}"),
            (
                "<alloc::vec::Vec<T> as alloc::vec::SpecFromIter<T,I>>::from_iter",
                "<alloc::vec::Vec<u8> as alloc::vec::SpecFromIter<u8, core::iter::Map<a::I, b::F>>>::from_iter",
            ),
        ] {
            let (older, v0) = (of(older), of(v0));
            assert_eq!(older.path, v0.path);
            assert!(
                older.agrees(&v0) && older.told.is_empty(),
                "{older:?} {v0:?}"
            );
        }
    }

    #[test]
    fn instances_are_told_apart_where_both_names_tell_them() {
        for (one, other) in [
            ("a::f::<u8>", "a::f::<u16>"),
            ("a::f::{closure#0}", "a::f::{closure#1}"),
            ("<a::B<u8>>::f", "<a::B<c::D>>::f"),
        ] {
            let (one, other) = (of(one), of(other));
            assert!(
                one.path == other.path && !one.agrees(&other),
                "{one:?} {other:?}"
            );
        }
        assert!(of("a::f::<u8, c::D>").agrees(&of("a::f<u8,c::D>")));
    }

    #[test]
    fn methods_and_bare_names_are_found() {
        let hash = of("<std::hash::RandomState as core::hash::BuildHasher>::hash_one::<&u64>");
        assert_eq!(
            hash.of_trait().as_deref(),
            Some("core::hash::BuildHasher::hash_one")
        );
        assert_eq!((hash.last_of_path(), hash.bare()), (Some("hash_one"), None));
        let bare = of("from_iter<u64, a::B<C>>");
        assert_eq!(
            (bare.last_of_path(), bare.bare()),
            (None, Some("from_iter"))
        );
        assert_eq!(of("a::f::{closure#0}").last_of_path(), None);
        assert_eq!(of("{closure#0}").bare(), None);
        for name in [
            "ns::f(int)",
            "operator new(unsigned long)",
            "void ns::f<int>(int)",
        ] {
            assert_eq!(Spelling::of(name), None, "{name}");
        }
        for name in [
            "",
            "{",
            "}",
            "{{",
            "<",
            "<impl ",
            "<impl >::",
            "a<",
            "<a as >::",
            "::",
            "é<ß>",
        ] {
            let _ = Spelling::of(name);
        }
    }
}
