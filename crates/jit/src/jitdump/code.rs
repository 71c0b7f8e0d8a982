//! [`code_of`]: the machine code of a function, which [`JitDump`](super::JitDump) does not keep.

use super::format::{DumpError, Header, kind};
use crate::function::text;

/// Machine code of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JitBytes {
    /// AVMA of the first byte.
    pub start: u64,
    /// The instructions.
    pub bytes: Vec<u8>,
    /// Processor (`e_machine` of ELF).
    pub machine: u32,
}

/// Finds the last code written for a function name at an AVMA. `None` if there is none.
///
/// # Errors
/// [`DumpError`], if the file is no jitdump.
pub fn code_of(file: &[u8], name: &str, avma: u64) -> Result<Option<JitBytes>, DumpError> {
    let header = Header::parse(file)?;
    let machine = header.reader(file.get(12..).unwrap_or_default()).u32();
    let mut found = None;
    for record in header.records(file) {
        let mut body = record.body;
        let mut read = || {
            // pid, tid, vma.
            body.skip(4 + 4 + 8)?;
            let (start, size, _index) = (body.u64()?, body.u64()?, body.u64()?);
            let inside = avma.checked_sub(start)?;
            let is_it = inside < size && text(body.c_string()?) == name;
            let len = usize::try_from(size).ok().filter(|_| is_it)?;
            Some((start, body.bytes(len)?))
        };
        match record.kind {
            kind::LOAD => found = read().or(found),
            kind::CLOSE => break,
            _ => {}
        }
    }
    Ok(found.map(|(start, bytes)| JitBytes {
        start,
        bytes: bytes.to_vec(),
        machine: machine.unwrap_or(0),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jitdump::without_code;

    fn dump() -> Vec<u8> {
        let mut file: Vec<u8> = Vec::new();
        for word in [0x4a69_5444_u32, 1, 40, 62, 0, 7] {
            file.extend(word.to_le_bytes());
        }
        file.extend([0; 16]);
        for (start, name, code) in [
            (0x1000_u64, "add\0", [0x90, 0xc3]),
            (0x1000, "add\0", [0x31, 0xc0]),
            (0x1000, "sub\0", [0x0f, 0x0b]),
        ] {
            let size = 16 + 8 + 4 * 8 + name.len() + code.len();
            file.extend(kind::LOAD.to_le_bytes());
            file.extend((size as u32).to_le_bytes());
            file.extend(0_u64.to_le_bytes());
            file.extend([0; 8]);
            for word in [start, start, 2, 0] {
                file.extend(word.to_le_bytes());
            }
            file.extend(name.as_bytes());
            file.extend(code);
        }
        file
    }

    #[test]
    fn the_last_code_of_a_name_at_an_address_is_found() {
        let file = dump();
        let code = |name, avma| code_of(&file, name, avma).unwrap();
        let found = code("add", 0x1001).expect("it is there");
        assert_eq!(
            (found.start, &*found.bytes, found.machine),
            (0x1000, &[0x31, 0xc0][..], 62)
        );
        assert_eq!(code("sub", 0x1000).map(|c| c.bytes), Some(vec![0x0f, 0x0b]));
        assert_eq!(code("add", 0x1002), None);
        assert_eq!(code("mul", 0x1000), None);
        let kept = without_code(&file).unwrap();
        assert_eq!(
            code_of(&kept, "add", 0x1000).unwrap(),
            None,
            "kept without it"
        );
        for len in 0..file.len() {
            let _ = code_of(&file[..len], "sub", 0x1000);
        }
    }
}
