//! Demangles Ada, Fortran, Haskell, Nim and OCaml. Their linkage names look like names of C.
//!
//! A name is decoded only if its file belongs to such a program ([`Language`]), and if all of it
//! follows the rules. Different linkage names may get one display name:
//! [`linkage_names`](crate::linkage_names) tells their functions apart.

use super::Style;
use super::bounded::MAX_OUTPUT;

/// Language with an encoding that names of C may match by chance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    Ada,
    Fortran,
    Haskell,
    Nim,
    OCaml,
}

impl Language {
    pub(crate) const ALL: [Self; 5] = [
        Self::Ada,
        Self::Fortran,
        Self::Haskell,
        Self::Nim,
        Self::OCaml,
    ];

    /// Returns the start of a symbol name. Each file of this language defines or imports such a
    /// symbol, and files of other languages do not.
    pub(crate) fn evidence(self) -> &'static [u8] {
        match self {
            Self::Ada => b"\0__gnat_",
            Self::Fortran => b"\0_gfortran_",
            // Marks the end of an update, which each module may do.
            Self::Haskell => b"\0stg_upd_frame_info\0",
            Self::Nim => b"\0NimMain\0",
            Self::OCaml => b"\0caml_",
        }
    }

    /// Decodes a name of this language. Returns `None` for other names, and for names longer than
    /// [`MAX_OUTPUT`].
    pub(crate) fn demangle(self, raw: &str, style: Style) -> Option<String> {
        let name = match self {
            Self::Ada => ada(raw, style),
            Self::Fortran => fortran(raw, style),
            Self::Haskell => haskell(raw),
            Self::Nim => nim(raw, style),
            Self::OCaml => ocaml(raw),
        };
        name.filter(|name| name.len() <= MAX_OUTPUT)
    }
}

/// Returns `Stdlib.Array.map_154` for `camlStdlib__Array__map_154`. `__` separates modules (since
/// 5.1 `.` too), and `$5b` is the byte 0x5b. The number at the end tells functions of one name
/// apart.
///
/// Code of modules begins with `caml` and a capital letter, unlike the runtime (`caml_alloc`).
fn ocaml(raw: &str) -> Option<String> {
    let mut rest = raw.strip_prefix("caml")?;
    if !rest.starts_with(|first: char| first.is_ascii_uppercase()) {
        return None;
    }
    let mut name = String::with_capacity(rest.len());
    while let Some(next) = rest.chars().next() {
        if let Some(behind) = rest.strip_prefix("__") {
            name.push('.');
            rest = behind;
        } else if let Some((letter, behind)) = escaped(rest) {
            name.push(letter);
            rest = behind;
        } else {
            name.push(next);
            rest = &rest[next.len_utf8()..];
        }
    }
    Some(name)
}

/// Splits off `$`, two hexadecimal digits, which stand for an ASCII character.
fn escaped(text: &str) -> Option<(char, &str)> {
    let digits = text.strip_prefix('$')?.get(..2)?;
    let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let byte = u8::from_str_radix(digits, 16).ok()?;
    (is_hex && byte.is_ascii_graphic()).then(|| (byte.into(), &text[3..]))
}

/// Returns `base:GHC.Base.map` for `base_GHCziBase_map_info`, and `Main.main1` for
/// `Main_main1_info`: modules of programs have no package. `_info` is the code of a function. Other
/// kinds of code keep their ending.
///
/// Source: "Encoding" in GHC's `GHC.Utils.Encoding`: `_` separates parts, `z` and `Z` are escapes.
fn haskell(raw: &str) -> Option<String> {
    const KINDS: [&str; 6] = [
        "_con_info",
        "_static_info",
        "_info",
        "_entry",
        "_slow",
        "_fast",
    ];
    // `stg_` is the runtime, which is no package.
    let kind = KINDS.iter().find(|kind| raw.ends_with(*kind))?;
    let name = raw.strip_suffix(kind)?;
    let mut parts = name.split('_');
    let (first, second) = (parts.next()?, parts.next()?);
    let third = parts.next();
    if first == "stg" || parts.next().is_some() {
        return None;
    }
    let is_module = |text: &str| text.starts_with(|first: char| first.is_ascii_uppercase());
    let (package, module, function) = match third {
        Some(function) => (z_decoded(first)? + ":", second, function),
        None => (String::new(), first, second),
    };
    if !is_module(module) || function.is_empty() {
        return None;
    }
    let ending = if *kind == "_info" { "" } else { kind };
    let (module, function) = (z_decoded(module)?, z_decoded(function)?);
    Some(format!("{package}{module}.{function}{ending}"))
}

