//! Languages of functions, and stacks without the code of interpreters.

pub mod fold;
pub mod languages;
pub mod native;
pub mod rules;
pub mod source_name;

use crate::frame::{Function, Object, ObjectKind};
pub use languages::{Language, UnknownLanguage};
pub use rules::FoldingRules;
pub use source_name::SourceName;

impl Language {
    /// Returns the language of a function. [Folded](crate::Profile::fold_languages) functions know
    /// it; others are judged by name, object and runtime.
    pub fn of(function: &Function, object: &Object) -> Language {
        if let Some(source) = &function.source {
            return source.language;
        }
        match object.kind {
            ObjectKind::Kernel | ObjectKind::Waiting => Language::Kernel,
            _ if function.name.is_ok() && is_generated(object) => {
                let source = SourceName::of(function, object).map(|source| source.language);
                let gap = source_name::language_of_gap(function, object);
                let of_runtime = || object.runtime.and_then(Language::of_runtime);
                source
                    .or(gap)
                    .or_else(of_runtime)
                    .unwrap_or(Language::Native)
            }
            _ => match &function.name {
                Ok(name) => match source_name::place_of_text(name) {
                    Some((language, _)) => language,
                    None => native::language_of(name),
                },
                Err(_) => Language::Native,
            },
        }
    }
}

/// Prefix of the names of files with generated code that `perf inject --jit` makes.
pub const INJECTED_CODE: &str = "jitted-";

/// Returns true for code that a runtime generated. perf names the object after the perf map.
fn is_generated(object: &Object) -> bool {
    let base = object.base_name();
    object.kind == ObjectKind::Jit
        || base.starts_with("perf-") && base.ends_with(".map")
        || base.starts_with(INJECTED_CODE)
}
