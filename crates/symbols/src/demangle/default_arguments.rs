//! Lambdas and unnamed types in default arguments of C++ functions.
//!
//! Their names have the number of the parameter: `Z <function> E d [<number>] _ <name>` (Itanium C++
//! ABI, "Scope Encoding"). `cpp_demangle` drops everything after the function, so all its lambdas
//! would have the name of the function. Here the number of the parameter moves into the number of the
//! lambda before demangling, and out of it afterwards.

/// Distance between the numbers of lambdas of two parameters: more than any function has lambdas.
const STEP: u64 = 1 << 24;

/// A scope of a default argument, and the closure or unnamed type in it.
struct Scope {
    /// Offset of the `d`.
    at: usize,
    /// Length of `d<number>_`.
    len: usize,
    /// Number of the parameter, counted from the last one, which is 1.
    parameter: u64,
    /// Offset and length of the digits before the last `_` of the name.
    digits: (usize, usize),
}

/// Returns true if a mangled name has a lambda in a default argument.
pub(super) fn has_any(mangled: &str) -> bool {
    scopes(mangled).next().is_some()
}

/// Replaces each scope of a default argument by the function's scope, with the parameter encoded in
/// the lambda's number. [`show`] decodes it.
pub(super) fn hide(mangled: &str) -> String {
    let mut plain = String::with_capacity(mangled.len() + 16);
    let mut done = 0;
    for scope in scopes(mangled) {
        let (at, len) = scope.digits;
        let (before, name) = (&mangled[done..scope.at], &mangled[scope.at + scope.len..at]);
        // `_` is the first one, `0_` the second.
        let index = number(&mangled[at..at + len]).map_or(0, |number| number + 1);
        plain.push_str(before);
        plain.push_str(name);
        plain.push_str(&(scope.parameter * STEP + index - 1).to_string());
        done = at + len;
    }
    plain.push_str(&mangled[done..]);
    plain
}

/// Writes the default argument before each lambda whose number has a parameter in it.
pub(super) fn show(mut name: String) -> String {
    let mut from = 0;
    while let Some(at) = name[from..].find('#').map(|at| from + at) {
        let digits = name[at + 1..]
            .bytes()
            .take_while(u8::is_ascii_digit)
            .count();
        from = at + 1;
        let Some(number) = number(&name[at + 1..at + 1 + digits]).filter(|n| *n > STEP) else {
            continue;
        };
        let Some(open) = opening_brace(&name[..at]) else {
            continue;
        };
        let (parameter, lambda) = ((number - 1) / STEP, (number - 1) % STEP + 1);
        name.replace_range(at + 1..at + 1 + digits, &lambda.to_string());
        let argument = format!("{{default arg#{parameter}}}::");
        name.insert_str(open, &argument);
        from += argument.len();
    }
    name
}

/// Returns the offset of the brace that is open at the end of `text`.
fn opening_brace(text: &str) -> Option<usize> {
    let mut depth = 0;
    let mut braces = text.bytes().enumerate().rev();
    let found = braces.find(|(_, byte)| {
        match byte {
            b'}' => depth += 1,
            b'{' if depth > 0 => depth -= 1,
            b'{' => return true,
            _ => {}
        }
        false
    });
    found.map(|(at, _)| at)
}

fn scopes(mangled: &str) -> impl Iterator<Item = Scope> {
    let mut end = 0;
    mangled.match_indices("Ed").filter_map(move |(at, _)| {
        let scope = scope(mangled, at + 1).filter(|_| at >= end)?;
        end = scope.digits.0 + scope.digits.1;
        Some(scope)
    })
}

/// Parses `d [<number>] _ [N [<qualifiers>]] U (l <parameters> E | t) [<number>] _`.
fn scope(mangled: &str, at: usize) -> Option<Scope> {
    let digits_at = |at: usize| {
        let rest = mangled.as_bytes().get(at..).unwrap_or(&[]);
        let len = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        (len <= 6 && rest.get(len) == Some(&b'_')).then_some(len)
    };
    let len = digits_at(at + 1)?;
    let parameter = number(&mangled[at + 1..at + 1 + len]).map_or(1, |number| number + 2);
    let name_at = at + len + 2;
    let name = mangled.get(name_at..)?;
    let unqualified = match name.strip_prefix('N') {
        Some(nested) => nested.trim_start_matches(['r', 'V', 'K', 'R', 'O']),
        None => name,
    };
    let kind_at = name_at + name.len() - unqualified.len();
    let number_at = match unqualified.get(..2)? {
        "Ut" => kind_at + 2,
        "Ul" => {
            let mut ends = unqualified.match_indices('E');
            let end = ends.find(|(end, _)| digits_at(kind_at + end + 1).is_some())?;
            kind_at + end.0 + 1
        }
        _ => return None,
    };
    Some(Scope {
        at,
        len: len + 2,
        parameter,
        digits: (number_at, digits_at(number_at)?),
    })
}

fn number(digits: &str) -> Option<u64> {
    digits.parse().ok()
}
