//! Shortens names to the width of their boxes. The least important parts go first.
//!
//! `cut_name.js` does the same when the user zooms. A test compares the two.

use std::borrow::Cow;
use std::ops::Range;

use rprof_profile::language::source_name::{PYTHON, place_of_text, v8_place};

use crate::generics::elide_arguments;

/// Shortens a name to at most `fit` characters.
///
/// Generic arguments go first. Next go the parts around the function's own name: the path or module
/// before it, and the file after it. The own name is truncated last, at its end.
pub(super) fn cut_name(name: &str, fit: usize) -> Cow<'_, str> {
    if name.len() <= fit || name.chars().count() <= fit {
        return Cow::Borrowed(name);
    }
    if fit < 3 {
        return Cow::Borrowed("");
    }
    let short = match name.starts_with(PYTHON) || place_of_text(name).is_some() {
        // `<module>` and `<lambda>` are names here.
        true => Cow::Borrowed(name),
        false => elide_arguments(name),
    };
    let short: Vec<char> = short.chars().collect();
    if short.len() <= fit {
        return Cow::Owned(short.into_iter().collect());
    }
    let room = fit - 2;
    let own = own_name(&short);
    let (start, end) = (own.start, own.end);
    let text = |part: &[char]| part.iter().collect::<String>();
    if end <= room {
        return Cow::Owned(text(&short[..room]) + "..");
    }
    if end - start > room {
        return Cow::Owned(text(&short[start..start + room]) + "..");
    }
    // As much of the prefix as fits, from the start of a part.
    let mut from = end - room;
    let begins_part = |at: usize| is_separator(short[at - 1]) && !is_separator(short[at]);
    while from < start && !begins_part(from) {
        from += 1;
    }
    Cow::Owned(format!("..{}", text(&short[from..end])))
}

