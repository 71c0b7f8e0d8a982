//! [`Profile::fold_languages`]: stacks and names as people wrote them.

use rustc_hash::{FxHashMap, FxHashSet};

use super::rules::{FoldingRules, Kept};
use super::source_name::{gap, language_of_gap};
use super::{Language, SourceName};
use crate::frame::{
    FileId, Frame, Function, FunctionId, Line, Object, ObjectId, ObjectKind, SourceFunction,
    StackPosition,
};
use crate::model::Profile;

impl Profile {
    /// Folds the code of interpreters into the functions of their languages, by the
    /// [rules](FoldingRules), and gives these functions readable names: `f (app.py:12)`. Returns
    /// false and changes nothing if no such function has a name.
    ///
    /// The object of such a function becomes its source file. Functions of one name, file and line
    /// become one. No weight moves between functions of a language. All ids stay valid.
    ///
    /// # Examples
    /// ```
    /// use rprof_profile::{Object, ObjectKind, ProfileBuilder, WeightUnit};
    ///
    /// let mut builder = ProfileBuilder::new();
    /// let event = builder.add_event("cpu-clock", WeightUnit::Nanoseconds);
    /// let thread = builder.intern_thread_name("python3");
    /// let python = builder.intern_object("/usr/bin/python3.12");
    /// let names = builder.intern_object("/tmp/perf-7.map");
    /// let main = builder.intern_function(Ok("py::main:/srv/app.py:3"), names);
    /// let eval = builder.intern_function(Ok("_PyEval_EvalFrameDefault"), python);
    /// let stack = builder.intern_stack(&[main, eval]);
    /// builder.add_samples(event, thread, stack, 1, 10);
    /// let mut profile = builder.finish();
    ///
    /// assert!(profile.fold_languages());
    /// let leaf = profile.stack(stack).next_back().unwrap();
    /// assert_eq!(profile.function(leaf).name.as_deref(), Ok("main (app.py:3)"));
    /// ```
    pub fn fold_languages(&mut self) -> bool {
        let Some(rules) = FoldingRules::of(&self.functions, &self.objects) else {
            return false;
        };
        let shown = self.add_sources();
        self.fold_stacks(&rules, &shown);
        self.quality.is_by_language = true;
        true
    }

    /// Returns the new function of each old one.
    fn add_sources(&mut self) -> Vec<FunctionId> {
        let mut texts = texts(&self.functions, &self.objects).into_iter();
        let by_line = self
            .functions
            .iter()
            .any(|function| function.line.is_some());
        let mut known: FxHashMap<Function, FunctionId> = FxHashMap::default();
        let mut objects: FxHashMap<Box<str>, ObjectId> = FxHashMap::default();
        let mut files: FxHashMap<Box<str>, FileId> = FxHashMap::default();
        let ids = 0..self.functions.len() as u32;
        ids.map(|id| {
            let old = &self.functions[id as usize];
            let Some(source) = NamedSource::of(old, &self.objects[old.object.0 as usize]) else {
                return FunctionId(id);
            };
            let own_line = old.line;
            let source = match source.is_gap() {
                true => source,
                false => NamedSource {
                    text: texts.next().unwrap_or_default(),
                    ..source
                },
            };
            let file = source
                .file
                .clone()
                .map(|path| *(files.entry(path)).or_insert_with_key(|path| self.file(path)));
            let line = file.filter(|_| by_line).map(|file| Line {
                file,
                line: source.line,
                column: 0,
            });
            let object = *(objects.entry(source.object.name.clone())).or_insert_with(|| {
                self.objects.push(source.object.clone());
                ObjectId(self.objects.len() as u32 - 1)
            });
            let function = source.into_function(object, file, own_line.or(line));
            *known.entry(function).or_insert_with_key(|function| {
                self.functions.push(function.clone());
                FunctionId(self.functions.len() as u32 - 1)
            })
        })
        .collect()
    }

    fn file(&mut self, path: &str) -> FileId {
        let known = self.files.iter().position(|file| **file == *path);
        let at = known.unwrap_or_else(|| {
            self.files.push(path.into());
            self.files.len() - 1
        });
        FileId(at as u32)
    }

    fn fold_stacks(&mut self, rules: &FoldingRules, shown: &[FunctionId]) {
        let mut stacks = std::mem::take(&mut self.stacks);
        let (mut functions, mut kept) = (Vec::new(), Vec::new());
        let mut moved: FxHashMap<u32, u32> = FxHashMap::default();
        let mut runtimes: FxHashMap<Language, u32> = FxHashMap::default();
        stacks.rebuild(|frames, out| {
            functions.clear();
            functions.extend(frames.iter().map(|frame| {
                let depth = match &self.frames {
                    Some(frames) => frames[*frame as usize].inline_depth,
                    None => frame & u32::from(self.tells_inlined),
                };
                (self.function_of_frame(*frame), depth > 0)
            }));
            rules.fold(&functions, &mut kept);
            out.extend(kept.iter().map(|kept| match kept {
                Kept::Frame(at) => {
                    let (old, new) = (functions[*at].0, shown[functions[*at].0.0 as usize]);
                    match old == new {
                        true => frames[*at],
                        false => *(moved.entry(frames[*at]))
                            .or_insert_with(|| self.frame_of_source(Some(frames[*at]), new)),
                    }
                }
                Kept::Runtime(language) => *runtimes.entry(*language).or_insert_with(|| {
                    let function = self.runtime_function(*language);
                    self.frame_of_source(None, function)
                }),
            }));
        });
        self.stacks = stacks;
    }

