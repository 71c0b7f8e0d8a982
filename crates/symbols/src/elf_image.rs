//! [`ElfImage`]: an ELF image together with its debug files.

use crate::debug::{DebugFile, DebugFiles, Links, MiniSymbols, SharedFile, mini_symbols};
use crate::demangle::Language;
use crate::dwarf::{DebugInfo, DwarfFile, DwarfQuery, NoRoom, SplitFiles};
use crate::elf::{ElfError, ElfSymbol, ElfSymbols, is_by_rustc};
use crate::frames::Frames;
use crate::image_functions::ImageFunctions;
use crate::pages::Pages;
use crate::signal_trampoline;
use crate::stored_answers::AnswerStore;
use rprof_image::Reason;
use rprof_image::{BuildId, ImageFile, ImageKey, build_id_of, vdso_image};
use rustc_hash::FxHashMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// An ELF image and its debug file, opened on demand.
///
/// As in `perf` (found by experiment with 6.1), the symbols of a debug file replace the image's
/// own, including `.dynsym`. Only PLT entries still come from the image.
///
/// The image translates file offsets to SVMAs, which both share. `perf` 6.1 uses the program
/// headers of the debug file for an image without `.dynsym` (a static program), and names wrong
/// functions.
#[derive(Debug)]
pub(crate) struct ElfImage<D> {
    image: ElfSymbols<D>,
    path: Option<PathBuf>,
    /// Links to other files. Read on first use, as all fields below.
    links: OnceLock<Links>,
    debug: OnceLock<Option<DebugFile>>,
    mini: OnceLock<Option<MiniSymbols>>,
    dwarf: OnceLock<Option<DwarfFile>>,
    shared: OnceLock<Option<SharedFile>>,
    split: OnceLock<SplitFiles>,
    functions: OnceLock<Option<ImageFunctions>>,
    /// Cached results without lines, and with lines.
    answers: [AnswerStore; 2],
    is_too_long: AtomicBool,
}

impl ElfImage<ImageFile> {
    /// Opens the file, or its copy in the cache of `perf`, if the identity matches.
    pub(crate) fn open(key: &ImageKey, path: &Path, places: &DebugFiles) -> Result<Self, Reason> {
        let path = places.place(path);
        let image = open_file(key, &path, places).or_else(|reason| {
            let kept = key.build_id().and_then(|id| places.image(id, &path));
            kept.ok_or(reason)
        })?;
        Ok(Self::new(image, Some(path)))
    }
}

impl ElfImage<ImageFile> {
    /// Returns true if a file must not stay mapped, or was replaced.
    pub(crate) fn is_to_be_closed(&self, places: &DebugFiles) -> bool {
        let files = [
            Some((self.path.as_deref(), self.image.data())),
            (self.debug.get().and_then(Option::as_ref))
                .map(|debug| (Some(&*debug.path), debug.symbols.data())),
        ];
        files.into_iter().flatten().any(|(path, file)| {
            let path = path.filter(|_| file.is_mapped());
            path.is_some_and(|path| !places.may_keep(path) || !file.is_at(path))
        })
    }
}

impl ElfImage<Vec<u8>> {
    pub(crate) fn of_copy(bytes: Vec<u8>, path: PathBuf) -> Result<Self, Reason> {
        let image = ElfSymbols::parse(bytes).map_err(|error| not_an_image(&error))?;
        Ok(Self::new(image, Some(path)))
    }

    /// Opens this process's vdso. Its debug file is installed with the kernel's and found by
    /// build-id.
    pub(crate) fn open_vdso(key: &ImageKey) -> Result<Self, Reason> {
        let bytes = vdso_image().ok_or(Reason::ForeignVdso)?;
        let image = ElfSymbols::parse(bytes).map_err(|_| Reason::ForeignVdso)?;
        check(key, image.build_id(), Reason::ForeignVdso)?;
        Ok(Self::new(image, None))
    }
}

impl<D: Pages> ElfImage<D> {
    pub(crate) fn new(image: ElfSymbols<D>, path: Option<PathBuf>) -> Self {
        Self {
            image,
            path,
            links: OnceLock::new(),
            debug: OnceLock::new(),
            mini: OnceLock::new(),
            dwarf: OnceLock::new(),
            shared: OnceLock::new(),
            split: OnceLock::new(),
            functions: OnceLock::new(),
            answers: Default::default(),
            is_too_long: AtomicBool::new(false),
        }
    }

    pub(crate) fn svma(&self, offset: u64) -> Result<u64, Reason> {
        self.image
            .file_offset_to_svma(offset)
            .ok_or(Reason::OutsideImage)
    }

    pub(crate) fn code(&self, svma: u64, len: u64) -> Option<(&[u8], u16)> {
        Some((self.image.code(svma, len)?, self.image.machine()))
    }