/// Decodes the escapes of GHC: `zd` is `$`, `z2200U` the character U+2200, `Z3T` is `(,,)`.
fn z_decoded(text: &str) -> Option<String> {
    let mut name = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        if !next.is_ascii_alphanumeric() {
            return None;
        }
        rest = &rest[1..];
        if next != 'z' && next != 'Z' {
            name.push(next);
            continue;
        }
        let code = rest.chars().next()?;
        if code.is_ascii_digit() {
            let end = rest.find(['T', 'H', 'U'])?;
            let (number, kind) = (&rest[..end], &rest[end..=end]);
            match (next, kind) {
                ('z', "U") => name.push(char::from_u32(u32::from_str_radix(number, 16).ok()?)?),
                ('Z', "T") => name.push_str(&tuple(number, "(", ")")?),
                ('Z', "H") => name.push_str(&tuple(number, "(#", "#)")?),
                _ => return None,
            }
            rest = &rest[end + 1..];
            continue;
        }
        name.push(match (next, code) {
            ('Z', 'L') => '(',
            ('Z', 'R') => ')',
            ('Z', 'M') => '[',
            ('Z', 'N') => ']',
            ('Z', 'C') => ':',
            ('Z', 'Z') => 'Z',
            ('z', 'z') => 'z',
            ('z', 'a') => '&',
            ('z', 'b') => '|',
            ('z', 'c') => '^',
            ('z', 'd') => '$',
            ('z', 'e') => '=',
            ('z', 'g') => '>',
            ('z', 'h') => '#',
            ('z', 'i') => '.',
            ('z', 'l') => '<',
            ('z', 'm') => '-',
            ('z', 'n') => '!',
            ('z', 'p') => '+',
            ('z', 'q') => '\'',
            ('z', 'r') => '\\',
            ('z', 's') => '/',
            ('z', 't') => '*',
            ('z', 'u') => '_',
            ('z', 'v') => '%',
            _ => return None,
        });
        rest = &rest[1..];
    }
    Some(name)
}

/// Returns a tuple's name. Tuples of 0 and 1 elements have no commas; GHC's have up to 64 elements.
fn tuple(elements: &str, open: &str, close: &str) -> Option<String> {
    let elements: usize = elements.parse().ok().filter(|elements| *elements <= 64)?;
    // `Z1H` is `(# #)`.
    let inside = match elements {
        1 => " ".to_owned(),
        _ => ",".repeat(elements.saturating_sub(1)),
    };
    Some([open, &inside, close].concat())
}

/// Returns `solver::step` for `__solver_MOD_step`, a procedure of a module (GNU Fortran).
fn fortran(raw: &str, style: Style) -> Option<String> {
    let (function, clones) = raw.split_at(raw.find('.').unwrap_or(raw.len()));
    let (module, procedure) = function.strip_prefix("__")?.split_once("_MOD_")?;
    let is_name = |text: &str| {
        let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        text.starts_with(|first: char| first.is_ascii_lowercase())
            && text.bytes().all(|byte| is_letter(byte) || byte == b'_')
    };
    let name = format!("{module}::{procedure}{}", clone_mark(clones, style));
    (is_name(module) && is_name(procedure)).then_some(name)
}

/// Returns `pure/hashes.hash` for `hash__pureZhashes_279`: procedure, module, number. Names of
/// operators are words: `dollar_` is `$`. A module's other letters are numbers, and stay so.
///
/// Source: `uniqueModuleName` in the compiler's `modulepaths.nim`.
fn nim(raw: &str, style: Style) -> Option<String> {
    let (function, clones) = raw.split_at(raw.find('.').unwrap_or(raw.len()));
    let (procedure, rest) = function.split_at(function.rfind("__")?);
    let (module, number) = rest[2..].rsplit_once('_')?;
    // Since version 2: `_u279`.
    let number = number.strip_prefix('u').unwrap_or(number);
    let is_number = !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit());
    let is_path = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_module = module.starts_with(|first: char| first.is_ascii_lowercase())
        && (module.bytes()).all(|byte| is_path(byte) || matches!(byte, b'Z' | b'O'));
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let is_procedure = procedure.starts_with(|first: char| first.is_ascii_alphabetic())
        && procedure.bytes().all(is_word);
    let module = module.replace('Z', "/").replace('O', ".");
    let name = format!("{module}.{procedure}{}", clone_mark(clones, style));
    (is_number && is_module && is_procedure).then_some(name)
}

