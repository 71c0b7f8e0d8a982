//! [`without_code`]: strips the machine code, most of a jitdump.

use super::format::{DumpError, Header, SIZE_AT, kind};

/// Copies a file without the machine code. The copy parses to the same [`JitDump`](super::JitDump).
///
/// # Errors
/// [`DumpError`], if the file is no jitdump.
pub fn without_code(bytes: &[u8]) -> Result<Vec<u8>, DumpError> {
    let header = Header::parse(bytes)?;
    let mut out = bytes[..header.len].to_vec();
    for record in header.records(bytes) {
        match record.kind {
            kind::LOAD => {
                let mut body = record.body;
                // pid, tid, vma, address, size, index.
                let read = body.skip(4 + 4 + 4 * 8).and_then(|()| body.c_string());
                if read.is_none() {
                    continue;
                }
                let kept = record.bytes.len() - body.left();
                let begins = out.len();
                out.extend_from_slice(&record.bytes[..kept]);
                let size = kept as u32;
                let size = match header.big {
                    true => size.to_be_bytes(),
                    false => size.to_le_bytes(),
                };
                out[begins + SIZE_AT..][..4].copy_from_slice(&size);
            }
            kind::UNWINDING if record.body.left() < 3 * 8 => {}
            kind::MOVE | kind::DEBUG_INFO | kind::CLOSE | kind::UNWINDING => {
                out.extend_from_slice(record.bytes);
            }
            _ => {}
        }
    }
    Ok(out)
}
