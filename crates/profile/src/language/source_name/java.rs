//! Names of Java methods: of HotSpot, of JVMTI agents, and added by a profiler.

use super::parts::{SourceName, with_number};
use crate::language::Language;
use crate::runtime::Runtime;

/// Prefix of Java methods that a profiler added.
const JAVA: &str = "Java:";

/// Prefix of the names that a profiler added to HotSpot's stubs.
pub(super) const JAVA_STUB: &str = "Java stub: ";

/// Start of HotSpot's name for its interpreter's code.
const JAVA_INTERPRETER: &str = "Interpreter";

/// Parts of HotSpot's names for code that is no method.
pub(super) const JAVA_STUBS: [&str; 5] = ["stub", "Stub", "adapters", "Blob", "chunks"];

pub(super) fn is_plumbing(name: &str, runtime: Option<Runtime>) -> bool {
    let is_stub = || JAVA_STUBS.iter().any(|part| name.contains(part));
    is_java_stub(name)
        || runtime == Some(Runtime::Java) && java(name, runtime).is_none() && is_stub()
}

pub(in crate::language) fn is_java_stub(name: &str) -> bool {
    name.starts_with(JAVA_STUB)
}

pub(in crate::language) fn is_java_interpreter(name: &str) -> bool {
    name == JAVA_INTERPRETER
}

/// Parses HotSpot's `void a.B.c(int)`, and the descriptors of JVMTI agents: `La/B;c(I)V`,
/// `La/B;::c`.
pub(super) fn java(name: &str, runtime: Option<Runtime>) -> Option<SourceName<'_>> {
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

/// Parses `Java:a.B.c B.java:12`. Files and lines may be missing. Method names may contain spaces,
/// file names do not.
pub(super) fn added_java(name: &str) -> Option<SourceName<'_>> {
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

pub(super) fn java_key(bare: &str) -> String {
    let name = bare.split('(').next().unwrap_or(bare);
    let hidden = name.find("/0x").or_else(|| name.find("+0x"));
    let method = hidden.and_then(|at| Some((&name[..at], &name[at + name[at..].find('.')?..])));
    match method {
        Some((class, method)) => format!("{class}{method}"),
        None => name.to_owned(),
    }
}

fn class_and_method(name: &str) -> Option<(&str, &str)> {
    let (class, method) = name.strip_prefix('L')?.split_once(';')?;
    let method = method.trim_start_matches([':', '.']);
    let is_class = !class.is_empty() && !class.contains(['(', ' ', ':']);
    (is_class && !method.is_empty()).then_some((class, method))
}

/// Converts a method's name: `void a.B.c(int)` to `a.B.c(int)`, `La/B;c(I)V` to `a.B.c(int)`.
pub(super) fn java_text(name: &str) -> String {
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
/// §4.3.3).
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
