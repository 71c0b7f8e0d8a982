//! Suggestions for filter patterns that match nothing.

use std::collections::{BTreeMap, BTreeSet};

use rprof_events::suggest::names_near;
use rprof_export::clean::brief;
use rprof_profile::pattern::{matches_function, matches_object};
use rprof_profile::{Filter, Profile};

const MAX_OBJECTS: usize = 3;

/// Returns a message for each function or object pattern without a match. The function may be one
/// without a name.
pub(crate) fn unmatched(profile: &Profile, filter: &Filter) -> Vec<String> {
    let functions = || {
        let names = profile.functions.iter();
        names.filter_map(|function| function.name.as_deref().ok())
    };
    let objects = || profile.objects.iter().map(|object| &*object.name);
    // Only the functions of samples that passed the filter may be known, so a caller may be missing.
    let sampled = filter.symbols.iter().map(|one| ("sampled symbol", one));
    let focus = filter.focus.iter().map(|one| ("symbol", one));
    let symbols = (sampled.chain(focus))
        .filter(|(_, pattern)| !functions().any(|name| matches_function(pattern, name)))
        .map(|(what, pattern)| {
            sentence(what, pattern, last_part, &mut functions()) + &nameless(profile)
        });
    let objects = (filter.objects.iter())
        .filter(|pattern| !objects().any(|name| matches_object(pattern, name)))
        .map(|pattern| sentence("object", pattern, file_stem, &mut objects()));
    symbols.chain(objects).collect()
}

/// Returns a message with the nearest names: similar as a whole, or in the part that people type.
fn sentence<'n>(
    what: &str,
    pattern: &str,
    part: fn(&str) -> &str,
    names: &mut dyn Iterator<Item = &'n str>,
) -> String {
    let typed = pattern.replace(['*', '?'], "");
    let typed = part(&typed);
    let by_part: BTreeMap<&str, &str> = names.map(|name| (part(name), name)).collect();
    let parts = by_part.keys().filter(|part| part.len() > 2);
    let near = names_near(typed, parts.map(|part| (*part).to_owned()).collect());
    let near: Vec<&str> = near
        .iter()
        .filter_map(|part| by_part.get(&**part).copied())
        .collect();
    match near.is_empty() {
        true => format!("no {what} matches `{pattern}`"),
        false => format!(
            "no {what} matches `{pattern}`; nearest: {}",
            near.join(", ")
        ),
    }
}

/// Returns the objects with functions that have no symbol, and the reasons.
fn nameless(profile: &Profile) -> String {
    let objects: BTreeSet<String> = (profile.functions.iter())
        .filter_map(|function| {
            let reason = function.nameless()?;
            let object = brief(&profile.object(function.object).name);
            Some(format!("{object} ({reason})"))
        })
        .collect();
    let some: Vec<&str> = objects
        .iter()
        .take(MAX_OBJECTS)
        .map(String::as_str)
        .collect();
    match some.is_empty() {
        true => String::new(),
        false => {
            let rest = if objects.len() > some.len() {
                ", …"
            } else {
                ""
            };
            format!("; functions without a name: {}{rest}", some.join(", "))
        }
    }
}

fn last_part(name: &str) -> &str {
    name.rsplit("::").next().unwrap_or(name)
}

/// Returns a file name without folders, and without the version of a library.
fn file_stem(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.split_once(".so").map_or(name, |(stem, _)| stem)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_profile::{ProfileBuilder, Reason};

    #[test]
    fn nearest_names_are_told_of_what_nothing_matches() {
        let mut builder = ProfileBuilder::new();
        let object = builder.intern_object("/usr/lib/libz.so.1");
        for name in ["slow::dedup", "slow::rank", "main"] {
            builder.intern_function(Ok(name), object);
        }
        let profile = builder.finish();
        let of = |symbol: &str, dso: &str| {
            let filter = Filter {
                symbols: vec![symbol.into()],
                objects: vec![dso.into()],
                ..Filter::default()
            };
            unmatched(&profile, &filter)
        };
        assert!(of("slow::*", "libz").is_empty());
        assert_eq!(
            of("dedpu", "libzz"),
            [
                "no sampled symbol matches `dedpu`; nearest: slow::dedup",
                "no object matches `libzz`; nearest: /usr/lib/libz.so.1"
            ]
        );
        assert_eq!(
            of("qwertyuiop", "libz"),
            ["no sampled symbol matches `qwertyuiop`"]
        );
    }

    #[test]
    fn function_without_a_match_may_be_one_without_a_name() {
        let mut builder = ProfileBuilder::new();
        let program = builder.intern_object("/srv/app");
        builder.intern_function(Err(Reason::Stripped), program);
        let other = builder.intern_object("/usr/lib/libz.so.1");
        builder.intern_function(Ok("inflate"), other);
        let filter = Filter {
            symbols: vec!["price".into()],
            ..Filter::default()
        };
        assert_eq!(
            unmatched(&builder.finish(), &filter),
            [format!(
                "no sampled symbol matches `price`; functions without a name: /srv/app ({})",
                Reason::Stripped
            )]
        );
    }
}
