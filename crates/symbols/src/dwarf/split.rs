//! Split DWARF: units with most entries in `.dwo` files, or in one `.dwp` package (DWARF 5,
//! sections 3.1.2, 7.3.2 and 7.3.5; earlier "GNU Fission"). Split files must have the identifier in
//! the skeleton unit.

use super::abbreviations;
use super::head::Head;
use super::query::DwarfQuery;
use super::sections::{Naming, Sections, Slice};
use super::work_budget::WorkBudget;
use crate::debug::without_dots;
use crate::memory::MemoryLimits;
use gimli::{Dwarf, DwarfPackage, EndianSlice, Unit};
use rprof_image::ImageFile;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

#[derive(Debug, Default)]
pub(crate) struct SplitFiles {
    /// Paths of the image and its debug file. Packages append `.dwp` to one of them.
    images: Vec<PathBuf>,
    root: Option<PathBuf>,
    /// Units of a trusted image may name any path.
    is_ours: bool,
    dirs: Vec<PathBuf>,
    memory: MemoryLimits,
    package: OnceLock<Option<SplitFile>>,
    was_wanted: AtomicBool,
}

#[derive(Debug)]
pub(super) struct SplitFile {
    file: ImageFile,
    sections: Sections,
}

/// File with the split part of a unit.
pub(super) enum Rest<'p> {
    Own(SplitFile),
    Package(&'p SplitFile),
}

impl SplitFiles {
    pub(crate) fn new(
        images: Vec<PathBuf>,
        is_ours: bool,
        root: Option<PathBuf>,
        dirs: Vec<PathBuf>,
        memory: MemoryLimits,
    ) -> Self {
        Self {
            images,
            is_ours,
            root,
            dirs,
            memory,
            package: OnceLock::new(),
            was_wanted: AtomicBool::new(false),
        }
    }

    pub(crate) fn was_wanted(&self) -> bool {
        self.was_wanted.load(Ordering::Relaxed)
    }

    /// Finds the split file of a unit. `None` if the unit is complete, or the file is missing.
    pub(super) fn find(&self, unit: &Unit<Slice<'_>>, name: Option<Slice<'_>>) -> Option<Rest<'_>> {
        unit.dwo_id?;
        self.was_wanted.store(true, Ordering::Relaxed);
        let name = name?;
        let package = self.package.get_or_init(|| {
            self.images.iter().find_map(|image| {
                let mut path = OsString::from(image);
                path.push(".dwp");
                SplitFile::open(Path::new(&path), &self.memory)
            })
        });
        if let Some(package) = package {
            return Some(Rest::Package(package));
        }
        let path = Path::new(OsStr::from_bytes(name.slice()));
        let folder = (unit.comp_dir).map_or(&[][..], |folder| folder.slice());
        let stated = Path::new(OsStr::from_bytes(folder)).join(path);
        let path = self.place(&stated)?;
        SplitFile::open(&path, &self.memory).map(Rest::Own)
    }
}

impl SplitFiles {
    /// Returns the path for a split file. An untrusted image can only name files in its folder and
    /// the debug folders.
    fn place(&self, stated: &Path) -> Option<PathBuf> {
        // Never relative to the current folder, which is unrelated to the image.
        let path = without_dots(stated)?;
        let path = match &self.root {
            Some(root) => root.join(path.strip_prefix("/").ok()?),
            None => path,
        };
        let folders = self.images.iter().filter_map(|image| image.parent());
        let mut folders = folders.chain(self.dirs.iter().map(PathBuf::as_path));
        let is_near = folders.any(|folder| path.starts_with(folder));
        (self.is_ours || is_near).then_some(path)
    }
}

impl SplitFile {
    fn open(path: &Path, memory: &MemoryLimits) -> Option<Self> {
        let file = ImageFile::open(path).ok()?;
        let sections = Sections::find(file.bytes(), Naming::Split, memory.of(&file)).ok()??;
        Some(Self { file, sections })
    }
}

