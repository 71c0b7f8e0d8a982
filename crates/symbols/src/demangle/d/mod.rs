//! D names: `_D3std5stdio7writelnFAyaZv` is `std.stdio.writeln(immutable(char)[])`.
//!
//! Source: D specification, "Application Binary Interface", name mangling. Names look as in `c++filt
//! -s dlang`. A name that does not follow the grammar to its last byte is no D name.

mod types;

use super::Style;
use super::bounded::MAX_OUTPUT;
use super::encoded::clone_mark;

/// Maximum nesting. Beyond real code, and within a thread's stack.
const MAX_DEPTH: u32 = 128;

/// Maximum number of parsed names, types and values. Back references repeat them.
const MAX_STEPS: u32 = 20_000;

/// Demangles a D name. Returns `None` for other names, and for names longer than [`MAX_OUTPUT`].
pub(super) fn demangle(raw: &str, style: Style) -> Option<String> {
    let (function, clones) = raw.split_at(raw.find('.').unwrap_or(raw.len()));
    if function == "_Dmain" {
        return Some("D main".to_owned() + &clone_mark(clones, style));
    }
    let mut parser = Parser {
        raw: function,
        at: 0,
        out: String::new(),
        depth: 0,
        steps: 0,
        style,
    };
    if parser.eats("_DT") {
        // A thunk and its offset: `_DTi16_D3app` (LDC), `_DThn16_3app` (GDC).
        (parser.eats("i") || parser.eats("hn")).then_some(())?;
        parser.number()?;
        parser.eats("_").then_some(())?;
        parser.eats("D");
        parser.out.push_str("non-virtual thunk to ");
        parser.style = Style::Full;
    } else {
        parser.eats("_D").then_some(())?;
    }
    parser.mangled()?;
    (parser.at == function.len()).then_some(parser.out + &clone_mark(clones, style))
}

