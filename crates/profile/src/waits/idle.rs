//! Idle threads wait at one place nearly all the time. They dominate wall-clock profiles but carry
//! little information.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::frame::{FunctionId, ObjectKind};
use crate::model::Profile;
pub use crate::quality::IdleThreads;
use crate::samples::ThreadId;
use crate::stacks::StackId;
use crate::unit::WeightUnit;
use crate::waits::locks::acquires_lock;
use crate::waits::reasons::is_reason;

/// Root and leaf frame of idle waits.
pub const IDLE: &str = "[idle]";

/// Share of the recording that an idle thread waits at one place. Less means that it started late
/// or exited early.
const OF_RECORDING: f64 = 0.90;

/// Share of its own time, on and off CPU, that an idle thread waits at one place.
const OF_THREAD: f64 = 0.98;

/// Reasons of waits that are never idle: reading a slow disk is work, and a wait without a stack
/// has no place.
const OF_WORK: &[&str] = &[
    "disk",
    "page-fault",
    "kernel-lock",
    "cpu",
    "stack-not-taken",
];

/// User-space functions, root first.
type Place = Box<[FunctionId]>;

#[derive(Default)]
struct ThreadTime {
    by_event: FxHashMap<usize, u64>,
    /// True if the thread has samples without a time unit.
    is_unknown: bool,
}

impl Profile {
    /// Merges idle waits: [`IDLE`] becomes the root of their stacks, and replaces the wait reason
    /// at the leaf.
    ///
    /// An idle thread waits at one place for 90 % of the recording and 98 % of its own time. If
    /// on-CPU samples do not measure time, a thread with any is never idle. Waits for a disk, a
    /// page, a CPU, a kernel lock or [a user-space lock](crate::waits::locks::acquires_lock) are
    /// never idle. Does nothing if all threads are idle, or without callers or thread ids.
    pub fn fold_idle(&mut self) {
        let (Some(waits), Some((first, last)), false) = (self.waits(), self.time, self.leaves_only)
        else {
            return;
        };
        let (idle, others) = self.idle_places(waits, last.saturating_sub(first));
        if idle.is_empty() || others == 0 {
            return;
        }
        let is_idle = |profile: &Profile, thread: ThreadId, stack: StackId| {
            let key = profile.numbers(thread)?;
            let is_it = *idle.get(&key)? == profile.place(stack) && !profile.is_of_work(stack);
            is_it.then_some(())
        };
        let frame = self.reason_frame(IDLE);
        let mut folded: FxHashMap<(ThreadId, StackId), StackId> = FxHashMap::default();
        let mut sum = IdleThreads {
            threads: idle.len() as u64,
            weight: 0,
        };
        for index in 0..self.aggregated.len() {
            let entry = self.aggregated[index];
            let key = (entry.thread, entry.stack);
            if entry.event != waits || is_idle(self, entry.thread, entry.stack).is_none() {
                continue;
            }
            sum.weight = sum.weight.saturating_add(entry.weight);
            (folded.entry(key)).or_insert_with(|| self.between(frame, entry.stack));
        }
        self.replace_stacks(waits, |thread, stack| folded.get(&(thread, stack)).copied());
        self.quality.idle = sum;
    }

