//! [`SourceName`]: names that runtimes give to functions of their language.
//!
//! Every part of rprof that takes such a name apart does it here. Sources: CPython's
//! `Python/perf_trampoline.c`, V8's `src/logging/log.cc` (`CodeEventListener`, tier marks), HotSpot's
//! `CodeCache::write_perf_map`, and libperf-jvmti of Linux.

use std::borrow::Cow;

use super::{Language, is_generated};
use crate::frame::{Function, Object};
use crate::runtime::Runtime;

/// A function of an interpreted language, as its runtime names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SourceName<'n> {
    /// The language.
    pub language: Language,
    /// Name with class or enclosing functions; empty for an anonymous function.
    pub name: &'n str,
    /// Source file: a path, or a name such as `node:fs` or `<string>`. Empty if unknown.
    pub file: &'n str,
    /// First line of the function; 0 if unknown.
    pub line: u32,
    /// Column of that line; 0 if unknown.
    pub column: u32,
    /// True if the name describes machine code: a trampoline, or compiled code with V8's tier mark.
    /// False for a frame that a profiler added to the machine's frames.
    pub is_of_code: bool,
}

/// Prefix of Python functions.
pub const PYTHON: &str = "py::";

/// Prefixes of V8's code for JavaScript functions; `Script` and `Eval` are top-level code.
const V8: [&str; 7] = [
    "JS:",
    "LazyCompile:",
    "Function:",
    "Script:",
    "Eval:",
    "Interpreter:",
    "Baseline:",
];

/// V8's marks for interpreter, baseline compiler, and optimizing compilers.
const TIERS: [char; 5] = ['~', '^', '+', '*', '-'];

/// Prefixes of V8's generated code that is no function of the program.
const V8_PLUMBING: [&str; 5] = [
    "Builtin:",
    "BytecodeHandler:",
    "Handler:",
    "Stub:",
    "Trampoline:",
];

/// Frames that a profiler puts in place of functions that it could not prove or name.
static GAPS: [(&str, Language); 4] = [
    ("[Python callers unproven]", Language::Python),
    ("[Python function unnamed]", Language::Python),
    ("[JavaScript function unnamed]", Language::JavaScript),
    ("[Java function unnamed]", Language::Java),
];

/// Prefix of Java methods that a profiler added.
const JAVA: &str = "Java:";

/// Prefix of the names that a profiler added to HotSpot's stubs.
const JAVA_STUB: &str = "Java stub: ";

/// Start of HotSpot's name for its interpreter's code.
const JAVA_INTERPRETER: &str = "Interpreter";

