//! Suggests names similar to the typed one.

const MAX_SUGGESTIONS: usize = 4;

/// Returns at most four similar names, nearest first.
pub fn names_near(typed: &str, names: Vec<String>) -> Vec<String> {
    let typed: String = typed.to_ascii_lowercase().chars().take(64).collect();
    if typed.is_empty() {
        return Vec::new();
    }
    let mut scored: Vec<(usize, String)> = names
        .into_iter()
        .filter_map(|name| {
            let lower = name.to_ascii_lowercase();
            let distance = edit_distance(&typed, &lower);
            let close = distance <= 1 + typed.len() / 4;
            let part = typed.len() >= 3 && (lower.contains(&typed) || typed.contains(&lower));
            (close || part).then_some((distance, name))
        })
        .collect();
    scored.sort_by_key(|(distance, _)| *distance);
    scored
        .into_iter()
        .take(MAX_SUGGESTIONS)
        .map(|(_, name)| name)
        .collect()
}

/// Returns the Levenshtein distance.
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let change = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

/// Returns the suggestions for a message; may be empty.
pub(crate) fn suggest_near(near: &[String]) -> String {
    match near {
        [] => String::new(),
        near => suggest_or_common(near),
    }
}

/// Falls back to common names.
pub(crate) fn suggest_or_common(near: &[String]) -> String {
    match near {
        [] => "; common ones: `cycles`, `cpu-clock`, `page-faults`".to_owned(),
        [one] => format!("; did you mean `{one}`?"),
        many => format!("; did you mean one of {}?", many.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distance_counts_changed_letters() {
        assert_eq!(edit_distance("", "abc"), 3);
        assert_eq!(edit_distance("cycles", "cycles"), 0);
        assert_eq!(edit_distance("cylces", "cycles"), 2);
        assert_eq!(edit_distance("cycle", "cycles"), 1);
    }
}