    fn idle_places(&self, waits: usize, recording: u64) -> (FxHashMap<(i32, i32), Place>, usize) {
        let mut threads: FxHashMap<(i32, i32), ThreadTime> = FxHashMap::default();
        for entry in self.aggregated.iter().filter(|entry| entry.samples > 0) {
            let Some(key) = self.numbers(entry.thread) else {
                continue;
            };
            let thread = threads.entry(key).or_default();
            let sum = thread.by_event.entry(entry.event).or_default();
            *sum = sum.saturating_add(entry.weight);
            let unit = &self.events[entry.event].unit;
            thread.is_unknown |= *unit != WeightUnit::Nanoseconds;
        }
        let least = |thread: &ThreadTime| {
            let waited = thread.by_event.get(&waits).copied().unwrap_or(0);
            // Two clocks sample the same time.
            let others = thread.by_event.iter().filter(|(event, _)| **event != waits);
            let ran = others.map(|(_, weight)| *weight).max().unwrap_or(0);
            let of_thread = OF_THREAD * (waited.saturating_add(ran)) as f64;
            of_thread.max(OF_RECORDING * recording as f64)
        };
        let candidates: FxHashMap<(i32, i32), f64> = (threads.iter())
            .filter(|(_, thread)| !thread.is_unknown)
            .map(|(key, thread)| (*key, thread, least(thread)))
            .filter(|(_, thread, least)| {
                let waited = thread.by_event.get(&waits).copied().unwrap_or(0);
                waited > 0 && waited as f64 >= *least
            })
            .map(|(key, _, least)| (key, least))
            .collect();
        let mut places: FxHashMap<(i32, i32), FxHashMap<Place, u64>> = FxHashMap::default();
        let of_waits = (self.aggregated.iter()).filter(|entry| entry.event == waits);
        for entry in of_waits {
            let key = self.numbers(entry.thread);
            let key = key.filter(|key| candidates.contains_key(key));
            if let Some(key) = key.filter(|_| !self.is_of_work(entry.stack)) {
                let places = places.entry(key).or_default();
                let sum = places.entry(self.place(entry.stack)).or_default();
                *sum = sum.saturating_add(entry.weight);
            }
        }
        let resting = |(key, places): ((i32, i32), FxHashMap<Place, u64>)| {
            let (place, weight) = places.into_iter().max_by_key(|(_, weight)| *weight)?;
            (weight as f64 >= candidates[&key]).then_some((key, place))
        };
        let idle: FxHashMap<_, _> = places.into_iter().filter_map(resting).collect();
        let is_other = |key: &&(i32, i32)| !idle.contains_key(*key);
        let others: FxHashSet<_> = threads.keys().filter(is_other).collect();
        let others = others.len();
        (idle, others)
    }

    fn numbers(&self, thread: ThreadId) -> Option<(i32, i32)> {
        let thread = self.thread(thread);
        thread.pid.zip(thread.tid)
    }

    fn is_of_work(&self, stack: StackId) -> bool {
        let names = self.stack(stack).rev().filter_map(|id| {
            let function = self.function(id);
            let name = function.name.as_deref().ok()?;
            Some((self.object(function.object).kind, name))
        });
        for (kind, name) in names {
            match kind {
                ObjectKind::Waiting if OF_WORK.iter().any(|word| is_reason(word, name)) => {
                    return true;
                }
                ObjectKind::File if acquires_lock(name) => return true,
                _ => {}
            }
        }
        false
    }

    fn place(&self, stack: StackId) -> Place {
        let is_of_program = |id: &FunctionId| {
            let kind = self.object(self.function(*id).object).kind;
            !matches!(kind, ObjectKind::Kernel | ObjectKind::Waiting)
        };
        self.stack(stack).filter(is_of_program).collect()
    }

