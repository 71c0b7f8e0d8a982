//! Parser for folded stacks.

use std::collections::BTreeMap;

use super::run::Run;

pub(crate) type Folded = BTreeMap<String, u64>;

/// Parses stacks. Lines must be valid, and no stack may be duplicate.
pub(crate) fn folded(run: &Run) -> Folded {
    let mut stacks = Folded::new();
    for line in run.out().lines() {
        let parts = line.rsplit_once(' ');
        let parsed = parts.and_then(|(stack, weight)| Some((stack, weight.parse::<u64>().ok()?)));
        let Some((stack, weight)) = parsed else {
            panic!("{line:?} is no folded stack in\n{run}");
        };
        assert!(
            !stack.split(';').any(str::is_empty),
            "an empty frame in {line:?} of\n{run}"
        );
        let before = stacks.insert(stack.into(), weight);
        assert!(before.is_none(), "{stack:?} comes twice in\n{run}");
    }
    stacks
}
