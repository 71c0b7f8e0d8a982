//! [`Ledger`]: owners of the pages of all processes.

use std::ops::Range;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::kinds::{KindId, Kinds};
use crate::look::{Look, Region};
use crate::pages::{CHUNK, Pages, Slot};
use crate::process::{Mapping, Mappings, Process};
use crate::windows;
use crate::{Owner, StackNumber};

/// Maximum number of pages of a huge page: 1 GiB with pages of 4 KiB.
const MAX_HUGE: u64 = 1 << 18;

/// Bytes of a file that one fault makes resident: the default of `fault_around_bytes`.
const FAULT_AROUND: u64 = 64 << 10;

/// Maximum number of faults on read-only files between two looks.
const MAX_AROUND: usize = 1 << 16;

/// Pages of one process, owner and kind of mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share {
    /// Process.
    pub pid: i32,
    /// Cause of the pages.
    pub owner: Owner,
    /// Kind of their mapping: see [`Ledger::kind_name`].
    pub kind: KindId,
    /// Number of resident pages of [`Ledger`]'s page size.
    pub pages: u64,
}

/// Owners of the resident pages of processes. See the [crate](crate) for the rules.
///
/// Give it events in order of time. Its memory is linear in the page tables of the processes, and
/// in the number of stacks and processes.
#[derive(Debug)]
pub struct Ledger {
    page_bytes: u64,
    processes: FxHashMap<i32, Process>,
    kinds: Kinds,
    slots: Slots,
    /// Touched pages of ended processes.
    ended: FxHashMap<(i32, Slot), u64>,
    stack: KindId,
}

#[derive(Debug, Default)]
struct Slots {
    ids: FxHashMap<(Owner, KindId), u32>,
    all: Vec<(Owner, KindId)>,
}

impl Slots {
    fn intern(&mut self, owner: Owner, kind: KindId) -> Slot {
        let all = &mut self.all;
        Slot(*self.ids.entry((owner, kind)).or_insert_with(|| {
            all.push((owner, kind));
            all.len() as u32 - 1
        }))
    }

    fn get(&self, slot: Slot) -> Option<(Owner, KindId)> {
        self.all.get(slot.0 as usize).copied()
    }
}

impl Ledger {
    /// Creates an empty ledger for pages of this size in bytes.
    pub fn new(page_bytes: u64) -> Ledger {
        let mut kinds = Kinds::default();
        Ledger {
            page_bytes: page_bytes.max(1),
            processes: FxHashMap::default(),
            stack: kinds.intern(b"[stack]"),
            kinds,
            slots: Slots::default(),
            ended: FxHashMap::default(),
        }
    }

    /// Returns the page size in bytes.
    pub fn page_bytes(&self) -> u64 {
        self.page_bytes
    }

    /// Returns the name of a kind of mapping, as bytes of unknown encoding: `[heap]`, `[stack]`,
    /// `[anon]`, `[shared memory]`, a path, or a name of anonymous memory.
    pub fn kind_name(&self, kind: KindId) -> &[u8] {
        self.kinds.name(kind)
    }

    /// Adds a mapping, by its name in an MMAP2 record. Its pages keep their owners: the kernel
    /// reports a mapping again when it grows or changes its protection.
    pub fn map(&mut self, pid: i32, addresses: Range<u64>, name: &[u8]) {
        self.add_mapping(pid, addresses, name, false);
    }

    /// Adds a mapping of a file that the process cannot write to, as [`map`](Self::map) does.
    pub fn map_read_only_file(&mut self, pid: i32, addresses: Range<u64>, name: &[u8]) {
        self.add_mapping(pid, addresses, name, true);
    }

    fn add_mapping(
        &mut self,
        pid: i32,
        addresses: Range<u64>,
        name: &[u8],
        is_read_only_file: bool,
    ) {
        let kind = self.kinds.intern(name);
        let process = self.processes.entry(pid).or_default();
        let mapping = Mapping {
            kind,
            is_read_only_file,
        };
        process.mappings.map(addresses, mapping);
    }

