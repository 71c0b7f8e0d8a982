//! Evaluation of programs over a payload.
//!
//! There are no jumps: both operands of `?:` and `&&` are evaluated. This is harmless without side
//! effects, and makes the time linear in the program.

use std::borrow::Cow;

use rprof_records::Endian;

use crate::helpers;
use crate::ops::{Binary, Op, Program};
use crate::payload::Payload;
use crate::types::Type;
use crate::value::{Bytes, Integer, Number, Value};

impl Program {
    /// Evaluates the expression for a payload.
    pub(crate) fn run<'p>(&'p self, payload: &Payload<'p>) -> Value<'p> {
        let mut stack: Vec<Value<'p>> = Vec::with_capacity(8);
        for op in &self.ops {
            if !payload.spend(1) {
                return Value::Unknown;
            }
            let value = self.step(*op, &mut stack, payload);
            stack.push(value);
        }
        stack.pop().unwrap_or(Value::Unknown)
    }

    /// Returns the value of an expression that does not depend on the payload.
    pub(crate) fn constant(&self) -> Option<u64> {
        let payload = Payload::new(&[], &[], Endian::Little);
        Some(self.run(&payload).number()?.bits)
    }

    fn step<'p>(&'p self, op: Op, stack: &mut Vec<Value<'p>>, payload: &Payload<'p>) -> Value<'p> {
        let field = |i: u32| payload.fields.get(i as usize);
        let mut pop = || stack.pop().unwrap_or(Value::Unknown);
        match op {
            Op::Number(n) => Value::Number(n),
            Op::Text(i) => match self.texts.get(i as usize) {
                Some(text) => Value::Text(Cow::Borrowed(text)),
                None => Value::Unknown,
            },
            Op::Field(i) => field(i).map_or(Value::Unknown, |f| payload.field(f)),
            Op::FieldBytes(i) => {
                let bytes = field(i).and_then(|f| payload.field_bytes(f));
                let element = Integer::BYTE;
                bytes.map_or(Value::Unknown, |bytes| {
                    Value::Bytes(Bytes { bytes, element })
                })
            }
            Op::DynamicLen(i) => {
                let bytes = field(i).and_then(|f| payload.field_bytes(f));
                bytes.map(|b| Number::signed(b.len() as i64)).into()
            }
            Op::Unknown => Value::Unknown,
            Op::Negate => (pop().number())
                .map(|n| Number {
                    bits: n.bits.wrapping_neg(),
                    ..n
                })
                .into(),
            Op::Complement => (pop().number())
                .map(|n| Number { bits: !n.bits, ..n })
                .into(),
            Op::Not => truth(&pop()).map(|t| Number::signed(i64::from(!t))).into(),
            Op::Binary(operator) => {
                let (right, left) = (pop(), pop());
                match (left.number(), right.number()) {
                    (Some(l), Some(r)) => binary(operator, l, r).into(),
                    _ => Value::Unknown,
                }
            }
            Op::Cast(to) => cast(to, pop()),
            Op::Index => {
                let (index, array) = (pop(), pop());
                index_of(&array, &index, payload.endian).into()
            }
            Op::Select => {
                let (no, yes, condition) = (pop(), pop(), pop());
                match truth(&condition) {
                    Some(true) => yes,
                    Some(false) => no,
                    None => Value::Unknown,
                }
            }
            Op::Flags(table) => helpers::flags(&pop(), self.tables.get(table as usize), payload),
            Op::Symbolic(table) => {
                helpers::symbolic(&pop(), self.tables.get(table as usize), payload)
            }
            Op::Hex { spaced } => {
                let (len, bytes) = (pop(), pop());
                helpers::hex(&bytes, &len, spaced, payload)
            }
            Op::Array => {
                let (size, count, bytes) = (pop(), pop(), pop());
                helpers::array(&bytes, &count, &size, payload)
            }
            Op::Bitmask => helpers::bitmask(&pop(), payload),
            Op::Seconds => helpers::nanoseconds(&pop(), |n| n / 1_000_000_000),
            Op::Nanoseconds => helpers::nanoseconds(&pop(), |n| n % 1_000_000_000),
        }
    }
}

