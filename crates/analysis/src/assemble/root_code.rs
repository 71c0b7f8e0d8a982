//! Detects roots from code, if the names of outermost frames are inconclusive: by call frame
//! information, the entry point, and the instructions after a call. Only for stacks that the kernel
//! recorded by frame pointers.

use std::sync::OnceLock;

use rprof_image::ImageFile;
use rprof_symbols::Symbolizer;
use rprof_unwind::FunctionRanges;

use crate::image_lookup::ImageLookup;
use crate::location::{CodeRegion, Location};
use crate::sideband_pass::Index;

/// Results by location, computed on first use.
pub(super) struct RootCode<'a> {
    index: &'a Index<'a>,
    symbolizer: &'a Symbolizer,
    origin: ImageLookup,
    locations: &'a [Location],
    images: Vec<OnceLock<Option<Image>>>,
    answers: Vec<OnceLock<bool>>,
}

struct Image {
    bytes: Bytes,
    functions: FunctionRanges,
}

enum Bytes {
    File(ImageFile),
    Kept(Vec<u8>),
}

impl Bytes {
    fn as_slice(&self) -> &[u8] {
        match self {
            Bytes::File(file) => file.bytes(),
            Bytes::Kept(bytes) => bytes,
        }
    }
}

impl<'a> RootCode<'a> {
    pub(super) fn new(
        index: &'a Index<'a>,
        symbolizer: &'a Symbolizer,
        locations: &'a [Location],
    ) -> RootCode<'a> {
        let images = index.timeline.images();
        RootCode {
            index,
            symbolizer,
            origin: ImageLookup::of(index.data, index.machine, symbolizer.has_root()),
            locations,
            images: images.iter().map(|_| OnceLock::new()).collect(),
            answers: locations.iter().map(|_| OnceLock::new()).collect(),
        }
    }

    pub(super) fn is_root(&self, location: u32) -> bool {
        let at = location as usize;
        let answer = self.answers.get(at).zip(self.locations.get(at));
        answer.is_some_and(|(answer, location)| *answer.get_or_init(|| self.find(location)))
    }

    fn find(&self, location: &Location) -> bool {
        let CodeRegion::Image(id) = location.region else {
            return false;
        };
        let image = self.images.get(id.0 as usize);
        let image =
            image.and_then(|image| image.get_or_init(|| self.open(location.region)).as_ref());
        image.is_some_and(|image| {
            let (bytes, lookup) = (image.bytes.as_slice(), location.lookup);
            image.functions.is_root(bytes, lookup.wrapping_add(1))
        })
    }

    fn open(&self, region: CodeRegion) -> Option<Image> {
        let CodeRegion::Image(id) = region else {
            return None;
        };
        let images = self.index.timeline.images();
        let runtimes = &self.index.runtimes;
        let kept = runtimes.image(images.get(id.0 as usize)?);
        let bytes = match kept.and_then(|kept| runtimes.contents(kept)) {
            Some((bytes, lease)) => {
                lease.keep();
                Bytes::Kept(bytes)
            }
            None => {
                let key = self.origin.target(region, images, None).ok()?;
                Bytes::File(self.symbolizer.image_file(&key).ok()?)
            }
        };
        let functions = FunctionRanges::parse(bytes.as_slice()).ok()?;
        Some(Image { bytes, functions })
    }
}
