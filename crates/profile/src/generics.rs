//! Function names without generic arguments.

use std::borrow::Cow;

/// Replaces lists of generic arguments (C++, Rust and others) by `<…>`.
///
/// Keeps the brackets of operators (`operator<`, `->`) and of Rust's qualified paths: `<Vec<u8> as
/// Clone>::clone` becomes `<Vec<…> as Clone>::clone`. Unbalanced names stay unchanged.
pub fn elide_arguments(name: &str) -> Cow<'_, str> {
    split_arguments(name, |_| ())
}

/// Acts like [`elide_arguments`], and passes each outermost list to `list`.
pub(crate) fn split_arguments<'n>(name: &'n str, mut list: impl FnMut(&'n str)) -> Cow<'n, str> {
    if !name.contains('<') {
        return Cow::Borrowed(name);
    }
    let mut out = String::with_capacity(name.len());
    let mut open: Vec<bool> = Vec::new();
    let mut rest = name;
    let mut before = None;
    let mut inside = name;
    while let Some(c) = rest.chars().next() {
        let hidden = open.last().is_some_and(|hides| *hides);
        let operator = match before.is_some_and(is_of_word) {
            true => None,
            false => OPERATORS.iter().find(|text| rest.starts_with(**text)),
        };
        let taken = match (operator, c) {
            (Some(operator), _) => operator.len(),
            (None, '-' | '=') if rest[1..].starts_with('>') => 2,
            (None, c) => c.len_utf8(),
        };
        let (token, after) = rest.split_at(taken);
        match token {
            "<" => {
                // `slice::<impl [T]>::sort` of Rust is also a path.
                let is_path = after.starts_with("impl ");
                let is_list = before.is_some_and(|c| is_of_word(c) || matches!(c, ':' | '>'));
                let is_list = is_list && !is_path;
                if !hidden {
                    out.push_str(if is_list { "<…" } else { "<" });
                    inside = after;
                }
                open.push(hidden || is_list);
            }
            ">" => match open.pop() {
                None => return Cow::Borrowed(name),
                Some(_) if open.last().is_some_and(|hides| *hides) => {}
                Some(is_list) => {
                    out.push('>');
                    if is_list {
                        list(&inside[..inside.len() - rest.len()]);
                    }
                }
            },
            token if !hidden => out.push_str(token),
            _ => {}
        }
        before = token.chars().next_back();
        rest = after;
    }
    match open.is_empty() {
        true => Cow::Owned(out),
        false => Cow::Borrowed(name),
    }
}

/// Longest first.
const OPERATORS: [&str; 10] = [
    "operator<=>",
    "operator<<=",
    "operator>>=",
    "operator->*",
    "operator<<",
    "operator>>",
    "operator<=",
    "operator>=",
    "operator<",
    "operator>",
];

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '$' | '}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_go_paths_and_operators_stay() {
        for (name, elided) in [
            ("main", "main"),
            (
                "std::vector<int, std::allocator<int>>::push_back",
                "std::vector<…>::push_back",
            ),
            ("std::map<int, A<B> >::find<C>", "std::map<…>::find<…>"),
            (
                "<alloc::vec::Vec<T> as core::clone::Clone>::clone",
                "<alloc::vec::Vec<…> as core::clone::Clone>::clone",
            ),
            (
                "core::ptr::drop_in_place::<Box<u8>>",
                "core::ptr::drop_in_place::<…>",
            ),
            ("a::operator<< <int>", "a::operator<< <int>"),
            ("operator<", "operator<"),
            ("bool ns::operator<=><A<B>>", "bool ns::operator<=><…>"),
            ("Iter::operator->", "Iter::operator->"),
            ("call<fn(A) -> B>::run", "call<…>::run"),
            (
                "stable_sort<a::{impl#0}::f::{closure_env#0}<B>>",
                "stable_sort<…>",
            ),
            (
                "alloc::slice::<impl [T]>::sort_by_key<F>",
                "alloc::slice::<impl [T]>::sort_by_key<…>",
            ),
            ("a>b", "a>b"),
            ("a<b", "a<b"),
            ("größe<α>::β", "größe<…>::β"),
        ] {
            assert_eq!(elide_arguments(name), elided, "{name}");
        }
        let mut lists = Vec::new();
        split_arguments("<a::B<T, C<u8>> as d::E<&'a [f]>>::g::<h>", |list| {
            lists.push(list);
        });
        assert_eq!(lists, ["T, C<u8>", "&'a [f]", "h"]);
    }
}
