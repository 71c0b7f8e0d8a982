//! Where in an image the answers change.
//!
//! Whoever wants functions only, and has many addresses, need not keep each of them: those
//! between two bounds all get the same answer but for [`Frames::offset`](crate::Frames::offset).

use super::{Image, Symbolizer};
use crate::Reason;
use crate::elf_image::ElfImage;
use crate::file::Pages;
use crate::image::{ImageKey, ImageKind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// More bounds than any honest file has; beyond that addresses are looked up one by one.
const MOST: usize = 1 << 24;

/// Bounds that a search has to tell apart once it knows the bucket, on average.
const IN_BUCKET: usize = 4;

/// Bounds that are compared with an offset at a time.
const AT_A_TIME: usize = 8;

/// The offsets of an image at which the answer to a lookup may change.
#[derive(Clone, Debug)]
pub struct Extents {
    /// The first bound.
    base: u64,
    /// Bounds as distances from `base`, ascending; the first is 0. Behind the last, as many of
    /// the largest value as are compared at a time.
    bounds: Arc<[u32]>,
    /// For each `1 << shift` bytes from `base` on, the number of bounds before them.
    buckets: Arc<[u32]>,
    shift: u32,
}

impl Extents {
    /// Those of an image without any: every offset gets the same answer.
    #[must_use]
    pub fn none() -> Extents {
        Extents::new(vec![0])
    }

    fn new(mut bounds: Vec<u64>) -> Extents {
        // They come in sorted runs.
        bounds.sort();
        Extents::of_sorted(bounds.into_iter())
    }

    /// Of ascending bounds, which may repeat.
    fn of_sorted(bounds: impl Iterator<Item = u64>) -> Extents {
        let mut all = bounds.peekable();
        let base = all.peek().copied().unwrap_or(0);
        // Offsets that are further away stand for themselves.
        let near = all.map_while(|b| u32::try_from(b - base).ok());
        let mut bounds: Vec<u32> = near.filter(|b| *b < u32::MAX).collect();
        bounds.dedup();
        let span = bounds.last().map_or(0, |last| u64::from(*last)) + 1;
        let wanted = (bounds.len() / IN_BUCKET).max(1) as u64;
        let shift = span.div_ceil(wanted).next_power_of_two().ilog2();
        let mut buckets = Vec::with_capacity((span >> shift) as usize + 2);
        for (number, bound) in (0u32..).zip(&bounds) {
            let bucket = (u64::from(*bound) >> shift) as usize;
            while buckets.len() <= bucket {
                buckets.push(number);
            }
        }
        bounds.extend([u32::MAX; AT_A_TIME]);
        Extents {
            base,
            bounds: bounds.into(),
            buckets: buckets.into(),
            shift,
        }
    }

    /// The same of an image whose offsets are less by this.
    fn moved(&self, down: u64) -> Extents {
        Extents {
            base: self.base.wrapping_sub(down),
            ..self.clone()
        }
    }

    /// An offset that gets the same answer as this one; the same for all that do so up to the
    /// next bound.
    #[inline]
    #[must_use]
    pub fn representative(&self, offset: u64) -> u64 {
        self.end(offset, self.begin(offset))
    }

    /// The first half of [`representative`](Self::representative), for those who have many
    /// offsets: each half waits for memory, and that of many can be waited for together. To be
    /// given to [`end`](Self::end).
    #[inline]
    #[must_use]
    pub fn begin(&self, offset: u64) -> usize {
        let bucket = (offset.wrapping_sub(self.base) >> self.shift) as usize;
        let bucket = self.buckets.get(bucket).or(self.buckets.last());
        bucket.map_or(0, |first| *first as usize)
    }

    /// The second half, for what [`begin`](Self::begin) answered for the same offset.
    #[inline]
    #[must_use]
    pub fn end(&self, offset: u64, begun: usize) -> u64 {
        let inside = offset.checked_sub(self.base);
        let inside = inside.and_then(|inside| u32::try_from(inside).ok());
        let Some(inside) = inside.filter(|inside| *inside < u32::MAX) else {
            return offset;
        };
        let mut before = begun;
        // Counted, not searched for: how long a search goes on is not known before the bounds have
        // come from memory, and nothing else would be asked for meanwhile.
        while let Some(bounds) = (self.bounds.get(before..)).and_then(<[u32]>::first_chunk) {
            let bounds: &[u32; AT_A_TIME] = bounds;
            let passed: u32 = bounds.iter().map(|bound| u32::from(*bound <= inside)).sum();
            before += passed as usize;
            if (passed as usize) < AT_A_TIME {
                break;
            }
        }
        // The first bound is 0, so there is one before.
        match before.checked_sub(1).and_then(|at| self.bounds.get(at)) {
            Some(bound) => self.base.wrapping_add(u64::from(*bound)),
            None => offset,
        }
    }
}

/// The kernel's list on its way: see [`Symbolizer::kernel_ahead`].
#[derive(Debug)]
#[must_use = "nothing is loaded by it alone"]
pub struct KernelAhead<'a>(&'a Symbolizer);

