//! The builder of a timeline, fed in time order.

use rprof_records::{BuildId, Mapped, MmapIdentity, ProcessEvent};

use crate::huge_pages;
use crate::ids::{CommId, Pid, SpaceId, Tid, Time};
use crate::image::{Image, ImageIdentity, ImageTable, Side};
use crate::mapping::Mapping;
use crate::names::NameTable;
use crate::process::ProcessTable;
use crate::space::Space;
use crate::timeline::Timeline;
use crate::tree::Arena;

/// A mapping, as an MMAP or MMAP2 record or a line of `/proc/PID/maps` describes it.
#[derive(Clone, Copy, Debug)]
pub struct NewMapping<'a> {
    /// First address.
    pub start: u64,
    /// Length in bytes. A mapping of length 0 is ignored; one past the end of
    /// the address space is cut there, so that address `u64::MAX` is never in one.
    pub len: u64,
    /// Offset in the file of the first address, in bytes (`pgoff`).
    pub file_offset: u64,
    /// The file's name, without the terminating NUL, or one of the special ones.
    pub path: &'a [u8],
    /// Identity of the file.
    pub identity: ImageIdentity,
    /// True if `prot` has `PROT_EXEC` (MMAP2), or `PERF_RECORD_MISC_MMAP_DATA`
    /// is absent (MMAP).
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

/// Collects the sideband of a recording and finishes into a [`Timeline`].
///
/// Feed it in time order; [the crate's page](crate) says what becomes of records
/// that come late. A recorder, which asks about now, has [`LiveMap`](crate::LiveMap).
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

/// Everything is numbered with 32 bits. One record adds far fewer than this many
/// nodes, so below the limit no number overflows; beyond it records are dropped.
const LIMIT: usize = u32::MAX as usize - 4096;

impl Default for ProcessMapBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl ProcessMapBuilder {
    /// Creates a map without processes, and with an empty kernel.
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

    /// Sets whether executable huge pages inside the text of a file stay anonymous.
    ///
    /// By default (`false`) they are taken for that file's text, which a program
    /// moved there for speed: an executable anonymous mapping, aligned to 2 MiB,
    /// inside or exactly between mappings of one file.
    pub fn keep_huge_pages(&mut self, keep: bool) {
        self.keep_huge_pages = keep;
    }

    /// Sets the build-ids of files that records name by device and inode. They hold for mappings that come later.
    pub fn set_build_ids(&mut self, of: impl IntoIterator<Item = (MmapIdentity, BuildId)>) {
        for (identity, build_id) in of {
            self.images.identify(identity.into(), build_id);
        }
    }

    /// Takes in what a record says, at its time in nanoseconds.
    ///
    /// The verbs below are for callers that have no records.
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
            // What comes to the same place later replaces a symbol that went away.
            _ => {}
        }
    }

    /// A process mapped a file or memory (MMAP, MMAP2).
    ///
    /// Mappings that it overlaps end there; parts of them outside of it live on. A
    /// process not seen before exists from time 0.
    pub fn handle_mmap(&mut self, time: Time, pid: Pid, new: &NewMapping<'_>) {
        if self.refuses() {
            return;
        }
        let process = self.process(pid);
        let space = self.table.processes[process as usize].latest_space();
        self.map(Side::User, space, time, new);
    }

    /// The kernel, or a module of it, lies there (MMAP with a kernel `misc` mode,
    /// which perf writes with pid -1).
    ///
    /// All processes share one kernel address space.
    pub fn handle_kernel_mmap(&mut self, time: Time, new: &NewMapping<'_>) {
        if !self.refuses() {
            self.map(Side::Kernel, SpaceId::KERNEL, time, new);
        }
    }

    /// The kernel gained a function of its own making, such as a BPF program
    /// (KSYMBOL): `len` bytes from `start` on are called `name`.
    ///
    /// The end of a symbol need not be told: one that comes to the same place later replaces it.
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

    /// A thread got a name (COMM).
    pub fn handle_rename(&mut self, time: Time, pid: Pid, tid: Tid, name: &[u8]) {
        if !self.refuses() {
            self.rename(time, pid, tid, name);
        }
    }

    /// A process began a program of this name, in a new and empty address space (COMM with
    /// `PERF_RECORD_MISC_COMM_EXEC`).
    pub fn handle_exec(&mut self, time: Time, pid: Pid, tid: Tid, name: &[u8]) {
        if !self.refuses() {
            let process = self.rename(time, pid, tid, name);
            self.exec(process, time);
        }
    }

    /// A thread (`pid == parent_pid`) or a process was born (FORK).
    ///
    /// A new process has the mappings of its parent at that moment, and the name
    /// of the thread that forked it. That a `vfork` or `CLONE_VM` child shares
    /// them instead cannot be told from the record; such children exec at once.
    /// A process that had this id before has ended.
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

    /// A process or thread is there that the recorder found, rather than saw
    /// being born (FORK with `PERF_RECORD_MISC_FORK_EXEC`, which perf sets on the
    /// records it makes up for what runs already).
    ///
    /// The mappings of such a process are about to be listed one by one, so it inherits none; and
    /// an id that is known already is the same process still. It exists from time
    /// 0, or from when it was known.
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

    /// A thread ended (EXIT). Its process ends with the last of its threads.
    ///
    /// Nothing is taken away: samples of the same moment, or a little later, still
    /// resolve, until the id is used again.
    pub fn handle_exit(&mut self, time: Time, pid: Pid, tid: Tid) {
        if self.refuses() {
            return;
        }
        let process = self.process(pid);
        self.table.exit(process, tid, time);
    }

    /// The images seen so far. What is here keeps its [`ImageId`](crate::ImageId)
    /// in the timeline.
    pub fn images(&self) -> &[Image] {
        self.images.as_slice()
    }

    /// Finishes into the read-only timeline.
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

    /// Returns true if there is no room for another record, which is then counted as dropped.
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

    /// Returns the process that has the id now; creates one that always had it, if there is none.
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

    /// Names a thread; returns its process.
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
        // The main thread was born with its process; nothing can fork it again.
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
        let mapping = Mapping {
            start: new.start,
            end: new.start.saturating_add(new.len),
            file_offset: new.file_offset,
            image: self.images.intern(side, new.path, new.identity),
            executable: new.executable,
            since: time,
        };
        let space = &mut self.spaces[space.0 as usize];
        let arena = &mut self.arena;
        if side == Side::User && !self.keep_huge_pages && time >= space.clock() {
            let root = space.latest_root();
            if huge_pages::is_moved_text(arena, root, &self.images, &mapping) {
                return;
            }
            if let Some(text) = huge_pages::moved_text_before(arena, root, &self.images, &mapping) {
                space.map(arena, &text);
            }
        }
        space.map(arena, &mapping);
    }
}
