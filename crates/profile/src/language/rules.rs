//! [`FoldingRules`]: folds the code of interpreters into the functions that it runs.

use std::borrow::Cow;

use rustc_hash::{FxHashMap, FxHashSet};

use super::native::is_of_library;
use super::source_name::{
    SourceName, gap, is_generated_plumbing, is_java_interpreter, is_java_stub,
};
use super::{Language, is_generated};
use crate::frame::{Function, FunctionId, Object, ObjectKind, StackPosition};

const PYTHON_LOOP: &str = "_PyEval_EvalFrameDefault";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// Function in an interpreted language. Functions of equal name and file share a number.
    Source { language: Language, number: u32 },
    /// Frame in place of an unnamed function.
    Unnamed(Language),
    /// Code of an interpreter or runtime.
    Plumbing(Language),
    /// Generated code without a name, of an unknown runtime.
    Generated,
    /// Start code of the C library.
    Start,
    /// Native code of the program or of a library, and the kernel.
    Native,
}

impl Role {
    fn of_program(self) -> Option<Language> {
        match self {
            Role::Source { language, .. } | Role::Unnamed(language) => Some(language),
            _ => None,
        }
    }
}

/// Frame of a folded stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// The frame at this index of the unfolded stack.
    Frame(usize),
    /// Runtime code that works for the native code before it: see [`Language::runtime_frame`].
    Runtime(Language),
}

/// Rules that fold the code of interpreters into the functions that it runs.
///
/// - Code of an interpreter belongs to the function of its language that called it, which takes
///   over its weight.
/// - Between native code and a function of the language, it is only the way there, and omitted.
/// - Called by native code, as by an extension module, it is one frame of its own: the native
///   code's self must not grow.
/// - Without a caller in the language, it stays: garbage collectors, compilers, start-up. Only the
///   way to the first function of the language is omitted, with the C library's start.
/// - Code of the interpreter for an unnamed function stays as well. Its caller did not spend that
///   time.
/// - A function that a trampoline names and a profiler added again is one frame.
#[derive(Clone, Debug, Default)]
pub struct FoldingRules {
    roles: Vec<Role>,
    /// Parsed lines, and whether they describe code, by function.
    places: FxHashMap<u32, (u32, u32, bool)>,
    /// Functions that only name the generated code before them.
    stubs: FxHashSet<u32>,
    gaps: FxHashSet<u32>,
    /// Objects that contain Python's interpreter.
    pythons: FxHashSet<u32>,
}

impl FoldingRules {
    /// Finds the roles of all functions. Returns `None` if no function of an interpreted language
    /// has a name.
    pub fn of(functions: &[Function], objects: &[Object]) -> Option<FoldingRules> {
        let mut rules = FoldingRules::default();
        rules.extend(functions, objects);
        rules.has_sources().then_some(rules)
    }

    /// Returns true if a function of an interpreted language has a name.
    pub fn has_sources(&self) -> bool {
        !self.places.is_empty()
    }

