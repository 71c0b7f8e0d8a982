//! Builder of a timeline.

use rprof_records::{BuildId, Mapped, MmapIdentity, ProcessEvent};

use crate::huge_pages::Before;
use crate::ids::{CommId, ImageId, Pid, SpaceId, Tid, Time};
use crate::image::{Image, ImageIdentity, ImageKind, ImageTable, Side, image_name};
use crate::mapping::Mapping;
use crate::names::NameTable;
use crate::process::ProcessTable;
use crate::space::Space;
use crate::timeline::Timeline;
use crate::tree::{Arena, Root};

/// A mapping of an MMAP or MMAP2 record, or a line of `/proc/PID/maps`.
#[derive(Clone, Copy, Debug)]
pub struct NewMapping<'a> {
    /// First address.
    pub start: u64,
    /// Length in bytes. Length 0 is ignored, and one beyond the address space is cut, so no mapping
    /// contains `u64::MAX`.
    pub len: u64,
    /// File offset of the first address, in bytes (`pgoff`).
    pub file_offset: u64,
    /// File name without terminating NUL, or a special name.
    pub path: &'a [u8],
    /// Identity of the file.
    pub identity: ImageIdentity,
    /// True if `prot` has `PROT_EXEC` (MMAP2), or without `PERF_RECORD_MISC_MMAP_DATA` (MMAP).
    pub executable: bool,
}

impl<'a> From<&'a Mapped<'_>> for NewMapping<'a> {
    fn from(mapped: &'a Mapped<'_>) -> Self {
        let identity = mapped.identity.map_or(ImageIdentity::PathOnly, Into::into);
        NewMapping {
            start: mapped.start,
            len: mapped.len,
            file_offset: mapped.file_offset,
            path: &mapped.path,
            identity,
            executable: mapped.executable,
        }
    }
}

/// Builds a [`Timeline`] from the sideband of a recording.
///
/// Feed it in time order; [the crate page](crate) explains late records. Recorders only need a
/// [`LiveMap`](crate::LiveMap).
///
/// # Examples
/// ```
/// use rprof_processes::{Pid, ProcessMapBuilder};
/// use rprof_records::{Mapped, Misc, ProcessEvent};
///
/// let mut builder = ProcessMapBuilder::new();
/// let mapped = Mapped {
///     pid: 7,
///     tid: 7,
///     start: 0x40_0000,
///     len: 0x1000,
///     file_offset: 0x2000,
///     path: b"/usr/bin/cat".into(),
///     identity: None,
///     executable: true,
///     kernel: false,
///     prot_and_flags: None,
///     misc: Misc::USER,
/// };
/// builder.handle(10, &ProcessEvent::Mapped(mapped));
/// let timeline = builder.finish();
///
/// let found = timeline.resolve(Pid(7), 15, 0x40_0123).unwrap();
/// assert_eq!(found.offset_in_file, 0x2123);
/// assert_eq!(*timeline.image(found.image).unwrap().path, *b"/usr/bin/cat");
/// assert_eq!(timeline.resolve(Pid(7), 9, 0x40_0123), None, "not mapped yet");
/// ```
#[derive(Debug)]
pub struct ProcessMapBuilder {
    arena: Arena,
    spaces: Vec<Space>,
    images: ImageTable,
    names: NameTable,
    table: ProcessTable,
    keep_huge_pages: bool,
    dropped: u64,
}

/// Maximum table size. Ids have 32 bits, and a record adds far fewer than 4096 nodes.
const LIMIT: usize = u32::MAX as usize - 4096;

impl Default for ProcessMapBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl ProcessMapBuilder {
    /// Creates a map with an empty kernel and no processes.
    pub fn new() -> Self {
        let arena = Arena::default();
        let kernel = Space::new(0, &arena);
        Self {
            arena,
            spaces: vec![kernel],
            images: ImageTable::default(),
            names: NameTable::default(),
            table: ProcessTable::default(),
            keep_huge_pages: false,
            dropped: 0,
        }
    }

    /// Sets whether executable huge pages inside a file's text stay anonymous.
    ///
    /// By default (`false`) they count as the file's text: programs move text to huge pages for
    /// speed. Applies to executable anonymous mappings, aligned to 2 MiB, inside or exactly between
    /// mappings of one file.
    pub fn keep_huge_pages(&mut self, keep: bool) {
        self.keep_huge_pages = keep;
    }

    /// Sets build-ids by device and inode, for later mappings.
    pub fn set_build_ids(&mut self, of: impl IntoIterator<Item = (MmapIdentity, BuildId)>) {
        for (identity, build_id) in of {
            self.images.identify(identity.into(), build_id);
        }
    }

