//! Fallback for unsupported print formats: all fields of the payload as `name=value`, in perf's
//! form.

use std::fmt::Write;

use crate::field::{Field, FieldKind};
use crate::payload::{MAX_TEXT, Payload};
use crate::value::Value;

/// Appends ` name=value` for every field except the common ones.
pub(crate) fn print(payload: &Payload<'_>, out: &mut String) {
    let start = out.len();
    for field in payload.fields.iter().filter(|f| !f.common) {
        let _ = write!(out, " {}=", field.name);
        value(field, payload, out);
        if out.len() - start > MAX_TEXT {
            return;
        }
    }
}

fn value(field: &Field, payload: &Payload<'_>, out: &mut String) {
    // Writing to a string does not fail.
    let _ = match payload.field(field) {
        Value::Number(n) if field.type_name.contains('*') => write!(out, "{:#x}", n.bits),
        Value::Number(n) if field.type_name.contains("long") && !field.signed => {
            write!(out, "{:#x}", n.bits)
        }
        Value::Number(n) if field.signed => write!(out, "{}", n.bits as i64),
        Value::Number(n) => write!(out, "{}", n.bits),
        Value::Bytes(b) => {
            let is_text = field.kind != FieldKind::Scalar && is_text(&field.type_name);
            match is_text.then(|| text(b.bytes)).flatten() {
                Some(text) => write!(out, "{text}"),
                None => write!(out, "ARRAY[{}]", list(b.bytes)),
            }
        }
        Value::Text(_) | Value::Unknown => write!(out, "?"),
    };
}

fn is_text(type_name: &str) -> bool {
    ["char", "u8", "s8"].iter().any(|t| type_name.contains(t))
}

/// Returns the bytes up to their NUL, if they are printable.
fn text(bytes: &[u8]) -> Option<&str> {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    let text = std::str::from_utf8(&bytes[..end]).ok()?;
    let printable = |c: char| c == ' ' || c.is_ascii_graphic() || c.is_ascii_whitespace();
    (!bytes.is_empty() && text.chars().all(printable)).then_some(text)
}

fn list(bytes: &[u8]) -> String {
    let bytes: Vec<String> = bytes.iter().map(|b| format!("{b:02x}")).collect();
    bytes.join(", ")
}
