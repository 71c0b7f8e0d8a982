//! C++ names in the Itanium ABI.

use super::Style;
use super::bounded::Bounded;
use super::default_arguments;
use super::short;
use cpp_demangle::{DemangleOptions, ParseOptions, Symbol};

/// Maximum nesting: far beyond real code, and within the 2 MiB stack of a thread in a debug build.
const MAX_DEPTH: u32 = 128;

pub(super) fn demangle(raw: &str, style: Style) -> Option<String> {
    if let Some((function, number)) = block(raw) {
        let name = demangle(function, style)?;
        return Some(format!("{name} [block{number}]"));
    }
    if !raw.starts_with("_Z") && !raw.starts_with("__Z") && !raw.starts_with("_GLOBAL_") {
        return None;
    }
    if style == Style::NoParameters
        && !default_arguments::has_any(raw)
        && let Some(name) = short::name(raw)
    {
        return Some(name);
    }
    long(raw, style)
}

pub(super) fn long(raw: &str, style: Style) -> Option<String> {
    if let Some((words, function)) = special(functions(raw).next()?)
        && let Some(name) = plain(&function, Style::Full)
    {
        // `perf` and c++filt show parameters here in either style.
        return Some(format!("{words} {name}"));
    }
    match style {
        Style::NoParameters => functions(raw)
            .find_map(|function| plain(function, style))
            .or_else(|| without_constraint(raw, style))
            .or_else(|| without_return_type(functions(raw).next()?)),
        Style::Full => plain(raw, style)
            .or_else(|| without_constraint(raw, style))
            .or_else(|| short::name(raw).filter(|_| has_constraints(raw))),
        Style::Mangled => None,
    }
}

fn has_constraints(raw: &str) -> bool {
    ["Tk", "Tn", "Tp", "Q"]
        .iter()
        .any(|part| raw.contains(part))
}

/// Demangles a function without its requires clause, which `cpp_demangle` cannot parse.
fn without_constraint(raw: &str, style: Style) -> Option<String> {
    let clauses = raw.match_indices('Q').take(8);
    let mut names = clauses.filter(|(at, _)| short::is_requires_clause(&raw[at + 1..]));
    names.find_map(|(at, _)| plain(&raw[..at], style))
}

/// Splits the name of a block of Clang: `___Z4mainv_block_invoke_2` is the second one in `main`.
fn block(raw: &str) -> Option<(&str, String)> {
    let (function, number) = raw.strip_prefix("__")?.rsplit_once("_block_invoke")?;
    let number = match number.strip_prefix('_') {
        None if number.is_empty() => String::new(),
        Some(digits) if digits.bytes().all(|digit| digit.is_ascii_digit()) => format!(" {digits}"),
        _ => return None,
    };
    function.starts_with("_Z").then_some((function, number))
}

const MAX_DOTS: usize = 4;

/// Returns the possible function names of a clone (`.cold`, `.part.0`, `.llvm.123`, `.actor`), most
/// likely first: the text before each dot. Identifiers may contain dots too:
/// `_Z4coroPZ4coromE14_Z4corom.Frame.actor`.
fn functions(raw: &str) -> impl Iterator<Item = &str> {
    let dots = raw.match_indices('.').take(MAX_DOTS);
    dots.map(|(at, _)| &raw[..at]).chain([raw])
}

/// Demangles a function without its return type. It may contain expressions that `cpp_demangle`
/// cannot parse, mostly `enable_if` in the standard library.
fn without_return_type(function: &str) -> Option<String> {
    let (readable, _) = function.split_once("Xsr")?;
    let ends = readable.rmatch_indices('E').take(16);
    ends.filter_map(|(at, _)| plain(&format!("{}vv", &readable[..=at]), Style::NoParameters))
        .next()
}

fn plain(mangled: &str, style: Style) -> Option<String> {
    if default_arguments::has_any(mangled) {
        let name = plain_name(&default_arguments::hide(mangled), style)?;
        return Some(default_arguments::show(name));
    }
    plain_name(mangled, style)
}

fn plain_name(mangled: &str, style: Style) -> Option<String> {
    let parse = ParseOptions::default().recursion_limit(MAX_DEPTH);
    let mut options = DemangleOptions::new().recursion_limit(MAX_DEPTH);
    if style == Style::NoParameters {
        options = options.no_params().no_return_type();
    }
    let symbol = Symbol::new_with_options(mangled, &parse).ok()?;
    let mut out = Bounded::default();
    let failed = symbol.structured_demangle(&mut out, &options).is_err();
    let mut name = without_empty_packs(literal_operators(literals(out.finish(failed)?)));
    if style == Style::NoParameters {
        name = without_qualifiers(name);
    }
    Some(constructors(abbreviated(name)))
}

