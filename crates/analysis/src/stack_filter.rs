//! Filters on objects and functions. They need symbols, so they run after symbolization.

use rprof_profile::Filter;
use rprof_profile::pattern::{matches_function, matches_name, matches_object};
use rprof_profile::waits::WAIT_OBJECT;

use crate::symbolize::Symbols;

/// Filter on the objects and functions of a stack. Compares each name with the patterns once.
pub(crate) struct StackFilter<'a> {
    symbols: &'a Symbols,
    filter: &'a Filter,
    /// `leaves[f]`: function f may be the leaf. `None` if all may.
    leaves: Option<Vec<bool>>,
    /// `objects[o]`: the leaf may lie in object o. `None` if it may lie in all.
    objects: Option<Vec<bool>>,
    /// `focus[f]`: stacks with function f are accepted. `None` if all are.
    focus: Option<Vec<bool>>,
}

impl<'a> StackFilter<'a> {
    /// Compares all functions and objects to the patterns of a filter.
    pub(crate) fn new(filter: &'a Filter, symbols: &'a Symbols) -> StackFilter<'a> {
        let functions = |patterns: &[String]| {
            let matches = |function: &rprof_profile::Function| {
                (function.name.as_ref()).is_ok_and(|name| {
                    patterns
                        .iter()
                        .any(|pattern| matches_function(pattern, name))
                })
            };
            (!patterns.is_empty()).then(|| symbols.functions.iter().map(matches).collect())
        };
        let objects = |patterns: &[String]| {
            let matches = |object: &rprof_profile::Object| {
                let mut patterns = patterns.iter();
                patterns.any(|pattern| matches_object(pattern, &object.name))
            };
            (!patterns.is_empty()).then(|| symbols.objects.iter().map(matches).collect())
        };
        StackFilter {
            symbols,
            filter,
            leaves: functions(&filter.symbols),
            objects: objects(&filter.objects),
            focus: functions(&filter.focus),
        }
    }

    /// Returns whether the filter accepts a stack's leaf: its object, and its function or a call
    /// inlined into it.
    pub(crate) fn accepts_leaf(&self, leaf: Option<u32>) -> bool {
        if self.leaves.is_none() && self.objects.is_none() {
            return true;
        }
        let Some(leaf) = leaf else { return false };
        let object = || {
            let outermost = self.symbols.outermost(leaf);
            self.symbols.functions[outermost.0 as usize].object.0 as usize
        };
        (self.objects.as_ref()).is_none_or(|accepted| accepted[object()])
            && (self.leaves.as_ref()).is_none_or(|accepted| self.has_any(leaf, accepted))
    }

    /// Returns whether the filter accepts a wait by its reason.
    pub(crate) fn accepts_reason(&self, reason: &str) -> bool {
        let (symbols, objects) = (&self.filter.symbols, &self.filter.objects);
        (symbols.is_empty() || symbols.iter().any(|p| matches_name(p, reason)))
            && (objects.is_empty() || objects.iter().any(|p| matches_object(p, WAIT_OBJECT)))
    }

    /// Returns whether the reason of a wait matches the focus patterns.
    pub(crate) fn is_focused_reason(&self, reason: &str) -> bool {
        self.filter.focus.iter().any(|p| matches_name(p, reason))
    }

    /// Returns whether the filter has focus patterns.
    pub(crate) fn has_focus(&self) -> bool {
        self.focus.is_some()
    }

    /// Returns whether a location matches the focus patterns, so that its whole stack is accepted.
    pub(crate) fn is_focused(&self, location: u32) -> bool {
        (self.focus.as_ref()).is_none_or(|focused| self.has_any(location, focused))
    }

    fn has_any(&self, location: u32, functions: &[bool]) -> bool {
        let mut frames = self.symbols.frames(location).iter();
        frames.any(|frame| functions[frame.function.0 as usize])
    }
}