    /// Adds a page fault.
    pub fn fault(&mut self, pid: i32, address: u64, stack: StackNumber) {
        let process = self.processes.entry(pid).or_default();
        let kind = process.mappings.at(address, self.stack);
        let kind = kind.unwrap_or_else(|| self.kinds.intern(b""));
        let slot = self.slots.intern(Owner::Fault(stack), kind);
        let page = address / self.page_bytes;
        let before = process.pages.set(page, slot);
        if process.around.len() < MAX_AROUND && process.mappings.read_only_file(address).is_some() {
            process.around.push((page, slot));
        }
        // The program freed the page and touched it again, or copied it: it is resident once more.
        process.touch(None, slot);
        if before == Some(slot) {
            return;
        }
        if let Some(before) = before {
            process.disown(before);
        }
        process.own(slot);
    }

    /// Adds the pages of a huge page around an address, which one fault on this address made
    /// resident. `pages` is their number, a power of two.
    pub fn huge_fault(&mut self, pid: i32, address: u64, pages: u64) {
        let Some(process) = self.processes.get_mut(&pid) else {
            return;
        };
        let page = address / self.page_bytes;
        let owner = process.pages.chunk(page).and_then(|chunk| chunk.get(page));
        let (Some(slot), true) = (owner, pages.is_power_of_two() && pages <= MAX_HUGE) else {
            return;
        };
        let first = page - page % pages;
        for neighbour in (first..first + pages).filter(|one| *one != page) {
            match process.pages.set(neighbour, slot) {
                Some(before) => process.disown(before),
                None => process.touch(None, slot),
            }
            process.own(slot);
        }
    }

    /// Adds the neighbours of the faults on read-only files since the last look at a process. The
    /// kernel makes them resident if they are in memory already, so this is an estimate.
    pub fn add_neighbours(&mut self, pid: i32) {
        let Some(process) = self.processes.get_mut(&pid) else {
            return;
        };
        let window = (FAULT_AROUND / self.page_bytes).max(1);
        for (page, slot) in std::mem::take(&mut process.around) {
            let Some(file) = process.mappings.read_only_file(page * self.page_bytes) else {
                continue;
            };
            let first = page - page % window;
            let last = (file.end / self.page_bytes).min(first + window);
            for neighbour in first.max(file.start / self.page_bytes)..last {
                let owner = process.pages.chunk(neighbour);
                if owner.and_then(|chunk| chunk.get(neighbour)).is_none() {
                    process.pages.set(neighbour, slot);
                    process.touch(None, slot);
                    process.own(slot);
                }
            }
        }
    }

    /// Removes pages that the process gave back. The range is one of page numbers.
    pub fn release(&mut self, pid: i32, pages: Range<u64>) {
        if let Some(process) = self.processes.get_mut(&pid) {
            process.around.retain(|(page, _)| !pages.contains(page));
            for (_, slot) in process.pages.take(pages) {
                process.disown(slot);
            }
        }
    }

    /// Moves pages to another address, with their owners: mremap(2). The range and `to` are page
    /// numbers. Pages that were resident there lose their owners.
    pub fn move_pages(&mut self, pid: i32, pages: Range<u64>, to: u64) {
        let Some(last) = to.checked_add(pages.end.saturating_sub(pages.start)) else {
            return;
        };
        self.release(pid, to..last);
        if let Some(process) = self.processes.get_mut(&pid) {
            for (page, slot) in process.pages.take(pages.clone()) {
                if let Some(before) = process.pages.set(page - pages.start + to, slot) {
                    process.disown(before);
                }
            }
        }
    }

