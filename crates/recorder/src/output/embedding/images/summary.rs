//! [`Summary`]: one notice for all embedded images, and one for each kind of missing ones.

use std::path::PathBuf;

use super::super::notices::{Notice, Notices};

#[derive(Debug, Default)]
pub(super) struct Summary {
    /// First path, number, bytes, and number of images without code.
    embedded: Option<(PathBuf, usize, u64, usize)>,
    too_long: Option<(PathBuf, u64, usize)>,
    gone: Option<(PathBuf, usize)>,
}

impl Summary {
    pub(super) fn embedded(&mut self, path: impl Fn() -> PathBuf, bytes: u64, is_part: bool) {
        let (_, count, sum, parts) = self.embedded.get_or_insert_with(|| (path(), 0, 0, 0));
        *count += 1;
        *sum += bytes;
        *parts += usize::from(is_part);
    }

    pub(super) fn too_long(&mut self, path: impl Fn() -> PathBuf, len: u64) {
        let (.., count) = self.too_long.get_or_insert_with(|| (path(), len, 0));
        *count += 1;
    }

    pub(super) fn gone(&mut self, path: impl Fn() -> PathBuf) {
        let (_, count) = self.gone.get_or_insert_with(|| (path(), 0));
        *count += 1;
    }

    pub(super) fn push_to(self, notices: &mut Notices) {
        if let Some((first, count, bytes, without_code)) = self.embedded {
            notices.push(Notice::ImagesEmbedded {
                first,
                count,
                bytes,
                without_code,
            });
        }
        if let Some((path, bytes, count)) = self.too_long {
            notices.push(Notice::ImageTooLong {
                path,
                bytes,
                others: count - 1,
            });
        }
        if let Some((path, count)) = self.gone {
            notices.push(Notice::ImageGone {
                path,
                others: count - 1,
            });
        }
    }
}