/// Returns ` [clone .part.0]` for the suffix of a clone, in [`Style::Full`].
pub(super) fn clone_mark(clones: &str, style: Style) -> String {
    match style {
        Style::Full if !clones.is_empty() => format!(" [clone {clones}]"),
        _ => String::new(),
    }
}

/// Returns `ada.text_io.put_line` for `ada__text_io__put_line__2`. `_ada_` begins the names of
/// procedures outside of packages, such as the main program.
///
/// Source: GNAT's `exp_dbug.ads`. Attributes and operators look as in `c++filt -s gnat`. Code
/// without a name in the source, such as `IP` (initialization), keeps its linkage name.
fn ada(raw: &str, style: Style) -> Option<String> {
    let (function, clones) = raw.split_at(raw.find('.').unwrap_or(raw.len()));
    let (mut rest, is_outside) = match function.strip_prefix("_ada_") {
        Some(rest) => (rest, true),
        None => (function, false),
    };
    let mut name = String::with_capacity(rest.len());
    loop {
        let (part, behind) = ada_part(rest)?;
        let is_first = name.is_empty();
        name.push_str(if is_first { "" } else { "." });
        name.push_str(&part);
        rest = behind;
        // The body of a task encloses its functions.
        if let Some(inside) = rest.strip_prefix("TK") {
            match inside {
                "B" => rest = "",
                _ if inside.starts_with("__") => rest = inside,
                _ => return None,
            }
        }
        if let Some(attribute) = ada_attribute(rest) {
            name.push_str(attribute);
            break;
        }
        if is_ada_end(rest) {
            // Without a package, it might be a name of C.
            if is_first && !is_outside {
                return None;
            }
            break;
        }
        rest = rest.strip_prefix("__")?;
    }
    Some(name + &clone_mark(clones, style))
}

/// Splits off an identifier or an operator.
fn ada_part(text: &str) -> Option<(String, &str)> {
    const OPERATORS: [(&str, &str); 19] = [
        ("Oabs", "abs"),
        ("Oand", "and"),
        ("Omod", "mod"),
        ("Onot", "not"),
        ("Oor", "or"),
        ("Orem", "rem"),
        ("Oxor", "xor"),
        ("Oeq", "="),
        ("One", "/="),
        ("Olt", "<"),
        ("Ole", "<="),
        ("Ogt", ">"),
        ("Oge", ">="),
        ("Oadd", "+"),
        ("Osubtract", "-"),
        ("Oconcat", "&"),
        ("Omultiply", "*"),
        ("Odivide", "/"),
        ("Oexpon", "**"),
    ];
    for (code, operator) in OPERATORS {
        if let Some(behind) = text.strip_prefix(code) {
            return Some((format!("\"{operator}\""), behind));
        }
    }
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    let mut end = 0;
    while bytes.get(end).is_some_and(|byte| is_letter(*byte))
        || bytes.get(end) == Some(&b'_') && bytes.get(end + 1).is_some_and(|next| is_letter(*next))
    {
        end += 1;
    }
    let (name, behind) = text.split_at(end);
    name.starts_with(|first: char| first.is_ascii_lowercase())
        .then(|| (name.to_owned(), behind))
}

/// Returns the text of a subprogram that the compiler makes for a type or a package.
fn ada_attribute(rest: &str) -> Option<&'static str> {
    Some(match rest {
        "___elabb" => "'Elab_Body",
        "___elabs" => "'Elab_Spec",
        _ if rest.strip_prefix("___assign").is_some_and(is_ada_end) => ".\":=\"",
        _ if rest.strip_prefix("___size").is_some_and(is_ada_end) => "'Size",
        _ => {
            let (code, number) = rest.split_at_checked(2)?;
            let text = match code {
                "SR" => "'Read",
                "SW" => "'Write",
                "SI" => "'Input",
                "SO" => "'Output",
                "DF" => ".Finalize",
                "DA" => ".Adjust",
                _ => return None,
            };
            return is_ada_end(number).then_some(text);
        }
    })
}

