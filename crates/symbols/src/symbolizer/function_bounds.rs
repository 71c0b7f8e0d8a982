//! [`FunctionBounds`]: the offsets of an image where the result of a lookup changes.
//!
//! All addresses between two bounds have the same result except for
//! [`Frames::offset`](crate::Frames::offset), so callers that need only functions can store one
//! offset.

use super::{Image, Symbolizer};
use crate::elf_image::ElfImage;
use crate::kernel::RunningKernel;
use crate::pages::Pages;
use rprof_image::Reason;
use rprof_image::{ImageKey, ImageSource};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Maximum number of bounds, more than real files have. Above it, addresses are looked up
/// individually.
const LIMIT: usize = 1 << 24;

/// Average number of bounds per bucket, up to twice as many.
const IN_BUCKET: usize = 4;

const AT_A_TIME: usize = 8;

/// Minimum number of bounds in a bucket for a binary search.
const MANY: usize = 64;

/// Maximum number of offset bits within a bucket.
const LOW_BITS: u32 = 16;

const FEW_BUCKETS: u64 = 4096;

/// Offsets of an image where the result of a lookup may change.
///
/// Compact, so that the tables of all images stay in the CPU cache: three bytes per bound, in two
/// arrays.
#[derive(Clone, Debug)]
pub struct FunctionBounds {
    base: u64,
    /// Offsets at this distance from the first bound are their own canonical offset.
    reach: u32,
    /// Ranges of `1 << shift` bytes from `base` to the last bound, and a sentinel.
    buckets: Arc<[Bucket]>,
    shift: u32,
    /// Offset of each bound in its bucket, padded with [`AT_A_TIME`] sentinels.
    lows: Arc<[u16]>,
}

/// Range of offsets with the same high bits.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    first: u32,
    /// The last bound before it, relative to the base.
    before: u32,
}

/// Intermediate state of [`FunctionBounds::canonical_offset`], so that callers can overlap the
/// cache misses of many offsets. A method for a list could not, as samples mix images.
#[derive(Clone, Copy, Debug)]
pub struct PartialLookup {
    bucket: Bucket,
    len: u32,
}

impl FunctionBounds {
    /// Creates the bounds of an image without any: every offset has the same result.
    #[must_use]
    pub fn none() -> FunctionBounds {
        FunctionBounds::new(vec![0])
    }

    fn new(mut bounds: Vec<u64>) -> FunctionBounds {
        // Stable sort: the input consists of sorted runs.
        bounds.sort();
        FunctionBounds::of_sorted(bounds.into_iter())
    }

    /// Builds the table from ascending bounds, which may repeat.
    fn of_sorted(bounds: impl Iterator<Item = u64>) -> FunctionBounds {
        let mut all = bounds.peekable();
        let base = all.peek().copied().unwrap_or(0);
        let near = all.map_while(|b| u32::try_from(b - base).ok());
        let mut bounds: Vec<u32> = near.collect();
        bounds.dedup();
        let reach = (bounds.len() as u64 + FEW_BUCKETS) << LOW_BITS;
        let reach = u32::try_from(reach).unwrap_or(u32::MAX);
        bounds.truncate(bounds.partition_point(|bound| *bound < reach));

        let last = bounds.last().copied().unwrap_or(0);
        let wanted = (bounds.len() / IN_BUCKET).max(1) as u64;
        let span = u64::from(last) + 1;
        let shift = span.div_ceil(wanted).next_power_of_two().ilog2();
        let shift = shift.min(LOW_BITS);
        let mut buckets = Vec::with_capacity((last >> shift) as usize + 2);
        let mut before = 0;
        for (number, bound) in (0u32..).zip(&bounds) {
            let bucket = Bucket {
                first: number,
                before,
            };
            buckets.resize(buckets.len().max((bound >> shift) as usize + 1), bucket);
            before = *bound;
        }
        buckets.push(Bucket {
            first: bounds.len() as u32,
            before,
        });
        let low = |bound: &u32| (bound & ((1 << shift) - 1)) as u16;
        let behind = [u16::MAX; AT_A_TIME];
        FunctionBounds {
            base,
            reach: if bounds.is_empty() { 0 } else { reach },
            buckets: buckets.into(),
            shift,
            lows: bounds.iter().map(low).chain(behind).collect(),
        }
    }

