//! [`Bounded`]: output buffer with a length limit.

use std::fmt;

/// Maximum length of a demangled name, in bytes: substitutions can expand a short name without
/// bound. Longer names end with [`CUT_MARK`].
pub const MAX_OUTPUT: usize = 64 << 10;

/// Marker at the end of a truncated name.
pub const CUT_MARK: &str = "[...]";

/// Collects output up to [`MAX_OUTPUT`] bytes, then fails, which stops the demangler.
#[derive(Default)]
pub(super) struct Bounded {
    text: String,
    full: bool,
}

impl Bounded {
    pub(super) fn finish(mut self, failed: bool) -> Option<String> {
        if self.full {
            self.text.push_str(CUT_MARK);
        } else if failed || self.text.is_empty() {
            return None;
        }
        Some(self.text)
    }
}

impl fmt::Write for Bounded {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        let room = MAX_OUTPUT - CUT_MARK.len() - self.text.len().min(MAX_OUTPUT - CUT_MARK.len());
        if part.len() <= room {
            self.text.push_str(part);
            return Ok(());
        }
        self.text.push_str(&part[..part.floor_char_boundary(room)]);
        self.full = true;
        Err(fmt::Error)
    }
}
