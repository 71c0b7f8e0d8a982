//! Machine code of functions, and its source lines.

use super::{Image, Symbolizer};
use crate::dwarf::LineRange;
use crate::elf_image::ElfImage;
use crate::pages::Pages;
use rprof_image::{ImageKey, ImageSource, OpenError, Reason};
use std::ops::Range;
use std::path::Path;

/// Maximum number of code bytes per call. Only generated functions are longer.
const MAX_CODE: u64 = 4 << 20;

/// Contiguous machine code of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Code {
    /// Offset of the first byte, as in lookups of the image: see [`ImageSource`].
    pub offset: u64,
    /// SVMA of the first byte; the current AVMA for the running kernel.
    pub svma: u64,
    /// The bytes, fewer than requested at the end of the image.
    pub bytes: Vec<u8>,
    /// Processor (`e_machine` of ELF).
    pub machine: u16,
    /// True for kernel code from its file. The running kernel patches some of its code.
    pub is_as_built: bool,
}

impl Symbolizer {
    /// Returns the code of an image at a range of offsets, at most 4 MiB.
    ///
    /// Kernel code comes from memory (`/proc/kcore`) if possible, otherwise from the given
    /// `vmlinux`.
    ///
    /// # Errors
    /// [`Reason`] why there is none.
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
        // The recorded kernel need not be the running one.
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

    /// Returns the code of an image from a copy in memory: see [`code`](Self::code).
    ///
    /// # Errors
    /// [`Reason`] why there is none.
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

    /// Returns the rows of the line table for a range of SVMAs, ascending and cut to the range. A
    /// row belongs to the innermost inlined function. Empty above a limit; a lookup of a single
    /// address may still succeed.
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

const fn machine_here() -> u16 {
    match () {
        () if cfg!(target_arch = "x86_64") => 62,
        () if cfg!(target_arch = "aarch64") => 183,
        () => 0,
    }
}
