//! Compiles expressions of a print format to programs.

use crate::field::Field;
use crate::lexer::Token;
use crate::ops::{Binary, Op, Program};
use crate::types::{self, Type};
use crate::value::Number;

/// Maximum nesting of parentheses, calls and prefixes. The kernel's GFP flags reach 13.
const MAX_DEPTH: u32 = 64;

/// Binary operators with their precedence, higher binding tighter.
const BINARY: [(&str, u8, Binary); 18] = [
    ("||", 1, Binary::Or),
    ("&&", 2, Binary::And),
    ("|", 3, Binary::BitOr),
    ("^", 4, Binary::BitXor),
    ("&", 5, Binary::BitAnd),
    ("==", 6, Binary::Equal),
    ("!=", 6, Binary::NotEqual),
    ("<", 7, Binary::Less),
    ("<=", 7, Binary::LessEqual),
    (">", 7, Binary::Greater),
    (">=", 7, Binary::GreaterEqual),
    ("<<", 8, Binary::ShiftLeft),
    (">>", 8, Binary::ShiftRight),
    ("+", 9, Binary::Add),
    ("-", 9, Binary::Subtract),
    ("*", 10, Binary::Multiply),
    ("/", 10, Binary::Divide),
    ("%", 10, Binary::Remainder),
];

/// Compiles consecutive expressions.
pub(crate) struct Compiler<'t> {
    pub(crate) tokens: &'t [Token<'t>],
    pub(crate) at: usize,
    pub(crate) fields: &'t [Field],
    pub(crate) long_size: u8,
    depth: u32,
    pub(crate) program: Program,
}

