//! [`PageReader`]: reads the resident pages of a process.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::Path;

use rprof_memory::{Look, Region};
use rustc_hash::FxHashMap;

use super::pagemap::{Pagemap, PresentPages};
use super::smaps::{self, SizedMapping};

/// Maximum bytes of a process's smaps.
const MAX_TEXT: u64 = 256 << 20;

/// Pages of a mapping beyond which its pages are not read, because most are absent: 256 GiB. The
/// shadow memory of sanitizers has terabytes.
const MAX_PAGES: u64 = 64 << 20;

/// Bytes of a huge page, and of the largest folio of a file. One fault on a file makes 64 KiB of it
/// resident (`fault_around_bytes`), or a whole folio.
const HUGE: u64 = 2 << 20;

/// A look, with the kernel's own figure.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) look: Look,
    /// Sum of `Rss` in bytes.
    pub(super) resident: u64,
    /// Time of the recording's clock when the look ended.
    pub(super) until: u64,
}

#[derive(Debug)]
pub(super) struct PageReader {
    page_bytes: u64,
    text: Vec<u8>,
    buffer: Vec<u8>,
}

impl PageReader {
    pub(super) fn new(page_bytes: u64) -> PageReader {
        PageReader {
            page_bytes,
            text: Vec::new(),
            buffer: Vec::new(),
        }
    }

    /// Reads the resident pages of a process.
    ///
    /// # Errors
    /// The process has ended, or belongs to another user (ptrace(2), "Ptrace access mode
    /// checking").
    pub(super) fn read(&mut self, pid: i32) -> io::Result<Reading> {
        let folder = Path::new("/proc").join(pid.to_string());
        // Both files stay with the memory that the process has now, also after an exec.
        let smaps = File::open(folder.join("smaps"))?;
        let pagemap = File::open(folder.join("pagemap"))?;
        let mappings = self.sizes(&smaps)?;
        let mut pagemap = Pagemap::new(pagemap, std::mem::take(&mut self.buffer));
        let present: io::Result<Vec<_>> = (mappings.iter())
            .map(|mapping| self.present(mapping, &mut pagemap))
            .collect();
        self.buffer = pagemap.into_buffer();
        let present = present?;
        // Pages became resident since smaps was read, or some are pages of zeros: smaps after pagemap
        // tells which.
        let mut later = FxHashMap::default();
        if (mappings.iter().zip(&present)).any(|(mapping, present)| match present {
            Some(present) => present.has_zeros(mapping.resident / self.page_bytes),
            None => false,
        }) {
            let sizes = self.sizes(&smaps)?.into_iter();
            later.extend(sizes.map(|mapping| (mapping.addresses, mapping.resident)));
        }
        let regions = (mappings.iter().zip(present))
            .map(|(mapping, present)| {
                let later = later.get(&mapping.addresses).copied();
                self.region(mapping, present, later.unwrap_or(0))
            })
            .collect();
        let resident = (mappings.iter()).fold(0u64, |sum, one| sum.saturating_add(one.resident));
        if resident == 0 {
            // A kernel thread or a zombie.
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(Reading {
            look: Look {
                pid,
                regions,
                ..Look::default()
            },
            resident,
            until: 0,
        })
    }

    fn sizes(&mut self, mut smaps: &File) -> io::Result<Vec<SizedMapping>> {
        self.text.clear();
        smaps.rewind()?;
        smaps.take(MAX_TEXT).read_to_end(&mut self.text)?;
        Ok(smaps::parse(&self.text))
    }

    /// Returns the present pages of a mapping, or `None` if it is too large to read.
    fn present(
        &self,
        mapping: &SizedMapping,
        pagemap: &mut Pagemap,
    ) -> io::Result<Option<PresentPages>> {
        let page = self.page_bytes;
        let pages = mapping.addresses.start / page..mapping.addresses.end / page;
        match mapping.resident {
            0 => Ok(Some(PresentPages::default())),
            _ if pages.end.saturating_sub(pages.start) > MAX_PAGES => Ok(None),
            _ => pagemap.present(pages).map(Some),
        }
    }

    /// Returns a region. `later` is the number of resident bytes after its pages were read.
    fn region(&self, mapping: &SizedMapping, present: Option<PresentPages>, later: u64) -> Region {
        let page = self.page_bytes;
        let is_file = mapping.name.starts_with(b"/");
        let window = match mapping.huge > 0 || is_file {
            true => HUGE / page,
            false => 1,
        };
        let resident = mapping.resident.max(later) / page;
        Region {
            present: present.map(|present| present.resident(resident)),
            is_read_only_file: is_file && !mapping.is_writable,
            ..Region::new(mapping.addresses.clone(), &mapping.name).with_window(window.max(1))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_pages_are_as_many_as_the_kernel_says() {
        // Other tests use memory of this process meanwhile, but less.
        let memory = vec![1u8; 64 << 20];
        let pid = std::process::id().cast_signed();
        let reading = PageReader::new(rustix::param::page_size() as u64).read(pid);
        let reading = reading.expect("a process may read its own pages");
        let present = (reading.look.regions.iter()).flat_map(|region| region.present.iter());
        let pages: u64 = present.flatten().map(|range| range.end - range.start).sum();
        let bytes = pages * rustix::param::page_size() as u64;
        assert!(
            bytes.abs_diff(reading.resident) * 20 <= reading.resident,
            "{bytes} instead of {}",
            reading.resident
        );
        assert!(bytes as usize > memory.len());
        assert!(PageReader::new(4096).read(-1).is_err());
    }
}