    pub(crate) fn prepare(&self, svmas: &[u64], places: &DebugFiles) {
        self.image.prepare(svmas);
        if let Some(debug) = self.debug(places) {
            debug.symbols.prepare(svmas);
        }
    }

    pub(crate) fn symbol(&self, svma: u64, places: &DebugFiles) -> Option<ElfSymbol<'_>> {
        // The later start wins; at the same start the symbol wins over the PLT entry.
        fn later<'s>(a: Option<ElfSymbol<'s>>, b: Option<ElfSymbol<'s>>) -> Option<ElfSymbol<'s>> {
            match (a, b) {
                (Some(found), Some(entry)) if entry.start() > found.start() => Some(entry),
                (found, entry) => found.or(entry),
            }
        }
        if let Some(debug) = self.debug(places)
            && debug.symbols.has_symtab()
        {
            let plt = self.image.lookup_plt(svma, &debug.symbols);
            return later(debug.symbols.lookup_svma(svma), plt);
        }
        // With the symbols missing in `.dynsym`.
        let mini = self.mini(places).and_then(|mini| mini.lookup_svma(svma));
        later(mini, self.image.lookup_svma(svma))
    }

    /// Returns true if the symbols of the image or its debug files show a language.
    pub(crate) fn has_evidence(&self, language: Language, places: &DebugFiles) -> bool {
        self.image.has_evidence(language)
            || (self.debug(places)).is_some_and(|debug| debug.symbols.has_evidence(language))
            || (self.mini(places)).is_some_and(|mini| mini.has_evidence(language))
    }

    /// Returns what tells functions of one name apart, by their sorted SVMAs: the source files of
    /// local symbols, and the old versions of others.
    pub(crate) fn distinctions(
        &self,
        starts: &[u64],
        places: &DebugFiles,
    ) -> FxHashMap<u64, Box<str>> {
        let mut found = match self.debug(places) {
            Some(debug) if debug.symbols.has_symtab() => debug.symbols.source_files(starts),
            _ => self.image.source_files(starts),
        };
        // An exported function may have local names too.
        for (start, version) in self.image.versions_at(starts) {
            match version {
                Some(version) => found.insert(start, version),
                None => found.remove(&start),
            };
        }
        found
    }

    /// Returns the signal trampoline behind an address. Data may contain the same bytes. If a symbol names the
    /// address, padding must be there: the size of a symbol in assembly is often missing (`setjmp` of musl).
    pub(crate) fn signal_trampoline(&self, svma: u64, is_named: bool) -> Option<Frames> {
        const PADDING: [u8; 2] = [0x90, 0xcc];
        let behind = svma.checked_add(1)?;
        let is_padding = || {
            let code = self.image.code(svma, 1);
            code.is_some_and(|code| code.first().is_some_and(|byte| PADDING.contains(byte)))
        };
        if is_named && !is_padding() {
            return None;
        }
        if !self.image.is_code(behind) {
            return None;
        }
        let code = self.image.code(behind, signal_trampoline::LONGEST)?;
        signal_trampoline::find(code, behind)
    }

    pub(crate) fn reason(&self, svma: u64, places: &DebugFiles) -> Reason {
        let has_symtab = self.image.has_symtab()
            || self.mini(places).is_some()
            || (self.debug(places)).is_some_and(|debug| debug.symbols.has_symtab());
        if !self.image.contains_svma(svma) {
            Reason::OutsideImage
        } else if self.is_too_long.load(Ordering::Relaxed) {
            Reason::DebugFileTooLong
        } else if has_symtab {
            Reason::NoSymbolAtAddress
        } else {
            Reason::Stripped
        }
    }

    /// Returns the file offsets where the result may change without debug information.
    pub(crate) fn bounds(
        &self,
        places: &DebugFiles,
        locates: bool,
        most: usize,
    ) -> Option<Vec<u64>> {
        let mut svmas: Vec<u64> = self.image.bounds().collect();
        svmas.extend(self.mini(places).into_iter().flat_map(ElfSymbols::bounds));
        let debug = self.debug(places).into_iter();
        svmas.extend(debug.flat_map(|debug| debug.symbols.bounds()));
        if let Some(functions) = locates.then(|| self.functions(places)).flatten() {
            svmas.extend(functions.bounds(self.image.bytes()));
        }
        // Stable sort: the input consists of sorted runs.
        svmas.sort();
        svmas.dedup();
        self.image.offset_bounds(&svmas, most)
    }

    pub(crate) fn functions(&self, places: &DebugFiles) -> Option<&ImageFunctions> {
        let read = || ImageFunctions::read(self.image.bytes(), places.memory.of(self.image.data()));
        self.functions.get_or_init(read).as_ref()
    }

    pub(crate) fn answers(&self, query: DwarfQuery) -> &AnswerStore {
        &self.answers[usize::from(query.lines)]
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.image.bytes()
    }

    pub(crate) fn file_name(&self) -> Option<String> {
        let name = self.path.as_ref()?.file_name()?;
        Some(name.to_string_lossy().into_owned())
    }

    /// Returns true for Rust code without debug information.
    pub(crate) fn hides_inlined_calls(&self, places: &DebugFiles) -> bool {
        let is_readable = || (self.debug_info(places)).is_some_and(|debug| debug.has_entries());
        is_by_rustc(self.image.bytes())
            && !self.answers.iter().any(AnswerStore::has_answers)
            && !is_readable()
    }

    pub(crate) fn debug_info(&self, places: &DebugFiles) -> Option<DebugInfo<'_>> {
        let debug = match self.links().has_dwarf {
            true => None,
            false => self.debug(places),
        };
        let bytes = debug.map_or(self.image.bytes(), |debug| debug.symbols.bytes());
        let pages: &dyn Pages = match debug {
            Some(debug) => debug.symbols.data(),
            None => self.image.data(),
        };
        let find = || {
            let memory = match debug {
                Some(debug) => places.memory.of(debug.symbols.data()),
                None => places.memory.of(self.image.data()),
            };
            let found = DwarfFile::find(bytes, memory);
            found.unwrap_or_else(|NoRoom| {
                self.is_too_long.store(true, Ordering::Relaxed);
                None
            })
        };
        let dwarf = self.dwarf.get_or_init(find).as_ref()?;
        let (links, path) = match debug {
            Some(debug) => (&debug.links, Some(&debug.path)),
            None => (self.links(), self.path.as_ref()),
        };
        let shared = self.shared.get_or_init(|| places.shared(path?, links));
        let split = self.split.get_or_init(|| {
            let images = self.path.iter().chain(debug.map(|debug| &debug.path));
            places.split_files(images.cloned().collect(), pages.is_ours())
        });
        Some(DebugInfo {
            main: (dwarf, bytes),
            pages,
            shared: shared
                .as_ref()
                .map(|shared| (&shared.dwarf, shared.file.bytes())),
            shared_pages: shared.as_ref().map(|shared| &shared.file as &dyn Pages),
            split,
        })
    }

    fn links(&self) -> &Links {
        self.links.get_or_init(|| Links::read(self.image.bytes()))
    }

    /// Returns the debug file, if the image lacks symbols or debug information. Some symbol tables
    /// are reduced to a few symbols.
    fn debug(&self, places: &DebugFiles) -> Option<&DebugFile> {
        let find = || {
            let links = self.links();
            if self.image.has_symtab() && links.has_dwarf {
                return None;
            }
            let too_long = &self.is_too_long;
            places.debug_file(self.path.as_deref(), self.image.build_id(), links, too_long)
        };
        self.debug.get_or_init(find).as_ref()
    }

    fn mini(&self, places: &DebugFiles) -> Option<&ElfSymbols<Vec<u8>>> {
        let find = || match self.image.has_symtab() {
            true => None,
            false => mini_symbols(self.image.bytes(), places.memory.of(self.image.data())),
        };
        self.mini
            .get_or_init(find)
            .as_ref()
            .map(|mini| &mini.symbols)
    }
}