    /// Adds the roles of functions that follow the known ones.
    pub fn extend(&mut self, functions: &[Function], objects: &[Object]) {
        let mut numbers: FxHashMap<(Language, Cow<'_, str>, &str), u32> = FxHashMap::default();
        let known = self.roles.len().min(functions.len());
        if known == functions.len() {
            return;
        }
        let new = functions.iter().skip(known);
        let evals = new.filter(|function| function.name.as_deref() == Ok(PYTHON_LOOP));
        self.pythons.extend(evals.map(|function| function.object.0));
        let old = functions.iter().enumerate().take(known);
        for (at, function) in old {
            if let Role::Source { number, .. } = self.roles[at]
                && let Some(name) = source_of(function, objects)
            {
                numbers.insert(name.key(), number);
            }
        }
        for (at, function) in functions.iter().enumerate().skip(known) {
            let object = &objects[function.object.0 as usize];
            let role = match source_of(function, objects) {
                Some(name) => {
                    let place = (name.line, name.column, name.is_of_code);
                    self.places.insert(at as u32, place);
                    Role::Source {
                        language: name.language,
                        number: *numbers.entry(name.key()).or_insert(at as u32),
                    }
                }
                None if self.is_of_python(function) => Role::Plumbing(Language::Python),
                None => role_of(function, object),
            };
            if matches!(role, Role::Plumbing(_)) && function.name.as_deref().is_ok_and(is_java_stub)
            {
                self.stubs.insert(at as u32);
            }
            if function.name.as_deref().ok().and_then(gap).is_some() {
                self.gaps.insert(at as u32);
            }
            self.roles.push(role);
        }
    }

    /// Returns true for a function of Python in a program that contains it.
    fn is_of_python(&self, function: &Function) -> bool {
        let is_api = |name: &str| name.starts_with("_Py") || name.starts_with("Py");
        self.pythons.contains(&function.object.0) && function.name.as_deref().is_ok_and(is_api)
    }

    /// Folds a stack of functions, root first, each with true for an inlined call. Replaces the
    /// contents of `kept`.
    pub fn fold(&self, stack: &[(FunctionId, bool)], kept: &mut Vec<Kept>) {
        kept.clear();
        let Some(first) = (0..stack.len()).find(|at| self.role(stack, *at).of_program().is_some())
        else {
            kept.extend((0..stack.len()).map(Kept::Frame));
            return;
        };
        let root = self.role(stack, first).of_program();
        let leads = |role| matches!(role, Role::Plumbing(language) if Some(language) == root);
        kept.extend(
            (0..first)
                .filter(|at| !leads(self.role(stack, *at)))
                .map(Kept::Frame),
        );
        let is_start =
            |kept: &Kept| matches!(kept, Kept::Frame(at) if self.role(stack, *at) == Role::Start);
        if kept.iter().all(is_start) {
            kept.clear();
        }
        let mut at = first;
        while at < stack.len() {
            match self.role(stack, at) {
                Role::Plumbing(language) => {
                    let mut end = at + 1;
                    while end < stack.len() && self.role(stack, end) == Role::Plumbing(language) {
                        end += 1;
                    }
                    if self.names_last(stack, at, language, kept) {
                        kept.pop();
                    }
                    self.fold_run(stack, (at..end, language), kept);
                    at = end;
                }
                role => {
                    self.push(stack, at, role, kept);
                    at += 1;
                }
            }
        }
    }

    /// Returns true if a frame only names the last kept one, unnamed code of a stub.
    fn names_last(
        &self,
        stack: &[(FunctionId, bool)],
        at: usize,
        language: Language,
        kept: &[Kept],
    ) -> bool {
        let Some(Kept::Frame(last)) = kept.last() else {
            return false;
        };
        self.stubs.contains(&stack[at].0.0)
            && last + 1 == at
            && self.role(stack, *last) == Role::Unnamed(language)
    }

    fn fold_run(
        &self,
        stack: &[(FunctionId, bool)],
        (run, language): (std::ops::Range<usize>, Language),
        kept: &mut Vec<Kept>,
    ) {
        let of_program = |at: usize| self.role(stack, at).of_program();
        let caller = kept.last().map(|last| match last {
            Kept::Frame(at) => of_program(*at),
            Kept::Runtime(language) => Some(*language),
        });
        let is_called = caller == Some(Some(language));
        let leads = run.end < stack.len() && of_program(run.end) == Some(language);
        if is_called || leads {
            return;
        }
        match (0..run.start).any(|at| of_program(at) == Some(language)) {
            // Native code called back.
            true if run.end == stack.len() => kept.push(Kept::Runtime(language)),
            true => {}
            false => kept.extend(run.map(Kept::Frame)),
        }
    }

    /// Adds a frame that is no plumbing, unless it repeats the last one.
    fn push(&self, stack: &[(FunctionId, bool)], at: usize, role: Role, kept: &mut Vec<Kept>) {
        let last = match kept.last() {
            Some(Kept::Frame(last)) => Some((*last, self.role(stack, *last))),
            _ => None,
        };
        match (role, last) {
            (Role::Source { number: own, .. }, Some((last, Role::Source { number, .. })))
                if own == number && self.is_same_twice(stack[last].0, stack[at].0) =>
            {
                kept.pop();
            }
            (Role::Source { language, .. }, Some((last, Role::Unnamed(of))))
                if language == of
                    && of != Language::Python
                    && last + 1 == at
                    && !self.places.get(&stack[at].0.0).is_none_or(|place| place.2) =>
            {
                kept.pop();
            }
            // A bundle of Node.js has the name of its program.
            (
                Role::Source {
                    language: Language::JavaScript,
                    ..
                },
                Some((last, Role::Generated)),
            ) if last + 1 == at && !self.places.get(&stack[at].0.0).is_none_or(|place| place.2) => {
                kept.pop();
            }
            // Without a name, several functions look like one.
            (Role::Unnamed(_), Some((last, _))) if stack[last].0 == stack[at].0 => return,
            // The code of an unnamed function, and the frame in its place.
            (Role::Unnamed(language), Some((last, Role::Unnamed(of))))
                if language == of
                    && last + 1 == at
                    && self.gaps.contains(&stack[at].0.0)
                    && !self.gaps.contains(&stack[last].0.0) =>
            {
                kept.pop();
                if let Some(Kept::Frame(last)) = kept.last()
                    && stack[*last].0 == stack[at].0
                {
                    return;
                }
            }
            _ => {}
        }
        kept.push(Kept::Frame(at));
    }

    /// Returns whether a function of code, and one added by a profiler, are one activation.
    fn is_same_twice(&self, outer: FunctionId, inner: FunctionId) -> bool {
        let places = [outer, inner].map(|id| self.places.get(&id.0));
        let [Some(outer), Some(inner)] = places else {
            return false;
        };
        let is_same = |a: u32, b: u32| a == b || a == 0 || b == 0;
        outer.2 && !inner.2 && is_same(outer.0, inner.0) && is_same(outer.1, inner.1)
    }

    /// Returns the role of a frame. Calls inlined into plumbing are plumbing.
    fn role(&self, stack: &[(FunctionId, bool)], at: usize) -> Role {
        let role = |at: usize| {
            let (function, _) = stack[at];
            self.roles
                .get(function.0 as usize)
                .copied()
                .unwrap_or(Role::Native)
        };
        let own = role(at);
        if own != Role::Native || !stack[at].1 {
            return own;
        }
        let physical = (0..at).rev().find(|at| !stack[*at].1);
        match physical.map(role) {
            Some(plumbing @ Role::Plumbing(_)) => plumbing,
            _ => own,
        }
    }
}

fn source_of<'f>(function: &'f Function, objects: &[Object]) -> Option<SourceName<'f>> {
    SourceName::of(function, &objects[function.object.0 as usize])
}