impl<'n> SourceName<'n> {
    /// Parses a name with the prefix of its language: `py::f:/x/app.py:12`,
    /// `JS:*f /x/app.js:4:95`, `Java:a.B.c B.java:12`.
    pub fn parse(name: &'n str) -> Option<SourceName<'n>> {
        (python(name).or_else(|| javascript(name))).or_else(|| added_java(name))
    }

    /// Parses the name of a function, if its code is generated. `None` for a function that already
    /// has a [source](Function::source).
    pub fn of(function: &'n Function, object: &Object) -> Option<SourceName<'n>> {
        let is_raw = function.source.is_none() && is_generated(object);
        let name = function.name.as_deref().ok().filter(|_| is_raw)?;
        SourceName::parse(name).or_else(|| java(name, object.runtime))
    }

    /// Returns the name as people write it, `f`, or `(anonymous)`.
    pub fn bare(&self) -> String {
        match self.language {
            Language::Java if self.is_of_code => java_text(self.name),
            _ if self.name.is_empty() => "(anonymous)".to_owned(),
            _ => self.name.to_owned(),
        }
    }

    /// Returns the name with file and line, `f (app.py:12)`. `parts` is the number of components of
    /// the path to show; 0 shows as few as usual.
    pub fn text(&self, parts: usize) -> String {
        let bare = self.bare();
        let mut place = file_label(self.file, parts).to_owned();
        for number in [self.line, self.column] {
            if number > 0 {
                place.push_str(&format!(":{number}"));
            }
        }
        match place.is_empty() {
            true => bare,
            false => format!("{bare} ({place})"),
        }
    }

    /// Returns what is equal in all names of a function: the name and the file. HotSpot's names of
    /// code have parameters and no file.
    pub(super) fn key(&self) -> (Language, Cow<'n, str>, &'n str) {
        match self.language {
            Language::Java => (self.language, java_key(&self.bare()).into(), ""),
            _ => (self.language, self.name.into(), self.file),
        }
    }

    /// Returns whether two names stand for one function. Unknown lines match all.
    pub fn is_same(&self, other: &SourceName<'_>) -> bool {
        (self.language, self.name, self.file) == (other.language, other.name, other.file)
            && (self.line == other.line || self.line == 0 || other.line == 0)
            && (self.column == other.column || self.column == 0 || other.column == 0)
    }
}

/// Parts of HotSpot's names for code that is no method.
const JAVA_STUBS: [&str; 5] = ["stub", "Stub", "adapters", "Blob", "chunks"];

/// Returns true for generated code of a runtime that is no function of the program.
pub(super) fn is_generated_plumbing(name: &str, runtime: Option<Runtime>) -> bool {
    is_java_stub(name)
        || V8_PLUMBING.iter().any(|prefix| name.starts_with(prefix))
        || runtime == Some(Runtime::Java)
            && java(name, runtime).is_none()
            && JAVA_STUBS.iter().any(|part| name.contains(part))
}

/// Returns the language of a frame in place of unknown functions, before it has a
/// [source](Function::source).
pub(super) fn language_of_gap(function: &Function, object: &Object) -> Option<Language> {
    let name = function.name.as_deref().ok()?;
    let is_new = function.source.is_none() && is_generated(object);
    gap(name).filter(|_| is_new)
}

/// Returns the language of a frame in place of unknown functions, by its name.
pub(super) fn gap(name: &str) -> Option<Language> {
    let found = GAPS.iter().find(|(gap, _)| *gap == name);
    found.map(|(_, language)| *language)
}

/// Returns true for the name that a profiler added to a stub of HotSpot.
pub(super) fn is_java_stub(name: &str) -> bool {
    name.starts_with(JAVA_STUB)
}

/// Returns true for the code that runs Java methods without naming them.
pub(super) fn is_java_interpreter(name: &str) -> bool {
    name == JAVA_INTERPRETER
}

/// Parses `py::NAME:FILE` and `py::NAME:FILE:LINE`.
fn python(name: &str) -> Option<SourceName<'_>> {
    let rest = name.strip_prefix(PYTHON)?;
    let (name, place) = rest.split_once(':').unwrap_or((rest, ""));
    let (file, line) = with_number(place).unwrap_or((place, 0));
    Some(SourceName {
        language: Language::Python,
        name,
        file,
        line,
        column: 0,
        is_of_code: line == 0,
    })
}

/// Parses `JS:*NAME FILE:LINE:COLUMN`.
fn javascript(name: &str) -> Option<SourceName<'_>> {
    let prefix = V8.iter().find(|prefix| name.starts_with(**prefix))?;
    let rest = &name[prefix.len()..];
    let unmarked = rest.trim_start_matches(TIERS);
    // `JS::` is a namespace in C++. Interpreted functions have neither colon nor file there.
    if unmarked.starts_with(':') {
        return None;
    }
    let (own, place) = match place_start(unmarked) {
        Some(at) => (&unmarked[..at], unmarked[at..].trim_start()),
        None => (unmarked, ""),
    };
    let numbers = with_number(place).and_then(|(rest, column)| {
        let (file, line) = with_number(rest)?;
        Some((file, line, column))
    });
    let (file, line, column) = numbers.unwrap_or((place, 0, 0));
    Some(SourceName {
        language: Language::JavaScript,
        name: own.trim_end(),
        file,
        line,
        column,
        is_of_code: unmarked.len() < rest.len() || *prefix != "JS:",
    })
}

/// Returns the index of the space between the function's and V8's file name: before a path, a URL or
/// a built-in module.
pub fn v8_place(name: &str) -> Option<usize> {
    let mut spaces = name.match_indices(' ').map(|(at, _)| at);
    spaces.find(|at| *at > 0 && begins_file(&name[at + 1..]))
}

fn begins_file(text: &str) -> bool {
    ["/", "file:", "node:"]
        .iter()
        .any(|start| text.starts_with(start))
}