    /// Adds a stack with `frame` as root, and as leaf instead of reason and waker.
    fn between(&mut self, frame: u32, stack: StackId) -> StackId {
        let is_of_wait =
            |id: &FunctionId| self.object(self.function(*id).object).kind == ObjectKind::Waiting;
        let of_wait = self.stack(stack).rev().take_while(is_of_wait).count();
        let (outer, inner) = self.stacks.lists(stack);
        let mut whole = vec![frame];
        whole.extend_from_slice(self.stacks.list(outer));
        let callers = whole.len();
        whole.extend_from_slice(self.stacks.list(inner));
        whole.truncate(whole.len() - of_wait.min(whole.len() - 1));
        whole.push(frame);
        let (outer, inner) = whole.split_at(callers.min(whole.len() - 1));
        let outer = self.stacks.intern_list(outer);
        let inner = self.stacks.intern_list(inner);
        self.stacks.push(outer, inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Frame, Object};
    use crate::waits::WAITS;
    use crate::{ProfileBuilder, Thread};

    /// A recording of 10 s: `main` computes, two workers wait for a condition (one briefly wakes up
    /// and waits for a disk), and a late thread sleeps.
    fn profile(clock: &str) -> Profile {
        profile_of(clock, "start;worker;kfutex_wait;kschedule")
    }

    fn profile_of(clock: &str, waiting: &str) -> Profile {
        let mut builder = ProfileBuilder::new().columns(true);
        let on = builder.add_event(clock, WeightUnit::of_event(clock));
        let off = builder.add_event(WAITS, WeightUnit::Nanoseconds);
        let app = builder.intern_object("/usr/bin/app");
        let kernel = builder.add_object(Object {
            name: "[kernel.kallsyms]".into(),
            kind: ObjectKind::Kernel,
            build_id: None,
            runtime: None,
        });
        let stack = |builder: &mut ProfileBuilder, text: &str| {
            let frames: Vec<_> = (text.split_terminator(';'))
                .map(|name| {
                    let object = match name.strip_prefix('k') {
                        Some(_) => kernel,
                        None => app,
                    };
                    let name = name.strip_prefix('k').unwrap_or(name);
                    let function = builder.intern_function(Ok(name), object);
                    builder.intern_frame(Frame::of(function))
                })
                .collect();
            builder.intern_stack(&frames)
        };
        let running = stack(&mut builder, "main");
        let resting = stack(&mut builder, waiting);
        let reading = stack(&mut builder, "start;worker;read;kio_schedule;kschedule");
        let sleeping = stack(&mut builder, "start;late;kdo_nanosleep;kschedule");
        let comm = builder.intern_comm("app");
        let threads = [1, 2, 3, 4].map(|tid| {
            builder.intern_thread(Thread {
                pid: Some(1),
                tid: Some(tid),
                comm,
                process_comm: None,
                request: None,
            })
        });
        for (time, thread, stack, event, weight) in [
            (0, 0, running, on, 9_000),
            (9_000, 1, resting, off, 9_000),
            (9_500, 2, reading, off, 5),
            (9_600, 2, running, on, 5),
            (9_900, 2, resting, off, 9_900),
            (9_950, 3, sleeping, off, 8_000),
            (10_000, 0, running, on, 1_000),
        ] {
            builder.add_sample(crate::ProfileSample {
                time,
                cpu: Some(0),
                thread: threads[thread],
                stack,
                event,
                weight,
            });
        }
        builder.set_time(Some((0, 10_000)));
        let mut profile = builder.finish();
        profile.name_waits();
        profile
    }

    fn stacks_of(profile: &Profile, event: usize) -> Vec<(String, u64)> {
        let name = |id| profile.function(id).name.clone().unwrap_or_default();
        let mut stacks: Vec<_> = (profile.aggregated.iter())
            .filter(|entry| entry.event == event)
            .map(|entry| {
                let names: Vec<_> = profile.stack(entry.stack).map(name).collect();
                (names.join(";"), entry.weight)
            })
            .collect();
        stacks.sort();
        stacks
    }

    #[test]
    fn threads_that_wait_in_one_place_all_the_while_are_one_block() {
        let mut profile = profile("cpu-clock");
        profile.fold_idle();
        let block = "[idle];start;worker;futex_wait;schedule;[idle]".to_owned();
        let expected = [
            (block.clone(), 9_000),
            (block, 9_900),
            ("start;late;do_nanosleep;schedule;[sleep]".into(), 8_000),
            ("start;worker;read;io_schedule;schedule;[disk]".into(), 5),
        ];
        assert_eq!(stacks_of(&profile, 1), expected);
        assert_eq!(stacks_of(&profile, 0).len(), 2);
        let idle = IdleThreads {
            threads: 2,
            weight: 18_900,
        };
        assert_eq!(profile.quality.idle, idle);
        let samples = profile.samples.as_ref().unwrap();
        let is_idle = |stack| {
            let root = profile.stack(stack).next();
            root.is_some_and(|root| profile.function(root).name.as_deref() == Ok(IDLE))
        };
        let found = samples.iter().filter(|sample| is_idle(sample.stack));
        assert_eq!(found.map(|sample| sample.weight).sum::<u64>(), 18_900);
    }

    #[test]
    fn threads_that_wait_for_a_lock_or_a_disk_or_nobody_knows_where_are_not_idle() {
        for stack in [
            "start;worker;pthread_mutex_lock;__lll_lock_wait;kfutex_wait;kschedule",
            "start;worker;read;kio_schedule;kschedule",
            "start;worker;kexit_to_user_mode_loop;kschedule",
            "",
        ] {
            let mut profile = profile_of("cpu-clock", stack);
            profile.fold_idle();
            assert_eq!(profile.quality.idle, IdleThreads::default(), "{stack}");
        }
    }

    #[test]
    fn who_ran_is_not_idle_where_samples_are_no_time() {
        let mut cycles = profile("cycles");
        cycles.fold_idle();
        assert_eq!(cycles.quality.idle.threads, 1);
    }

    #[test]
    fn a_program_whose_threads_all_wait_is_shown_as_it_is() {
        let mut profile = profile("cpu-clock");
        profile.aggregated.retain(|entry| entry.weight > 8_500);
        profile.aggregated.retain(|entry| entry.event == 1);
        profile.fold_idle();
        assert_eq!(profile.quality.idle, IdleThreads::default());
    }
}