fn role_of(function: &Function, object: &Object) -> Role {
    let name = function.name.as_deref();
    if let Some(language) = name.ok().and_then(gap) {
        return Role::Unnamed(language);
    }
    match object.kind {
        ObjectKind::Kernel | ObjectKind::Waiting => return Role::Native,
        _ if is_generated(object) => return role_of_generated(name.ok(), object),
        _ => {}
    }
    if name == Ok("Builtins_InterpreterEntryTrampoline") {
        return Role::Unnamed(Language::JavaScript);
    }
    if let Some(runtime) = Language::of_image(object.base_name())
        && !name.is_ok_and(|name| is_of_library(name, runtime))
    {
        return Role::Plumbing(runtime);
    }
    // V8 in other programs than Node.js.
    if name.is_ok_and(|name| name.starts_with("Builtins_") || name.starts_with("v8::")) {
        return Role::Plumbing(Language::JavaScript);
    }
    // Versioned names of the C library have no position.
    let is_start = name.is_ok_and(|name| name.starts_with("__libc_start_"));
    match function.position {
        StackPosition::Root => Role::Start,
        _ if is_start => Role::Start,
        _ => Role::Native,
    }
}

fn role_of_generated(name: Option<&str>, object: &Object) -> Role {
    let language = object.runtime.and_then(Language::of_runtime);
    match (name, language) {
        (Some(name), Some(Language::Java)) if is_java_interpreter(name) => {
            Role::Unnamed(Language::Java)
        }
        (Some(name), _) if is_java_stub(name) => Role::Plumbing(Language::Java),
        (Some(name), language) if is_generated_plumbing(name, object.runtime) => {
            Role::Plumbing(language.unwrap_or(Language::JavaScript))
        }
        (None, Some(language @ (Language::JavaScript | Language::Java))) => Role::Unnamed(language),
        (None, None) => Role::Generated,
        _ => Role::Native,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ProfileBuilder;
    use crate::runtime::Runtime;

    /// Folds a stack of `NAME@OBJECT`; objects `jit` and `jvm` are generated code.
    fn folded(stack: &[&str]) -> Vec<String> {
        let mut builder = ProfileBuilder::new();
        let ids: Vec<FunctionId> = (stack.iter())
            .map(|text| {
                let (name, object) = text.rsplit_once('@').unwrap();
                let kind = match object {
                    "kernel" => ObjectKind::Kernel,
                    "jit" | "jvm" | "v8" => ObjectKind::Jit,
                    _ => ObjectKind::File,
                };
                let runtime = match object {
                    "jvm" => Some(Runtime::Java),
                    "v8" => Some(Runtime::Node),
                    _ => None,
                };
                let object = builder.add_object(Object {
                    name: object.into(),
                    kind,
                    build_id: None,
                    runtime,
                });
                builder.add_function(Function {
                    name: match name {
                        "?" => Err(rprof_image::Reason::JitWithoutMap),
                        name => Ok(name.into()),
                    },
                    position: match name.starts_with("_start") || name.starts_with("__libc_start") {
                        true => StackPosition::Root,
                        false => StackPosition::Inner,
                    },
                    object,
                    line: None,
                    located: None,
                    source: None,
                })
            })
            .collect();
        let profile = builder.finish();
        let rules = FoldingRules::of(&profile.functions, &profile.objects);
        let frames: Vec<_> = ids.iter().map(|id| (*id, false)).collect();
        let mut kept = Vec::new();
        match rules {
            Some(rules) => rules.fold(&frames, &mut kept),
            None => kept.extend((0..frames.len()).map(Kept::Frame)),
        }
        let text = |kept: &Kept| match kept {
            Kept::Frame(at) => stack[*at].rsplit_once('@').unwrap().0.to_owned(),
            Kept::Runtime(language) => language.runtime_frame(),
        };
        kept.iter().map(text).collect()
    }

    const EVAL: &str = "_PyEval_EvalFrameDefault@libpython3.12.so.1.0";

    #[test]
    fn interpreter_code_belongs_to_the_function_that_it_runs() {
        let start = [
            "_start@python3.12",
            "__libc_start_main@libc.so.6",
            "Py_Main@python3.12",
        ];
        let main = "py::main:/x/app.py@jit";
        let all = [&start[..], &[main, EVAL, "dict_get@python3.12"]].concat();
        assert_eq!(folded(&all), ["py::main:/x/app.py"]);
        let all = [
            &start[..],
            &[main, EVAL, "memcpy@libc.so.6", "fault@kernel"],
        ]
        .concat();
        assert_eq!(folded(&all), ["py::main:/x/app.py", "memcpy", "fault"]);
        let all = [&["main@uwsgi"], &start[..], &[EVAL, main]].concat();
        assert_eq!(
            folded(&all),
            ["main", "__libc_start_main", "py::main:/x/app.py"]
        );
        let eval = "_PyEval_EvalFrameDefault@hot";
        let bundle = ["main@hot", eval, main, "PyNumber_Add@hot", "work@hot"];
        assert_eq!(folded(&bundle), ["main", "py::main:/x/app.py", "work"]);
        let bundle = ["?@jit", "JS:f /x/a.js:1:2@jit"];
        assert_eq!(folded(&bundle), ["JS:f /x/a.js:1:2"]);
    }

    #[test]
    fn extensions_stay_below_their_callers_and_their_calls_back_are_direct() {
        let (f, key) = ("py::f:/x/app.py:3@jit", "py::key:/x/app.py:9@jit");
        let (call, sort) = ("PyObject_Call@python3.12", "sort@numpy.so");
        assert_eq!(
            folded(&[f, EVAL, sort, call, EVAL, key, EVAL]),
            ["py::f:/x/app.py:3", "sort", "py::key:/x/app.py:9"]
        );
        assert_eq!(
            folded(&[f, EVAL, key]),
            ["py::f:/x/app.py:3", "py::key:/x/app.py:9"]
        );
        assert_eq!(
            folded(&[f, EVAL, sort, call]),
            ["py::f:/x/app.py:3", "sort", "[Python runtime]"]
        );
        assert_eq!(
            folded(&[f, EVAL, sort, call, "memcpy@libc.so.6"]),
            ["py::f:/x/app.py:3", "sort", "memcpy"]
        );
    }

    #[test]
    fn libraries_in_a_runtimes_image_stay_below_their_callers() {
        let f = "JS:*f /x/a.js:1:2@v8";
        let all = [
            "uv_run@node",
            "llhttp_execute@node",
            f,
            "Builtins_CEntry@node",
            "node::Zip@node",
        ];
        let all = [&all[..], &["deflate@node", "deflate_slow@node"]].concat();
        assert_eq!(
            folded(&all),
            ["JS:*f /x/a.js:1:2", "deflate", "deflate_slow"]
        );
    }

    #[test]
    fn runtime_code_without_a_caller_in_the_language_stays() {
        let collector = [
            "start_thread@libc.so.6",
            "v8::internal::Scavenger::Run@node",
            "w@node",
        ];
        let names = ["start_thread", "v8::internal::Scavenger::Run", "w"];
        let known = ["JS:*f /x/a.js:1:2@v8"];
        assert_eq!(folded(&collector), names);
        let mut functions = known.to_vec();
        functions.extend(collector);
        assert_eq!(folded(&functions)[0], "JS:*f /x/a.js:1:2");
        assert_eq!(
            folded(&[
                "py::f:a.py:1@jit",
                EVAL,
                "uv_run@libuv.so.1",
                "uv__io@libuv.so.1"
            ]),
            ["py::f:a.py:1", "uv_run", "uv__io"]
        );
    }

    #[test]
    fn one_activation_with_two_names_is_one_frame() {
        let trampoline = "py::f:/x/app.py@jit";
        let added = "py::f:/x/app.py:3@jit";
        assert_eq!(folded(&[trampoline, EVAL, added]), ["py::f:/x/app.py:3"]);
        assert_eq!(folded(&[added, EVAL, added]).len(), 2);
        assert_eq!(folded(&[trampoline, EVAL, trampoline]).len(), 2);
        let js = "JS:*f /x/a.js:1:2@v8";
        assert_eq!(folded(&[js, js]).len(), 2);
        assert_eq!(folded(&[js, "JS:f /x/a.js:1:2@v8"]), ["JS:f /x/a.js:1:2"]);
        assert_eq!(folded(&[js, "JS:f /x/a.js:1:9@v8"]).len(), 2);
    }

    #[test]
    fn functions_without_a_name_stay_unless_a_profiler_named_them() {
        let enter = "Builtins_InterpreterEntryTrampoline@node";
        let f = "JS:*f /x/a.js:1:2@v8";
        let g = "JS:g /x/a.js:5:2@v8";
        let name = "Builtins_InterpreterEntryTrampoline";
        assert_eq!(
            folded(&[f, enter, g]),
            ["JS:*f /x/a.js:1:2", "JS:g /x/a.js:5:2"]
        );
        assert_eq!(folded(&["?@v8", g]), ["JS:g /x/a.js:5:2"]);
        assert_eq!(folded(&[f, enter, f]).len(), 3);
        assert_eq!(
            folded(&[f, enter, enter, "Builtins_AddHandler@node"]),
            ["JS:*f /x/a.js:1:2", name]
        );
        assert_eq!(
            folded(&[
                "long A.b()@jvm",
                "Interpreter@jvm",
                "Interpreter@jvm",
                "x@libjvm.so"
            ]),
            ["long A.b()", "Interpreter"]
        );
    }

    #[test]
    fn stubs_that_a_profiler_named_fold_with_their_code() {
        let stub = "Java stub: StubRoutines (1)@jvm";
        let (main, f) = ("Java:A.main A.java:3@jvm", "Java:A.f A.java:9@jvm");
        let (call, calls) = ("JavaCalls::call@libjvm.so", ["?@jvm", stub]);
        let all = [
            &["main@java", call][..],
            &calls,
            &["?@jvm", main, "?@jvm", f],
        ]
        .concat();
        assert_eq!(
            folded(&all),
            ["main", "Java:A.main A.java:3", "Java:A.f A.java:9"]
        );
        // A stub at the end belongs to its caller; so does a call back through the runtime.
        let leaf = [&["?@jvm", main][..], &calls].concat();
        assert_eq!(folded(&leaf), ["Java:A.main A.java:3"]);
        let back = [&["?@jvm", main, call][..], &calls, &["?@jvm", f]].concat();
        assert_eq!(folded(&back), ["Java:A.main A.java:3", "Java:A.f A.java:9"]);
        let unnamed = [main, "?@jvm", "[Java function unnamed]@jvm"];
        let one = ["Java:A.main A.java:3", "[Java function unnamed]"];
        assert_eq!(folded(&unnamed), one);
        assert_eq!(folded(&["?@jvm", main, "?@jvm", call]).len(), 2);
    }

    #[test]
    fn methods_that_a_perf_map_named_as_well_are_one_frame() {
        let (code, added) = ("int A.f(int)@jvm", "Java:A.f A.java:9@jvm");
        assert_eq!(folded(&[code, added]), ["Java:A.f A.java:9"]);
        let inlined = "Java:A.g A.java:12@jvm";
        let names = ["Java:A.f A.java:9", "Java:A.g A.java:12"];
        assert_eq!(folded(&[code, added, inlined]), names);
        assert_eq!(folded(&["Interpreter@jvm", added]), ["Java:A.f A.java:9"]);
    }
}