impl<'t> Compiler<'t> {
    pub(crate) fn new(tokens: &'t [Token<'t>], fields: &'t [Field], long_size: u8) -> Self {
        Compiler {
            tokens,
            at: 0,
            fields,
            long_size,
            depth: 0,
            program: Program::default(),
        }
    }

    /// Compiles the next expression into its own program. Returns `None` if it is invalid or
    /// unsupported.
    pub(crate) fn expression(&mut self) -> Option<Program> {
        let outer = std::mem::take(&mut self.program);
        let done = self.ternary();
        let program = std::mem::replace(&mut self.program, outer);
        done.map(|()| program)
    }

    pub(crate) fn peek(&self) -> Option<&'t Token<'t>> {
        self.tokens.get(self.at)
    }

    /// Consumes the next token if it equals `punct`.
    pub(crate) fn eat(&mut self, punct: &str) -> Option<()> {
        match self.peek()? {
            Token::Punct(p) if *p == punct => {
                self.at += 1;
                Some(())
            }
            _ => None,
        }
    }

    pub(crate) fn ident(&mut self) -> Option<&'t str> {
        match self.peek()? {
            Token::Ident(name) => {
                self.at += 1;
                Some(name)
            }
            _ => None,
        }
    }

    /// Parses adjacent string literals into one string.
    pub(crate) fn literal(&mut self) -> Option<String> {
        let mut whole = None;
        while let Some(Token::Text(text)) = self.peek() {
            whole.get_or_insert_with(String::new).push_str(text);
            self.at += 1;
        }
        whole
    }

    pub(crate) fn push(&mut self, op: Op) {
        self.program.ops.push(op);
    }

    fn text(&mut self, text: String) {
        let index = self.program.texts.len() as u32;
        self.program.texts.push(text);
        self.push(Op::Text(index));
    }

    pub(crate) fn ternary(&mut self) -> Option<()> {
        self.depth += 1;
        (self.depth <= MAX_DEPTH).then_some(())?;
        self.binary(1)?;
        if self.eat("?").is_some() {
            self.ternary()?;
            self.eat(":")?;
            self.ternary()?;
            self.push(Op::Select);
        }
        self.depth -= 1;
        Some(())
    }

    fn binary(&mut self, least: u8) -> Option<()> {
        self.unary()?;
        while let Some(Token::Punct(punct)) = self.peek() {
            let found = BINARY.iter().find(|(p, ..)| p == punct);
            let Some((_, precedence, operator)) = found.filter(|f| f.1 >= least) else {
                break;
            };
            self.at += 1;
            self.binary(precedence + 1)?;
            self.push(Op::Binary(*operator));
        }
        Some(())
    }

    fn unary(&mut self) -> Option<()> {
        self.depth += 1;
        (self.depth <= MAX_DEPTH).then_some(())?;
        let prefix = match self.peek()? {
            Token::Punct("-") => Some(Op::Negate),
            Token::Punct("!") => Some(Op::Not),
            Token::Punct("~") => Some(Op::Complement),
            Token::Punct("+") => None,
            Token::Punct("&") => {
                self.at += 1;
                let field = self.address_of()?;
                self.push(Op::FieldBytes(field));
                self.depth -= 1;
                return self.subscripts();
            }
            _ => {
                self.primary()?;
                self.depth -= 1;
                return self.subscripts();
            }
        };
        self.at += 1;
        self.unary()?;
        self.program.ops.extend(prefix);
        self.depth -= 1;
        Some(())
    }

    fn subscripts(&mut self) -> Option<()> {
        while self.eat("[").is_some() {
            self.ternary()?;
            self.eat("]")?;
            self.push(Op::Index);
        }
        Some(())
    }

    /// Parses `REC->name` after an `&`, with or without parentheses. Returns the field's index.
    fn address_of(&mut self) -> Option<u32> {
        let mut open = 0;
        while self.eat("(").is_some() {
            open += 1;
        }
        (self.ident()? == "REC").then_some(())?;
        let field = self.record_field()?;
        for _ in 0..open {
            self.eat(")")?;
        }
        Some(field)
    }

    fn primary(&mut self) -> Option<()> {
        match self.peek()? {
            Token::Number(bits, unsigned) => {
                self.at += 1;
                self.push(Op::Number(Number {
                    bits: *bits,
                    unsigned: *unsigned,
                }));
                Some(())
            }
            Token::Text(_) => {
                let text = self.literal()?;
                self.text(text);
                Some(())
            }
            Token::Punct("(") => match self.cast() {
                Some(to) => {
                    self.unary()?;
                    self.push(Op::Cast(to));
                    Some(())
                }
                None => {
                    self.eat("(")?;
                    self.ternary()?;
                    self.eat(")")
                }
            },
            Token::Ident(name) => {
                self.at += 1;
                self.named(name)
            }
            Token::Punct(_) => None,
        }
    }

    fn cast(&mut self) -> Option<Type> {
        let (to, end) = self.type_at(self.at + 1)?;
        match (self.tokens.get(end)?, self.tokens.get(end + 1)?) {
            (
                Token::Punct(")"),
                Token::Ident(_)
                | Token::Number(..)
                | Token::Text(_)
                | Token::Punct("(" | "-" | "~" | "!" | "&"),
            ) => {
                self.at = end + 1;
                Some(to)
            }
            _ => None,
        }
    }

    /// Returns the type at token index `at`, and the index after it.
    pub(crate) fn type_at(&self, mut at: usize) -> Option<(Type, usize)> {
        // No type has more words.
        let mut words = Vec::new();
        while let Some(Token::Ident(word)) = self.tokens.get(at) {
            (words.len() < 6).then_some(())?;
            words.push(*word);
            at += 1;
        }
        let mut stars = 0;
        while let Some(Token::Punct("*")) = self.tokens.get(at) {
            stars += 1;
            at += 1;
        }
        Some((types::parse(&words, stars, self.long_size)?, at))
    }

    pub(crate) fn record_field(&mut self) -> Option<u32> {
        self.eat("->")?;
        let name = self.ident()?;
        self.field(name)
    }

    pub(crate) fn field(&self, name: &str) -> Option<u32> {
        let index = self.fields.iter().position(|f| f.name == name)?;
        u32::try_from(index).ok()
    }

    fn named(&mut self, name: &str) -> Option<()> {
        if self.eat("(").is_some() {
            self.call(name)?;
            return self.eat(")");
        }
        match name {
            "REC" => {
                let field = self.record_field()?;
                self.push(Op::Field(field));
            }
            "NULL" | "false" => self.push(Op::Number(Number::signed(0))),
            "true" => self.push(Op::Number(Number::signed(1))),
            _ => self.push(Op::Unknown),
        }
        Some(())
    }
}
