//! Name, source file and line of a Method. They do not change while its class is loaded.

use super::layout::{Layout, MethodLayout, SourceFile};
use super::numbers::{MAX_LEN, Numbers};
use crate::snapshot::{Fault, Result, Snapshot};

/// Tag of names in a constant pool (`JVM_CONSTANT_Utf8`).
const UTF8: u8 = 1;

/// Offset of the elements of an `Array<u1>`, behind its length.
const ARRAY_DATA: u64 = 4;

/// Flag of a ConstMethod with a table of lines.
const HAS_LINES: u16 = 1;

/// Byte of a table of lines in front of two full numbers.
const FULL: u8 = 0xff;

/// Maximum bytes of a class name, and of other names.
const MAX_CLASS: usize = 300;
const MAX_NAME: usize = 120;

/// Words that identify a method: they lead from it to its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MethodProof {
    method: u64,
    const_method: u64,
    pool: u64,
    holder: u64,
    class_name: u64,
    name_index: u16,
}

impl MethodProof {
    /// Reads what leads to the names. The class must lead back to the constant pool.
    pub(super) fn read(memory: &mut Snapshot, layout: &MethodLayout, method: u64) -> Result<Self> {
        let const_method = pointer(memory, method, layout.const_method)?;
        let name_index = memory.u16(const_method.wrapping_add(layout.name_index));
        let pool = pointer(memory, const_method, layout.constants)?;
        let holder = pointer(memory, pool, layout.pool_holder)?;
        let class_name = pointer(memory, holder, layout.class_name);
        let back = pointer(memory, holder, layout.class_constants)?;
        let proof = Self {
            method,
            const_method,
            pool,
            holder,
            class_name: class_name?,
            name_index: name_index?,
        };
        match back == pool {
            true => Ok(proof),
            false => Err(Fault::Invalid),
        }
    }

    /// Returns true if all words are unchanged. All reads fit in one batch.
    pub(super) fn is_unchanged(
        &self,
        memory: &mut Snapshot,
        layout: &MethodLayout,
    ) -> Result<bool> {
        let words = [
            (self.method, layout.const_method, self.const_method),
            (self.const_method, layout.constants, self.pool),
            (self.pool, layout.pool_holder, self.holder),
            (self.holder, layout.class_name, self.class_name),
            (self.holder, layout.class_constants, self.pool),
        ];
        let words = words.map(|(at, offset, is)| Ok(memory.u64(at.wrapping_add(offset))? == is));
        let index = memory.u16(self.const_method.wrapping_add(layout.name_index))?;
        let mut is_same = index == self.name_index;
        for word in words {
            is_same &= word?;
        }
        Ok(is_same)
    }

    /// Returns the name as it is embedded in recordings: `Java:java.lang.String.hashCode
    /// String.java:1536`. The line is the first one with code.
    pub(super) fn describe(&self, memory: &mut Snapshot, layout: &Layout) -> Result<String> {
        let method = &layout.method;
        let name = self.constant(memory, method, self.name_index);
        let class = symbol(memory, method, self.class_name, MAX_CLASS);
        let file = match method.source_file {
            SourceFile::InPool(offset) => memory.u16(self.pool.wrapping_add(offset)),
            SourceFile::InClass(offset) => memory.u16(self.holder.wrapping_add(offset)),
        };
        let line = self.line(memory, layout);
        let file = match file? {
            0 => String::new(),
            index => self.constant(memory, method, index)?,
        };
        let mut text = format!("Java:{}.{}", class_text(&class?), name?);
        // Generated classes have files such as `Invokers$Holder`.
        if file.contains('.') {
            text.push(' ');
            text.push_str(&file);
            if let Some(line) = line? {
                text.push_str(&format!(":{line}"));
            }
        }
        Ok(text)
    }

