//! The builder: takes the sideband, in time order.

use crate::huge_pages;
use crate::ids::{CommId, MapState, Pid, SpaceId, Tid, Time};
use crate::image::{Image, ImageIdentity, ImageTable, Side};
use crate::names::NameTable;
use crate::process::ProcessTable;
use crate::space::Space;
use crate::timeline::Timeline;
use crate::tree::Arena;
use crate::view::{MapView, Mapping};

/// What an MMAP or MMAP2 record, or a line of `/proc/PID/maps`, says.
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
    /// What else is known of the file.
    pub identity: ImageIdentity,
    /// Whether `prot` has `PROT_EXEC` (MMAP2), or `PERF_RECORD_MISC_MMAP_DATA`
    /// is absent (MMAP).
    pub executable: bool,
}

/// Collects the sideband of a recording and finishes into a [`Timeline`].
///
/// Feed it in time order; [the crate's page](crate) says what becomes of records
/// that come late. While recording, [`latest`](Self::latest) answers for now.
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
    /// Nothing but an empty kernel.
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

    /// Whether executable huge pages inside the text of a file stay anonymous.
    ///
    /// By default (`false`) they are taken for that file's text, which a program
    /// moved there for speed: an executable anonymous mapping, aligned to 2 MiB,
    /// inside or exactly between mappings of one file.
    pub fn keep_huge_pages(&mut self, keep: bool) {
        self.keep_huge_pages = keep;
    }

    /// A process mapped a file or memory (MMAP, MMAP2).
    ///
    /// What it overlaps ends; parts of older mappings outside of it live on. A
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
    /// That it went away again need not be told: what comes to the same place later
    /// replaces it.
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

    /// A thread got a name (COMM). With `exec` (`PERF_RECORD_MISC_COMM_EXEC`) its
    /// process began a program, in a new and empty address space.
    pub fn handle_comm(&mut self, time: Time, pid: Pid, tid: Tid, name: &[u8], exec: bool) {
        if self.refuses() {
            return;
        }
        let process = self.process(pid);
        let thread = self.table.thread(process, tid);
        let comm = self.names.intern(name);
        self.table.name(thread, time, comm);
        if exec {
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
    /// Its mappings are about to be listed one by one, so it inherits none; and
    /// an id that is known already is the same process still. It exists from time
    /// 0, or from when it was known.
    pub fn handle_existing(&mut self, pid: Pid, tid: Tid, parent_pid: Pid) {
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

    /// The mappings of a process after all that was fed. For use while recording.
    pub fn latest(&self, pid: Pid) -> Option<MapView<'_>> {
        let space = self.latest_space(pid)?;
        Some(self.latest_in(space))
    }

    /// The mappings of the kernel after all that was fed.
    pub fn latest_kernel(&self) -> MapView<'_> {
        self.latest_in(SpaceId::KERNEL)
    }

    /// Which set of mappings [`latest`](Self::latest) shows: as long as this is
    /// the same, so are they. Comparable only with other answers of this function.
    pub fn latest_state(&self, pid: Pid) -> Option<MapState> {
        let space = self.latest_space(pid)?;
        Some(self.spaces[space.0 as usize].latest_state(space))
    }

    /// The images seen so far. What is here keeps its [`ImageId`](crate::ImageId)
    /// in the timeline.
    pub fn images(&self) -> &[Image] {
        self.images.as_slice()
    }

    /// The finished, read-only timeline.
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

    fn latest_space(&self, pid: Pid) -> Option<SpaceId> {
        let process = self.table.latest(pid)?;
        Some(self.table.processes[process as usize].latest_space())
    }

    fn latest_in(&self, space: SpaceId) -> MapView<'_> {
        let root = self.spaces[space.0 as usize].latest_root();
        MapView::new(&self.arena, root, Time::MAX)
    }

    /// Whether there is no room for another record, which is then counted.
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

    /// The process that has the id now; one that always had it, if none.
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