/// Returns the index of the space before the file, or else of the last space before a line number.
fn place_start(name: &str) -> Option<usize> {
    if name.strip_prefix(' ').is_some_and(begins_file) {
        return Some(0);
    }
    v8_place(name).or_else(|| {
        with_number(name).and_then(|(rest, _)| with_number(rest))?;
        name.rfind(' ')
    })
}

/// Splits `FILE:12` at the number.
fn with_number(text: &str) -> Option<(&str, u32)> {
    let (before, number) = text.rsplit_once(':')?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    Some((before, number.parse().ok().filter(|_| is_number)?))
}

/// Parses HotSpot's `void a.B.c(int)`, and the descriptors of JVMTI agents: `La/B;c(I)V`, `La/B;::c`.
fn java(name: &str, runtime: Option<Runtime>) -> Option<SourceName<'_>> {
    let is_signature = || {
        let (path, rest) = name.split_once('(')?;
        let path = path.rsplit_once(' ').map_or(path, |(_, path)| path);
        (path.contains('.') && rest.contains(')')).then_some(())
    };
    let is_method = class_and_method(name).is_some()
        || runtime == Some(Runtime::Java) && is_signature().is_some();
    is_method.then_some(SourceName {
        language: Language::Java,
        name,
        file: "",
        line: 0,
        column: 0,
        is_of_code: true,
    })
}

/// Parses `Java:a.B.c B.java:12`. Files and lines may be missing. Method names of other languages of
/// the JVM may contain spaces, file names do not.
fn added_java(name: &str) -> Option<SourceName<'_>> {
    let rest = name.strip_prefix(JAVA)?;
    let place = rest.rsplit_once(' ');
    let place = place.filter(|(_, file)| file.contains('.'));
    let (name, place) = place.unwrap_or((rest, ""));
    let (file, line) = with_number(place).unwrap_or((place, 0));
    // `Java::` is a namespace in C++.
    (!name.is_empty() && !name.starts_with(':')).then_some(SourceName {
        language: Language::Java,
        name,
        file,
        line,
        column: 0,
        is_of_code: false,
    })
}

/// Returns a method's name without parameters, and without the address of a hidden class.
fn java_key(bare: &str) -> String {
    let name = bare.split('(').next().unwrap_or(bare);
    let hidden = name.find("/0x").or_else(|| name.find("+0x"));
    let method = hidden.and_then(|at| Some((&name[..at], &name[at + name[at..].find('.')?..])));
    match method {
        Some((class, method)) => format!("{class}{method}"),
        None => name.to_owned(),
    }
}

/// Splits `La/B;c(I)V` and `La/B;::c` into class and method.
fn class_and_method(name: &str) -> Option<(&str, &str)> {
    let (class, method) = name.strip_prefix('L')?.split_once(';')?;
    let method = method.trim_start_matches([':', '.']);
    let is_class = !class.is_empty() && !class.contains(['(', ' ', ':']);
    (is_class && !method.is_empty()).then_some((class, method))
}

/// Converts a method's name: `void a.B.c(int)` to `a.B.c(int)`, `La/B;c(I)V` to `a.B.c(int)`.
fn java_text(name: &str) -> String {
    if let Some((class, method)) = class_and_method(name) {
        let class = class.replace('/', ".");
        let parameters = method.split_once('(').and_then(|(method, rest)| {
            let types = parameter_types(rest.split_once(')')?.0)?;
            Some(format!("{class}.{method}({})", types.join(", ")))
        });
        let method = method.split('(').next().unwrap_or(method);
        return parameters.unwrap_or_else(|| format!("{class}.{method}"));
    }
    let end = name.find('(').unwrap_or(name.len());
    let start = name[..end].rfind(' ').map_or(0, |space| space + 1);
    name[start..].to_owned()
}