    /// Processes a record with its time in nanoseconds.
    ///
    /// Callers without records use the other `handle_*` methods.
    pub fn handle(&mut self, time: Time, event: &ProcessEvent<'_>) {
        match event {
            ProcessEvent::Mapped(mapped) => match mapped.kernel {
                true => self.handle_kernel_mmap(time, &NewMapping::from(mapped)),
                false => self.handle_mmap(time, Pid(mapped.pid), &NewMapping::from(mapped)),
            },
            ProcessEvent::Renamed { pid, tid, name } => {
                self.handle_rename(time, Pid(*pid), Tid(*tid), name);
            }
            ProcessEvent::Executed { pid, tid, name } => {
                self.handle_exec(time, Pid(*pid), Tid(*tid), name);
            }
            ProcessEvent::Forked {
                pid,
                tid,
                parent_pid,
                parent_tid,
            } => {
                let (parent, creator) = (Pid(*parent_pid), Tid(*parent_tid));
                self.handle_fork(time, Pid(*pid), Tid(*tid), parent, creator);
            }
            ProcessEvent::Found {
                pid,
                tid,
                parent_pid,
            } => self.handle_found(Pid(*pid), Tid(*tid), Pid(*parent_pid)),
            ProcessEvent::Ended { pid, tid } => self.handle_exit(time, Pid(*pid), Tid(*tid)),
            ProcessEvent::KernelSymbol {
                start,
                len,
                name,
                registered: true,
            } => self.handle_kernel_symbol(time, *start, *len, name),
            _ => {}
        }
    }

    /// Adds a process's mapping (MMAP, MMAP2), which replaces overlapped parts of others. An
    /// unknown process exists from time 0.
    pub fn handle_mmap(&mut self, time: Time, pid: Pid, new: &NewMapping<'_>) {
        if self.refuses() {
            return;
        }
        let process = self.process(pid);
        let space = self.table.processes[process as usize].latest_space();
        self.map(Side::User, space, time, new);
    }

    /// Adds a mapping of the kernel or a module (MMAP with a kernel `misc` mode; perf writes pid
    /// -1), for all processes.
    pub fn handle_kernel_mmap(&mut self, time: Time, new: &NewMapping<'_>) {
        if !self.refuses() {
            self.map(Side::Kernel, SpaceId::KERNEL, time, new);
        }
    }

    /// Adds code generated by the kernel, such as a BPF program (KSYMBOL). A later symbol at the
    /// same address replaces it.
    pub fn handle_kernel_symbol(&mut self, time: Time, start: u64, len: u64, name: &[u8]) {
        if self.refuses() {
            return;
        }
        let new = NewMapping {
            start,
            len,
            file_offset: start,
            path: name,
            identity: ImageIdentity::PathOnly,
            executable: true,
        };
        self.map(Side::KernelSymbol, SpaceId::KERNEL, time, &new);
    }

    /// Names a thread (COMM).
    pub fn handle_rename(&mut self, time: Time, pid: Pid, tid: Tid, name: &[u8]) {
        if !self.refuses() {
            self.rename(time, pid, tid, name);
        }
    }

    /// Starts a program with a new, empty address space (COMM with `PERF_RECORD_MISC_COMM_EXEC`).
    pub fn handle_exec(&mut self, time: Time, pid: Pid, tid: Tid, name: &[u8]) {
        if !self.refuses() {
            let process = self.rename(time, pid, tid, name);
            self.exec(process, time);
        }
    }

    /// Adds a thread (`pid == parent_pid`) or a process (FORK).
    ///
    /// A process inherits its parent's mappings and the forking thread's name. Children of `vfork`
    /// or `CLONE_VM` share the mappings instead, but exec at once. An earlier process with this pid
    /// has ended.
    pub fn handle_fork(
        &mut self,
        time: Time,
        pid: Pid,
        tid: Tid,
        parent_pid: Pid,
        parent_tid: Tid,
    ) {
        if self.refuses() {
            return;
        }
        if pid == parent_pid {
            self.fork_thread(time, pid, tid, parent_tid);
            return;
        }
        if let Some(old) = self.table.latest(pid) {
            let old = &mut self.table.processes[old as usize];
            if time < self.spaces[old.latest_space().0 as usize].clock() {
                old.parent.get_or_insert(parent_pid);
                return;
            }
        }
        let parent = self.table.latest(parent_pid);
        let space = match parent {
            Some(parent) => {
                let id = self.table.processes[parent as usize].latest_space();
                self.spaces[id.0 as usize].fork(id, time, &self.arena)
            }
            None => Space::new(time, &self.arena),
        };
        let start = space.clock();
        let space = self.add_space(space);
        let comm = parent.and_then(|parent| self.table.inherited_comm(parent, parent_tid));
        let process = self.table.start(pid, Some(parent_pid), start, space);
        let thread = self.table.thread(process, tid);
        self.inherit_name(thread, start, comm);
    }

