//! Unwind tables of mapped images. Each image is opened once, while it is mapped.
//!
//! Files of other users may be long, slow, or hang. So separate threads open them, and the writer
//! thread waits within the sample's [time budget](super::work). Beyond the memory limit, the least
//! recently used tables are dropped.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender};
use rprof_image::{FileReader, OpenError, PatientCalls, vdso_image, vdso_of_process};
use rprof_interpreters::{
    ImageSymbols, RuntimeImage, RuntimeKind, may_contain_runtime, runtimes_in, runtimes_of,
};
use rprof_jit::JitUnwindTables;
use rprof_processes::{ImageId, ImageKind, LiveMap, LiveMapping, Pid};
use rprof_sampler::Boosted;
use rprof_unwind::UnwindTable;

use super::tally::StackCause;
use crate::limits::{Limit, ReachedLimits};
use crate::mapped_files::{MappedImage, file_name};

/// Minimum bytes of a mapping to open its image at once. A table takes time for each function (38
/// ms for rustc's compiler), while samples wait and process memory changes.
const LARGE: u64 = 8 << 20;

const MAX_WAITING: usize = 256;

/// Minimum wait for an image, granted to every sample.
const AT_ONCE: Duration = Duration::from_millis(1);

/// Maximum number of threads that open images. A new one starts when all others hang.
const MAX_THREADS: usize = 16;

/// Maximum number of threads that open images of one user's processes.
const MAX_OF_USER: usize = 2;

/// Time limit for opening an image; then the thread counts as hanging.
const HANGS: Duration = Duration::from_millis(250);

/// Number of samples between two memory counts: tables grow while they are used.
const RECOUNT: u64 = 256;

#[derive(Debug)]
pub(crate) struct Tables {
    slots: Vec<Slot>,
    most_bytes: usize,
    pub(super) jit: JitUnwindTables,
    openers: Openers,
    sampled: RefCell<Vec<MappedImage>>,
    /// Number of the current sample, for finding the least recently used tables.
    sample: u64,
    dropped: u64,
}

#[derive(Debug, Default)]
struct Slot {
    table: Table,
    used: Cell<u64>,
    is_sampled: Cell<bool>,
}

type Table = Arc<RequestedTable>;

/// Table of an image, shared by the writer thread and the opening thread.
#[derive(Debug, Default)]
struct RequestedTable {
    made: OnceLock<Result<Box<UnwindTable>, NoTable>>,
    /// Runtime of an interpreted language in the image, found before the table is made.
    runtime: OnceLock<Arc<dyn RuntimeImage>>,
    /// True from the request on, until it is refused.
    is_requested: AtomicBool,
}