/// Returns the types of a method descriptor, such as `[ILjava/lang/String;` (JVM specification
/// §4.3.3); `None` if it is malformed.
fn parameter_types(descriptor: &str) -> Option<Vec<String>> {
    let (mut types, mut rest) = (Vec::new(), descriptor);
    while !rest.is_empty() {
        let bare = rest.trim_start_matches('[');
        let dimensions = rest.len() - bare.len();
        let (name, length) = match bare.as_bytes().first()? {
            b'B' => ("byte".to_owned(), 1),
            b'C' => ("char".to_owned(), 1),
            b'D' => ("double".to_owned(), 1),
            b'F' => ("float".to_owned(), 1),
            b'I' => ("int".to_owned(), 1),
            b'J' => ("long".to_owned(), 1),
            b'S' => ("short".to_owned(), 1),
            b'Z' => ("boolean".to_owned(), 1),
            b'L' => {
                let end = bare.find(';')?;
                (bare[1..end].replace('/', "."), end + 1)
            }
            _ => return None,
        };
        types.push(name + &"[]".repeat(dimensions.min(MAX_DIMENSIONS)));
        rest = &bare[length..];
    }
    Some(types)
}

/// Maximum dimensions of an array (JVM specification §4.3.2).
const MAX_DIMENSIONS: usize = 255;

/// File names that say nothing without their folder.
const GENERIC: [&str; 6] = [
    "__init__.py",
    "__main__.py",
    "index.js",
    "index.mjs",
    "index.cjs",
    "index.ts",
];

/// Returns the end of a path that identifies a file for people: its name, with the folder of
/// `__init__.py` and similar files, or the last `parts` components.
///
/// The label depends on nothing else, so two recordings of a program have equal names. A label
/// relative to a common root would change with each file that a sample meets.
fn file_label(path: &str, parts: usize) -> &str {
    if path.starts_with("node:") || path.starts_with('<') {
        return path;
    }
    let path = path.strip_prefix("file://").unwrap_or(path);
    let base = path.rsplit('/').next().unwrap_or(path);
    let parts = match parts {
        0 if GENERIC.contains(&base) => 2,
        0 => 1,
        parts => parts,
    };
    let start = path.rmatch_indices('/').nth(parts - 1);
    start.map_or(path, |(at, _)| &path[at + 1..])
}

