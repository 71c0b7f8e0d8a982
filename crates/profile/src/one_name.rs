//! Merges the rows of a Rust function with two manglings.
//!
//! The legacy scheme names a method by its type's path and the *parameters* of the `impl`:
//! `alloc::raw_vec::RawVecInner<A>::grow`. v0 names the type:
//! `<alloc::raw_vec::RawVecInner>::grow`.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::model::Profile;
use crate::views::top::{RowKey, TopFunctions};

/// Adds rows with legacy names to rows with matching v0 names and equal keys.
pub fn merge(profile: &Profile, top: &mut TopFunctions) {
    let name_of =
        |key: &RowKey| -> Option<&str> { profile.function(key.function?).name.as_deref().ok() };
    let mut v0: HashMap<(RowKey, &str), usize> = HashMap::new();
    let without_function = |key: &RowKey| RowKey {
        function: None,
        ..*key
    };
    for (index, row) in top.rows.iter().enumerate() {
        if let Some(name) = name_of(&row.key).filter(|name| is_of_plain_type(name)) {
            v0.insert((without_function(&row.key), name), index);
        }
    }
    if v0.is_empty() {
        return;
    }
    let mut into: Vec<Option<usize>> = vec![None; top.rows.len()];
    for (index, row) in top.rows.iter().enumerate() {
        let name = name_of(&row.key).and_then(as_v0);
        if let Some(name) = name {
            into[index] = v0.get(&(without_function(&row.key), &*name)).copied();
        }
    }
    for (index, target) in into.iter().enumerate() {
        if let Some(target) = *target {
            let more = top.rows[index];
            let row = &mut top.rows[target];
            row.self_weight = row.self_weight.saturating_add(more.self_weight);
            row.self_samples += more.self_samples;
            // One may have called the other: no sample counts twice.
            row.total_weight =
                (row.total_weight.saturating_add(more.total_weight)).min(top.weight_total);
            row.total_samples += more.total_samples;
        }
    }
    let mut into = into.into_iter();
    top.rows.retain(|_| into.next().flatten().is_none());
}

fn is_of_plain_type(name: &str) -> bool {
    let Some((path, method)) = name
        .strip_prefix('<')
        .and_then(|rest| rest.split_once(">::"))
    else {
        return false;
    };
    is_path(path) && path.contains("::") && !method.is_empty()
}

/// Converts a legacy name to v0: `a::B<T,A>::c` to `<a::B>::c`.
fn as_v0(name: &str) -> Option<Cow<'_, str>> {
    let (path, rest) = name.split_once('<')?;
    let (parameters, method) = rest.split_once(">::")?;
    let is_parameter = |text: &str| {
        let mut letters = text.trim().chars();
        letters
            .next()
            .is_some_and(|first| first.is_ascii_uppercase())
            && letters.all(|letter| letter.is_ascii_alphanumeric())
    };
    (is_path(path) && path.contains("::") && parameters.split(',').all(is_parameter))
        .then(|| Cow::Owned(format!("<{path}>::{method}")))
}

fn is_path(text: &str) -> bool {
    let is_letter = |c: char| c.is_alphanumeric() || c == '_';
    text.split("::")
        .all(|part| !part.is_empty() && part.chars().all(is_letter))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Keys, ProfileBuilder, WeighBy, WeightUnit};

    fn rows(names: &[(&str, &str)]) -> Vec<(String, u64, u64)> {
        let mut builder = ProfileBuilder::new();
        let event = builder.add_event("cpu-clock", WeightUnit::Nanoseconds);
        let thread = builder.intern_thread_name("t");
        for (name, object) in names {
            let object = builder.intern_object(object);
            let function = builder.intern_function(Ok(name), object);
            let stack = builder.intern_stack(&[function]);
            builder.add_samples(event, thread, stack, 1, 10);
        }
        let profile = builder.finish();
        let mut top = TopFunctions::of(&profile, 0, WeighBy::Period, Keys::FUNCTIONS);
        merge(&profile, &mut top);
        let named = |key: RowKey| {
            profile
                .function(key.function.unwrap())
                .name
                .clone()
                .unwrap()
        };
        let mut rows: Vec<_> = (top.rows.iter())
            .map(|row| {
                (
                    named(row.key).to_string(),
                    row.self_weight,
                    row.total_samples,
                )
            })
            .collect();
        rows.sort();
        rows
    }

    #[test]
    fn a_function_that_two_manglings_name_has_one_row() {
        let [old, v0] = [
            "alloc::raw_vec::RawVecInner<A>::with_capacity_in",
            "<alloc::raw_vec::RawVecInner>::with_capacity_in",
        ];
        assert_eq!(rows(&[(old, "a"), (v0, "a")]), [(v0.to_owned(), 20, 2)]);
        assert_eq!(rows(&[(v0, "a"), (old, "a")]), [(v0.to_owned(), 20, 2)]);
        assert_eq!(rows(&[(v0, "a"), (old, "b")]).len(), 2);
        assert_eq!(rows(&[(old, "a")]), [(old.to_owned(), 10, 1)]);
    }

    #[test]
    fn functions_that_differ_stay_apart() {
        for (one, other) in [
            ("alloc::vec::Vec<u8>::push", "<alloc::vec::Vec>::push"),
            ("a::B<c::D>::e", "<a::B>::e"),
            ("a::B<T>::e", "<a::B<u8>>::e"),
            ("a::B<T>::e", "<a::B as c::D>::e"),
            ("a::b::<T>::e", "<a::b>::e"),
            ("a::B<T>::e", "<a::B>::f"),
        ] {
            assert_eq!(rows(&[(one, "x"), (other, "x")]).len(), 2, "{one} {other}");
        }
    }
}