    /// Returns the name at an index of the constant pool.
    fn constant(&self, memory: &mut Snapshot, layout: &MethodLayout, index: u16) -> Result<String> {
        let length = memory.u32(self.pool.wrapping_add(layout.pool_length));
        let tags = memory.u64(self.pool.wrapping_add(layout.pool_tags))?;
        let slot = layout.pool_size.wrapping_add(8 * u64::from(index));
        let tag = memory.bytes(tags.wrapping_add(ARRAY_DATA + u64::from(index)));
        let at = memory.u64(self.pool.wrapping_add(slot));
        if index == 0 || u32::from(index) >= length? || tag? != [UTF8] {
            return Err(Fault::Invalid);
        }
        symbol(memory, layout, at?, MAX_NAME)
    }

    /// Returns the line of the first bytecode, from the start of the compressed table behind the
    /// bytecode.
    fn line(&self, memory: &mut Snapshot, layout: &Layout) -> Result<Option<u32>> {
        let method = &layout.method;
        let flags = memory.u16(self.const_method.wrapping_add(method.flags));
        let size = memory.u16(self.const_method.wrapping_add(method.code_size))?;
        if flags? & HAS_LINES == 0 {
            return Ok(None);
        }
        let table = method.const_method_size.wrapping_add(size.into());
        let bytes: [u8; 1 + 2 * MAX_LEN] = memory.bytes(self.const_method.wrapping_add(table))?;
        let mut numbers = Numbers::new(&bytes, layout.excludes_zeros);
        let line = match numbers.byte() {
            Some(FULL) => numbers.signed().and_then(|_| numbers.signed()),
            // Three bits for the line, the rest for the bytecode.
            Some(pair) => Some(i32::from(pair & 7)),
            None => None,
        };
        let line = line.and_then(|line| u32::try_from(line).ok());
        Ok(line.filter(|line| (1..=u32::from(u16::MAX)).contains(line)))
    }
}

/// Returns where the interpreter's code for a method begins.
pub(super) fn interpreter_entry(
    memory: &mut Snapshot,
    layout: &MethodLayout,
    method: u64,
) -> Result<u64> {
    memory.u64(method.wrapping_add(layout.interpreter_entry))
}

/// Returns an aligned pointer in an object.
fn pointer(memory: &mut Snapshot, at: u64, offset: u64) -> Result<u64> {
    match at != 0 && at.is_multiple_of(8) {
        true => memory.u64(at.wrapping_add(offset)),
        false => Err(Fault::Invalid),
    }
}

/// Returns the text of a Symbol, truncated at a length.
fn symbol(memory: &mut Snapshot, layout: &MethodLayout, at: u64, max: usize) -> Result<String> {
    let len = usize::from(memory.u16(at.wrapping_add(layout.symbol_length))?).min(max);
    let mut bytes = vec![0; len];
    memory.copy(at.wrapping_add(layout.symbol_body), &mut bytes)?;
    match bytes.is_empty() {
        true => Err(Fault::Invalid),
        false => Ok(String::from_utf8_lossy(&bytes).into_owned()),
    }
}

/// Returns the name of a class as people write it. Hidden classes, such as those of lambdas, have an
/// address or a hash at the end, which differs in each run.
fn class_text(name: &str) -> String {
    let is_number =
        |text: &str| text.starts_with("0x") || text.bytes().all(|byte| byte.is_ascii_digit());
    let own = match name.rsplit_once(['+', '/']) {
        Some((own, suffix)) if is_number(suffix) => own,
        _ => name,
    };
    own.replace('/', ".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_classes_lose_what_differs_in_each_run() {
        for (name, text) in [
            ("java/lang/String", "java.lang.String"),
            ("Edges$Shape", "Edges$Shape"),
            ("Edges$$Lambda$1+0x0000000800c009f0", "Edges$$Lambda$1"),
            ("a/Edges$$Lambda$14/2093631819", "a.Edges$$Lambda$14"),
            (
                "a/Edges$$Lambda$14/0x0000000840066840",
                "a.Edges$$Lambda$14",
            ),
        ] {
            assert_eq!(class_text(name), text);
        }
    }
}