    /// Adds a process with the memory of its parent. It touched none of these pages.
    pub fn fork(&mut self, parent: i32, child: i32) {
        if parent == child {
            return;
        }
        self.end(child);
        if let Some(process) = self.processes.get(&parent) {
            let process = Process {
                touched: FxHashMap::default(),
                ..process.clone()
            };
            self.processes.insert(child, process);
        }
    }

    /// Removes a process, or its memory at an exec. The pages that it touched are still in
    /// [`touched`](Self::touched).
    pub fn end(&mut self, pid: i32) {
        if let Some(process) = self.processes.remove(&pid) {
            for (slot, pages) in process.touched {
                *self.ended.entry((pid, slot)).or_default() += pages;
            }
        }
    }

    /// Takes a look at a process, at the moment when it began: all earlier faults, and no later
    /// ones, are in the ledger. Pages that are absent lose their owner, unless their fault may be
    /// [unfinished](Look::unfinished). Present pages without an owner get the owner of their window, or else `unseen`, unless their fault came
    /// [later](Look::later).
    pub fn look(&mut self, look: &Look, unseen: Owner) {
        let mut process = self.processes.remove(&look.pid).unwrap_or_default();
        let old = std::mem::take(&mut process.pages);
        process.disown_all();
        process.mappings = Mappings::default();
        process.around.clear();
        let mut unowned = Vec::new();
        let slots = (0..).zip(&self.slots.all);
        let without_fault: FxHashSet<Slot> = slots
            .filter(|(_, (owner, _))| *owner == Owner::Unseen)
            .map(|(slot, _)| Slot(slot))
            .collect();
        for region in &look.regions {
            let kind = self.kinds.intern(&region.name);
            let mapping = Mapping {
                kind,
                is_read_only_file: region.is_read_only_file,
            };
            process.mappings.map(region.addresses.clone(), mapping);
            unowned.clear();
            self.keep_owners(
                (region, kind),
                (&old, &without_fault),
                &mut process,
                &mut unowned,
            );
            unowned.retain(|page| {
                let is_in = |range: &Range<u64>| range.contains(page);
                !look.later.contains(page) && !look.releasing.iter().any(is_in)
            });
            let mapping = self.pages_of(&region.addresses);
            for page in look.unfinished.iter().filter(|page| mapping.contains(page)) {
                let owner = |pages: &Pages| pages.chunk(*page)?.get(*page);
                if owner(&process.pages).is_none()
                    && let Some(slot) = owner(&old)
                    && !without_fault.contains(&slot)
                {
                    process.pages.set(*page, slot);
                    process.own(slot);
                }
            }
            let rest = self.slots.intern(unseen, kind);
            let (pages, slots) = (&process.pages, &self.slots);
            let is_fault = |slot| matches!(slots.get(slot), Some((Owner::Fault(_), _)));
            let faults =
                |range: Range<u64>| pages.within(range).filter(|(_, slot)| is_fault(*slot));
            let mut found = Vec::with_capacity(unowned.len());
            windows::assign(&unowned, &mapping, region.window, faults, |page, slot| {
                found.push((page, slot.unwrap_or(rest)));
            });
            for (page, slot) in found {
                let before = old.chunk(page).and_then(|chunk| chunk.get(page));
                process.pages.set(page, slot);
                process.own(slot);
                process.touch(before, slot);
            }
        }
        for (page, slot) in (look.released.iter()).flat_map(|range| old.within(range.clone())) {
            if process
                .pages
                .chunk(page)
                .and_then(|chunk| chunk.get(page))
                .is_none()
            {
                process.pages.set(page, slot);
                process.own(slot);
            }
        }
        self.processes.insert(look.pid, process);
    }

    fn pages_of(&self, addresses: &Range<u64>) -> Range<u64> {
        addresses.start / self.page_bytes..addresses.end.div_ceil(self.page_bytes)
    }

