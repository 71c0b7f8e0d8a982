//! Names of functions and threads as frames of folded stacks.

use rprof_profile::{FunctionId, ObjectId, Profile};

use crate::names::{CleanName, CleanNames};

/// Returns a thread's name as the first frame: without spaces, which would end the
/// stack for some readers, and without separators.
pub(crate) fn thread_name(comm: &CleanName<'_>) -> String {
    comm.replace(' ', "_").replace(';', ":")
}

/// Returns the name of a function as a frame. One without a name is called after its object,
/// in brackets. One that was read from folded text is a frame already.
pub fn frame_name(profile: &Profile, id: FunctionId) -> String {
    let names = CleanNames::new(profile);
    if let Some(name) = names.function(id) {
        if profile.is_folded {
            return name.into_owned();
        }
        return frame_text(&name);
    }
    unnamed(profile, profile.function(id).object).replace(';', ":")
}

/// Returns the text that stands for a function without a name: its object, in brackets.
pub(crate) fn unnamed(profile: &Profile, object: ObjectId) -> String {
    let names = CleanNames::new(profile);
    match &*names.object(object) {
        "[unknown]" | "" => "[unknown]".into(),
        _ => format!("[{}]", &*names.object_base(object)),
    }
}

/// Returns a clean name as a frame: without what would end the frame or the line. The rest of the name stays as all other
/// outputs show it: brackets in it are no list of parameters that one could cut off, since `f(int)::{lambda()#1}::operator()` would
/// become `f`.
pub(crate) fn frame_text(name: &str) -> String {
    without_count(name.replace(';', ":"))
}

/// Returns a name that does not end like a count: ` 12` or ` 1.5` at the end of a leaf, with the weight behind
/// it, would be the first of two weights to flamegraph.pl and inferno, which read differences of two
/// recordings so.
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
