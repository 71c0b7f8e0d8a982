//! Folded stacks: what inferno and FlameGraph read.
//!
//! One line for each distinct stack: thread name, frames from root to leaf with
//! `;` between them, a space, the weight. Names are shortened as
//! `stackcollapse-perf.pl` and `inferno-collapse-perf` do it, so that the result
//! of a recording is the same by either way.

use std::collections::BTreeMap;
use std::io::{self, Write};

use rprof_profile::{Function, FunctionId, Profile, Weight};

use crate::clean::clean;

/// The folded stacks of one event, sorted, each with its weight.
pub fn fold(profile: &Profile, event: usize, weight: Weight) -> BTreeMap<String, u64> {
    let mut names: Vec<Option<String>> = vec![None; profile.functions.len()];
    let mut folded = BTreeMap::new();
    for entry in profile.entries.iter().filter(|e| e.event == event) {
        let comm = &profile.comms[entry.comm as usize];
        let mut line = thread_name(comm);
        let is_java = comm.starts_with("java");
        let mut frames = 0;
        for function in profile.stack(entry.stack) {
            let name =
                names[function.0 as usize].get_or_insert_with(|| frame_name(profile, function));
            line.push(';');
            line.push_str(if is_java { java_name(name) } else { name });
            frames += 1;
        }
        if frames == 0 {
            continue;
        }
        let amount = match weight {
            Weight::Period => entry.weight,
            Weight::Samples => entry.samples,
        };
        let sum = folded.entry(line).or_insert(0u64);
        *sum = sum.saturating_add(amount);
    }
    folded
}

/// Writes the folded stacks of one event.
///
/// # Errors
/// Those of the writer.
pub fn write(
    profile: &Profile,
    event: usize,
    weight: Weight,
    out: &mut dyn Write,
) -> io::Result<()> {
    for (stack, weight) in fold(profile, event, weight) {
        writeln!(out, "{stack} {weight}")?;
    }
    Ok(())
}

/// A thread's name as the first frame: without spaces, which would end the
/// stack for some readers, and without separators.
fn thread_name(comm: &str) -> String {
    clean(comm).replace(' ', "_").replace(';', ":")
}

/// A function's name as a frame. One without a name is called after its object,
/// in brackets.
pub fn frame_name(profile: &Profile, id: FunctionId) -> String {
    let function: &Function = profile.function(id);
    match &function.name {
        Ok(name) => without_parameters(&clean(name)).replace(';', ":"),
        Err(_) => {
            let object = profile.object(function.object);
            match &*object.name {
                "[unknown]" | "" => "[unknown]".into(),
                _ => format!("[{}]", clean(object.base_name()).replace(';', ":")),
            }
        }
    }
}

/// Java's own spelling of a class begins with `L`.
fn java_name(name: &str) -> &str {
    match name.strip_prefix('L') {
        Some(rest) if name.contains('/') => rest,
        _ => name,
    }
}

/// Cuts off a list of parameters, if the name has one: what begins at the first
/// `(` outside of brackets. Kept are Go's receivers, `.(*T).Method`, and C++'s
/// `(anonymous namespace)`.
fn without_parameters(name: &str) -> &str {
    let mut depth = 0i32;
    for (at, c) in name.char_indices() {
        match c {
            '<' | '{' | '[' => depth += 1,
            '>' | '}' | ']' | ')' => depth -= 1,
            '(' => {
                let keep =
                    name[..at].ends_with('.') || name[at..].starts_with("(anonymous namespace)");
                if depth == 0 && !keep {
                    return &name[..at];
                }
                depth += 1;
            }
            _ => {}
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_go_and_what_looks_like_them_stays() {
        for (name, expected) in [
            ("main", "main"),
            ("Foo::bar(int, char const*) const", "Foo::bar"),
            ("net/http.(*Client).Do", "net/http.(*Client).Do"),
            (
                "(anonymous namespace)::run(int)",
                "(anonymous namespace)::run",
            ),
            (
                "std::function<void (int)>::operator()(int) const",
                "std::function<void (int)>::operator",
            ),
            ("<impl Fn(A) for B>::call", "<impl Fn(A) for B>::call"),
            (
                "{lambda(int)#1}::operator()(int) const",
                "{lambda(int)#1}::operator",
            ),
        ] {
            assert_eq!(without_parameters(name), expected);
        }
        assert_eq!(
            java_name("Ljava/lang/String:.length"),
            "java/lang/String:.length"
        );
        assert_eq!(java_name("Loop"), "Loop");
        assert_eq!(thread_name("Web Content;x"), "Web_Content:x");
    }
}
