//! From samples to counts.
//!
//! A stack is looked up as what it is made of, its leaf and its callers, as each of them is
//! met far more often than the two together. Each step is made for many samples before the
//! next one is: the memory that they wait for is then on its way for all of them.

use rprof_symbols::Extents;

use rprof_processes::SpaceId;

use crate::coarse::{Answers, Coarse};
use crate::counts::{Contexts, Counted, Counts, Numbers};
use crate::index::Index;
use crate::location::{Context, Location, addresses};
use crate::memo::{Memo, Tag};
use crate::pages::Pages;
use crate::resolve::{Amount, Group};
use crate::stacks::{Locations, NO_LEAF, StackTable};
use crate::waiting::{Task, Waiting};

/// Samples that are looked up together.
pub(crate) const TOGETHER: usize = 64;

/// Counts samples.
pub(crate) struct Counting<'a> {
    index: &'a Index<'a>,
    /// What stands for addresses, where these need not be kept.
    coarse: Option<&'a Coarse<'a>>,
    pages: Pages,
    /// Numbers of lists of callers.
    lists: Numbers,
    memo: Memo,
    words: Vec<u64>,
    list: Vec<u32>,
    /// Callers that are not in the memo: their places in the list, addresses, tags, locations.
    missed: Vec<(usize, u64, Option<Tag>, Location)>,
    pub(crate) contexts: Contexts,
    counts: Counts,
    locations: Locations,
    stacks: StackTable,
}

impl<'a> Counting<'a> {
    pub(crate) fn new(index: &'a Index<'a>, coarse: Option<&'a Coarse<'a>>) -> Counting<'a> {
        Counting {
            index,
            coarse,
            pages: Pages::default(),
            lists: Numbers::default(),
            memo: Memo::default(),
            words: Vec::new(),
            list: Vec::new(),
            missed: Vec::new(),
            contexts: Contexts::default(),
            counts: Counts::default(),
            locations: Locations::default(),
            stacks: StackTable::default(),
        }
    }

    /// All locations, stacks, and groups with what each came to.
    pub(crate) fn finish(mut self) -> (Locations, StackTable, Vec<(Group, Amount)>) {
        let groups = self.counts.finish(&self.contexts, &mut self.stacks);
        (self.locations, self.stacks, groups)
    }

    /// Counts samples, [`TOGETHER`] at most.
    pub(crate) fn count(&mut self, waiting: &mut [Waiting<'_>]) {
        self.resolve(waiting);
        for one in waiting {
            self.counts.add(counted(one), one.weight);
        }
    }

    /// Counts a sample, and answers its group.
    pub(crate) fn count_one(&mut self, one: Waiting<'_>) -> Group {
        let mut one = [one];
        self.count(&mut one);
        self.contexts.group(counted(&one[0]), &mut self.stacks)
    }

    /// Finds numbers for leaves and callers.
    fn resolve(&mut self, waiting: &mut [Waiting<'_>]) {
        let index = self.index;
        for one in &mut *waiting {
            one.list = self.lists.find(one.identity);
        }
        for one in &mut *waiting {
            if let Some((address, mode)) = one.leaf {
                let task = one.task;
                let context = || context(index, task);
                one.location = (self.pages).locate(address, mode, task.number, context);
            }
        }
        self.coarsen(waiting);
        for one in &mut *waiting {
            if one.leaf.is_some() {
                one.number = self.locations.intern(one.location);
            }
        }
        for one in waiting {
            if one.list.is_none() {
                one.list = Some(self.resolve_callers(one));
            }
        }
    }

    /// Replaces leaves by what stands for them.
    fn coarsen(&self, waiting: &mut [Waiting<'_>]) {
        let Some(coarse) = self.coarse else { return };
        let mut begun: [Option<(&Extents, usize)>; TOGETHER] = [None; TOGETHER];
        for (one, begun) in waiting.iter_mut().zip(&mut begun) {
            match coarse.answers(one.location.place) {
                Answers::Several(extents) => {
                    *begun = Some((extents, extents.begin(one.location.lookup)));
                }
                Answers::One => one.location.lookup = 0,
                Answers::Unknown => {}
            }
        }
        for (one, begun) in waiting.iter_mut().zip(begun) {
            if let Some((extents, begun)) = begun {
                one.location.lookup = extents.end(one.location.lookup, begun);
            }
        }
    }

    /// Resolves callers that were not seen before.
    #[cold]
    fn resolve_callers(&mut self, one: &Waiting<'_>) -> u32 {
        let context = context(self.index, one.task);
        let coarse = self.coarse;
        let Counting {
            words,
            lists,
            list,
            missed,
            memo,
            locations,
            stacks,
            ..
        } = self;
        lists.get_or_insert_with(one.identity, || {
            list.clear();
            missed.clear();
            one.callers(words);
            let words = words.iter().copied();
            for (address, mode, caller) in addresses(words, one.mode, true) {
                let tag = Tag::new(one.task.number, mode as u8, caller);
                match tag.and_then(|tag| memo.find(address, tag)) {
                    Some(number) => list.push(number),
                    None => {
                        let location = context.locate(address, mode, caller);
                        missed.push((list.len(), address, tag, location));
                        list.push(0);
                    }
                }
            }
            // Step by step for all of them, as each step waits for other memory.
            if let Some(coarse) = coarse {
                missed.iter_mut().for_each(|(.., l)| *l = coarse.of(*l));
            }
            for (at, address, tag, location) in &*missed {
                list[*at] = locations.intern(*location);
                if let Some(tag) = tag {
                    memo.keep(*address, *tag, list[*at]);
                }
            }
            stacks.intern_callers(list)
        })
    }
}

fn counted(one: &Waiting<'_>) -> Counted {
    Counted {
        leaf: match one.leaf {
            Some(_) => one.number,
            None => NO_LEAF,
        },
        // There is one by now.
        list: one.list.unwrap_or_default(),
        context: one.context,
    }
}

fn context<'a>(index: &'a Index<'_>, task: Task) -> Context<'a> {
    let timeline = &index.timeline;
    Context {
        timeline,
        user: timeline.view(task.space, task.time),
        kernel: timeline.view(SpaceId::KERNEL, task.time),
        pid: task.pid,
        time: task.time,
        runtimes: &index.runtimes,
    }
}
