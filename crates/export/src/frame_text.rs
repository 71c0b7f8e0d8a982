//! Function and thread names as frames of folded stacks.

use rprof_profile::{AggregatedStack, FunctionId, ObjectId, Profile};

use crate::names::{CleanName, CleanNames};

/// Returns a thread name as a frame, without separators, and without spaces, which end the stack
/// for some readers. An unknown name is `[unknown]`.
pub(crate) fn thread_name(comm: &CleanName<'_>) -> String {
    match &**comm {
        "" => "[unknown]".to_owned(),
        comm => comm.replace(' ', "_").replace(';', ":"),
    }
}

/// Returns true if stacks begin with a frame of the thread. Other tools' profiles may have no
/// thread names: then it stands only for samples without frames.
pub(crate) fn has_thread_frame(profile: &Profile, entry: &AggregatedStack) -> bool {
    let is_named = !profile.comm(entry.thread).is_empty();
    !profile.is_folded && (is_named || profile.stack(entry.stack).next().is_none())
}

/// Returns a function's name as all outputs but folded stacks show it; an unnamed one as its object in
/// brackets.
pub(crate) fn shown_name(profile: &Profile, id: FunctionId) -> String {
    match CleanNames::new(profile).function(id) {
        Some(name) => name.into_owned(),
        None => unnamed(profile, profile.function(id).object),
    }
}

/// Returns a function as a frame of folded stacks. Names from folded text are already frames.
pub fn frame_name(profile: &Profile, id: FunctionId) -> String {
    let name = shown_name(profile, id);
    match profile.is_folded {
        true => name,
        false => frame_text(&name),
    }
}

pub(crate) fn unnamed(profile: &Profile, object: ObjectId) -> String {
    let names = CleanNames::new(profile);
    match &*names.object(object) {
        "[unknown]" | "" => "[unknown]".into(),
        _ => format!("[{}]", &*names.object_base(object)),
    }
}

/// Returns a clean name as a frame, without separators. Brackets stay, as in all other outputs: cut
/// at the first bracket, `f(int)::{lambda()#1}::operator()` would become `f`.
pub(crate) fn frame_text(name: &str) -> String {
    without_count(name.replace(';', ":"))
}

/// Replaces the space before a trailing number. flamegraph.pl and inferno would parse ` 12` or `
/// 1.5` before the weight as the first weight of a differential profile.
fn without_count(mut name: String) -> String {
    let number = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    if let Some(before) = number.strip_suffix(char::is_whitespace)
        && number.len() < name.len()
    {
        let space = before.len()..number.len();
        name.replace_range(space, "_");
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_whole() {
        for name in [
            "main",
            "Foo::bar(int, char const*) const",
            "net/http.(*Client).Do",
            "(anonymous namespace)::run(int)",
            "std::function<void (int)>::operator()",
            "<impl Fn(A) for B>::call",
            "main::{lambda(int)#2}::operator()(int) const",
            "f(int (*)(long))::Local::g",
            "Ljava/util/TimSort.sort([I)V",
        ] {
            assert_eq!(frame_text(name), name);
        }
        assert_eq!(
            frame_text("Ljava/lang/String;.length()I"),
            "Ljava/lang/String:.length()I"
        );
        assert_eq!(
            thread_name(&CleanName::new("Web Content;x")),
            "Web_Content:x"
        );
    }

    #[test]
    fn no_name_ends_like_a_count() {
        for (name, shown) in [
            ("f 12", "f_12"),
            ("f 1.5", "f_1.5"),
            ("f  7", "f _7"),
            ("12", "12"),
            ("f12", "f12"),
            ("f 12 g", "f 12 g"),
            ("f ", "f "),
        ] {
            assert_eq!(without_count(name.into()), shown);
        }
    }
}
