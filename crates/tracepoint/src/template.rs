//! Print format: literal text and conversions, each with its argument.

use crate::compile::Compiler;
use crate::field::Field;
use crate::lexer::tokenize;
use crate::names::KernelNames;
use crate::ops::Program;
use crate::payload::{MAX_TEXT, Payload};
use crate::pointers::{self, Pointer};
use crate::printf::{Shape, Width};
use crate::value::{Integer, Number, Value};

/// Conversion of a value, by its letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `d`, `u`, `x`, `X`, `o`, of this width.
    Integer {
        letter: char,
        of: Integer,
    },
    Char,
    Text,
    Pointer(Pointer),
}

#[derive(Clone, Debug, PartialEq)]
enum Piece {
    Literal(String),
    Conversion {
        shape: Shape,
        kind: Kind,
        /// Width and precision, for each `*`.
        stars: Vec<Program>,
        value: Program,
    },
}

/// Compiled print format.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Template {
    pieces: Vec<Piece>,
}

impl Template {
    /// Compiles `"text", argument, …`; returns `None` for unsupported syntax.
    pub(crate) fn compile(text: &str, fields: &[Field], long_size: u8) -> Option<Template> {
        let tokens = tokenize(text)?;
        let mut compiler = Compiler::new(&tokens, fields, long_size);
        let literal = compiler.literal()?;
        let mut pieces = Vec::new();
        let mut rest = literal.as_str();
        while let Some(at) = rest.find('%') {
            push_literal(&mut pieces, &rest[..at]);
            rest = &rest[at + 1..];
            if let Some(after) = rest.strip_prefix('%') {
                push_literal(&mut pieces, "%");
                rest = after;
                continue;
            }
            let (shape, kind, len) = conversion(rest, long_size)?;
            rest = &rest[len..];
            let mut argument = || {
                compiler.eat(",")?;
                compiler.expression()
            };
            let stars = (0..shape.stars())
                .map(|_| argument())
                .collect::<Option<_>>()?;
            let value = argument()?;
            pieces.push(Piece::Conversion {
                shape,
                kind,
                stars,
                value,
            });
        }
        push_literal(&mut pieces, rest);
        // Remaining tokens mean that the text was misparsed.
        (compiler.at == tokens.len()).then_some(Template { pieces })
    }

    pub(crate) fn has_functions(&self) -> bool {
        (self.pieces.iter())
            .any(|p| matches!(p, Piece::Conversion { kind, .. } if kind.names_function()))
    }

    /// Calls `found` with each address of a function that is printed by name.
    pub(crate) fn functions(&self, payload: &Payload<'_>, found: &mut dyn FnMut(u64)) {
        for piece in &self.pieces {
            if let Piece::Conversion { kind, value, .. } = piece
                && kind.names_function()
                && let Value::Number(n) = value.run(payload)
            {
                found(n.bits);
            }
        }
    }

    /// Appends a payload as text, up to the limit.
    pub(crate) fn print(&self, payload: &Payload<'_>, names: &dyn KernelNames, out: &mut String) {
        let start = out.len();
        for piece in &self.pieces {
            match piece {
                Piece::Literal(text) => out.push_str(text),
                Piece::Conversion {
                    shape,
                    kind,
                    stars,
                    value,
                } => {
                    let stars = stars.iter().map(|s| s.run(payload).number());
                    let shape = shape.filled(stars);
                    print_value(shape, *kind, &value.run(payload), payload, names, out);
                }
            }
            if out.len() - start > MAX_TEXT {
                let mut end = start + MAX_TEXT;
                while !out.is_char_boundary(end) {
                    end -= 1;
                }
                out.truncate(end);
                return;
            }
        }
    }
}

impl Kind {
    fn names_function(self) -> bool {
        matches!(self, Kind::Pointer(Pointer::Function { .. }))
    }
}

fn push_literal(pieces: &mut Vec<Piece>, text: &str) {
    match pieces.last_mut() {
        _ if text.is_empty() => {}
        Some(Piece::Literal(last)) => last.push_str(text),
        _ => pieces.push(Piece::Literal(text.to_owned())),
    }
}

/// Parses a conversion after its `%`. Returns it and its length in bytes.
fn conversion(text: &str, long_size: u8) -> Option<(Shape, Kind, usize)> {
    let (shape, mut at) = Shape::parse(text);
    let longs = text[at..].bytes().take_while(|b| *b == b'l').count();
    let halves = text[at..].bytes().take_while(|b| *b == b'h').count();
    let size = match (longs, halves, text[at..].chars().next()?) {
        (1, ..) => long_size,
        (2.., ..) => 8,
        (_, 1, _) => 2,
        (_, 2.., _) => 1,
        (.., 'z' | 't') => {
            at += 1;
            long_size
        }
        (.., 'L' | 'j' | 'q') => {
            at += 1;
            8
        }
        _ => 4,
    };
    at += longs + halves;
    let letter = text[at..].chars().next()?;
    at += letter.len_utf8();
    let kind = match letter {
        'd' | 'i' => Kind::Integer {
            letter: 'd',
            of: Integer { size, signed: true },
        },
        'u' | 'x' | 'X' | 'o' => Kind::Integer {
            letter,
            of: Integer {
                size,
                signed: false,
            },
        },
        'c' => Kind::Char,
        's' => Kind::Text,
        'p' => {
            // As in the kernel, it includes all letters and digits that follow.
            let len = (text[at..].bytes())
                .take_while(u8::is_ascii_alphanumeric)
                .count();
            let extension = &text[at..at + len];
            let (pointer, taken) = pointers::parse(extension);
            at += taken;
            Kind::Pointer(pointer)
        }
        _ => return None,
    };
    Some((shape, kind, at))
}

fn print_value(
    shape: Shape,
    kind: Kind,
    value: &Value<'_>,
    payload: &Payload<'_>,
    names: &dyn KernelNames,
    out: &mut String,
) {
    let printed = match kind {
        Kind::Integer { letter, of } => value.number().map(|n| shape.integer(n.bits, letter, of)),
        Kind::Char => (value.number()).map(|n| shape.text(&char::from(n.bits as u8).to_string())),
        Kind::Text => match value {
            Value::Number(Number { bits, .. }) => Some(match names.kernel_string(*bits) {
                Some(text) => shape.text(text),
                None if *bits == 0 => shape.text("(null)"),
                None => format!("{bits:x}"),
            }),
            value => value.text().map(|text| shape.text(&text)),
        },
        Kind::Pointer(pointer) => pointers::print(pointer, shape, value, payload, names),
    };
    match printed {
        Some(text) => out.push_str(&text),
        None => out.push('?'),
    }
}

impl Shape {
    fn stars(self) -> usize {
        [self.width, self.precision]
            .iter()
            .filter(|w| **w == Width::Argument)
            .count()
    }
}
