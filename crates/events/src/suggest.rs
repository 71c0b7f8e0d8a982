//! Names near the one that was typed.

/// Most names to suggest.
const MOST: usize = 4;

/// The names that a user may have meant, the nearest first.
pub(crate) fn names_near(typed: &str, names: Vec<String>) -> Vec<String> {
    let typed: String = typed.to_ascii_lowercase().chars().take(64).collect();
    if typed.is_empty() {
        return Vec::new();
    }
    let mut scored: Vec<(usize, String)> = names
        .into_iter()
        .filter_map(|name| {
            let lower = name.to_ascii_lowercase();
            let distance = edits(&typed, &lower);
            let close = distance <= 1 + typed.len() / 4;
            let part = typed.len() >= 3 && (lower.contains(&typed) || typed.contains(&lower));
            (close || part).then_some((distance, name))
        })
        .collect();
    scored.sort_by_key(|(distance, _)| *distance);
    scored
        .into_iter()
        .take(MOST)
        .map(|(_, name)| name)
        .collect()
}

/// How many letters must be put in, taken out or changed (Levenshtein distance).
fn edits(a: &str, b: &str) -> usize {
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

/// A part of an error message that may be empty.
pub(crate) fn suggest_only(near: &[String]) -> String {
    match near {
        [] => String::new(),
        near => suggest(near),
    }
}

/// A part of an error message, with common names where none is near.
pub(crate) fn suggest(near: &[String]) -> String {
    match near {
        [] => "; `cycles`, `cpu-clock` and `page-faults` are common ones".to_owned(),
        [one] => format!("; did you mean `{one}`?"),
        many => format!("; did you mean one of {}?", many.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        assert_eq!(edits("", "abc"), 3);
        assert_eq!(edits("cycles", "cycles"), 0);
        assert_eq!(edits("cylces", "cycles"), 2);
        assert_eq!(edits("cycle", "cycles"), 1);
    }
}