/// Returns true for a valid end of a name: the number of an overload (`__2`), then nesting in bodies
/// (`Xn`); or the kind of a protected operation.
fn is_ada_end(rest: &str) -> bool {
    let digits = |text: &str| {
        let is_digit = |byte: u8| byte.is_ascii_digit() || byte == b'_';
        text.starts_with(|first: char| first.is_ascii_digit()) && text.bytes().all(is_digit)
    };
    if matches!(rest, "P" | "N") {
        return true;
    }
    let (number, nesting) = rest.split_at(rest.find('X').unwrap_or(rest.len()));
    let is_number = number.is_empty() || number.strip_prefix("__").is_some_and(digits);
    is_number
        && nesting
            .bytes()
            .skip(1)
            .all(|byte| matches!(byte, b'b' | b'n'))
}

#[cfg(test)]
mod tests {
    use super::super::demangle_in;
    use super::*;

    /// Checks names in files with evidence, and that others keep them.
    fn check(language: Language, names: &[(&str, &str)]) {
        for (raw, name) in names {
            for style in [Style::Full, Style::NoParameters] {
                assert_eq!(demangle_in(raw, style, &|found| found == language), *name);
                assert_eq!(demangle_in(raw, style, &|_| false), *raw);
            }
        }
    }

    /// The first four are the examples of perf's own test (`tools/perf/tests/demangle-ocaml-test.c`).
    #[test]
    fn functions_of_ocaml_have_their_modules() {
        check(
            Language::OCaml,
            &[
                ("main", "main"),
                ("camlStdlib__array__map_154", "Stdlib.array.map_154"),
                (
                    "camlStdlib__anon_fn$5bstdlib$2eml$3a334$2c0$2d$2d54$5d_1453",
                    "Stdlib.anon_fn[stdlib.ml:334,0--54]_1453",
                ),
                ("camlStdlib__bytes__$2b$2b_2205", "Stdlib.bytes.++_2205"),
                ("camlStdlib__List.map_123", "Stdlib.List.map_123"),
                ("camlMain__f$_12", "Main.f$_12"),
                ("camlMain__f$1b[31m", "Main.f$1b[31m"),
                ("caml_alloc_shr", "caml_alloc_shr"),
                ("camlé", "camlé"),
            ],
        );
    }

    /// The operators of Z-encoding are from the comment in GHC's `GHC.Utils.Encoding`.
    #[test]
    fn functions_of_haskell_have_their_packages_and_modules() {
        check(
            Language::Haskell,
            &[
                ("base_GHCziBase_map_info", "base:GHC.Base.map"),
                (
                    "containerszm0zi6zi4zi1_DataziMapziInternal_zdwinsert_info",
                    "containers-0.6.4.1:Data.Map.Internal.$winsert",
                ),
                ("Main_zdwfib_info", "Main.$wfib"),
                ("Main_zdwfib_slow", "Main.$wfib_slow"),
                (
                    "base_GHCziMaybe_Just_con_info",
                    "base:GHC.Maybe.Just_con_info",
                ),
                ("base_GHCziBase_zpzp_info", "base:GHC.Base.++"),
                ("base_GHCziBase_zgzgze_info", "base:GHC.Base.>>="),
                (
                    "base_DataziData_zdfDataZLz2cUZR_info",
                    "base:Data.Data.$fData(,)",
                ),
                (
                    "ghczmprim_GHCziTuple_Z3T_con_info",
                    "ghc-prim:GHC.Tuple.(,,)_con_info",
                ),
                (
                    "ghczmprim_GHCziTuple_Z0T_con_info",
                    "ghc-prim:GHC.Tuple.()_con_info",
                ),
                (
                    "ghczmprim_GHCziTypes_ZC_con_info",
                    "ghc-prim:GHC.Types.:_con_info",
                ),
                ("Main_fooZZzzzqzu1_info", "Main.fooZz'_1"),
                ("Main_z3b1U_info", "Main.\u{3b1}"),
                // The runtime, C, and damaged names.
                ("stg_ap_pp_info", "stg_ap_pp_info"),
                ("stg_CAF_BLACKHOLE_info", "stg_CAF_BLACKHOLE_info"),
                ("get_user_info", "get_user_info"),
                ("Main_zy_info", "Main_zy_info"),
                ("Main_z_info", "Main_z_info"),
                ("Main_Z9999T_info", "Main_Z9999T_info"),
                ("Main__info", "Main__info"),
                ("_info", "_info"),
                ("Main_main", "Main_main"),
            ],
        );
    }