impl KernelAhead<'_> {
    /// Reads the symbols of the running kernel, if nobody has yet.
    pub fn load(self) {
        // Whoever asks is told why there are none.
        let _known = self.0.kernel_extents().is_ok();
    }
}

impl Drop for KernelAhead<'_> {
    fn drop(&mut self) {
        self.0.loads_kernel.store(false, Ordering::Release);
    }
}

impl Symbolizer {
    /// Where in an image the answers change, offsets being those that
    /// [`resolve_image`](Self::resolve_image) takes. `None` where that is not known ahead: debug
    /// information or a `vmlinux` is to be asked, or it is no single image.
    #[must_use]
    pub fn extents(&self, image: &ImageKey) -> Option<Extents> {
        let opened = self.images.get(image, || self.open(image));
        match &*opened {
            Err(_) => Some(Extents::none()),
            Ok(Image::File(image)) => self.extents_of_elf(image),
            Ok(Image::Vdso(image)) => self.extents_of_elf(image),
            Ok(Image::Kernel { shift, vmlinux }) => {
                if vmlinux.is_some() || *image.kind() != ImageKind::Kernel {
                    return None;
                }
                let Ok(shift) = shift else {
                    return Some(Extents::none());
                };
                Some(self.kernel_extents().ok()?.moved(*shift))
            }
            Ok(Image::Archive(_)) => None,
        }
    }

    fn extents_of_elf<D: Pages>(&self, image: &ElfImage<D>) -> Option<Extents> {
        let places = &self.debug_files;
        let by_address = self.wish.inlines || self.wish.lines;
        if by_address && image.debug_info(places).is_some() {
            return None;
        }
        image.bounds(places, MOST).map(Extents::new)
    }

    fn kernel_extents(&self) -> Result<&Extents, Reason> {
        let symbols = self.kernel_symbols()?;
        let make = || Extents::of_sorted(symbols.bounds());
        Ok(self.kernel_extents.get_or_init(make))
    }

    /// To be [loaded](KernelAhead::load) on another thread, for those who know before they have
    /// an address that they will ask for the kernel's symbols, and have a thread to spare.
    pub fn kernel_ahead(&self) -> KernelAhead<'_> {
        self.loads_kernel.store(true, Ordering::Release);
        KernelAhead(self)
    }

    /// Whether the kernel's symbols are being loaded, so that who asks for them now would wait.
    #[must_use]
    pub fn is_loading_kernel(&self) -> bool {
        self.loads_kernel.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_bound_before_stands_for_an_offset() {
        let mut seed = 1_u64;
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % below
        };
        for round in 0..300 {
            let spread = 1 << (3 + round % 30);
            let base = random(1000);
            let bounds: Vec<u64> = (0..1 + round % 50).map(|_| base + random(spread)).collect();
            let extents = Extents::new(bounds.clone());
            let moved = extents.moved(base);
            for offset in (0..50).map(|_| random(spread + 2000)) {
                let before = bounds.iter().filter(|bound| **bound <= offset).max();
                let expected = before.copied().unwrap_or(offset);
                assert_eq!(extents.representative(offset), expected, "{bounds:?}");
                if offset >= base {
                    let found = moved.representative(offset - base);
                    assert_eq!(found.wrapping_add(base), expected, "{bounds:?}");
                }
            }
        }
        assert_eq!(Extents::none().representative(u64::MAX), u64::MAX);
        let end = u64::from(u32::MAX);
        assert_eq!(Extents::new(vec![0, end]).representative(end), end);
        assert_eq!(Extents::new(vec![0, end]).representative(end - 1), 0);
        assert_eq!(Extents::none().representative(77), 0);
        assert_eq!(Extents::new(Vec::new()).representative(7), 7);
    }

    /// The tests' own program has all there is: nested symbols, a PLT, gaps.
    #[test]
    fn what_stands_for_an_offset_has_its_answer() {
        let symbolizer = Symbolizer::builder().inlines(false).lines(false).build();
        let image = ImageKey::file("/proc/self/exe");
        let extents = symbolizer.extents(&image).unwrap();
        let len = std::fs::metadata("/proc/self/exe").unwrap().len();
        let offsets: Vec<u64> = (0..len + 10_000).step_by(97).collect();
        let others: Vec<u64> = (offsets.iter())
            .map(|offset| extents.representative(*offset))
            .collect();
        let found = symbolizer.resolve_image(&image, &offsets);
        let same = symbolizer.resolve_image(&image, &others);
        let mut named = 0;
        for ((offset, a), b) in offsets.iter().zip(found).zip(same) {
            let (a, b) = (a.map(|f| f.symbol().clone()), b.map(|f| f.symbol().clone()));
            named += usize::from(a.is_ok());
            assert_eq!(a, b, "{offset:#x}");
        }
        assert!(named > 1000);
    }
}
