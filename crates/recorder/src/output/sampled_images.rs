//! [`SampledImages`]: finds sampled images if stacks are not unwound.
//!
//! The unwinder looks up the image of each frame, and reports new ones itself.

use rprof_processes::{LiveMap, Pid};
use rprof_records::{CpuMode, Misc, ProcessEvent, Sample};
use rustc_hash::FxHashSet;

use crate::mapped_files::MappedImage;

/// Number of cache entries; a power of two.
const PLACES: usize = 1 << 10;

/// Bytes of code per cache entry. They nearly always belong to one image.
const PLACE: u64 = 4 << 10;

/// Maximum number of known images. At the limit all are forgotten, and reported again.
const MAX_KNOWN: usize = 1 << 16;

/// `PERF_CONTEXT_MAX`, the lowest callchain marker, as a distance from the end of the address
/// space.
const MARKERS: u64 = 4095;

/// First address of the kernel's half on all 64-bit processors.
const KERNEL: u64 = 1 << 63;

#[derive(Debug)]
pub(super) struct SampledImages {
    map: LiveMap,
    /// Direct-mapped cache of sampled places: generation of a process's mappings, and address.
    seen: Vec<(u64, u64)>,
    known: FxHashSet<u64>,
}

impl SampledImages {
    pub(super) fn new() -> SampledImages {
        SampledImages {
            map: LiveMap::new(),
            seen: vec![(0, 0); PLACES],
            known: FxHashSet::default(),
        }
    }

    pub(super) fn handle(&mut self, event: &ProcessEvent<'_>) {
        self.map.handle(event);
        self.map.take_forgotten();
    }

    pub(super) fn sample(
        &mut self,
        sample: &Sample<'_>,
        misc: Misc,
        mut new: impl FnMut(MappedImage),
    ) {
        let Some(pid) = sample.pid().map(Pid) else {
            return;
        };
        let generation = self.map.generation(pid);
        if generation == 0 {
            return;
        }
        let own = sample.ip().filter(|_| misc.cpu_mode() == CpuMode::User);
        let callers = sample.callchain();
        let callers = callers.iter().flat_map(rprof_records::Callchain::iter);
        for address in own.into_iter().chain(callers) {
            // Skip kernel addresses and markers.
            if address >= KERNEL || address >= MARKERS.wrapping_neg() {
                continue;
            }
            let place = (generation, address / PLACE);
            let slot = place.0.wrapping_mul(31).wrapping_add(place.1) as usize % PLACES;
            let Some(seen) = self.seen.get_mut(slot) else {
                continue;
            };
            if *seen == place {
                continue;
            }
            *seen = place;
            let Some(mapping) = self.map.find(pid, address).filter(|found| found.executable) else {
                continue;
            };
            if self.known.len() >= MAX_KNOWN {
                self.known.clear();
            }
            let serial = self.map.image_serial(mapping.backing);
            if serial.is_some_and(|serial| self.known.insert(serial))
                && let Some(image) = self.map.image(mapping.backing)
            {
                new(MappedImage {
                    pid,
                    range: mapping.start..mapping.end,
                    image: image.clone(),
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_records::{Attr, Endian, Mapped, RawBytes, SampleLayout, SampleType};

    fn layout() -> SampleLayout {
        let attr = Attr {
            sample_type: SampleType::IP | SampleType::TID | SampleType::CALLCHAIN,
            ..Attr::default()
        };
        SampleLayout::new(&attr, Endian::NATIVE)
    }

    fn new(
        images: &mut SampledImages,
        pid: i32,
        ip: u64,
        misc: Misc,
        chain: &[u64],
    ) -> Vec<String> {
        let mut body = Vec::new();
        body.extend(ip.to_ne_bytes());
        body.extend(pid.to_ne_bytes());
        body.extend(pid.to_ne_bytes());
        body.extend((chain.len() as u64).to_ne_bytes());
        body.extend(chain.iter().flat_map(|word| word.to_ne_bytes()));
        let layout = layout();
        let sample = Sample::parse(RawBytes::from(&body[..]), &layout).unwrap();
        let mut found = Vec::new();
        images.sample(&sample, misc, |image| {
            assert_eq!(image.pid, Pid(pid));
            found.push(String::from_utf8_lossy(&image.image.path).into_owned());
        });
        found
    }

    fn map(images: &mut SampledImages, pid: i32, start: u64, path: &str) {
        images.handle(&ProcessEvent::Mapped(Mapped {
            pid,
            tid: pid,
            start,
            len: 0x10000,
            file_offset: 0,
            path: path.as_bytes().into(),
            identity: None,
            executable: true,
            kernel: false,
            prot_and_flags: None,
            misc: Misc::USER,
        }));
    }

    #[test]
    fn each_image_in_a_stack_is_handed_on_once() {
        let mut images = SampledImages::new();
        map(&mut images, 1, 0x10_0000, "/a");
        map(&mut images, 1, 0x20_0000, "/b");
        map(&mut images, 1, 0x30_0000, "/c");
        let user = u64::MAX - 511;
        let chain = [
            u64::MAX - 127,
            0xffff_ffff_8000_0000,
            user,
            0x20_0010,
            0x10_0010,
        ];
        assert_eq!(
            new(&mut images, 1, 0xffff_ffff_8000_0000, Misc::KERNEL, &chain),
            ["/b", "/a"]
        );
        assert_eq!(new(&mut images, 1, 0x20_0010, Misc::USER, &chain), [""; 0]);
        assert_eq!(new(&mut images, 1, 0x30_0010, Misc::USER, &[]), ["/c"]);
        // An unknown process, and an address outside all mappings.
        assert_eq!(new(&mut images, 2, 0x30_0010, Misc::USER, &[]), [""; 0]);
        assert_eq!(new(&mut images, 1, 0x50_0010, Misc::USER, &[]), [""; 0]);
        // The same address in another image; and another process with a known image.
        map(&mut images, 1, 0x30_0000, "/d");
        map(&mut images, 2, 0x70_0000, "/b");
        assert_eq!(new(&mut images, 1, 0x30_0010, Misc::USER, &[]), ["/d"]);
        assert_eq!(new(&mut images, 2, 0x70_0010, Misc::USER, &[]), [""; 0]);
    }
}
