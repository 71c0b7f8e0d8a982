//! Compiles calls of the kernel's helpers in print formats.

use crate::compile::Compiler;
use crate::field::FieldKind;
use crate::lexer::Token;
use crate::ops::{Op, Table};
use crate::types;
use crate::value::Number;

impl Compiler<'_> {
    pub(crate) fn call(&mut self, name: &str) -> Option<()> {
        // Arrays with a relative offset (`__rel_loc`) have their own helpers.
        let name = name.replacen("__get_rel_", "__get_", 1);
        match name.as_str() {
            "__get_str" | "__get_dynamic_array" => {
                let field = self.dynamic()?;
                self.push(Op::Field(field));
            }
            "__get_dynamic_array_len" => {
                let field = self.dynamic()?;
                self.push(Op::DynamicLen(field));
            }
            "__get_bitmask" | "__get_cpumask" => {
                let field = self.dynamic()?;
                self.push(Op::Field(field));
                self.push(Op::Bitmask);
            }
            "__get_sockaddr" => {
                let field = self.dynamic()?;
                self.push(Op::FieldBytes(field));
            }
            "__print_flags" | "__print_flags_u64" => {
                self.ternary()?;
                self.eat(",")?;
                let delimiter = match self.literal() {
                    Some(text) => text,
                    // No delimiter: a null pointer.
                    None => {
                        self.expression()?;
                        String::new()
                    }
                };
                let table = self.table(delimiter)?;
                self.push(Op::Flags(table));
            }
            "__print_symbolic" | "__print_symbolic_u64" => {
                self.ternary()?;
                let table = self.table(String::new())?;
                self.push(Op::Symbolic(table));
            }
            "__print_hex" => self.arguments(2, Op::Hex { spaced: true })?,
            "__print_hex_str" => self.arguments(2, Op::Hex { spaced: false })?,
            "__print_array" => self.arguments(3, Op::Array)?,
            "__print_ns_to_secs" => self.arguments(1, Op::Seconds)?,
            "__print_ns_without_secs" => self.arguments(1, Op::Nanoseconds)?,
            "__builtin_expect" => {
                self.ternary()?;
                self.eat(",")?;
                self.expression()?;
            }
            "sizeof" => {
                let size = self.size_of()?;
                self.push(Op::Number(Number::signed(i64::from(size))));
            }
            _ => return None,
        }
        Some(())
    }

    fn arguments(&mut self, count: u32, op: Op) -> Option<()> {
        for i in 0..count {
            if i > 0 {
                self.eat(",")?;
            }
            self.ternary()?;
        }
        self.push(op);
        Some(())
    }

    fn size_of(&mut self) -> Option<u32> {
        if let Some(Token::Ident("REC")) = self.peek() {
            self.at += 1;
            let field = self.record_field()?;
            return Some(self.fields.get(field as usize)?.size);
        }
        let (of, end) = self.type_at(self.at)?;
        self.at = end;
        types::size(of, self.long_size).map(u32::from)
    }

    /// Parses `, { number, "name" }, …` up to the end of the call. Skips entries with an unknown
    /// number.
    fn table(&mut self, delimiter: String) -> Option<u32> {
        let mut entries = Vec::new();
        while self.eat(",").is_some() {
            // Some tables end in a comma.
            if let Some(Token::Punct(")")) = self.peek() {
                break;
            }
            self.eat("{")?;
            let number = self.expression()?.constant();
            self.eat(",")?;
            let name = match self.literal() {
                Some(name) => Some(name),
                // A null pointer ends a table that the kernel defines elsewhere.
                None => {
                    self.expression()?;
                    None
                }
            };
            self.eat(",");
            self.eat("}")?;
            entries.extend(number.zip(name));
        }
        let index = self.program.tables.len() as u32;
        self.program.tables.push(Table { delimiter, entries });
        Some(index)
    }

    /// Parses the array name in `__get_…(name)`. Returns the field's index.
    fn dynamic(&mut self) -> Option<u32> {
        let name = self.ident()?;
        let field = self.field(name)?;
        let is_dynamic = matches!(
            self.fields.get(field as usize)?.kind,
            FieldKind::Dynamic { .. }
        );
        is_dynamic.then_some(field)
    }
}