/// Returns the language and the start of the place of a name as [`SourceName::text`] writes it:
/// `f (app.py:12)`. `None` for other names.
pub fn place_of_text(name: &str) -> Option<(Language, usize)> {
    let inside = name.strip_suffix(')')?;
    let at = inside.rfind(" (")?;
    let place = &inside[at + 2..];
    let file = with_number(place).map_or(place, |(rest, _)| rest);
    let file = with_number(file).map_or(file, |(rest, _)| rest);
    let has_line = file.len() < place.len();
    let ends = |suffixes: &[&str]| suffixes.iter().any(|suffix| file.ends_with(suffix));
    let language = match file {
        _ if ends(&[".py", ".pyw", ".pyx"]) => Language::Python,
        _ if ends(&[".js", ".mjs", ".cjs", ".ts", ".mts", ".tsx", ".jsx"]) => Language::JavaScript,
        _ if ends(&[".java", ".kt", ".scala", ".groovy", ".clj"]) && has_line => Language::Java,
        _ if file.starts_with("node:") => Language::JavaScript,
        _ if file.starts_with('<') && file.ends_with('>') => Language::Python,
        _ => return None,
    };
    (at > 0).then_some((language, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_in_place_of_unknown_functions_are_those_of_the_recorder() {
        use rprof_interpreters::{
            JAVA_STUB, UNNAMED_JAVA, UNNAMED_JAVASCRIPT, UNNAMED_PYTHON, UNPROVEN_CALLERS,
        };

        assert_eq!(gap(UNPROVEN_CALLERS), Some(Language::Python));
        assert_eq!(gap(UNNAMED_PYTHON), Some(Language::Python));
        assert_eq!(gap(UNNAMED_JAVASCRIPT), Some(Language::JavaScript));
        assert_eq!(gap(UNNAMED_JAVA), Some(Language::Java));
        assert_eq!(gap("[jit]"), None);
        assert_eq!(super::JAVA_STUB, JAVA_STUB);
    }

    fn parts(name: &str) -> (Language, &str, &str, u32, u32, bool) {
        let n = SourceName::parse(name).unwrap_or_else(|| panic!("{name}"));
        (n.language, n.name, n.file, n.line, n.column, n.is_of_code)
    }

    #[test]
    fn names_of_python_have_a_file_and_perhaps_a_line() {
        use Language::Python;
        for (name, expected) in [
            ("py::f:/x/app.py", (Python, "f", "/x/app.py", 0, 0, true)),
            (
                "py::A.f:/x/app.py:12",
                (Python, "A.f", "/x/app.py", 12, 0, false),
            ),
            (
                "py::a.<locals>.<lambda>:<string>:1",
                (Python, "a.<locals>.<lambda>", "<string>", 1, 0, false),
            ),
            (
                "py::f:<frozen importlib._bootstrap>",
                (Python, "f", "<frozen importlib._bootstrap>", 0, 0, true),
            ),
            ("py::f", (Python, "f", "", 0, 0, true)),
            ("py::", (Python, "", "", 0, 0, true)),
            (
                "py::f:C:9999999999",
                (Python, "f", "C:9999999999", 0, 0, true),
            ),
        ] {
            assert_eq!(parts(name), expected, "{name}");
        }
    }

    #[test]
    fn names_of_v8_have_a_tier_and_a_place() {
        use Language::JavaScript as Js;
        for (name, expected) in [
            (
                "JS:*fib /x/app.js:7:13",
                (Js, "fib", "/x/app.js", 7, 13, true),
            ),
            (
                "JS:fib /x/app.js:7:13",
                (Js, "fib", "/x/app.js", 7, 13, false),
            ),
            ("JS:~ node:zlib:1:1", (Js, "", "node:zlib", 1, 1, true)),
            (
                "LazyCompile:~get a /my app/x.js:4:95",
                (Js, "get a", "/my app/x.js", 4, 95, true),
            ),
            (
                "Script:~ file:///x.mjs:1:1",
                (Js, "", "file:///x.mjs", 1, 1, true),
            ),
            (
                "JS:f evalmachine.<anonymous>:1:2",
                (Js, "f", "evalmachine.<anonymous>", 1, 2, false),
            ),
            ("Function:^f", (Js, "f", "", 0, 0, true)),
        ] {
            assert_eq!(parts(name), expected, "{name}");
        }
        for name in ["JS::Call", "main", "Jarvis", "RegExp:[a-z]+", ""] {
            assert_eq!(SourceName::parse(name), None, "{name}");
        }
    }

    #[test]
    fn texts_have_the_shortest_place_that_says_something() {
        for (name, text) in [
            ("py::f:/x/app.py:12", "f (app.py:12)"),
            ("py::f:/x/app.py", "f (app.py)"),
            (
                "py::loads:/usr/lib/python3/json/__init__.py:9",
                "loads (json/__init__.py:9)",
            ),
            ("py::f:<frozen runpy>:3", "f (<frozen runpy>:3)"),
            ("JS:*fib /x/app.js:7:13", "fib (app.js:7:13)"),
            (
                "JS:~ node:internal/fs/utils:1:1",
                "(anonymous) (node:internal/fs/utils:1:1)",
            ),
            ("JS:f file:///x/a.mjs:1:2", "f (a.mjs:1:2)"),
            ("py::f", "f"),
        ] {
            let source = SourceName::parse(name).unwrap();
            assert_eq!(source.text(0), text);
            if text.contains(" (") {
                let place = place_of_text(text);
                let at = text.rfind(" (").unwrap();
                assert_eq!(place, Some((source.language, at)), "{text}");
            }
        }
        let long = SourceName::parse("py::f:/x/y/app.py:12").unwrap();
        assert_eq!(long.text(2), "f (y/app.py:12)");
        assert_eq!(long.text(9), "f (/x/y/app.py:12)");
        for name in [
            "f (int)",
            "f (parser.rs:12)",
            "f(a.py)",
            " (a.py)",
            "(a.py)",
            "f (a.java)",
        ] {
            assert_eq!(place_of_text(name), None, "{name}");
        }
    }

    #[test]
    fn added_methods_of_java_have_a_file_and_a_line() {
        use Language::Java;
        for (name, expected) in [
            (
                "Java:java.lang.String.hashCode String.java:1536",
                (
                    Java,
                    "java.lang.String.hashCode",
                    "String.java",
                    1536,
                    0,
                    false,
                ),
            ),
            (
                "Java:java.lang.Thread.sleep Thread.java",
                (Java, "java.lang.Thread.sleep", "Thread.java", 0, 0, false),
            ),
            (
                "Java:a.B.a test of B.kt:3",
                (Java, "a.B.a test of", "B.kt", 3, 0, false),
            ),
            ("Java:$Proxy0.area", (Java, "$Proxy0.area", "", 0, 0, false)),
        ] {
            assert_eq!(parts(name), expected, "{name}");
        }
        let text = |name| SourceName::parse(name).map(|source| source.text(0));
        assert_eq!(
            text("Java:a.B.a test B.kt:3").as_deref(),
            Some("a.B.a test (B.kt:3)")
        );
        assert_eq!(text("Java::f"), None);
    }

    #[test]
    fn methods_of_java_have_one_key_whoever_named_them() {
        let key = |name| {
            let source = SourceName::parse(name).or_else(|| java(name, Some(Runtime::Java)));
            source.map(|source| source.key().1.into_owned())
        };
        for (one, other) in [
            (
                "Java:java.util.TimSort.mergeHi TimSort.java:7",
                "void java.util.TimSort.mergeHi(int, int)",
            ),
            ("Java:a.B.c B.java:7", "La/B;c(I)V"),
            ("Java:a.B.c B.java:7", "La/B;::c"),
            (
                "Java:App$$Lambda$1.compare",
                "int App$$Lambda$1/0x7f.compare(java.lang.Object)",
            ),
        ] {
            assert_eq!(key(one), key(other), "{one}");
        }
    }

    #[test]
    fn methods_of_java_are_told_from_stubs_by_the_process() {
        let of = |name, runtime| java(name, runtime).map(|source| source.bare());
        let jvm = Some(Runtime::Java);
        for (name, text) in [
            (
                "void java.util.TimSort.mergeHi(int, int)",
                "java.util.TimSort.mergeHi(int, int)",
            ),
            (
                "int App$$Lambda$1/0x7f.compare(java.lang.Object)",
                "App$$Lambda$1/0x7f.compare(java.lang.Object)",
            ),
            ("Ljava/lang/String;::hashCode", "java.lang.String.hashCode"),
            ("LWork;words(I)V", "Work.words(int)"),
            (
                "La/B;c([[ILjava/lang/String;Z)La/C;",
                "a.B.c(int[][], java.lang.String, boolean)",
            ),
            ("La/B;c(Q)V", "a.B.c"),
        ] {
            assert_eq!(of(name, jvm).as_deref(), Some(text));
        }
        for stub in [
            "StubRoutines (1)",
            "I2C/C2I adapters",
            "vtable stub",
            "DeoptimizationBlob",
            "Java stub: resolve_virtual_call",
        ] {
            assert_eq!(of(stub, jvm), None, "{stub}");
            assert!(is_generated_plumbing(stub, jvm), "{stub}");
        }
        for other in ["Interpreter", "com.foo.Bar.baz", "[I"] {
            assert_eq!(of(other, jvm), None, "{other}");
            assert!(!is_generated_plumbing(other, jvm), "{other}");
        }
        assert_eq!(of("void a.B.c(int)", None), None);
        assert!(!is_generated_plumbing("void a.B.c(int)", jvm));
    }

    /// Names come from programs.
    #[test]
    fn any_name_is_parsed_without_a_panic() {
        let pieces = [
            "py::",
            "JS:",
            ":",
            "*",
            " ",
            "/",
            "é",
            "(",
            ")",
            " (",
            ".py",
            "12",
            "node:",
            "<",
            ">",
            "file://",
            "L",
            ";::",
            ";",
            "[",
            "I",
            "f",
            "__init__.py",
            "Script:~",
            "Java:",
            "/0x",
        ];
        let mut random = rprof_testing::Random::new(11);
        for _ in 0..50_000 {
            let name: String = (0..random.index(9))
                .map(|_| pieces[random.index(pieces.len())])
                .collect();
            let sources = [SourceName::parse(&name), java(&name, Some(Runtime::Java))];
            for source in sources.into_iter().flatten() {
                for parts in [0, 1, 2, 40] {
                    assert!(
                        !source.text(parts).is_empty() || source.name.is_empty(),
                        "{name}"
                    );
                }
                source.key();
            }
            place_of_text(&name);
        }
    }
}