/// Splits off the prefix of a special name (vtable, VTT, thunk, transaction clone), which
/// `cpp_demangle` words differently. Returns the usual words, and the rest. Source: Itanium C++
/// ABI, "Special Names".
fn special(mangled: &str) -> Option<(&'static str, String)> {
    let rest = mangled.strip_prefix("_Z")?;
    let offset = |text: &str| -> Option<usize> {
        let digits = text.strip_prefix('n').unwrap_or(text);
        let len = digits.bytes().take_while(u8::is_ascii_digit).count();
        (len > 0 && digits.as_bytes().get(len) == Some(&b'_'))
            .then(|| text.len() - digits.len() + len + 1)
    };
    let (words, rest) = if let Some(rest) = rest.strip_prefix("TV") {
        ("vtable for", rest)
    } else if let Some(rest) = rest.strip_prefix("TT") {
        ("VTT for", rest)
    } else if let Some(rest) = rest.strip_prefix("GTt") {
        ("transaction clone for", rest)
    } else if let Some(rest) = rest.strip_prefix("Th") {
        ("non-virtual thunk to", &rest[offset(rest)?..])
    } else if let Some(rest) = rest.strip_prefix("Tv") {
        let rest = &rest[offset(rest)?..];
        ("virtual thunk to", &rest[offset(rest)?..])
    } else {
        return None;
    };
    Some((words, format!("_Z{rest}")))
}

/// Removes ` const`, ` &` and ` [clone .cold]` after the parameters.
fn without_qualifiers(mut name: String) -> String {
    if let Some(at) = name.find(" [clone .") {
        name.truncate(at);
    }
    // In `operator T const` it belongs to the type.
    if !name.contains("operator ") {
        while let Some(shorter) = [" const", " volatile", " &", " &&"]
            .iter()
            .find_map(|end| name.strip_suffix(end))
        {
            name.truncate(shorter.len());
        }
    }
    name
}

/// Removes empty parameter packs, which `cpp_demangle` shows as `, >` and `, &&)`.
fn without_empty_packs(mut name: String) -> String {
    for (pack, nothing) in [(", >", ">"), (", &&)", ")")] {
        while name.contains(pack) {
            name = name.replace(pack, nothing);
        }
    }
    // Elsewhere, as in `char const (&&) [4]`, it is a reference to an array.
    if name.ends_with("(&&)") {
        name.truncate(name.len() - 3);
        name.push(')');
    }
    name
}

/// Replaces the expansions of `Si` and `Sd`, as other demanglers do.
fn abbreviated(name: String) -> String {
    if !name.contains("std::basic_i") {
        return name;
    }
    name.replace(
        "std::basic_istream<char, std::char_traits<char> >",
        "std::istream",
    )
    .replace(
        "std::basic_iostream<char, std::char_traits<char> >",
        "std::iostream",
    )
}

/// Names constructors and destructors of an abbreviated class after its full name.
fn constructors(name: String) -> String {
    const STREAMS: [(&str, &str); 4] = [
        (
            "string",
            "std::basic_string<char, std::char_traits<char>, std::allocator<char> >",
        ),
        (
            "ostream",
            "std::basic_ostream<char, std::char_traits<char> >",
        ),
        (
            "istream",
            "std::basic_istream<char, std::char_traits<char> >",
        ),
        (
            "iostream",
            "std::basic_iostream<char, std::char_traits<char> >",
        ),
    ];
    for (short, long) in STREAMS {
        let member = name
            .strip_prefix("std::")
            .and_then(|rest| rest.strip_prefix(short)?.strip_prefix("::"));
        let Some(member) = member else { continue };
        // Constructors of an abbreviated class come with either name.
        let member = member.strip_prefix("basic_").unwrap_or(member);
        let (tilde, own) = member.strip_prefix('~').map_or(("", member), |own| {
            ("~", own.strip_prefix("basic_").unwrap_or(own))
        });
        if let Some(arguments) = own.strip_prefix(short)
            && (arguments.is_empty() || arguments.starts_with(['<', '(']))
        {
            return format!("{long}::{tilde}basic_{short}{arguments}");
        }
    }
    name
}

/// Writes literal operators as in C++: `operator"" _km` instead of `operator_km::operator ""`.
fn literal_operators(mut name: String) -> String {
    const WRITTEN: &str = "::operator \"\"";
    while let Some(at) = name.find(WRITTEN) {
        let is_letter = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$' | '.');
        let start = name[..at].trim_end_matches(is_letter).len();
        let Some(suffix) = name[start..at].strip_prefix("operator") else {
            break;
        };
        let operator = format!("operator\"\" {suffix}");
        name.replace_range(start..at + WRITTEN.len(), &operator);
    }
    name
}

/// Writes integer literals as in C++: `4u` instead of the cast `(unsigned int)4`.
fn literals(name: String) -> String {
    const SUFFIXES: [(&str, &str); 5] = [
        ("(unsigned int)", "u"),
        ("(unsigned long)", "ul"),
        ("(long)", "l"),
        ("(unsigned long long)", "ull"),
        ("(long long)", "ll"),
    ];
    let mut out = String::new();
    let mut done = 0;
    for (at, _) in name.match_indices('(') {
        for (cast, suffix) in SUFFIXES {
            let Some(rest) = name[at..].strip_prefix(cast) else {
                continue;
            };
            let digits = rest.strip_prefix('-').unwrap_or(rest);
            let digits_len = digits.bytes().take_while(u8::is_ascii_digit).count();
            if digits_len > 0 {
                let end = name.len() - digits.len() + digits_len;
                out.push_str(&name[done..at]);
                out.push_str(&name[name.len() - rest.len()..end]);
                out.push_str(suffix);
                done = end;
            }
        }
    }
    if done == 0 {
        return name;
    }
    out.push_str(&name[done..]);
    out
}
