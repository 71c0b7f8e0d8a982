//! The kernel's helpers in print formats: `__print_flags` and others
//! (`include/trace/stages/stage3_trace_output.h`).

use std::borrow::Cow;
use std::fmt::Write;

use crate::ops::Table;
use crate::payload::Payload;
use crate::value::{Integer, Number, Value};

fn text<'p>(out: String, payload: &Payload<'_>) -> Value<'p> {
    match payload.spend(out.len()) {
        true => Value::Text(Cow::Owned(out)),
        false => Value::Unknown,
    }
}

/// Returns the number and its lookup table, if both are known and the payload's budget covers a
/// scan of the table.
fn paid<'t>(
    value: &Value<'_>,
    table: Option<&'t Table>,
    payload: &Payload<'_>,
) -> Option<(Number, &'t Table)> {
    let (value, table) = (value.number()?, table?);
    payload.spend(table.entries.len()).then_some((value, table))
}

/// Returns the names of the set flags, and the remaining bits as a number.
pub(crate) fn flags<'p>(
    value: &Value<'_>,
    table: Option<&Table>,
    payload: &Payload<'_>,
) -> Value<'p> {
    let Some((value, table)) = paid(value, table, payload) else {
        return Value::Unknown;
    };
    let (mut left, mut out) = (value.bits, String::new());
    let mut first = true;
    let mut delimit = |out: &mut String| {
        if !std::mem::take(&mut first) {
            out.push_str(&table.delimiter);
        }
    };
    for (mask, name) in &table.entries {
        if *mask != 0 && left & mask == *mask {
            delimit(&mut out);
            out.push_str(name);
            left &= !mask;
        }
    }
    if left != 0 {
        delimit(&mut out);
        let _ = write!(out, "{left:#x}");
    }
    text(out, payload)
}

/// Returns the name of a value, or the value in hexadecimal.
pub(crate) fn symbolic<'p>(
    value: &Value<'_>,
    table: Option<&Table>,
    payload: &Payload<'_>,
) -> Value<'p> {
    let Some((value, table)) = paid(value, table, payload) else {
        return Value::Unknown;
    };
    // Tables contain 32-bit numbers for negative values.
    let same = |key: u64| key == value.bits || key as i32 as u64 == value.bits;
    let name = table.entries.iter().find(|(key, _)| same(*key));
    text(
        name.map_or_else(|| format!("{:#x}", value.bits), |(_, name)| name.clone()),
        payload,
    )
}

fn first(bytes: &[u8], count: Number) -> &[u8] {
    let count = usize::try_from(count.bits).unwrap_or(usize::MAX);
    &bytes[..count.min(bytes.len())]
}

pub(crate) fn hex<'p>(
    bytes: &Value<'_>,
    len: &Value<'_>,
    spaced: bool,
    payload: &Payload<'_>,
) -> Value<'p> {
    let (Some(bytes), Some(len)) = (bytes.bytes(), len.number()) else {
        return Value::Unknown;
    };
    let bytes = first(bytes.bytes, len);
    if !payload.spend(bytes.len()) {
        return Value::Unknown;
    }
    let mut out = String::new();
    for (i, byte) in bytes.iter().enumerate() {
        if spaced && i > 0 {
            out.push(' ');
        }
        let _ = write!(out, "{byte:02x}");
    }
    text(out, payload)
}

/// Formats integers of `size` bytes each: `{0x1,0x2}`.
pub(crate) fn array<'p>(
    bytes: &Value<'_>,
    count: &Value<'_>,
    size: &Value<'_>,
    payload: &Payload<'_>,
) -> Value<'p> {
    let (Some(bytes), Some(count), Some(size)) = (bytes.bytes(), count.number(), size.number())
    else {
        return Value::Unknown;
    };
    let size = u32::try_from(size.bits).unwrap_or(0);
    let Some(element) = Integer::new(size, false) else {
        return Value::Unknown;
    };
    let len = count.bits.saturating_mul(u64::from(size));
    let bytes = first(bytes.bytes, Number::signed(len.min(1 << 32) as i64));
    if !payload.spend(bytes.len()) {
        return Value::Unknown;
    }
    let mut out = String::from("{");
    for at in (0..bytes.len()).step_by(size as usize) {
        let Some(number) = element.read(bytes, at, payload.endian) else {
            break;
        };
        let comma = if at > 0 { "," } else { "" };
        let _ = write!(out, "{comma}{:#x}", number.bits);
    }
    out.push('}');
    text(out, payload)
}

/// Returns a bit mask in hexadecimal, most significant first, with a comma after each 32 bits.
pub(crate) fn bitmask<'p>(bytes: &Value<'_>, payload: &Payload<'_>) -> Value<'p> {
    let Some(bytes) = bytes.bytes() else {
        return Value::Unknown;
    };
    let mut out = String::new();
    // A mask is an array of words in the recorder's byte order.
    let word = Integer::new(4, false).unwrap_or(Integer::BYTE);
    let count = bytes.bytes.len() / 4;
    if !payload.spend(bytes.bytes.len()) {
        return Value::Unknown;
    }
    for i in (0..count).rev() {
        // 64-bit big-endian words have swapped halves.
        let at = match payload.endian {
            rprof_records::Endian::Little => i,
            rprof_records::Endian::Big => i ^ usize::from(count % 2 == 0),
        };
        let bits = word.read(bytes.bytes, at * 4, payload.endian);
        let comma = if out.is_empty() { "" } else { "," };
        let _ = write!(out, "{comma}{:08x}", bits.map_or(0, |n| n.bits));
    }
    text(out, payload)
}

pub(crate) fn nanoseconds<'p>(value: &Value<'_>, part: fn(u64) -> u64) -> Value<'p> {
    let bits = value.number().map(|n| part(n.bits));
    bits.map(|bits| Number {
        bits,
        unsigned: true,
    })
    .into()
}