    /// Adds an existing process or thread (FORK with `PERF_RECORD_MISC_FORK_EXEC`, as synthesized
    /// by perf).
    ///
    /// It inherits no mappings: records will list them. A known pid stays the same process. Exists
    /// from time 0, or from its first record.
    pub fn handle_found(&mut self, pid: Pid, tid: Tid, parent_pid: Pid) {
        if self.refuses() {
            return;
        }
        let process = self.process(pid);
        self.table.thread(process, tid);
        if pid != parent_pid {
            let known = &mut self.table.processes[process as usize];
            known.parent.get_or_insert(parent_pid);
        }
    }

    /// Ends a thread (EXIT). A process ends with its last thread. Later samples still resolve until
    /// the id is reused.
    pub fn handle_exit(&mut self, time: Time, pid: Pid, tid: Tid) {
        if self.refuses() {
            return;
        }
        let process = self.process(pid);
        self.table.exit(process, tid, time);
    }

    /// Images so far, with the [`ImageId`](crate::ImageId)s of the timeline.
    pub fn images(&self) -> &[Image] {
        self.images.as_slice()
    }

    /// Finishes the read-only timeline.
    pub fn finish(mut self) -> Timeline {
        self.table.finish();
        self.arena.shrink();
        for space in &mut self.spaces {
            space.finish();
        }
        Timeline::new(
            self.arena,
            self.spaces,
            self.images.finish(),
            self.names.finish(),
            self.table,
            self.dropped,
        )
    }

    /// Counts a dropped record if any table is full.
    fn refuses(&mut self) -> bool {
        let full = [
            self.arena.len() as usize,
            self.spaces.len(),
            self.images.as_slice().len(),
            self.names.len(),
            self.table.processes.len(),
            self.table.threads.len(),
        ]
        .iter()
        .any(|&len| len >= LIMIT);
        self.dropped += u64::from(full);
        full
    }

    /// Returns the process, created from time 0 if necessary.
    fn process(&mut self, pid: Pid) -> u32 {
        if let Some(process) = self.table.latest(pid) {
            return process;
        }
        let space = self.add_space(Space::new(0, &self.arena));
        self.table.start(pid, None, 0, space)
    }

    fn add_space(&mut self, space: Space) -> SpaceId {
        let id = SpaceId(self.spaces.len() as u32);
        self.spaces.push(space);
        id
    }

    /// Returns the thread's process.
    fn rename(&mut self, time: Time, pid: Pid, tid: Tid, name: &[u8]) -> u32 {
        let process = self.process(pid);
        let thread = self.table.thread(process, tid);
        let comm = self.names.intern(name);
        self.table.name(thread, time, comm);
        process
    }

    fn exec(&mut self, process: u32, time: Time) {
        let latest = self.table.processes[process as usize].latest_space();
        if time < self.spaces[latest.0 as usize].clock() {
            return;
        }
        let space = self.add_space(Space::new(time, &self.arena));
        self.table.processes[process as usize]
            .spaces
            .push((time, space));
    }

    fn fork_thread(&mut self, time: Time, pid: Pid, tid: Tid, parent_tid: Tid) {
        let process = self.process(pid);
        // The main thread starts with its process.
        if tid == pid.main_thread() {
            return;
        }
        let comm = self.table.inherited_comm(process, parent_tid);
        let thread = self.table.start_thread(process, tid, time);
        let start = self.table.threads[thread as usize].start;
        self.inherit_name(thread, start, comm);
    }

    fn inherit_name(&mut self, thread: u32, time: Time, comm: Option<CommId>) {
        if let Some(comm) = comm {
            self.table.name(thread, time, comm);
        }
    }

    fn map(&mut self, side: Side, space: SpaceId, time: Time, new: &NewMapping<'_>) {
        if new.len == 0 {
            return;
        }
        let end = new.start.saturating_add(new.len);
        let path = match side {
            Side::User => image_name(new.path, end),
            Side::Kernel | Side::KernelSymbol => new.path,
        };
        let mapping = Mapping {
            start: new.start,
            end,
            file_offset: new.file_offset,
            image: self.images.intern(side, path, new.identity, time),
            executable: new.executable,
            since: time,
        };
        let space = &mut self.spaces[space.0 as usize];
        let arena = &mut self.arena;
        if side == Side::User && !self.keep_huge_pages && time >= space.clock() {
            let before = Latest(arena, space.latest_root(), &self.images);
            if before.is_moved_text(&mapping) {
                return;
            }
            if let Some(text) = before.moved_text_before(&mapping) {
                space.map(arena, &text);
            }
        }
        space.map(arena, &mapping);
    }
}

/// The latest mappings of a process.
struct Latest<'a>(&'a Arena, Root, &'a ImageTable);

impl Before for Latest<'_> {
    fn find(&self, address: u64) -> Option<Mapping> {
        self.0.find(self.1, address)
    }

    fn kind(&self, image: ImageId) -> ImageKind {
        self.2.kind(image)
    }
}