    fn frame_of_source(&mut self, old: Option<u32>, function: FunctionId) -> u32 {
        let source = self.functions[function.0 as usize].source.as_deref();
        let start_line = source.map_or(0, |source| source.line);
        match &mut self.frames {
            None => function.0 << u32::from(self.tells_inlined),
            Some(frames) => {
                let old = old.map_or(Frame::of(function), |old| frames[old as usize]);
                frames.push(Frame {
                    function,
                    start_line,
                    ..old
                });
                frames.len() as u32 - 1
            }
        }
    }

    fn runtime_function(&mut self, language: Language) -> FunctionId {
        let runtime = NamedSource::runtime(language);
        self.objects.push(runtime.object.clone());
        let object = ObjectId(self.objects.len() as u32 - 1);
        self.functions
            .push(runtime.into_function(object, None, None));
        FunctionId(self.functions.len() as u32 - 1)
    }
}

/// Parts of a function with a readable name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedSource {
    /// Display name: `f (app.py:12)`.
    pub text: String,
    /// Object: the source file, or else the language in brackets.
    pub object: Object,
    /// Source file, if known.
    pub file: Option<Box<str>>,
    language: Language,
    /// Name without place.
    name: Box<str>,
    line: u32,
    column: u32,
}

impl NamedSource {
    /// Returns the readable form of a function that a runtime named; `None` for others.
    pub fn of(function: &Function, object: &Object) -> Option<NamedSource> {
        if let (Some(language), Ok(name)) = (language_of_gap(function, object), &function.name) {
            return Some(NamedSource::without_place(language, name.to_string()));
        }
        let source = SourceName::of(function, object)?;
        let file = Some(source.file).filter(|file| !file.is_empty());
        Some(NamedSource {
            text: source.text(0),
            object: generated_object(match file {
                Some(file) => file.into(),
                None => format!("[{}]", source.language.name()),
            }),
            file: file.map(Into::into),
            language: source.language,
            name: source.bare().into(),
            line: source.line,
            column: source.column,
        })
    }

    /// Returns the frame for interpreter code that works for native code.
    pub fn runtime(language: Language) -> NamedSource {
        NamedSource::without_place(language, language.runtime_frame())
    }

    fn without_place(language: Language, name: String) -> NamedSource {
        NamedSource {
            object: generated_object(format!("[{}]", language.name())),
            file: None,
            language,
            name: name.clone().into(),
            text: name,
            line: 0,
            column: 0,
        }
    }

    fn is_gap(&self) -> bool {
        gap(&self.name).is_some()
    }

    /// Returns the function, with the ids of its object and file.
    pub fn into_function(
        self,
        object: ObjectId,
        file: Option<FileId>,
        line: Option<Line>,
    ) -> Function {
        Function {
            name: Ok(self.text.into()),
            object,
            position: StackPosition::Inner,
            line,
            located: None,
            source: Some(Box::new(SourceFunction {
                language: self.language,
                name: self.name,
                file,
                line: self.line,
                column: self.column,
            })),
        }
    }
}

fn generated_object(name: String) -> Object {
    Object {
        name: name.into(),
        kind: ObjectKind::Jit,
        build_id: None,
        runtime: None,
    }
}

/// Maximum number of path components to tell files apart.
const MAX_PARTS: usize = 16;

/// Returns display names. Functions of different files never have equal ones.
fn texts(functions: &[Function], objects: &[Object]) -> Vec<String> {
    let named: Vec<SourceName<'_>> = (functions.iter())
        .filter_map(|function| SourceName::of(function, &objects[function.object.0 as usize]))
        .collect();
    let mut texts: Vec<String> = named.iter().map(|name| name.text(0)).collect();
    for parts in 2..=MAX_PARTS {
        let mut files: FxHashMap<&str, &str> = FxHashMap::default();
        let mut shared: FxHashSet<String> = FxHashSet::default();
        for (name, text) in named.iter().zip(&texts) {
            if *files.entry(text).or_insert(name.file) != name.file {
                shared.insert(text.clone());
            }
        }
        if shared.is_empty() {
            break;
        }
        for (name, text) in named.iter().zip(&mut texts) {
            if shared.contains(text.as_str()) {
                *text = name.text(parts);
            }
        }
    }
    texts
}

#[cfg(test)]
mod tests;
