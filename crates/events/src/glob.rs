//! Shell patterns (glob(7)), as in `sched:sched_*`.

/// Returns true if the pattern matches the whole name. `*` matches any text, `?` any character,
/// `[a-c]` a character of the set, `[!a]` or `[^a]` any other.
///
/// The time is at most the product of both lengths.
///
/// # Examples
/// ```
/// use rprof_events::glob::matches;
///
/// assert!(matches("sched_*", "sched_switch"));
/// assert!(!matches("sched_?", "sched_switch"));
/// ```
pub fn matches(pattern: &str, name: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let name: Vec<char> = name.chars().collect();
    let (mut p, mut n) = (0, 0);
    // Index after the last star, and the end of its match.
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        if pattern.get(p) == Some(&'*') {
            star = Some((p, n));
            p += 1;
            continue;
        }
        if let Some(next) = match_one(&pattern, p, name[n]) {
            (p, n) = (next, n + 1);
            continue;
        }
        match star {
            Some((at, from)) => {
                star = Some((at, from + 1));
                (p, n) = (at + 1, from + 1);
            }
            None => return false,
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

pub(crate) fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

/// Returns the index after the pattern's next part, if it matches.
fn match_one(pattern: &[char], at: usize, c: char) -> Option<usize> {
    match pattern.get(at)? {
        '?' => Some(at + 1),
        '[' => match match_set(pattern, at, c) {
            Some((fits, next)) => fits.then_some(next),
            None => (c == '[').then_some(at + 1),
        },
        other => (*other == c).then_some(at + 1),
    }
}

/// Returns whether `c` is in the set at `at`, and the index after it. `None` for an unterminated
/// set, whose bracket is literal.
fn match_set(pattern: &[char], at: usize, c: char) -> Option<(bool, usize)> {
    let mut i = at + 1;
    let negated = matches!(pattern.get(i)?, '!' | '^');
    i += usize::from(negated);
    let first = i;
    let mut found = false;
    loop {
        let low = *pattern.get(i)?;
        if low == ']' && i > first {
            return Some((found != negated, i + 1));
        }
        match (pattern.get(i + 1), pattern.get(i + 2)) {
            (Some('-'), Some(high)) if *high != ']' => {
                found |= (low..=*high).contains(&c);
                i += 3;
            }
            _ => {
                found |= low == c;
                i += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_the_shell() {
        assert!(matches("sched_*", "sched_switch"));
        assert!(matches("*", ""));
        assert!(matches("*witch", "sched_switch"));
        assert!(matches("s*_s?itch", "sched_switch"));
        assert!(!matches("sched_*k", "sched_switch"));
        assert!(matches("sys_[a-c]*", "sys_brk") && !matches("sys_[!a-c]*", "sys_brk"));
        assert!(matches("[]x]", "]") && matches("a[", "a[") && !matches("a[", "ab"));
        assert!(!matches("", "x") && matches("", ""));
    }

    #[test]
    fn many_stars_end() {
        assert!(!matches(&"*a".repeat(200), &"a".repeat(199)));
        assert!(!matches(&"a*".repeat(100), &"b".repeat(10_000)));
    }
}
