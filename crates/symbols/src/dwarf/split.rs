//! Split DWARF: units whose bulk is in `.dwo` files, or in one `.dwp` for all (DWARF 5,
//! sections 3.1.2, 7.3.2 and 7.3.5; before that "GNU Fission").
//!
//! A file that is found counts only if it has the identifier that the image's unit states.

use super::head::Head;
use super::sections::{Naming, Sections, Slice};
use gimli::{Dwarf, DwarfPackage, EndianSlice, Unit};
use rprof_image::ImageFile;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Places of the split files of an image.
#[derive(Debug, Default)]
pub(crate) struct SplitFiles {
    /// Paths of the image and its debug file: a package has one of these names, with `.dwp`
    /// appended.
    images: Vec<PathBuf>,
    /// Folder that is prepended to absolute paths stated by units.
    root: Option<PathBuf>,
    package: OnceLock<Option<SplitFile>>,
}

/// A `.dwo` or `.dwp` file.
#[derive(Debug)]
pub(super) struct SplitFile {
    file: ImageFile,
    sections: Sections,
}

/// File with the rest of a unit.
pub(super) enum Rest<'p> {
    /// A `.dwo` file of its own.
    Own(SplitFile),
    /// The `.dwp` package.
    Package(&'p SplitFile),
}

impl SplitFiles {
    /// Describes the split files of an image, by its path and that of its debug file. `root` is
    /// prepended to absolute paths of `.dwo` files.
    pub(crate) fn new(images: Vec<PathBuf>, root: Option<PathBuf>) -> Self {
        Self {
            images,
            root,
            package: OnceLock::new(),
        }
    }

    /// Finds the file with the rest of a unit, which names it `name`. Returns `None` if the unit is
    /// complete, or there is no such file.
    pub(super) fn find(&self, unit: &Unit<Slice<'_>>, name: Option<Slice<'_>>) -> Option<Rest<'_>> {
        unit.dwo_id?;
        let name = name?;
        let package = self.package.get_or_init(|| {
            self.images.iter().find_map(|image| {
                let mut path = OsString::from(image);
                path.push(".dwp");
                SplitFile::open(Path::new(&path))
            })
        });
        if let Some(package) = package {
            return Some(Rest::Package(package));
        }
        let path = Path::new(OsStr::from_bytes(name.slice()));
        let folder = unit
            .comp_dir
            .map(|folder| folder.slice())
            .unwrap_or_default();
        let path = Path::new(OsStr::from_bytes(folder)).join(path);
        // Never from the current folder, which has nothing to do with the image.
        if !path.is_absolute() {
            return None;
        }
        let path = match &self.root {
            Some(root) => root.join(path.strip_prefix("/").ok()?),
            None => path,
        };
        SplitFile::open(&path).map(Rest::Own)
    }
}

impl SplitFile {
    fn open(path: &Path) -> Option<Self> {
        let file = ImageFile::open(path).ok()?;
        let sections = Sections::find(file.bytes(), Naming::Split)?;
        Some(Self { file, sections })
    }
}

impl Rest<'_> {
    /// Reads the unit that continues `skeleton`, of the file `main`. Returns it with the sections
    /// to read it with.
    pub(super) fn head<'x>(
        &'x self,
        main: &Dwarf<Slice<'x>>,
        skeleton: &Unit<Slice<'x>>,
    ) -> Option<(Dwarf<Slice<'x>>, Head<'x>)> {
        let id = skeleton.dwo_id?;
        let dwarf = match self {
            Self::Own(file) => {
                let mut dwarf = file.sections.dwarf(file.file.bytes());
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
            let Ok(abbreviations) = dwarf.abbreviations(&header) else {
                continue;
            };
            let Ok(mut head) = Head::read(&dwarf, header, abbreviations) else {
                continue;
            };
            if head.unit.dwo_id != Some(id) {
                continue;
            }
            head.unit.copy_relocated_attributes(skeleton);
            // Where the file states no folder, its paths are relative to that of the skeleton.
            if head.unit.comp_dir.is_none() {
                head.unit.comp_dir = skeleton.comp_dir;
            }
            return Some((dwarf, head));
        }
        None
    }
}
