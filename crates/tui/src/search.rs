//! Search for functions by regular expression.

use regex::{Regex, RegexBuilder};
use rprof_export::CleanNames;
use rprof_profile::Profile;
use rprof_profile::views::selection::{FunctionSet, functions_where};

#[derive(Clone, Debug)]
pub(crate) struct Search {
    pub(crate) text: String,
    pub(crate) functions: FunctionSet,
    /// Number of matching functions with samples.
    pub(crate) count: usize,
    /// Weight of samples with a match in their stack.
    pub(crate) weight: u64,
    /// Name of the single selected function, if the search was not typed.
    pub(crate) exact: Option<String>,
}

/// Size limit of a compiled expression, in bytes. Typical ones need some kilobytes.
const LARGEST: usize = 1 << 20;

/// Compiles an expression. Case matters if it contains capitals.
///
/// # Errors
/// Returns a one-line message if the expression is invalid.
pub(crate) fn compile(text: &str) -> Result<Regex, String> {
    let made = RegexBuilder::new(text)
        .case_insensitive(!text.chars().any(char::is_uppercase))
        .size_limit(LARGEST)
        .dfa_size_limit(LARGEST)
        .build();
    made.map_err(|error| {
        let text = error.to_string();
        let last = text.lines().last().unwrap_or_default();
        last.trim_start_matches("error: ").to_owned()
    })
}

pub(crate) fn matching(profile: &Profile, regex: &Regex) -> FunctionSet {
    let names = CleanNames::new(profile);
    functions_where(profile, |id| {
        names.function(id).is_some_and(|name| regex.is_match(&name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capitals_count_where_there_are_some() {
        assert!(compile("vec").unwrap().is_match("Vec::push"));
        assert!(!compile("Vec").unwrap().is_match("vec::push"));
        assert!(compile("a(").unwrap_err().contains("unclosed"));
        assert!(
            compile("(a{1000}){1000}")
                .unwrap_err()
                .contains("size limit")
        );
    }
}