    /// Copies the owners of a mapping's present pages, and collects the pages without one. Pages of
    /// windows that are `without_fault` are collected again.
    fn keep_owners(
        &mut self,
        (region, kind): (&Region, KindId),
        (old, without_fault): (&Pages, &FxHashSet<Slot>),
        process: &mut Process,
        unowned: &mut Vec<u64>,
    ) {
        let mapping = self.pages_of(&region.addresses);
        // The last owner before and after its kind was corrected.
        let mut last: Option<(Slot, Slot)> = None;
        let mut keep = |page: u64, slot: Slot, process: &mut Process| {
            let new = match last {
                Some((before, after)) if before == slot => after,
                _ => match self.slots.get(slot) {
                    Some((owner, before)) if before != kind => self.slots.intern(owner, kind),
                    _ => slot,
                },
            };
            last = Some((slot, new));
            if new != slot {
                process.touch(Some(slot), new);
            }
            process.pages.set(page, new);
            process.own(new);
        };
        let Some(present) = &region.present else {
            for (page, slot) in old.within(mapping) {
                keep(page, slot, process);
            }
            return;
        };
        for range in present {
            let mut at = range.start;
            while at < range.end {
                let end = range.end.min((at / CHUNK + 1) * CHUNK);
                let chunk = old.chunk(at);
                for page in at..end {
                    match chunk.and_then(|chunk| chunk.get(page)) {
                        // The fault of its window may have come after the last look began.
                        Some(slot) if region.window > 1 && without_fault.contains(&slot) => {
                            unowned.push(page);
                        }
                        Some(slot) => keep(page, slot, process),
                        None => unowned.push(page),
                    }
                }
                at = end;
            }
        }
    }

    /// Returns the number of resident pages of all processes.
    pub fn resident(&self) -> u64 {
        self.processes.values().map(Process::resident).sum()
    }

    /// Returns the resident pages of a process: with a fault, from before the recording, and
    /// without a known fault.
    pub fn resident_of(&self, pid: i32) -> [u64; 3] {
        let mut sums = [0; 3];
        let live = self.processes.get(&pid).map(|process| &process.live);
        for (slot, pages) in live.into_iter().flatten() {
            let at = match self.slots.get(*slot) {
                Some((Owner::Fault(_), _)) => 0,
                Some((Owner::Before, _)) => 1,
                _ => 2,
            };
            sums[at] += pages;
        }
        sums
    }

    /// Returns the resident pages by process, owner and kind, sorted.
    pub fn live(&self) -> Vec<Share> {
        let of_process =
            |(pid, process): (&i32, &Process)| self.shares(*pid, &process.live).collect::<Vec<_>>();
        sorted(self.processes.iter().flat_map(of_process))
    }

    /// Returns the pages that ever became resident, given back or not, sorted.
    pub fn touched(&self) -> Vec<Share> {
        let mut sums = self.ended.clone();
        for (pid, process) in &self.processes {
            for (slot, pages) in &process.touched {
                *sums.entry((*pid, *slot)).or_default() += pages;
            }
        }
        sorted(
            sums.iter()
                .filter_map(|((pid, slot), pages)| self.share(*pid, *slot, *pages)),
        )
    }

    fn shares<'a>(
        &'a self,
        pid: i32,
        by_slot: &'a FxHashMap<Slot, u64>,
    ) -> impl Iterator<Item = Share> + 'a {
        let share = move |(slot, pages): (&Slot, &u64)| self.share(pid, *slot, *pages);
        by_slot.iter().filter_map(share)
    }

    fn share(&self, pid: i32, slot: Slot, pages: u64) -> Option<Share> {
        let (owner, kind) = self.slots.get(slot)?;
        (pages > 0).then_some(Share {
            pid,
            owner,
            kind,
            pages,
        })
    }
}

fn sorted(shares: impl Iterator<Item = Share>) -> Vec<Share> {
    let mut shares: Vec<Share> = shares.collect();
    shares.sort_unstable();
    shares
}

#[cfg(test)]
mod tests;
