//! Machine code of functions, and the lines that it was compiled from.

use super::{Image, Symbolizer};
use crate::dwarf::LineRange;
use crate::elf_image::ElfImage;
use crate::pages::Pages;
use rprof_image::{ImageKey, ImageSource, OpenError, Reason};
use std::ops::Range;
use std::path::Path;

/// Most bytes of code that are handed out at once. Functions are shorter, but for those that generators write.
const MAX_CODE: u64 = 4 << 20;

/// Contiguous machine code of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Code {
    /// Offset of the first byte, as look-ups of the image have it: see [`ImageSource`].
    pub offset: u64,
    /// SVMA of the first byte; of the running kernel, the AVMA that it has today.
    pub svma: u64,
    /// The bytes. They may be fewer than were asked for, where the image ends before.
    pub bytes: Vec<u8>,
    /// Processor, as ELF numbers it (`e_machine`).
    pub machine: u16,
    /// True for code of the kernel that was read from its image: the kernel changes some of it while it runs.
    pub is_as_built: bool,
}

impl Symbolizer {
    /// Returns the code of an image at a range of offsets, 4 MiB of it at most.
    ///
    /// The kernel is read as it is in memory (`/proc/kcore`), where that is allowed and it is the one that was recorded; else
    /// from the `vmlinux` that was given.
    ///
    /// # Errors
    /// [`Reason`] for which there is none.
    pub fn code(&self, image: &ImageKey, offsets: Range<u64>) -> Result<Code, Reason> {
        let opened = self.images.get(image, || self.open(image));
        match &*opened {
            Err(reason) => Err(*reason),
            Ok(Image::File(elf)) => code_of(elf, offsets),
            Ok(Image::Vdso(elf)) => code_of(elf, offsets),
            Ok(Image::Archive(archive)) => {
                let (number, start) = archive
                    .image_at(offsets.start)
                    .ok_or(Reason::OutsideImage)?;
                let len = offsets.end.saturating_sub(offsets.start);
                let elf = archive.image(number)?;
                let code = code_of(elf, start..start.saturating_add(len))?;
                Ok(Code {
                    offset: offsets.start,
                    ..code
                })
            }
            Ok(Image::Kernel { shift, vmlinux }) => {
                let from_memory = shift.and_then(|shift| self.kernel_code(image, shift, &offsets));
                match (from_memory, vmlinux, &self.vmlinux) {
                    (Err(_), Some(shift), Some(Ok(vmlinux))) => {
                        let svma = offsets.start.wrapping_add(*shift);
                        let code = code_at(&vmlinux.image, offsets, svma)?;
                        Ok(Code {
                            is_as_built: true,
                            ..code
                        })
                    }
                    (from_memory, ..) => from_memory,
                }
            }
        }
    }

    fn kernel_code(
        &self,
        image: &ImageKey,
        shift: u64,
        offsets: &Range<u64>,
    ) -> Result<Code, Reason> {
        // A kernel that was given from elsewhere does not run here.
        if self.kernel_given {
            return Err(Reason::ForeignKernel);
        }
        let avma = offsets.start.wrapping_add(shift);
        let len = offsets.end.saturating_sub(offsets.start).min(MAX_CODE);
        let read = rprof_image::kernel_code(avma, len as usize);
        let bytes = read.map_err(|error| match (error, image.source()) {
            (OpenError::NoSuchFile, ImageSource::KernelModule(_)) => Reason::ForeignModule,
            (error, _) => Reason::from(error),
        })?;
        Ok(Code {
            offset: offsets.start,
            svma: avma,
            bytes,
            machine: machine_here(),
            is_as_built: false,
        })
    }

    /// Returns the code of an image of which the caller has a copy: see [`code`](Self::code).
    ///
    /// # Errors
    /// [`Reason`] for which there is none.
    pub fn code_of_copy(
        &self,
        bytes: Vec<u8>,
        path: &Path,
        offsets: Range<u64>,
    ) -> Result<Code, Reason> {
        code_of(
            &ElfImage::of_copy(bytes, self.debug_files.place(path))?,
            offsets,
        )
    }

    /// Returns the rows of the line table for a range of SVMAs of an image, ascending, the first and the last cut to the range:
    /// each is of the innermost function at its addresses, whatever was inlined. Empty where debug information has none, or has
    /// more than is read; a look-up of the address may still know.
    #[must_use]
    pub fn line_ranges(&self, image: &ImageKey, svmas: Range<u64>) -> Vec<LineRange> {
        let opened = self.images.get(image, || self.open(image));
        match &*opened {
            Ok(Image::File(elf)) => self.line_ranges_of(elf, svmas),
            Ok(Image::Vdso(elf)) => self.line_ranges_of(elf, svmas),
            _ => Vec::new(),
        }
    }

    fn line_ranges_of<D: Pages>(&self, elf: &ElfImage<D>, svmas: Range<u64>) -> Vec<LineRange> {
        match elf.debug_info(&self.debug_files) {
            Some(info) => info.line_ranges(svmas, self.threads),
            None => Vec::new(),
        }
    }
}

fn code_of<D: Pages>(elf: &ElfImage<D>, offsets: Range<u64>) -> Result<Code, Reason> {
    let svma = elf.svma(offsets.start)?;
    code_at(elf, offsets, svma)
}

fn code_at<D: Pages>(elf: &ElfImage<D>, offsets: Range<u64>, svma: u64) -> Result<Code, Reason> {
    let len = offsets.end.saturating_sub(offsets.start).min(MAX_CODE);
    let (bytes, machine) = elf.code(svma, len).ok_or(Reason::OutsideImage)?;
    Ok(Code {
        offset: offsets.start,
        svma,
        bytes: bytes.to_vec(),
        machine,
        is_as_built: false,
    })
}

/// Returns the number that ELF has for the processor of this machine: `EM_X86_64` or `EM_AARCH64`.
const fn machine_here() -> u16 {
    match () {
        () if cfg!(target_arch = "x86_64") => 62,
        () if cfg!(target_arch = "aarch64") => 183,
        () => 0,
    }
}
