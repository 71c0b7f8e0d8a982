//! Names of Free Pascal: `WORK$_$TSHAPE_$__$$_AREA$LONGINT$$INT64` is `WORK.TSHAPE.AREA`.
//!
//! Names stay in capitals: Pascal does not distinguish them, and linkage names lose the letters of
//! the source.
//!
//! Source: `make_mangledname` in the compiler's `symdef.pas`.

use super::Style;
use super::encoded::clone_mark;

/// Decodes unit, classes, outermost procedure and procedure. Leaves out the types of parameters, and
/// procedures between the outermost and the innermost, since names may contain their separator.
/// Returns `None` for other names, such as wrappers of interfaces.
pub(super) fn demangle(raw: &str, style: Style) -> Option<String> {
    let (function, clones) = raw.split_at(raw.find('.').unwrap_or(raw.len()));
    let (place, procedure) = function.rsplit_once("_$$_")?;
    // The name of a program may also be the name of a unit.
    let place = place.strip_prefix("P$").unwrap_or(place);
    let (unit, owners) = match place.split_once("$_$") {
        Some((unit, owners)) => (unit, Some(owners)),
        None => (place, None),
    };
    let mut name = String::with_capacity(function.len());
    name.push_str(identifier(unit).filter(|found| found.len() == unit.len())?);
    // A class ends with the separator.
    for owner in owners.into_iter().flat_map(|owners| owners.split("_$_")) {
        if !owner.is_empty() {
            name.push('.');
            name.push_str(identifier(owner)?);
        }
    }
    name.push('.');
    match procedure.strip_prefix('$') {
        Some(operator) => {
            name.push_str("operator ");
            name.push_str(identifier(operator)?);
        }
        None => name.push_str(identifier(procedure)?),
    }
    Some(name + &clone_mark(clones, style))
}

/// Returns the identifier at the start of a text. Types of parameters and a result may follow.
fn identifier(text: &str) -> Option<&str> {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let (name, behind) = text.split_at(text.bytes().take_while(|byte| is_word(*byte)).count());
    let is_name = !name.is_empty() && !name.starts_with(|first: char| first.is_ascii_digit());
    (is_name && (behind.is_empty() || behind.starts_with('$'))).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names of fpc 3.2. The last parts are the names in its debug information (`-gw3`), in capitals.
    #[test]
    fn procedures_of_pascal_have_their_units_and_classes() {
        let names = [
            ("P$PROG_$$_FIB$LONGINT$$INT64", Some("PROG.FIB")),
            (
                "WORK_$$_MY_PROC_NAME$LONGINT$POINTER",
                Some("WORK.MY_PROC_NAME"),
            ),
            ("WORK_$$_NOTHING", Some("WORK.NOTHING")),
            ("WORK_$$_$plus$TREC$TREC$$TREC", Some("WORK.operator plus")),
            (
                "WORK$_$TSHAPE_$__$$_AREA$LONGINT$$INT64",
                Some("WORK.TSHAPE.AREA"),
            ),
            (
                "WORK$_$TSHAPE_$_TINNER_$__$$_DEEP$array_of_LONGINT$$DOUBLE",
                Some("WORK.TSHAPE.TINNER.DEEP"),
            ),
            (
                "WORK$_$TBOX$1$CRC713F463B_$__$$_GET$LONGINT$$INT64",
                Some("WORK.TBOX.GET"),
            ),
            (
                "WORK$_$STEP$LONGINT$$INT64_$$_INNER$LONGINT$$INT64",
                Some("WORK.STEP.INNER"),
            ),
            (
                "WORK$_$STEP$LONGINT$$INT64_INNER$LONGINT$$INT64_$$_INNERMOST",
                Some("WORK.STEP.INNERMOST"),
            ),
            ("WORK_$$_finalize$", Some("WORK.finalize")),
            ("P$PROG_$$_init_implicit$", Some("PROG.init_implicit")),
            (
                "SYSTEM$_$TINTERFACEDOBJECT_$__$$__ADDREF$$LONGINT",
                Some("SYSTEM.TINTERFACEDOBJECT._ADDREF"),
            ),
            // Wrappers, data, damaged names and other languages.
            (
                "WRPR_$WORK_$$_TTHING_$_ITHING_$_3_$_WORK$_$TTHING_$__$$_DOIT$LONGINT",
                None,
            ),
            ("VMT_$WORK_$$_TSHAPE", None),
            ("WORK_$$_", None),
            ("_$$_A", None),
            ("WORK$_$_$$_-", None),
            ("WORK_$$_9", None),
            ("INIT$_$WORK", None),
            ("_ZN3fooE", None),
        ];
        for (raw, name) in names {
            assert_eq!(demangle(raw, Style::Full).as_deref(), name, "{raw}");
        }
    }
}
