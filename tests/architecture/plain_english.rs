//! Expressions that make technical English hard to read, counted for each 1,000 words.
//!
//! Three kinds: a relative clause in place of a noun ("what is", "those of"), a preposition with
//! "which", and verbs of speaking or keeping in the passive ("is told", "is kept"). Well-read
//! projects have 1 to 2.6.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;

/// Limit for the comments of a crate.
pub(crate) const MAX_IN_COMMENTS: f64 = 5.0;
/// Limit for a page.
pub(crate) const MAX_IN_PAGES: f64 = 3.0;

static HARD: LazyLock<Regex> = LazyLock::new(|| {
    let clauses = r"that of|those of|those that|those which|that which|what (?:is|was|has|had|there|they|it|comes|came|can|must|may|becomes|runs|ran)|whoever|whatever|whichever|nobody|somebody|anybody|whom|whose";
    let prepositions =
        r"(?:of|in|to|by|from|at|for|behind|on|with|out of|after|before|beside|below|above) which";
    let verbs = r"(?:is|are|was|were|be|been|being) (?:told|said|known|had|taken|made|meant|asked|shown|seen|held|kept|given|left)";
    let all = format!(r"(?i)\b(?:{clauses}|{prepositions}|{verbs})\b");
    Regex::new(&all).expect("a regular expression")
});

static WORD: LazyLock<Regex> =
    LazyLock::new(|| Regex::new("[A-Za-z']+").expect("a regular expression"));

pub(crate) fn comments_below(folder: &Path) -> String {
    let mut text = String::new();
    for entry in fs::read_dir(folder).expect("a readable folder") {
        let path = entry.expect("a readable folder").path();
        if path.is_dir() {
            text.push_str(&comments_below(&path));
        } else if path.extension().is_some_and(|end| end == "rs") {
            let source = fs::read_to_string(&path).expect("a text file");
            for line in source.lines().map(str::trim_start) {
                match line.strip_prefix("//") {
                    Some(comment) => {
                        text.push_str(comment.trim_start_matches(['/', '!']).trim());
                        text.push(' ');
                    }
                    None => text.push('\n'),
                }
            }
        }
    }
    text
}

pub(crate) fn words(text: &str) -> usize {
    WORD.find_iter(text).count()
}

/// Returns a message if a text exceeds `limit` for each 1,000 words.
pub(crate) fn above(name: &str, text: &str, limit: f64) -> Option<String> {
    let words = words(text);
    let found: Vec<&str> = HARD.find_iter(text).map(|hard| hard.as_str()).collect();
    let rate = found.len() as f64 * 1000.0 / words.max(1) as f64;
    // A short text may have one.
    (rate > limit && found.len() > 1).then(|| {
        let first = &found[..found.len().min(5)];
        format!("{name}: {rate:.1} for each 1,000 words (limit {limit}), such as {first:?}")
    })
}

#[test]
fn hard_sentence_is_found() {
    let hard = "Returns whose time that of each process is, by which it is known.";
    assert_eq!(words(hard), 13);
    let found = above("page", hard, MAX_IN_COMMENTS).expect("a message");
    assert!(
        found.contains("\"whose\", \"that of\", \"by which\", \"is known\""),
        "{found}"
    );
    assert_eq!(
        above("page", "Maps each pid to its workload.", MAX_IN_PAGES),
        None
    );
}