    /// Counts the bounds at or before `low`. Unlike a search, its length does not depend on data
    /// that is still being loaded, so the CPU can start other loads.
    #[inline]
    fn passed(&self, first: usize, len: usize, low: u16) -> usize {
        let mut passed = 0;
        for at in (0..len).step_by(AT_A_TIME) {
            let Some(lows) = (self.lows.get(first + at..)).and_then(<[u16]>::first_chunk) else {
                break;
            };
            let lows: &[u16; AT_A_TIME] = lows;
            let left = (len - at).min(AT_A_TIME) as u16;
            let is_passed = |(n, bound): (u16, &u16)| u16::from(*bound <= low && n < left);
            passed += usize::from((0u16..).zip(lows).map(is_passed).sum::<u16>());
        }
        passed
    }

    fn moved(&self, down: u64) -> FunctionBounds {
        FunctionBounds {
            base: self.base.wrapping_sub(down),
            ..self.clone()
        }
    }

    /// Returns the bounds with validity limited to offsets below `end`.
    fn until(self, end: u64) -> FunctionBounds {
        let reach = u32::try_from(end.saturating_sub(self.base)).unwrap_or(u32::MAX);
        FunctionBounds {
            reach: self.reach.min(reach),
            ..self
        }
    }

    /// Returns the last bound at or before `offset`: the same value for all offsets of a function.
    /// Returns `offset` itself if there is no such bound.
    #[inline]
    #[must_use]
    pub fn canonical_offset(&self, offset: u64) -> u64 {
        self.finish(offset, self.begin(offset))
    }

    /// First half of [`canonical_offset`](Self::canonical_offset), to be passed to
    /// [`finish`](Self::finish). Each half may miss the cache. Run the first half for many offsets
    /// before the second.
    #[inline]
    #[must_use]
    pub fn begin(&self, offset: u64) -> PartialLookup {
        let inside = offset.wrapping_sub(self.base);
        let number = usize::try_from(inside >> self.shift).unwrap_or(usize::MAX);
        // Offsets after all bounds belong to the last bucket.
        let last = self.buckets.len() - 1;
        let bucket = self.buckets[number.min(last)];
        let next = self.buckets[number.saturating_add(1).min(last)];
        PartialLookup {
            bucket,
            len: next.first - bucket.first,
        }
    }

    /// Second half, with the result of [`begin`](Self::begin) for the same offset.
    #[inline]
    #[must_use]
    pub fn finish(&self, offset: u64, begun: PartialLookup) -> u64 {
        let inside = offset.wrapping_sub(self.base);
        let Some(inside) = (u32::try_from(inside).ok()).filter(|inside| *inside < self.reach)
        else {
            return offset;
        };
        let within = (1u32 << self.shift) - 1;
        let low = (inside & within) as u16;
        let first = begun.bucket.first as usize;
        let passed = match begun.len as usize {
            // Only a malicious image has so many.
            len @ MANY.. => {
                let lows = self.lows.get(first..first + len).unwrap_or_default();
                lows.partition_point(|bound| *bound <= low)
            }
            len => self.passed(first, len, low),
        };
        let bound = match passed.checked_sub(1).and_then(|n| self.lows.get(first + n)) {
            Some(bound) => inside & !within | u32::from(*bound),
            None => begun.bucket.before,
        };
        self.base.wrapping_add(u64::from(bound))
    }
}

/// Announces a load of the kernel's symbols: see [`Symbolizer::prefetch_kernel`].
#[derive(Debug)]
#[must_use = "nothing is loaded by it alone"]
pub struct KernelPrefetch<'a>(&'a Symbolizer);

impl KernelPrefetch<'_> {
    /// Loads the symbols of the running kernel, unless already loaded. With `bounds`, also computes
    /// its [function bounds](Symbolizer::function_bounds), which needs all symbols.
    pub fn load(self, bounds: bool) {
        // Later lookups report a failure.
        let _known = match bounds {
            true => self.0.kernel_bounds().is_ok(),
            false => self.0.kernel_symbols().is_ok(),
        };
    }
}

impl Drop for KernelPrefetch<'_> {
    fn drop(&mut self) {
        self.0.loads_kernel.store(false, Ordering::Release);
    }
}