struct Parser<'a> {
    raw: &'a str,
    at: usize,
    out: String,
    depth: u32,
    steps: u32,
    style: Style,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        self.raw.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<u8> {
        self.raw.as_bytes().get(self.at).copied()
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    fn eats(&mut self, part: &str) -> bool {
        let found = self.rest().starts_with(part);
        self.at += if found { part.len() } else { 0 };
        found
    }

    fn write(&mut self, text: &str) -> Option<()> {
        self.out.push_str(text);
        (self.out.len() <= MAX_OUTPUT).then_some(())
    }

    /// Parses by `part`, within the limits of depth and work.
    fn nested<T>(&mut self, part: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        self.steps += 1;
        if self.depth == MAX_DEPTH || self.steps > MAX_STEPS {
            return None;
        }
        self.depth += 1;
        let found = part(self);
        self.depth -= 1;
        found
    }

    fn number(&mut self) -> Option<usize> {
        let rest = self.rest();
        let len = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number = rest[..len].parse().ok()?;
        self.at += len;
        Some(number)
    }

    /// Parses a qualified name and its type, the whole of a symbol behind `_D`.
    fn mangled(&mut self) -> Option<()> {
        let start = self.out.len();
        if self.qualified(true)? {
            return Some(());
        }
        if self.eats("Z") {
            self.special(start);
            return Some(());
        }
        let end = self.out.len();
        self.nested(Self::typed)?;
        self.out.truncate(end);
        Some(())
    }

    /// Moves the kind of a compiler's object to the front: `vtable for app.Class`.
    fn special(&mut self, start: usize) {
        const KINDS: [(&str, &str); 5] = [
            (".__init", "initializer for "),
            (".__vtbl", "vtable for "),
            (".__Class", "ClassInfo for "),
            (".__Interface", "Interface for "),
            (".__ModuleInfo", "ModuleInfo for "),
        ];
        for (end, words) in KINDS {
            if self.out[start..].ends_with(end) {
                self.out.truncate(self.out.len() - end.len());
                self.out.insert_str(start, words);
            }
        }
    }

    /// Parses names that `.` separates, with the parameters of outer functions. With `is_symbol`,
    /// also parses the parameters of the last function; [`Style::NoParameters`] hides them in the
    /// first name.
    /// Returns true if this includes the return type.
    fn qualified(&mut self, is_symbol: bool) -> Option<bool> {
        let start = self.out.len();
        loop {
            // Scopes without a name.
            while self.eats("0") {}
            let part = self.out.len();
            if part > start {
                self.write(".")?;
            }
            self.nested(Self::symbol)?;
            if self.out.len() == part + usize::from(part > start) {
                self.out.truncate(part);
            }
            let (at, end) = (self.at, self.out.len());
            // A scope is followed by names, the last function by its return type.
            let scope = self.nested(|parser| parser.scope(is_symbol));
            let has_return_type = scope.unwrap_or_default();
            let is_last = !self.is_symbol() || has_return_type;
            if scope.is_none() || is_last && !is_symbol {
                if self.steps > MAX_STEPS {
                    return None;
                }
                self.at = at;
                self.out.truncate(end);
            } else if is_last {
                if start == 0 && self.style == Style::NoParameters {
                    self.out.truncate(end);
                }
                return Some(has_return_type);
            }
            if !self.is_symbol() {
                return Some(false);
            }
        }
    }

    fn is_symbol(&self) -> bool {
        let rest = self.rest();
        match self.peek() {
            Some(b'0'..=b'9') => true,
            Some(b'_') => rest.starts_with("__T") || rest.starts_with("__U"),
            Some(b'Q') => {
                let target = self.reference(self.at).map(|(target, _)| target);
                target.is_some_and(|target| self.raw.as_bytes()[target].is_ascii_digit())
            }
            _ => false,
        }
    }

    /// Returns the target of a back reference at `at`, and the offset behind it. The distance has
    /// digits of base 26; the last one is a small letter.
    fn reference(&self, at: usize) -> Option<(usize, usize)> {
        let mut distance = 0_usize;
        for (digit, behind) in self.raw.as_bytes().get(at + 1..)?.iter().zip(at + 2..) {
            let (base, is_last) = match digit {
                b'A'..=b'Z' => (b'A', false),
                b'a'..=b'z' => (b'a', true),
                _ => return None,
            };
            distance = distance.checked_mul(26)? + usize::from(digit - base);
            if is_last {
                let target = at.checked_sub(distance).filter(|target| *target < at)?;
                return Some((target, behind));
            }
        }
        None
    }

    /// Parses at the target of a back reference, then continues behind it.
    fn follow(&mut self, part: impl FnOnce(&mut Self) -> Option<()>) -> Option<()> {
        let (target, behind) = self.reference(self.at)?;
        self.at = target;
        self.nested(part)?;
        self.at = behind;
        Some(())
    }

    fn symbol(&mut self) -> Option<()> {
        match self.peek()? {
            b'Q' => self.follow(Self::identifier),
            b'_' => self.template(),
            _ => self.identifier(),
        }
    }

    fn identifier(&mut self) -> Option<()> {
        let len = self.number()?;
        let name = self.rest().get(..len).filter(|name| !name.is_empty())?;
        if name.starts_with("__T") || name.starts_with("__U") {
            // Compilers before 2017 wrote the length of a whole template.
            let end = self.at + len;
            self.template()?;
            return (self.at == end).then_some(());
        }
        self.at += len;
        let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
        if !name.chars().all(is_word) || name.starts_with(|first: char| first.is_ascii_digit()) {
            return None;
        }
        match name {
            "__ctor" => self.write("this"),
            "__dtor" => self.write("~this"),
            "__postblit" if self.eats("MFZ") => {
                // The return type stays.
                self.write("this(this)")
            }
            // A scope for local names of one function that are equal.
            _ if is_scope_number(name) => Some(()),
            _ => self.write(name),
        }
    }

    /// Parses the modifiers of a member function, and a function without its return type.
    ///
    /// Types that occurred before are back references, and include the return type: then this
    /// returns true.
    fn scope(&mut self, shows_modifiers: bool) -> Option<bool> {
        let mut modifiers = String::new();
        if self.eats("M") {
            let from = self.out.len();
            while let Some((word, len)) = self.modifier() {
                self.at += len;
                self.write(" ")?;
                self.write(word)?;
            }
            modifiers = self.out.split_off(from);
        }
        let has_return_type = self.peek() == Some(b'Q');
        match has_return_type {
            true => self.follow(|parser| {
                parser.without_return_type()?;
                let end = parser.out.len();
                parser.nested(Self::typed)?;
                parser.out.truncate(end);
                Some(())
            })?,
            false => self.without_return_type()?,
        }
        if shows_modifiers {
            self.write(&modifiers)?;
        }
        Some(has_return_type)
    }

    fn without_return_type(&mut self) -> Option<()> {
        self.calling_convention()?;
        while self.attribute().is_some() {}
        self.parameters()
    }

    /// Returns a type's modifier here, and its length.
    fn modifier(&self) -> Option<(&'static str, usize)> {
        Some(match self.rest().as_bytes() {
            [b'x', ..] => ("const", 1),
            [b'y', ..] => ("immutable", 1),
            [b'O', ..] => ("shared", 1),
            [b'N', b'g', ..] => ("inout", 2),
            _ => return None,
        })
    }

    fn calling_convention(&mut self) -> Option<&'static str> {
        let words = match self.peek()? {
            b'F' => "",
            b'U' => "extern(C) ",
            b'W' => "extern(Windows) ",
            b'V' => "extern(Pascal) ",
            b'R' => "extern(C++) ",
            b'Y' => "extern(Objective-C) ",
            _ => return None,
        };
        self.at += 1;
        Some(words)
    }

    fn attribute(&mut self) -> Option<&'static str> {
        let word = match self.rest().as_bytes() {
            [b'N', b'a', ..] => "pure",
            [b'N', b'b', ..] => "nothrow",
            [b'N', b'c', ..] => "ref",
            [b'N', b'd', ..] => "@property",
            [b'N', b'e', ..] => "@trusted",
            [b'N', b'f', ..] => "@safe",
            [b'N', b'i', ..] => "@nogc",
            [b'N', b'j', ..] => "return",
            [b'N', b'l', ..] => "scope",
            [b'N', b'm', ..] => "@live",
            _ => return None,
        };
        self.at += 2;
        Some(word)
    }

    fn parameters(&mut self) -> Option<()> {
        self.write("(")?;
        let start = self.out.len();
        loop {
            let is_first = self.out.len() == start;
            match self.peek()? {
                b'X' => self.write("...)")?,
                b'Y' if is_first => self.write("...)")?,
                b'Y' => self.write(", ...)")?,
                b'Z' => self.write(")")?,
                _ => {
                    if !is_first {
                        self.write(", ")?;
                    }
                    self.storage_classes()?;
                    self.nested(Self::typed)?;
                    continue;
                }
            }
            self.at += 1;
            return Some(());
        }
    }

    fn storage_classes(&mut self) -> Option<()> {
        loop {
            let (word, len) = match self.rest().as_bytes() {
                [b'M', ..] => ("scope ", 1),
                [b'I', ..] => ("in ", 1),
                [b'J', ..] => ("out ", 1),
                [b'K', ..] => ("ref ", 1),
                [b'L', ..] => ("lazy ", 1),
                [b'N', b'k', ..] => ("return ", 2),
                _ => return Some(()),
            };
            self.at += len;
            self.write(word)?;
        }
    }

    fn template(&mut self) -> Option<()> {
        if !self.eats("__T") && !self.eats("__U") {
            return None;
        }
        match self.peek()? {
            b'Q' => self.follow(Self::identifier)?,
            _ => self.nested(Self::identifier)?,
        }
        self.write("!(")?;
        let start = self.out.len();
        while !self.eats("Z") {
            if self.out.len() > start {
                self.write(", ")?;
            }
            self.eats("H");
            self.nested(Self::argument)?;
        }
        self.write(")")
    }

    fn argument(&mut self) -> Option<()> {
        match self.next()? {
            b'T' => self.nested(Self::typed),
            b'S' if self.eats("_D") => self.mangled(),
            b'S' => self.qualified(false).map(|_| ()),
            b'V' => {
                let kind = match self
                    .reference(self.at)
                    .filter(|_| self.peek() == Some(b'Q'))
                {
                    Some((target, _)) => self.raw.as_bytes()[target],
                    None => self.peek()?,
                };
                let start = self.out.len();
                self.nested(Self::typed)?;
                let name = self.out.split_off(start);
                self.nested(|parser| parser.value(kind, &name))
            }
            b'X' => {
                let len = self.number()?;
                let name = self.rest().get(..len)?;
                self.at += len;
                self.write(name)
            }
            _ => None,
        }
    }

    /// Parses a value of a type that begins with `kind`. The output has `name` for the type.
    fn value(&mut self, kind: u8, name: &str) -> Option<()> {
        match self.peek()? {
            b'n' => {
                self.at += 1;
                self.write("null")
            }
            b'e' => {
                self.at += 1;
                self.real()
            }
            b'c' => {
                self.at += 1;
                self.real()?;
                self.write("+")?;
                self.eats("c").then_some(())?;
                self.real()?;
                self.write("i")
            }
            b'a' | b'u' | b'w' => self.string(),
            b'A' => {
                self.at += 1;
                let is_map = kind == b'H';
                self.list("[", "]", |parser| {
                    parser.nested(|parser| parser.value(0, ""))?;
                    if is_map {
                        parser.write(":")?;
                        parser.nested(|parser| parser.value(0, ""))?;
                    }
                    Some(())
                })
            }
            b'S' => {
                self.at += 1;
                self.write(name)?;
                self.list("(", ")", |parser| {
                    parser.nested(|parser| parser.value(0, ""))
                })
            }
            b'f' => {
                self.at += 1;
                self.eats("_D").then_some(())?;
                self.mangled()
            }
            b'N' => {
                self.at += 1;
                self.write("-")?;
                self.integer(kind)
            }
            b'i' => {
                self.at += 1;
                self.integer(kind)
            }
            _ => self.integer(kind),
        }
    }

    fn list(
        &mut self,
        open: &str,
        close: &str,
        mut element: impl FnMut(&mut Self) -> Option<()>,
    ) -> Option<()> {
        let len = self.number()?;
        self.write(open)?;
        for index in 0..len {
            if index > 0 {
                self.write(", ")?;
            }
            element(self)?;
        }
        self.write(close)
    }

    fn integer(&mut self, kind: u8) -> Option<()> {
        let rest = self.rest();
        let len = rest.bytes().take_while(u8::is_ascii_digit).count();
        let digits = rest.get(..len).filter(|digits| !digits.is_empty())?;
        self.at += len;
        let text = match kind {
            b'b' => match digits {
                "0" => "false".to_owned(),
                "1" => "true".to_owned(),
                _ => return None,
            },
            b'a' | b'u' | b'w' => {
                let code: u32 = digits.parse().ok()?;
                match (kind, char::from_u32(code)) {
                    (b'a', Some(letter @ ' '..='~')) => format!("'{letter}'"),
                    (b'a', _) => format!("'\\x{code:02x}'"),
                    (b'u', _) => format!("'\\u{code:04x}'"),
                    _ => format!("'\\U{code:08x}'"),
                }
            }
            b'h' | b't' | b'k' => format!("{digits}u"),
            b'l' => format!("{digits}L"),
            b'm' => format!("{digits}uL"),
            _ => digits.to_owned(),
        };
        self.write(&text)
    }

    /// Parses a number with hexadecimal digits: `A8P6` is `0xA.8p6`.
    fn real(&mut self) -> Option<()> {
        for (code, text) in [("NAN", "NaN"), ("INF", "Inf"), ("NINF", "-Inf")] {
            if self.eats(code) {
                return self.write(text);
            }
        }
        if self.eats("N") {
            self.write("-")?;
        }
        let rest = self.rest();
        let len = rest.bytes().take_while(u8::is_ascii_hexdigit).count();
        let (first, others) = (rest.get(..1)?, rest.get(1..len)?);
        self.at += len;
        self.write(&format!("0x{first}.{others}p"))?;
        self.eats("P").then_some(())?;
        if self.eats("N") {
            self.write("-")?;
        }
        let exponent = self.number()?;
        self.write(&exponent.to_string())
    }

    /// Parses the bytes of a string: `a3_616263` is `"abc"`.
    fn string(&mut self) -> Option<()> {
        let kind = self.next()?;
        let len = self.number()?;
        self.eats("_").then_some(())?;
        let digits = self.rest().get(..len.checked_mul(2)?)?;
        self.at += digits.len();
        self.write("\"")?;
        for pair in digits.as_bytes().chunks(2) {
            let byte = u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok()?;
            match byte {
                b'\t' => self.write("\\t")?,
                b'\n' => self.write("\\n")?,
                b'\r' => self.write("\\r")?,
                0x0b => self.write("\\v")?,
                0x0c => self.write("\\f")?,
                b' '..=b'~' => self.write(char::from(byte).encode_utf8(&mut [0]))?,
                _ => self.write(&format!("\\x{byte:02x}"))?,
            }
        }
        self.write("\"")?;
        match kind {
            b'a' => Some(()),
            b'u' => self.write("w"),
            _ => self.write("d"),
        }
    }
}

/// Returns true for the compiler's scopes `__S1`, `__S2`.
fn is_scope_number(name: &str) -> bool {
    let digits = name.strip_prefix("__S").unwrap_or_default();
    !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit())
}
