//! Attributes text on huge pages to its file.
//!
//! Some programs copy their text into anonymous huge pages, for fewer TLB misses. The mapping
//! becomes `//anon` (or `/memfd:...`), and samples in the hottest code would be unknown. Two
//! patterns identify such text reliably:
//!
//! - *on top*: an executable mapping of anonymous memory or a memfd, aligned to 2 MiB at both ends,
//!   inside an executable mapping of a file;
//! - *between*: such a mapping, without gaps, between two executable mappings of one file whose
//!   offsets leave exactly this room. `/proc/PID/maps` shows this afterwards.
//!
//! The bytes equal the file's at the same offsets. JIT code matches only if it is placed, with this
//! alignment, inside an unloaded library. Huge pages at the start or end of a text have unknown
//! file offsets, so they are not detected.

use crate::ids::ImageId;
use crate::image::ImageKind;
use crate::mapping::Mapping;

const HUGE_PAGE: u64 = 2 << 20;

/// The mappings before a new one.
pub(crate) trait Before {
    fn find(&self, address: u64) -> Option<Mapping>;

    fn kind(&self, image: ImageId) -> ImageKind;

    /// Returns true if `new` is text moved *on top* of its file.
    fn is_moved_text(&self, new: &Mapping) -> bool {
        self.is_huge_text(new)
            && self
                .find(new.start)
                .is_some_and(|old| old.end >= new.end && self.is_file_text(&old))
    }

    /// Returns the file mapping for huge pages *between* `new` and an earlier mapping.
    fn moved_text_before(&self, new: &Mapping) -> Option<Mapping> {
        if !self.is_file_text(new) {
            return None;
        }
        let huge = self.find(new.start.checked_sub(1)?)?;
        if huge.end != new.start || !self.is_huge_text(&huge) {
            return None;
        }
        let before = self.find(huge.start.checked_sub(1)?)?;
        let continues = before.end == huge.start
            && before.image == new.image
            && before.executable
            && before.offset_of(new.start) == new.file_offset;
        continues.then(|| Mapping {
            start: huge.start,
            end: huge.end,
            file_offset: before.offset_of(huge.start),
            ..*new
        })
    }

    /// Returns true for executable memory without file on huge pages.
    fn is_huge_text(&self, mapping: &Mapping) -> bool {
        mapping.executable
            && mapping.start.is_multiple_of(HUGE_PAGE)
            && mapping.end.is_multiple_of(HUGE_PAGE)
            && matches!(
                self.kind(mapping.image),
                ImageKind::Anonymous | ImageKind::Heap | ImageKind::Memfd
            )
    }

    /// Returns true for executable memory of a file.
    fn is_file_text(&self, mapping: &Mapping) -> bool {
        let kind = self.kind(mapping.image);
        mapping.executable && matches!(kind, ImageKind::File | ImageKind::Deleted)
    }
}

#[cfg(test)]
mod tests {
    use crate::{ImageIdentity, NewMapping, Pid, ProcessMapBuilder, Timeline};

    const APP: Pid = Pid(1);
    const M2: u64 = 2 << 20;

    fn map(b: &mut ProcessMapBuilder, path: &str, start: u64, end: u64, file_offset: u64) {
        b.handle_mmap(
            0,
            APP,
            &NewMapping {
                start,
                len: end - start,
                file_offset,
                path: path.as_bytes(),
                identity: ImageIdentity::PathOnly,
                executable: true,
            },
        );
    }

    fn at(t: &Timeline, address: u64) -> Option<(&[u8], u64)> {
        let found = t.resolve(APP, 0, address)?;
        Some((&*t.image(found.image)?.path, found.offset_in_file))
    }

    #[test]
    fn on_top() {
        for (keep, expected) in [
            (false, (&b"/app"[..], 0x1000 + M2 + 5)),
            (true, (b"//anon", 5)),
        ] {
            let mut b = ProcessMapBuilder::new();
            b.keep_huge_pages(keep);
            map(&mut b, "/app", M2, 4 * M2, 0x1000);
            map(&mut b, "//anon", 2 * M2, 3 * M2, 0);
            assert_eq!(at(&b.finish(), 2 * M2 + 5), Some(expected));
        }
    }

    #[test]
    fn a_copy_in_a_memfd_is_the_text_as_well() {
        let mut b = ProcessMapBuilder::new();
        map(&mut b, "/app", M2, 4 * M2, 0x1000);
        map(&mut b, "/memfd:text (deleted)", 2 * M2, 3 * M2, 0);
        map(&mut b, "/memfd:jit (deleted)", 8 * M2, 9 * M2, 0);
        map(
            &mut b,
            "/memfd:jit (deleted)",
            3 * M2 + 0x1000,
            3 * M2 + 0x2000,
            0,
        );
        let t = b.finish();
        assert_eq!(at(&t, 2 * M2 + 5), Some((&b"/app"[..], 0x1000 + M2 + 5)));
        let jit = &b"/memfd:jit (deleted)"[..];
        assert_eq!(at(&t, 8 * M2 + 5), Some((jit, 5)));
        assert_eq!(at(&t, 3 * M2 + 0x1005), Some((jit, 5)));
    }

    #[test]
    fn between() {
        let mut b = ProcessMapBuilder::new();
        for _listed in 0..2 {
            map(&mut b, "/app", M2 + 0x1000, 2 * M2, 0x4000);
            map(&mut b, "[heap]", 2 * M2, 4 * M2, 0);
            map(&mut b, "/app", 4 * M2, 5 * M2, 0x3000 + 3 * M2);
        }
        let t = b.finish();
        assert_eq!(at(&t, 3 * M2), Some((&b"/app"[..], 0x3000 + 2 * M2)));
    }

    #[test]
    fn not_where_the_offsets_or_the_alignment_disagree() {
        let mut b = ProcessMapBuilder::new();
        map(&mut b, "/app", M2, 2 * M2, 0);
        map(&mut b, "//anon", 2 * M2, 3 * M2, 0);
        map(&mut b, "/app", 3 * M2, 4 * M2, 0x7000);
        map(&mut b, "//anon", 3 * M2 + 0x1000, 3 * M2 + 0x2000, 0);
        let t = b.finish();
        assert_eq!(at(&t, 2 * M2), Some((&b"//anon"[..], 0)));
        assert_eq!(at(&t, 3 * M2 + 0x1000), Some((&b"//anon"[..], 0)));
    }
}