impl Symbolizer {
    /// Returns the bounds of an image, for offsets as in [`resolve_image`](Self::resolve_image).
    /// `None` if results may change at any offset: with debug information, a `vmlinux`, or an
    /// archive of images.
    #[must_use]
    pub fn function_bounds(&self, image: &ImageKey) -> Option<FunctionBounds> {
        let opened = self.images.get(image, || self.open(image));
        match &*opened {
            Err(_) => Some(FunctionBounds::none()),
            Ok(Image::File(image)) => self.bounds_of_elf(image),
            Ok(Image::Vdso(image)) => self.bounds_of_elf(image),
            Ok(Image::Kernel { shift, vmlinux }) => {
                if vmlinux.is_some() || *image.source() != ImageSource::Kernel {
                    return None;
                }
                let Ok(shift) = shift else {
                    return Some(FunctionBounds::none());
                };
                Some(self.kernel_bounds().ok()?.moved(*shift))
            }
            Ok(Image::Archive(_)) => None,
        }
    }

    fn bounds_of_elf<D: Pages>(&self, image: &ElfImage<D>) -> Option<FunctionBounds> {
        let places = &self.debug_files;
        let by_address = self.query.inlines || self.query.lines;
        if by_address && image.debug_info(places).is_some() {
            return None;
        }
        image
            .bounds(places, self.locates, LIMIT)
            .map(FunctionBounds::new)
    }

    fn kernel_bounds(&self) -> Result<&FunctionBounds, Reason> {
        if let Some(bounds) = self.kernel_bounds.get() {
            return Ok(bounds);
        }
        let stored = match self.kernel_symbols()? {
            RunningKernel::Stored(stored) => stored.bounds().zip(Some(stored.text_range())),
            RunningKernel::Whole(_) => None,
        };
        let bounds = match stored {
            // Outside of the kernel's own code, the stored list may be incomplete.
            Some((bounds, text)) => {
                let bounds = bounds.into_iter().filter(|bound| text.contains(bound));
                FunctionBounds::of_sorted(bounds).until(text.end)
            }
            None => FunctionBounds::of_sorted(self.whole_kernel()?.bounds()),
        };
        Ok(self.kernel_bounds.get_or_init(|| bounds))
    }

