//! [`LiveFolding`]: folds interpreter code in live profiles.

use rprof_profile::FunctionId;
use rprof_profile::language::FoldingRules;
use rprof_profile::language::fold::NamedSource;
use rprof_profile::language::rules::Kept;

use crate::symbolize::SymbolsBuilder;

/// Folds stacks one by one, like [`rprof_profile::Profile::fold_languages`]. Function ids stay
/// valid.
#[derive(Debug, Default)]
pub(super) struct LiveFolding {
    rules: FoldingRules,
    shown: Vec<FunctionId>,
    /// Scratch space.
    stack: Vec<(FunctionId, bool)>,
    kept: Vec<Kept>,
}

impl LiveFolding {
    pub(super) fn folds(&self) -> bool {
        self.rules.has_sources()
    }

    /// Returns the functions, root first, of a stack of locations, leaf first.
    pub(super) fn fold(
        &mut self,
        symbols: &mut SymbolsBuilder,
        locations: &[u32],
    ) -> Box<[FunctionId]> {
        self.extend(symbols);
        self.stack.clear();
        for location in locations.iter().rev() {
            let functions = symbols.functions_at(*location).enumerate();
            self.stack
                .extend(functions.map(|(depth, id)| (id, depth > 0)));
        }
        if !self.folds() {
            return self.stack.iter().map(|(id, _)| *id).collect();
        }
        self.rules.fold(&self.stack, &mut self.kept);
        let function = |kept: &Kept| match kept {
            Kept::Frame(at) => self.shown[self.stack[*at].0.0 as usize],
            Kept::Runtime(language) => symbols.add_source(NamedSource::runtime(*language)),
        };
        self.kept.iter().map(function).collect()
    }

    fn extend(&mut self, symbols: &mut SymbolsBuilder) {
        while self.shown.len() < symbols.functions_and_objects().0.len() {
            let id = FunctionId(self.shown.len() as u32);
            let source = {
                let (functions, objects) = symbols.functions_and_objects();
                let function = &functions[id.0 as usize];
                NamedSource::of(function, &objects[function.object.0 as usize])
            };
            self.shown
                .push(source.map_or(id, |source| symbols.add_source(source)));
        }
        let (functions, objects) = symbols.functions_and_objects();
        self.rules.extend(functions, objects);
    }
}
