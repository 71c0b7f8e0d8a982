//! Filters on objects, functions and languages, after symbolization.

use rprof_profile::language::rules::Kept;
use rprof_profile::language::{FoldingRules, SourceName};
use rprof_profile::pattern::{matches_function, matches_name, matches_object};
use rprof_profile::waits::WAIT_OBJECT;
use rprof_profile::{Filter, Function, FunctionId, Language};

use crate::symbolize::Symbols;

/// Compares each name with the patterns once.
pub(crate) struct StackFilter<'a> {
    symbols: &'a Symbols,
    filter: &'a Filter,
    /// Function f may be the leaf: `leaves[f]`. `None` if all may.
    leaves: Option<Vec<bool>>,
    /// The leaf may be function f, by its object. `None` if all may.
    objects: Option<Vec<bool>>,
    /// The leaf may be function f, by its language. `None` if all may.
    languages: Option<Vec<bool>>,
    /// Stacks with function f are accepted. `None` if all are.
    focus: Option<Vec<bool>>,
    folding: Option<FoldingRules>,
}

impl<'a> StackFilter<'a> {
    /// Compares all functions and objects to a filter. `by_language` folds
    /// interpreter code before it determines leaves.
    pub(crate) fn new(
        filter: &'a Filter,
        symbols: &'a Symbols,
        by_language: bool,
    ) -> StackFilter<'a> {
        let is_by_leaf = !(filter.symbols.is_empty()
            && filter.objects.is_empty()
            && filter.languages.is_empty());
        let folding = (by_language && is_by_leaf)
            .then(|| FoldingRules::of(&symbols.functions, &symbols.objects))
            .flatten();
        let functions = |patterns: &[String]| {
            let matches = |function: &Function| {
                (function.name.as_ref()).is_ok_and(|name| {
                    patterns
                        .iter()
                        .any(|pattern| matches_function(pattern, name))
                })
            };
            (!patterns.is_empty()).then(|| symbols.functions.iter().map(matches).collect())
        };
        let object_of = |function: &Function| &symbols.objects[function.object.0 as usize];
        let objects = |patterns: &[String]| {
            let is_any = |name: &str| patterns.iter().any(|p| matches_object(p, name));
            let by_object: Vec<bool> = symbols
                .objects
                .iter()
                .map(|object| is_any(&object.name))
                .collect();
            let matches = |function: &Function| {
                // After folding, the object is the source file.
                let source = match folding {
                    Some(_) => SourceName::of(function, object_of(function)),
                    None => None,
                };
                by_object[function.object.0 as usize]
                    || source.is_some_and(|source| is_any(source.file))
            };
            (!patterns.is_empty()).then(|| symbols.functions.iter().map(matches).collect())
        };
        let languages = |wanted: &[Language]| {
            let matches =
                |function: &Function| Language::of(function, object_of(function)).is_in(wanted);
            (!wanted.is_empty()).then(|| symbols.functions.iter().map(matches).collect())
        };
        StackFilter {
            symbols,
            filter,
            leaves: functions(&filter.symbols),
            objects: objects(&filter.objects),
            languages: languages(&filter.languages),
            focus: functions(&filter.focus),
            folding,
        }
    }

    /// Returns whether the filter accepts a stack's leaf: its object, its language, and its
    /// function or a call inlined into it. `from_root` iterates over the stack's locations.
    pub(crate) fn accepts_leaf<I: Iterator<Item = u32>>(
        &self,
        leaf: Option<u32>,
        from_root: impl FnOnce() -> I,
    ) -> bool {
        if self.leaves.is_none() && self.objects.is_none() && self.languages.is_none() {
            return true;
        }
        let Some(leaf) = leaf else { return false };
        match &self.folding {
            Some(rules) => self.accepts_folded(rules, leaf, from_root()),
            None => self.accepts_location(leaf),
        }
    }

    fn accepts_location(&self, leaf: u32) -> bool {
        let object = || self.symbols.outermost(leaf).0 as usize;
        let innermost = |accepted: &[bool]| {
            let frame = self.symbols.frames(leaf).last();
            frame.is_some_and(|frame| accepted[frame.function.0 as usize])
        };
        (self.objects.as_ref()).is_none_or(|accepted| accepted[object()])
            && (self.leaves.as_ref()).is_none_or(|accepted| self.has_any(leaf, accepted))
            && (self.languages.as_deref()).is_none_or(innermost)
    }

    fn accepts_folded(
        &self,
        rules: &FoldingRules,
        leaf: u32,
        from_root: impl Iterator<Item = u32>,
    ) -> bool {
        let frames = from_root.flat_map(|location| {
            let frames = self.symbols.frames(location).iter().enumerate();
            frames.map(|(depth, frame)| (frame.function, depth > 0))
        });
        let stack: Vec<(FunctionId, bool)> = frames.collect();
        let mut kept = Vec::new();
        rules.fold(&stack, &mut kept);
        let of_leaf = self.symbols.frames(leaf).len();
        match kept.last() {
            Some(Kept::Frame(at)) if at + of_leaf >= stack.len() => self.accepts_location(leaf),
            Some(Kept::Frame(at)) => {
                let function = stack[*at].0;
                let is_in = |accepted: &Option<Vec<bool>>| {
                    (accepted.as_ref()).is_none_or(|accepted| accepted[function.0 as usize])
                };
                is_in(&self.objects) && is_in(&self.leaves) && is_in(&self.languages)
            }
            Some(Kept::Runtime(language)) => {
                let name = language.runtime_frame();
                self.accepts_made(&name, &name, *language)
            }
            None => false,
        }
    }

    fn accepts_made(&self, name: &str, object: &str, language: Language) -> bool {
        let Filter {
            symbols,
            objects,
            languages,
            ..
        } = self.filter;
        (symbols.is_empty() || symbols.iter().any(|p| matches_name(p, name)))
            && (objects.is_empty() || objects.iter().any(|p| matches_object(p, object)))
            && (languages.is_empty() || language.is_in(languages))
    }

    pub(crate) fn accepts_reason(&self, reason: &str) -> bool {
        self.accepts_made(reason, WAIT_OBJECT, Language::Kernel)
    }

    pub(crate) fn is_focused_reason(&self, reason: &str) -> bool {
        self.filter.focus.iter().any(|p| matches_name(p, reason))
    }

    pub(crate) fn has_focus(&self) -> bool {
        self.focus.is_some()
    }

    /// Returns whether a location matches the focus patterns.
    pub(crate) fn is_focused(&self, location: u32) -> bool {
        (self.focus.as_ref()).is_none_or(|focused| self.has_any(location, focused))
    }

    fn has_any(&self, location: u32, functions: &[bool]) -> bool {
        let mut frames = self.symbols.frames(location).iter();
        frames.any(|frame| functions[frame.function.0 as usize])
    }
}