    /// Announces that another thread will [load](KernelPrefetch::load) the kernel's symbols. Until
    /// then, [`is_loading_kernel`](Self::is_loading_kernel) returns true.
    pub fn prefetch_kernel(&self) -> KernelPrefetch<'_> {
        self.loads_kernel.store(true, Ordering::Release);
        KernelPrefetch(self)
    }

    /// Returns true while the kernel's symbols are being loaded, so that a lookup would block.
    #[must_use]
    pub fn is_loading_kernel(&self) -> bool {
        self.loads_kernel.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_testing::Random;

    #[test]
    fn the_last_bound_before_stands_for_an_offset() {
        let mut numbers = Random::new(1);
        let mut random = |below: u64| numbers.below(below);
        for round in 0..300 {
            let spread = 1 << (3 + round % 25);
            let base = random(1000);
            let starts: Vec<u64> = (0..1 + round % 50).map(|_| base + random(spread)).collect();
            let bounds = FunctionBounds::new(starts.clone());
            let moved = bounds.moved(base);
            for offset in (0..50).map(|_| random(spread + 2000)) {
                let before = starts.iter().filter(|start| **start <= offset).max();
                let expected = before.copied().unwrap_or(offset);
                assert_eq!(bounds.canonical_offset(offset), expected, "{starts:?}");
                if offset >= base {
                    let found = moved.canonical_offset(offset - base);
                    assert_eq!(found.wrapping_add(base), expected, "{starts:?}");
                }
            }
        }
        assert_eq!(FunctionBounds::none().canonical_offset(u64::MAX), u64::MAX);
        let end = u64::from(u32::MAX);
        assert_eq!(FunctionBounds::new(vec![0, end]).canonical_offset(end), end);
        assert_eq!(
            FunctionBounds::new(vec![0, end]).canonical_offset(end - 1),
            end - 1
        );
        assert_eq!(
            FunctionBounds::new(vec![0, end]).canonical_offset(1 << 27),
            0
        );
        assert!(FunctionBounds::new(vec![0, end]).buckets.len() < 3);
        let many: Vec<u64> = (0..70_000).map(|n| n * 50_000).collect();
        let bounds = FunctionBounds::new(many.clone());
        for offset in (0..end).step_by(12_345) {
            let expected = match offset / 50_000 * 50_000 {
                found if found <= many[many.len() - 1] => found,
                _ => many[many.len() - 1],
            };
            assert_eq!(bounds.canonical_offset(offset), expected);
        }
        assert_eq!(FunctionBounds::none().canonical_offset(77), 0);
        assert_eq!(FunctionBounds::new(Vec::new()).canonical_offset(7), 7);
    }

    /// Also covers a kernel at another address than recorded.
    #[test]
    fn what_stands_for_a_kernel_address_has_its_answer() {
        let mut list = String::new();
        for n in 0..400u64 {
            let start = 0xffff_ffff_8100_0000 + n * n * 7 % 100_000 + n / 2 * 2000;
            let kind = if n % 9 == 0 { 'd' } else { 't' };
            list += &format!("{start:016x} {kind} f{n}\n");
        }
        list += "ffffffff81000000 T _text\nffffffff82000000 T _etext\n";
        list += "ffffffffc0000100 t g\t[module]\nffffffffc0002000 d h\t[module]\n";
        let symbolizer = Symbolizer::builder().kernel_list(list.into()).build();
        assert!(!symbolizer.is_loading_kernel());
        let ahead = symbolizer.prefetch_kernel();
        assert!(symbolizer.is_loading_kernel());
        ahead.load(false);
        assert!(!symbolizer.is_loading_kernel());
        assert!(symbolizer.kernel_bounds.get().is_none());
        symbolizer.prefetch_kernel().load(true);
        assert!(symbolizer.kernel_bounds.get().is_some());
        drop(symbolizer.prefetch_kernel());
        assert!(!symbolizer.is_loading_kernel());

        for recorded in [
            None,
            Some(0xffff_ffff_8100_0000),
            Some(0xffff_ffff_9a00_0000),
        ] {
            let kernel = ImageKey::kernel().with_recorded_start(recorded);
            let bounds = symbolizer.function_bounds(&kernel).unwrap();
            let base = recorded.unwrap_or(0xffff_ffff_8100_0000) - 0x3000;
            let ranges = [
                base..base + 0x10_0000,
                base + 0x3f00_3000..base + 0x3f01_0000,
            ];
            let addresses: Vec<u64> = ranges.into_iter().flat_map(|r| r.step_by(53)).collect();
            let others: Vec<u64> = (addresses.iter())
                .map(|address| bounds.canonical_offset(*address))
                .collect();
            let found = symbolizer.resolve_image(&kernel, &addresses);
            let same = symbolizer.resolve_image(&kernel, &others);
            let mut named = 0;
            for ((address, a), b) in addresses.iter().zip(found).zip(same) {
                let (a, b) = (a.map(|f| f.symbol().clone()), b.map(|f| f.symbol().clone()));
                named += usize::from(a.is_ok());
                assert_eq!(a, b, "{address:#x}");
            }
            assert!(named > 1000, "{named}");
            let distinct: std::collections::BTreeSet<u64> = others.iter().copied().collect();
            assert!(distinct.len() < addresses.len() / 4);
        }
    }

    /// The test program has nested symbols, a PLT and gaps.
    #[test]
    fn what_stands_for_an_offset_has_its_answer() {
        assert_answers("/proc/self/exe", false, 97);
        assert_answers("/proc/self/exe", true, 197);
        assert_answers("/bin/sh", true, 3);
    }

    fn assert_answers(path: &str, locates: bool, step: usize) {
        let builder = Symbolizer::builder().inlines(false).lines(false);
        let symbolizer = builder.locates(locates).build();
        let image = ImageKey::file(path);
        let bounds = symbolizer.function_bounds(&image).unwrap();
        let len = std::fs::metadata(path).unwrap().len();
        let offsets: Vec<u64> = (0..len + 10_000).step_by(step).collect();
        let others: Vec<u64> = (offsets.iter())
            .map(|offset| bounds.canonical_offset(*offset))
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
