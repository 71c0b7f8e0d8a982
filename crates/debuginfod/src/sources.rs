//! Source files, by build-id of the program and path in its debug information.
//!
//! Nobody can tell whether a source file is the right one, so what a server sends is taken for what it says, within the limits of
//! size and time; and nothing of it is kept in the cache.

use crate::client::Client;
use rprof_image::BuildId;
use rustix::fs::MemfdFlags;
use std::fmt::Write;
use std::fs::File;
use std::io::{Read, Seek};

/// Longest source file, in bytes.
const MAX_SOURCE: u64 = 8 << 20;

impl Client {
    /// Downloads a source file from the first server that has it; `None` if none has, or none can be reached in time.
    ///
    /// `path` is absolute, as debug information has it. Servers know the path as it is written there
    /// (debuginfod(8), "/buildid/BUILDID/source/SOURCE/FILE").
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

/// Returns a path with all but plain characters as `%XX`; slashes stay.
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
