//! Downloads source files, by the program's build-id and the path in its debug information.
//!
//! A source file cannot be verified, so the server's version is used, within the limits on size and
//! time. It is never cached.

use crate::client::Client;
use rprof_image::BuildId;
use rustix::fs::MemfdFlags;
use std::fmt::Write;
use std::fs::File;
use std::io::{Read, Seek};

/// Maximum size of a source file in bytes.
const MAX_SOURCE: u64 = 8 << 20;

impl Client {
    /// Downloads a source file from the first server that has it. Returns `None` if no server has
    /// it, or none responds in time.
    ///
    /// `path` is absolute, exactly as in the debug information (debuginfod(8),
    /// "/buildid/BUILDID/source/SOURCE/FILE").
    #[must_use]
    pub fn source(&self, build_id: &BuildId, path: &str) -> Option<Vec<u8>> {
        let path = path.strip_prefix('/')?;
        let place = format!("buildid/{build_id}/source/{}", encoded(path));
        let file = rustix::fs::memfd_create("source", MemfdFlags::CLOEXEC).ok()?;
        let mut file = File::from(file);
        self.download_small(&place, &file, MAX_SOURCE)?;
        let mut bytes = Vec::new();
        file.rewind().ok()?;
        file.take(MAX_SOURCE).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }
}

fn encoded(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'/' => {
                out.push(byte.into());
            }
            byte => drop(write!(out, "%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::encoded;

    #[test]
    fn what_is_not_plain_is_encoded() {
        assert_eq!(encoded("usr/src/a b/c++.h"), "usr/src/a%20b/c%2B%2B.h");
        assert_eq!(encoded("../x?y#z\n"), "../x%3Fy%23z%0A");
    }
}