fn is_separator(c: char) -> bool {
    matches!(c, ':' | '.' | '/' | ' ' | '~' | '*' | '^' | '+')
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Suffixes that compilers append after a dot.
const SUFFIXES: [&str; 7] = [
    "isra",
    "part",
    "constprop",
    "cold",
    "lto_priv",
    "llvm",
    "clone",
];

/// Returns the range of the name without path, module, class or file.
fn own_name(name: &[char]) -> Range<usize> {
    let mut end = name.len();
    let text: String = name.iter().collect();
    let index = |at: usize| text[..at].chars().count();
    // `f (app.py:3)`.
    if let Some((_, place)) = place_of_text(&text) {
        let place = index(place);
        if !is_word(name[place - 1]) && name[place - 1] != '$' && name[place - 1] != '>' {
            return place + 2..end - 1;
        }
        return last_part(name, place)..place;
    }
    // `LazyCompile:~f /x/pp.js:4:95`, `py::f:/x/app.py`.
    if let Some(file) = v8_place(&text).map(index) {
        end = file;
        // Its location identifies an anonymous function.
        if !is_word(name[file - 1]) && name[file - 1] != '$' && name[file - 1] != '>' {
            let slash = name.iter().rposition(|c| *c == '/');
            return slash.map_or(file + 1, |slash| slash + 1)..name.len();
        }
    } else if text.starts_with(PYTHON) {
        end = (5..end).find(|at| name[*at] == ':').unwrap_or(end);
    }
    // `copy.isra.0`, `memcpy@plt`
    if let Some(at) = name[..end]
        .iter()
        .position(|c| *c == '@')
        .filter(|at| *at > 0)
    {
        end = at;
    }
    while let Some(dot) = name[..end].iter().rposition(|c| *c == '.') {
        let part: String = name[dot + 1..end].iter().collect();
        let is_number = part.chars().all(|c| c.is_ascii_digit());
        if dot == 0 || !(is_number || SUFFIXES.contains(&part.as_str())) {
            break;
        }
        end = dot;
    }
    let mut start = last_part(name, end);
    // `run::{closure#0}` is a closure of `run`.
    while name[start] == '{' && start >= 2 && name[start - 1] == ':' {
        let before = last_part(name, start - 2);
        if before + 2 >= start {
            break;
        }
        start = before;
    }
    start..end
}

/// Returns the start of the last part of `name[..end]`, outside of brackets.
fn last_part(name: &[char], end: usize) -> usize {
    let (mut depth, mut start) = (0usize, 0);
    for at in 0..end {
        match name[at] {
            '<' | '(' | '[' | '{' => depth += 1,
            '>' if at > 0 && name[at - 1] == '-' => {}
            '>' | ')' | ']' | '}' => depth = depth.saturating_sub(1),
            c if depth == 0 && is_separator(c) && at + 1 < end => start = at + 1,
            _ => {}
        }
    }
    start
}

#[cfg(test)]
mod tests {
    use rprof_testing::needs;

    use super::*;

    const CASES: [(&str, usize, &str); 32] = [
        ("Model.score (app.py:12)", 9, "..score"),
        ("Model.score (app.py:12)", 14, "Model.score .."),
        ("a.<locals>.<lambda> (app.py:12)", 10, "..<lambda>"),
        ("(anonymous) (app.js:12:7)", 13, "..app.js:12:7"),
        ("get (node:fs:12:7)", 6, "get .."),
        ("main", 4, "main"),
        ("main", 3, "m.."),
        ("main", 2, ""),
        ("ext4_da_write_begin", 10, "ext4_da_.."),
        ("py::score:/home/me/app.py", 13, "py::score:/.."),
        ("py::score:/home/me/app.py", 9, "..score"),
        ("py::<module>:/home/me/app.py", 11, "..<module>"),
        ("py::Model.fit:/home/me/app.py", 10, "..fit"),
        ("LazyCompile:~parse /x/pp.js:4:95", 12, "..parse"),
        (
            "LazyCompile:~parse /x/pp.js:4:95",
            25,
            "LazyCompile:~parse /x/p..",
        ),
        ("LazyCompile:~ /x/pp.js:4:95", 14, "..x/pp.js:4:95"),
        ("JS:*f file:///x/pp.mjs:4:95", 8, "JS:*f .."),
        ("Ljava/util/HashMap:::getNode", 14, "..getNode"),
        ("net/http.(*Client).Do", 8, "..Do"),
        (
            "std::vec::Vec<alloc::string::String, A>::push",
            27,
            "std::vec::Vec<…>::push",
        ),
        (
            "std::vec::Vec<alloc::string::String, A>::push",
            16,
            "..Vec<…>::push",
        ),
        ("std::vec::Vec<alloc::string::String, A>::push", 5, "pus.."),
        (
            "<alloc::vec::Vec<T, A> as core::ops::Drop>::drop",
            46,
            "<alloc::vec::Vec<…> as core::ops::Drop>::drop",
        ),
        (
            "<alloc::vec::Vec<T, A> as core::ops::Drop>::drop",
            20,
            "..ops::Drop>::drop",
        ),
        (
            "core::slice::sort::<impl [T]>::run",
            20,
            "..<impl [T]>::run",
        ),
        ("app::run::{closure#0}", 18, "..run::{closure#0}"),
        ("finish_task_switch.isra.0", 20, "finish_task_switch.."),
        ("a::operator<<", 9, "operato.."),
        ("std::map<int, long>::operator<", 20, "..map<…>::operator<"),
        ("[libstdc++.so.6.0.30]", 12, "[libstdc++.."),
        ("größer::als::é", 5, "..é"),
        ("::", 1, ""),
    ];

    #[test]
    fn names_keep_what_says_most() {
        for (name, fit, expected) in CASES {
            assert_eq!(cut_name(name, fit), expected, "{name} in {fit}");
        }
    }

    /// Returns a random name from parts that the rules treat specially.
    fn random_name(random: &mut rprof_testing::Random) -> String {
        let parts = [
            "a", "bc", "::", ".", "/", " ", "<", ">", "{", "}", "(", ")", "[", "]", "operator",
            "->", "py::", ":", "~", "isra", "0", "@", " /x.js:4", " file:", "é", "…", "𝒳", "_",
            " (", ".py:3)", ".js:1:2)", ".py)", "node:",
        ];
        (0..random.index(14))
            .map(|_| parts[random.index(parts.len())])
            .collect()
    }

    #[test]
    fn no_name_is_longer_than_its_box() {
        let mut random = rprof_testing::Random::new(5);
        for _ in 0..20_000 {
            let name = random_name(&mut random);
            let fit = random.index(24);
            assert!(
                cut_name(&name, fit).chars().count() <= fit,
                "{name:?} in {fit}"
            );
        }
    }

    #[test]
    fn the_script_cuts_names_alike() {
        needs!(Node);
        let mut random = rprof_testing::Random::new(6);
        let made = (0..5000).map(|_| (random_name(&mut random), random.index(24)));
        let fixed = CASES.map(|(name, fit, _)| (name.to_owned(), fit));
        let cases: Vec<(String, usize)> = made.chain(fixed).collect();
        let json = serde_json::to_string(&cases).unwrap();
        let script = format!(
            "{}\nconsole.log(JSON.stringify({json}.map(([name, fit]) => cut_name(name, fit))))",
            include_str!("cut_name.js")
        );
        let folder = std::env::temp_dir().join(format!("rprof-cut-name-{}.js", std::process::id()));
        std::fs::write(&folder, script).unwrap();
        let output = std::process::Command::new("node").arg(&folder).output();
        std::fs::remove_file(&folder).unwrap();
        let output = output.unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let found: Vec<String> = serde_json::from_str(&text).unwrap();
        assert_eq!(found.len(), cases.len());
        for ((name, fit), found) in cases.iter().zip(found) {
            assert_eq!(found, cut_name(name, *fit), "{name:?} in {fit}");
        }
    }
}