impl RequestedTable {
    fn get(&self) -> Option<&Result<Box<UnwindTable>, NoTable>> {
        self.made.get()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NoTable {
    /// The image is no ELF file, or is anonymous memory.
    Unusable,
    /// The file could not be opened.
    NotOpened,
    /// Too many open files. The image itself may be fine.
    TooManyFiles,
}

#[derive(Debug, Default)]
struct Openers {
    boosted: Boosted,
    queue: Option<Queue>,
    threads: Vec<Arc<Busy>>,
    counts: Arc<Counts>,
}

#[derive(Debug)]
struct Queue {
    requests: (Sender<Request>, Receiver<Request>),
    opened: (Sender<()>, Receiver<()>),
    begin: Instant,
}

/// Start time of a thread's current image, in ms; 0 while idle.
#[derive(Debug, Default)]
struct Busy(AtomicU64);

#[derive(Debug, Default)]
struct Counts {
    bytes: AtomicUsize,
    too_long: AtomicU64,
    sparse: AtomicU64,
    unopened: AtomicU64,
    /// Refused requests, because other images of the same user are slow.
    put_off: AtomicU64,
    opening: Mutex<Vec<Pid>>,
}

impl Counts {
    fn opening(&self) -> MutexGuard<'_, Vec<Pid>> {
        self.opening.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to open an image of a process. Returns false at the user's thread limit.
    fn begin(&self, pid: Pid) -> bool {
        let mut opening = self.opening();
        // The usual case has no other entry.
        if opening.len() >= MAX_OF_USER {
            let user = |pid: Pid| PatientCalls::user_of(pid.0.cast_unsigned());
            let own = user(pid);
            let others = opening.iter().filter(|other| user(**other) == own);
            if others.count() >= MAX_OF_USER {
                return false;
            }
        }
        opening.push(pid);
        true
    }

    fn end(&self, pid: Pid) {
        let mut opening = self.opening();
        if let Some(at) = opening.iter().position(|other| *other == pid) {
            opening.swap_remove(at);
        }
    }
}

struct Request {
    table: Table,
    image: MappedImage,
}

impl Tables {
    /// Creates the tables with a memory limit in bytes.
    ///
    /// Opening threads follow the boost of `boosted`.
    pub(crate) fn new(most_bytes: usize, boosted: Boosted) -> Tables {
        Tables {
            slots: Vec::new(),
            most_bytes,
            jit: JitUnwindTables::default(),
            openers: Openers {
                boosted,
                ..Openers::default()
            },
            sampled: RefCell::default(),
            sample: 0,
            dropped: 0,
        }
    }

    pub(crate) fn mapped(&mut self, map: &LiveMap, mapping: &LiveMapping, pid: Pid) {
        let is_large = mapping.executable && mapping.end.saturating_sub(mapping.start) >= LARGE;
        let kind = map.image(mapping.backing).map(|image| image.kind);
        if is_large || kind == Some(ImageKind::Vdso32) {
            self.extend_to(map.image_bound());
            if kind == Some(ImageKind::Vdso32) {
                self.retry(mapping.backing);
            }
            self.openers.begin();
            self.request(map, mapping, pid);
        }
    }

    /// Drops a failed attempt. The vdso of 32-bit programs is read from a process, and an earlier one
    /// may have ended.
    fn retry(&mut self, image: ImageId) {
        if let Some(slot) = self.slots.get_mut(image.0 as usize)
            && matches!(slot.table.get(), Some(Err(_)))
        {
            slot.table = Table::default();
        }
    }

    /// Prepares for a sample: drops tables beyond the memory limit.
    pub(crate) fn begin_sample(&mut self, map: &LiveMap) {
        self.sample += 1;
        self.openers.begin();
        self.extend_to(map.image_bound());
        let is_due = self.sample.is_multiple_of(RECOUNT);
        if is_due || self.openers.counts.bytes.load(Ordering::Relaxed) > self.most_bytes {
            self.make_room(self.most_bytes);
        }
    }

    pub(crate) fn forget(&mut self, images: &[ImageId]) {
        for image in images {
            if let Some(slot) = self.slots.get_mut(image.0 as usize) {
                *slot = Slot::default();
            }
        }
    }

    fn extend_to(&mut self, len: usize) {
        if self.slots.len() < len {
            self.slots.resize_with(len, Slot::default);
        }
    }

    /// Drops the least recently used tables if all exceed `most` bytes.
    fn make_room(&mut self, most: usize) {
        let memory = |slot: &Slot| (slot.table.get()?.as_ref().ok()).map(|table| table.memory());
        let mut known: Vec<(u64, usize, usize)> = (self.slots.iter().enumerate())
            .filter_map(|(number, slot)| Some((slot.used.get(), number, memory(slot)?)))
            .collect();
        let mut bytes: usize = known.iter().map(|(_, _, bytes)| bytes).sum();
        if bytes > most {
            known.sort_unstable();
            for (_, number, freed) in known {
                if bytes <= most / 4 * 3 {
                    break;
                }
                if let Some(slot) = self.slots.get_mut(number) {
                    slot.table = Table::default();
                }
                bytes -= freed;
                self.dropped += 1;
            }
        }
        self.openers.counts.bytes.store(bytes, Ordering::Relaxed);
    }

    /// Returns the table of an image mapped by `pid`, after waiting for it until `until`. Returns
    /// `None` if the image cannot be read, is no ELF file, or is anonymous memory; an error on a
    /// timeout.
    pub(crate) fn get(
        &self,
        map: &LiveMap,
        mapping: &LiveMapping,
        pid: Pid,
        until: impl FnOnce() -> Instant,
    ) -> Result<Option<&UnwindTable>, TooSlow> {
        let Some(slot) = self.slots.get(mapping.backing.0 as usize) else {
            return Ok(None);
        };
        slot.used.set(self.sample);
        if !slot.is_sampled.replace(true) {
            let image = MappedImage::mapped(map, mapping, pid);
            self.sampled.borrow_mut().extend(image);
        }
        if let Some(table) = slot.table.get() {
            return Ok(table.as_deref().ok());
        }
        self.request(map, mapping, pid);
        // Nearly all arrive at once, without a lookup of their user.
        self.openers.wait(&slot.table, Instant::now() + AT_ONCE);
        if slot.table.get().is_none() {
            self.openers.wait(&slot.table, until());
        }
        let table = slot.table.get().ok_or(TooSlow)?;
        Ok(table.as_deref().ok())
    }

    /// Returns the runtime of an interpreted language in an image that was opened, and its table.
    pub(super) fn runtime(&self, image: ImageId) -> Option<(Arc<dyn RuntimeImage>, &UnwindTable)> {
        let slot = self.slots.get(image.0 as usize)?;
        let table = slot.table.get()?.as_deref().ok()?;
        Some((Arc::clone(slot.table.runtime.get()?), table))
    }

    /// Returns true if an image was opened and contains no runtime.
    pub(super) fn has_no_runtime(&self, image: ImageId) -> bool {
        let table = self.slots.get(image.0 as usize).map(|slot| &slot.table);
        table.is_some_and(|table| table.get().is_some() && table.runtime.get().is_none())
    }

    pub(crate) fn take_sampled(&mut self) -> Vec<MappedImage> {
        std::mem::take(self.sampled.get_mut())
    }

    /// Returns the cause if an image has no table because its file was not opened.
    pub(crate) fn why_unopened(&self, image: ImageId) -> Option<StackCause> {
        let slot = self.slots.get(image.0 as usize)?;
        match slot.table.get()? {
            Err(NoTable::TooManyFiles) => Some(StackCause::NotOpened),
            Err(NoTable::NotOpened) => Some(StackCause::FileNotOpened),
            Err(NoTable::Unusable) | Ok(_) => None,
        }
    }

    fn request(&self, map: &LiveMap, mapping: &LiveMapping, pid: Pid) {
        let slot = self.slots.get(mapping.backing.0 as usize);
        let (Some(slot), Some(image)) = (slot, MappedImage::mapped(map, mapping, pid)) else {
            return;
        };
        if slot.table.is_requested.load(Ordering::Relaxed) || slot.table.get().is_some() {
            return;
        }
        let request = Request {
            table: Arc::clone(&slot.table),
            image,
        };
        slot.used.set(self.sample);
        slot.table.is_requested.store(true, Ordering::Relaxed);
        if !self.openers.request(request) {
            slot.table.is_requested.store(false, Ordering::Relaxed);
        }
    }

    pub(crate) fn limits(&self) -> ReachedLimits {
        let counts = &self.openers.counts;
        let mut limits = ReachedLimits::default();
        limits.add(Limit::UnwindTables, self.dropped);
        let too_long = counts.too_long.load(Ordering::Relaxed);
        limits.add(Limit::LongUnwindInfo, too_long);
        let put_off = counts.put_off.load(Ordering::Relaxed);
        limits.add(Limit::SilentImages, put_off);
        limits.add(Limit::SparseImage, counts.sparse.load(Ordering::Relaxed));
        limits.add(Limit::OpenFiles, counts.unopened.load(Ordering::Relaxed));
        limits
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooSlow;

impl Openers {
    fn begin(&mut self) {
        let queue = self.queue.get_or_insert_with(|| Queue {
            requests: crossbeam_channel::bounded(MAX_WAITING),
            opened: crossbeam_channel::bounded(1),
            begin: Instant::now(),
        });
        // The usual case has an empty queue, and skips the clock.
        if !self.threads.is_empty() && queue.requests.1.is_empty() {
            return;
        }
        let now = queue.now();
        let hangs = |busy: &Arc<Busy>| {
            let since = busy.0.load(Ordering::Relaxed);
            since != 0 && u128::from(now.saturating_sub(since)) > HANGS.as_millis()
        };
        if self.threads.len() >= MAX_THREADS || !self.threads.iter().all(hangs) {
            return;
        }
        let busy = Arc::<Busy>::default();
        let (requests, opened) = (queue.requests.1.clone(), queue.opened.0.clone());
        let (counts, is_busy) = (Arc::clone(&self.counts), Arc::clone(&busy));
        let (begin, boosted) = (queue.begin, self.boosted.clone());
        let work = move || {
            for request in requests {
                is_busy.0.store(since(begin), Ordering::Relaxed);
                boosted.follow();
                request.open(&counts);
                is_busy.0.store(0, Ordering::Relaxed);
                // A pending message serves as well.
                let _ = opened.try_send(());
            }
        };
        let thread = std::thread::Builder::new().name("rprof-images".into());
        if thread.spawn(work).is_ok() {
            self.threads.push(busy);
        }
    }

    fn request(&self, request: Request) -> bool {
        let queue = self.queue.as_ref();
        queue.is_some_and(|queue| queue.requests.0.try_send(request).is_ok())
    }

    fn wait(&self, table: &Table, until: Instant) {
        let Some(queue) = &self.queue else {
            return;
        };
        while table.get().is_none() && queue.opened.1.recv_deadline(until).is_ok() {}
    }
}

impl Queue {
    fn now(&self) -> u64 {
        since(self.begin)
    }
}

fn since(begin: Instant) -> u64 {
    begin.elapsed().as_millis() as u64 + 1
}

impl Request {
    fn open(self, counts: &Counts) {
        // The request is obsolete: the table was dropped meanwhile.
        if Arc::strong_count(&self.table) == 1 {
            return;
        }
        if !counts.begin(self.image.pid) {
            counts.put_off.fetch_add(1, Ordering::Relaxed);
            self.table.is_requested.store(false, Ordering::Relaxed);
            return;
        }
        self.table.made.get_or_init(|| {
            let table = open(&self.image, counts, &self.table.runtime)?;
            (counts.bytes).fetch_add(table.memory(), Ordering::Relaxed);
            let is_too_long = u64::from(table.has_too_long_section());
            counts.too_long.fetch_add(is_too_long, Ordering::Relaxed);
            Ok(Box::new(table))
        });
        counts.end(self.image.pid);
    }
}

fn open(
    mapped: &MappedImage,
    counts: &Counts,
    runtime: &OnceLock<Arc<dyn RuntimeImage>>,
) -> Result<UnwindTable, NoTable> {
    let unusable = NoTable::Unusable;
    match mapped.image.kind {
        ImageKind::Vdso => {
            let image = vdso_image().ok_or(unusable)?;
            UnwindTable::parse(&image).map_err(|_| unusable)
        }
        ImageKind::Vdso32 => {
            let pid = mapped.pid.0.cast_unsigned();
            let image = vdso_of_process(pid, mapped.range.clone()).ok_or(unusable)?;
            UnwindTable::parse(&image).map_err(|_| unusable)
        }
        ImageKind::File | ImageKind::Deleted | ImageKind::Memfd => {
            let file = match mapped.file().open() {
                Ok(file) => file,
                Err(OpenError::TooManyFiles) => {
                    counts.unopened.fetch_add(1, Ordering::Relaxed);
                    return Err(NoTable::TooManyFiles);
                }
                Err(_) => return Err(NoTable::NotOpened),
            };
            if file.is_mostly_holes() {
                counts.sparse.fetch_add(1, Ordering::Relaxed);
                return Err(unusable);
            }
            let name = file_name(&mapped.image.path);
            // A reader of its own: each has a limit of bytes.
            let symbols = |runtime: &dyn RuntimeKind| {
                let wants = |name: &[u8]| runtime.wants_symbol(name);
                let has_all = |symbols: &ImageSymbols| runtime.has_all(symbols);
                let mut symbols = ImageSymbols::read(&FileReader::new(&file), wants, has_all);
                if let Some(function) = runtime.split_function() {
                    symbols.find_parts(&FileReader::new(&file), function);
                }
                symbols
            };
            let mut found =
                runtimes_of(name).find_map(|runtime| runtime.image(name, &symbols(runtime)));
            let len = mapped.range.end.saturating_sub(mapped.range.start);
            // Names such as `python3.13t` are of builds that are not supported.
            if runtimes_of(name).next().is_none() && may_contain_runtime(name, len) {
                let is_exported =
                    |name: &str| ImageSymbols::is_exported(&FileReader::new(&file), name);
                found = runtimes_in(is_exported).find_map(|runtime| {
                    let mut symbols = symbols(runtime);
                    if let Some(version) = runtime.version_symbol() {
                        symbols.find_version(&FileReader::new(&file), version);
                    }
                    runtime.image(name, &symbols)
                });
            }
            if let Some(found) = found {
                runtime.get_or_init(|| found);
            }
            UnwindTable::read(&FileReader::new(&file)).map_err(|_| unusable)
        }
        _ => Err(unusable),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::UNWIND_MEMORY;
    use rprof_records::{Mapped, Misc, ProcessEvent};
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::FileExt;
    use std::path::Path;

    fn map(files: &[&Path]) -> LiveMap {
        let mut map = LiveMap::new();
        for (n, path) in (1_u64..).zip(files) {
            map.handle(&ProcessEvent::Mapped(Mapped {
                pid: std::process::id() as i32,
                tid: 1,
                start: n << 20,
                len: 1 << 20,
                file_offset: 0,
                path: path.as_os_str().as_bytes().into(),
                identity: None,
                executable: true,
                kernel: false,
                prot_and_flags: None,
                misc: Misc::USER,
            }));
        }
        map
    }

    fn has(tables: &mut Tables, map: &LiveMap, number: u64) -> bool {
        let pid = Pid(std::process::id() as i32);
        tables.begin_sample(map);
        let mapping = map.find(pid, number << 20).unwrap();
        let until = || Instant::now() + Duration::from_secs(30);
        let found = tables.get(map, mapping, pid, until);
        found.unwrap().is_some()
    }

    #[test]
    fn images_of_holes_are_not_read() {
        let exe = std::env::current_exe().unwrap();
        let sparse = tempfile::NamedTempFile::new().unwrap();
        sparse.as_file().write_all_at(b"\x7fELF", 0).unwrap();
        sparse.as_file().set_len(1 << 30).unwrap();
        let map = map(&[&exe, sparse.path(), Path::new("/nowhere")]);
        let mut tables = Tables::new(UNWIND_MEMORY, Boosted::default());
        assert!(has(&mut tables, &map, 1));
        assert!(!has(&mut tables, &map, 2) && !has(&mut tables, &map, 3));
        let limits: Vec<_> = tables.limits().iter().collect();
        assert_eq!(limits, [(Limit::SparseImage, 1)]);
    }

    #[test]
    fn tables_that_were_not_used_for_longest_are_dropped() {
        let exe = std::env::current_exe().unwrap();
        let libc = std::fs::read_to_string("/proc/self/maps").unwrap();
        let libc = libc
            .split_whitespace()
            .find(|word| word.contains("libc.so"));
        let map = map(&[&exe, Path::new(libc.unwrap())]);
        let mut tables = Tables::new(UNWIND_MEMORY, Boosted::default());
        assert!(has(&mut tables, &map, 1) && has(&mut tables, &map, 2));
        let memory = |tables: &Tables, n: usize| {
            let table = tables.slots.get(n)?.table.get()?.as_ref().ok()?;
            Some(table.memory())
        };
        let place = |n: u64| {
            let found = map.find(Pid(std::process::id() as i32), n << 20);
            found.unwrap().backing.0 as usize
        };
        let (of_exe, of_libc) = (memory(&tables, place(1)), memory(&tables, place(2)));
        assert!(
            of_exe > of_libc.map(|bytes| bytes * 2),
            "{of_exe:?} {of_libc:?}"
        );
        tables.make_room(of_exe.unwrap());
        assert_eq!(memory(&tables, place(1)), None);
        assert_eq!(memory(&tables, place(2)), of_libc);
        assert!(tables.limits().iter().eq([(Limit::UnwindTables, 1)]));
        assert!(has(&mut tables, &map, 1));
        // Unmapped images have no table.
        tables.forget(&[ImageId(place(1) as u32)]);
        assert_eq!(memory(&tables, place(1)), None);
    }

    #[test]
    fn nobody_waits_longer_than_may_be() {
        let exe = std::env::current_exe().unwrap();
        let map = map(&[&exe]);
        let pid = Pid(std::process::id() as i32);
        let mut tables = Tables::new(UNWIND_MEMORY, Boosted::default());
        tables.extend_to(map.image_bound());
        let mapping = map.find(pid, 1 << 20).unwrap();
        let found = tables.get(&map, mapping, pid, Instant::now);
        assert_eq!(found.err(), Some(TooSlow));
        assert!(has(&mut tables, &map, 1));
    }
}