/// Evaluates a condition; an array's address is never null.
fn truth(value: &Value<'_>) -> Option<bool> {
    match value {
        Value::Number(n) => Some(!n.is_zero()),
        Value::Bytes(_) | Value::Text(_) => Some(true),
        Value::Unknown => None,
    }
}

fn binary(operator: Binary, l: Number, r: Number) -> Option<Number> {
    let unsigned = l.unsigned || r.unsigned;
    let of = |bits| Some(Number { bits, unsigned });
    let flag = |b: bool| Some(Number::signed(i64::from(b)));
    let order = match unsigned {
        true => l.bits.cmp(&r.bits),
        false => (l.bits as i64).cmp(&(r.bits as i64)),
    };
    // In C, shifts by more than the width are undefined.
    let shift = u32::try_from(r.bits).ok().filter(|s| *s < 64);
    let shifted = |bits| {
        Some(Number {
            bits,
            unsigned: l.unsigned,
        })
    };
    match operator {
        Binary::Or => flag(!l.is_zero() || !r.is_zero()),
        Binary::And => flag(!l.is_zero() && !r.is_zero()),
        Binary::BitOr => of(l.bits | r.bits),
        Binary::BitXor => of(l.bits ^ r.bits),
        Binary::BitAnd => of(l.bits & r.bits),
        Binary::Equal => flag(l.bits == r.bits),
        Binary::NotEqual => flag(l.bits != r.bits),
        Binary::Less => flag(order.is_lt()),
        Binary::LessEqual => flag(order.is_le()),
        Binary::Greater => flag(order.is_gt()),
        Binary::GreaterEqual => flag(order.is_ge()),
        Binary::ShiftLeft => shifted(shift.map_or(0, |s| l.bits << s)),
        Binary::ShiftRight => shifted(match (shift, l.unsigned) {
            (Some(s), true) => l.bits >> s,
            (Some(s), false) => ((l.bits as i64) >> s) as u64,
            (None, _) => 0,
        }),
        Binary::Add => of(l.bits.wrapping_add(r.bits)),
        Binary::Subtract => of(l.bits.wrapping_sub(r.bits)),
        Binary::Multiply => of(l.bits.wrapping_mul(r.bits)),
        Binary::Divide if unsigned => of(l.bits.checked_div(r.bits)?),
        Binary::Remainder if unsigned => of(l.bits.checked_rem(r.bits)?),
        Binary::Divide => of((l.bits as i64).checked_div(r.bits as i64)? as u64),
        Binary::Remainder => of((l.bits as i64).checked_rem(r.bits as i64)? as u64),
    }
}

fn cast(to: Type, value: Value<'_>) -> Value<'_> {
    match (to, value) {
        (Type::Integer(i), Value::Number(n)) => Value::Number(i.of(n.bits)),
        (Type::Bool, Value::Number(n)) => Value::Number(Number::signed(i64::from(!n.is_zero()))),
        (Type::Pointer(_), Value::Number(n)) => Value::Number(Number {
            unsigned: true,
            ..n
        }),
        (Type::Pointer(Some(element)), Value::Bytes(b)) => Value::Bytes(Bytes { element, ..b }),
        // The address of a field is meaningless.
        (Type::Integer(_) | Type::Bool, _) => Value::Unknown,
        (_, value) => value,
    }
}

fn index_of(array: &Value<'_>, index: &Value<'_>, endian: Endian) -> Option<Number> {
    let index = usize::try_from(index.number()?.bits).ok()?;
    match array {
        Value::Bytes(b) => {
            let at = index.checked_mul(usize::from(b.element.size))?;
            b.element.read(b.bytes, at, endian)
        }
        Value::Text(text) => {
            let byte = text
                .as_bytes()
                .get(index)
                .or((index == text.len()).then_some(&0))?;
            Some(Number::signed(i64::from(*byte)))
        }
        _ => None,
    }
}