pub(crate) fn right_file(
    key: &ImageKey,
    path: &Path,
    places: &DebugFiles,
) -> Result<ImageFile, Reason> {
    let file = places.open(path)?;
    // Below another root, files are copies with different inodes.
    let is_here = places.root.is_none() && key.build_id().is_none();
    let is_other = key.inode().is_some_and(|inode| inode != file.inode());
    // Written in place, or a new file with the inode number of a removed one.
    let is_newer = (key.mapped_at()).is_some_and(|time| file.was_written_after(time));
    if is_here && (is_other || is_newer) {
        return Err(Reason::FileChanged);
    }
    if key.build_id().is_some() {
        let found = build_id_of(file.bytes());
        check(key, found.as_ref(), Reason::BuildIdMismatch)?;
    }
    Ok(file)
}

fn open_file(
    key: &ImageKey,
    path: &Path,
    places: &DebugFiles,
) -> Result<ElfSymbols<ImageFile>, Reason> {
    let file = right_file(key, path, places)?;
    ElfSymbols::parse(file).map_err(|error| not_an_image(&error))
}

fn not_an_image(error: &ElfError) -> Reason {
    match error {
        ElfError::NotElf | ElfError::NotLoadable(_) => Reason::NotAnElf,
        ElfError::Damaged(_) => Reason::DamagedElf,
    }
}

/// Wrong symbols are worse than none: a file without the expected build-id does not match.
pub(crate) fn check(
    key: &ImageKey,
    found: Option<&BuildId>,
    otherwise: Reason,
) -> Result<(), Reason> {
    match (key.build_id(), found) {
        (None, _) => Ok(()),
        (Some(expected), Some(found)) if expected.matches(found) => Ok(()),
        _ => Err(otherwise),
    }
}