    #[test]
    fn procedures_of_nim_have_their_modules() {
        check(
            Language::Nim,
            &[
                ("fib__t_3", "t.fib"),
                ("hash__pureZhashes_279", "pure/hashes.hash"),
                ("dollar___systemZdollars_6", "system/dollars.dollar_"),
                ("raiseAssert__system_u32", "system.raiseAssert"),
                (
                    "TM__Q5wkpxktOdTGvlSRo9bzt9aw_26",
                    "TM__Q5wkpxktOdTGvlSRo9bzt9aw_26",
                ),
                ("fib__t_", "fib__t_"),
                ("__t_3", "__t_3"),
                ("fib__3", "fib__3"),
            ],
        );
    }

    /// gdb shows procedures so.
    #[test]
    fn procedures_of_fortran_have_their_modules() {
        check(
            Language::Fortran,
            &[
                ("__solver_MOD_step", "solver::step"),
                ("__my_mod_MOD_my_step2", "my_mod::my_step2"),
                ("__solver_MOD_", "__solver_MOD_"),
                ("__SOLVER_MOD_step", "__SOLVER_MOD_step"),
                ("solver_MOD_step", "solver_MOD_step"),
            ],
        );
    }

    /// Checked with `c++filt -s gnat` (binutils 2.40).
    #[test]
    fn functions_of_ada_have_their_packages() {
        check(
            Language::Ada,
            &[
                ("ada__text_io__put_line__2", "ada.text_io.put_line"),
                ("_ada_fib", "fib"),
                ("_ada_fib__inner__2", "fib.inner"),
                ("a__b__Oadd__2", "a.b.\"+\""),
                (
                    "ada__strings__wide_wide_unbounded__Ole__2",
                    "ada.strings.wide_wide_unbounded.\"<=\"",
                ),
                ("ada__finalization___assign__3", "ada.finalization.\":=\""),
                ("ada__finalization___size__3", "ada.finalization'Size"),
                ("ada__calendar___elabb", "ada.calendar'Elab_Body"),
                (
                    "ada__directories__search_typeSR__2",
                    "ada.directories.search_type'Read",
                ),
                (
                    "ada__directories__directory_entry_typeDF",
                    "ada.directories.directory_entry_type.Finalize",
                ),
                (
                    "ada__real_time__timing_events__timerTKB",
                    "ada.real_time.timing_events.timer",
                ),
                ("a__bTK__c", "a.b.c"),
                (
                    "gnat__semaphores__binary_semaphore__releaseP",
                    "gnat.semaphores.binary_semaphore.release",
                ),
                (
                    "ada__complex_text_io__aux_float__getXn",
                    "ada.complex_text_io.aux_float.get",
                ),
                ("a__b__2Xnnb", "a.b"),
                // Not in the source, or not of Ada.
                (
                    "ada__command_line__arg_numsIP",
                    "ada__command_line__arg_numsIP",
                ),
                ("a__b__2__c", "a__b__2__c"),
                ("__gnat_malloc", "__gnat_malloc"),
                ("main", "main"),
                ("foo_bar", "foo_bar"),
                ("foo__2", "foo__2"),
                ("a__b_", "a__b_"),
                ("a____b", "a____b"),
                ("a__bCamel", "a__bCamel"),
                ("_ada_", "_ada_"),
            ],
        );
        let name = |style| demangle_in("a__b__2.part.0", style, &|found| found == Language::Ada);
        assert_eq!(name(Style::NoParameters), "a.b");
        assert_eq!(name(Style::Full), "a.b [clone .part.0]");
    }
}