impl Rest<'_> {
    pub(super) fn head<'x>(
        &'x self,
        main: &Dwarf<Slice<'x>>,
        skeleton: &Unit<Slice<'x>>,
        work: &WorkBudget,
        query: DwarfQuery,
    ) -> Option<(Dwarf<Slice<'x>>, Head<'x>)> {
        let id = skeleton.dwo_id?;
        let dwarf = match self {
            Self::Own(file) => {
                let mut dwarf = file.sections.dwarf(file.file.bytes(), query.lines);
                dwarf.make_dwo(main);
                dwarf
            }
            Self::Package(file) => {
                let load = |id| Ok::<_, gimli::Error>(file.sections.get(file.file.bytes(), id));
                let empty = EndianSlice::new(&[], file.sections.endian());
                let package = DwarfPackage::load(load, empty).ok()?;
                package.find_cu(id, main).ok()??
            }
        };
        let mut headers = dwarf.units();
        while let Ok(Some(header)) = headers.next() {
            work.spend(1 << 10)?;
            let offset = header.debug_abbrev_offset();
            let Some((abbreviations, _)) = abbreviations::table(&dwarf.debug_abbrev, offset, work)
            else {
                continue;
            };
            let Ok(mut head) = Head::read(&dwarf, header, Arc::new(abbreviations)) else {
                continue;
            };
            if head.unit.dwo_id != Some(id) {
                continue;
            }
            head.unit.copy_relocated_attributes(skeleton);
            // Without a folder of its own, its paths are relative to the skeleton's.
            if head.unit.comp_dir.is_none() {
                head.unit.comp_dir = skeleton.comp_dir;
            }
            return Some((dwarf, head));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(is_ours: bool, root: Option<&str>, stated: &str) -> Option<PathBuf> {
        let root = root.map(PathBuf::from);
        let below = |path: &str| match &root {
            Some(root) => root.join(path.trim_start_matches('/')),
            None => PathBuf::from(path),
        };
        let debug = "/usr/lib/debug";
        let dirs = vec![below(debug), debug.into()];
        let images = vec![below("/opt/x/bin/app")];
        let memory = MemoryLimits::default();
        SplitFiles::new(images, is_ours, root, dirs, memory).place(Path::new(stated))
    }

    #[test]
    fn a_strangers_image_names_files_beside_it_and_debug_files_only() {
        for (stated, found) in [
            ("/opt/x/bin/a.dwo", Some("/opt/x/bin/a.dwo")),
            ("/opt/x/bin/../bin/o/a.dwo", Some("/opt/x/bin/o/a.dwo")),
            ("/usr/lib/debug/a.dwo", Some("/usr/lib/debug/a.dwo")),
            ("/usr/lib/debug/../../../etc/a.dwo", None),
            ("/opt/x/bin/../../../net/host/a.dwo", None),
            ("/proc/1/root/../../etc/d.dwo", None),
            ("a.dwo", None),
        ] {
            assert_eq!(
                place(false, None, stated),
                found.map(PathBuf::from),
                "{stated}"
            );
        }
        let own = place(true, None, "/home/me/build/./o/../a.dwo");
        assert_eq!(own, Some("/home/me/build/a.dwo".into()));
        assert_eq!(place(true, None, "a.dwo"), None);
    }

    #[test]
    fn nothing_leads_out_of_another_root() {
        for is_ours in [false, true] {
            for (stated, found) in [
                ("/opt/x/bin/a.dwo", "/root/opt/x/bin/a.dwo"),
                ("/../../opt/x/bin/a.dwo", "/root/opt/x/bin/a.dwo"),
            ] {
                assert_eq!(place(is_ours, Some("/root"), stated), Some(found.into()));
            }
        }
        let outside = place(true, Some("/root"), "/a/../../../etc/a.dwo");
        assert_eq!(outside, Some("/root/etc/a.dwo".into()));
    }
}
