//! Kinds of work, and the functions that they are done for.

use rprof_export::clean::shell_word;
use rprof_export::rows::percent;
use rprof_profile::{AggregatedStack, FrameId, FunctionId, ObjectKind, Profile};
use rustc_hash::FxHashMap;

use crate::kinds::{KINDS, Kind, Side, syscall};
use crate::sentence::{Sentence, Topic};
use crate::stacks::{Stacks, part_text, share_text};

/// Share of a kind that is worth a sentence, in percent.
const WORTH: f64 = 5.0;

/// Share of a function that a kind is mostly for, in percent.
const MOST: f64 = 30.0;

/// Sentences at most.
const MAX_SENTENCES: usize = 6;

/// System calls that wait for input, unless they are told not to.
const POLLS: [&str; 8] = [
    "poll",
    "ppoll",
    "select",
    "pselect6",
    "epoll_wait",
    "epoll_pwait",
    "recvfrom",
    "recvmsg",
];

/// Share of the time asleep of a thread that does not wait, in percent.
const NEVER: f64 = 10.0;

/// Kind of work of a stack.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Spent {
    /// Index in [`KINDS`].
    Kind(usize),
    Syscall,
}

impl Spent {
    /// Returns true for work of user code, and for its system calls.
    fn is_of_user(self) -> bool {
        match self {
            Spent::Kind(at) => KINDS[at].side == Side::User,
            Spent::Syscall => true,
        }
    }
}

#[derive(Default)]
struct Cost {
    weight: u64,
    /// Weight by the matching function, and by the function that it is done for.
    functions: FxHashMap<FunctionId, u64>,
    payers: FxHashMap<FunctionId, u64>,
    /// Weight by name of the system call, in or below the matching function.
    syscalls: FxHashMap<String, u64>,
}

impl Cost {
    fn add(&mut self, function: FunctionId, payer: Option<FunctionId>, weight: u64) {
        self.weight += weight;
        *self.functions.entry(function).or_default() += weight;
        if let Some(payer) = payer {
            *self.payers.entry(payer).or_default() += weight;
        }
    }
}

/// Kinds of work in the code of interpreters, which is folded into the functions that it runs.
#[derive(Clone, Debug, Default)]
pub struct RuntimeWork {
    /// The function that tells the kind, for each entry of [`Profile::aggregated`].
    functions: Vec<Option<FunctionId>>,
}

impl RuntimeWork {
    /// Finds the kinds in a profile whose interpreter code will be folded
    /// ([`Profile::fold_languages`]).
    pub fn before_folding(profile: &Profile) -> RuntimeWork {
        let mut known = FxHashMap::default();
        let events: Vec<Stacks<'_>> = (0..profile.events.len())
            .map(|event| Stacks::of(profile, event))
            .collect();
        let function = |entry: &AggregatedStack| {
            let stacks = &events[entry.event];
            let frames = stacks.frames(entry);
            let (at, _) = chosen(stacks, &frames, &mut known)?;
            Some(stacks.function_of(frames[at]))
        };
        RuntimeWork {
            functions: profile.aggregated.iter().map(function).collect(),
        }
    }

    fn of_entry(&self, stacks: &Stacks<'_>, entry: usize) -> Option<(FunctionId, Spent)> {
        let function = (*self.functions.get(entry)?)?;
        Some((function, spent(stacks, function)?))
    }
}

/// Returns true if a kind counts inside of a kind of runtime code as well, or tells more.
fn stays(stacks: &Stacks<'_>, frame: FrameId, found: Spent) -> bool {
    let function = stacks.profile.function(stacks.function_of(frame));
    let is_first = matches!(found, Spent::Kind(at) if KINDS[at].is_first);
    is_first || function.source.is_some()
}

/// The kinds of work of an event's stacks.
pub(crate) struct Costs {
    /// The largest ones.
    shown: Vec<(Spent, Cost)>,
    /// Kind of each entry of the profile.
    of_entries: Vec<Option<Spent>>,
}

impl Costs {
    pub(crate) fn of(stacks: &Stacks<'_>, work: &RuntimeWork) -> Costs {
        let mut known: FxHashMap<FunctionId, Option<Spent>> = FxHashMap::default();
        let mut costs: FxHashMap<Spent, Cost> = FxHashMap::default();
        let mut of_entries = Vec::new();
        for (nth, entry) in stacks.numbered_entries() {
            let frames = stacks.frames(entry);
            let found = chosen(stacks, &frames, &mut known);
            let in_stack = found.map(|(at, spent)| (stacks.function_of(frames[at]), spent));
            let of_runtime = work.of_entry(stacks, nth).filter(|of_runtime| {
                Some(*of_runtime) != in_stack
                    && found.is_none_or(|(at, spent)| !stays(stacks, frames[at], spent))
            });
            let Some((function, spent)) = of_runtime.or(in_stack) else {
                of_entries.push(None);
                continue;
            };
            of_entries.push(Some(spent));
            let (callers, inside) = match found.filter(|_| of_runtime.is_none()) {
                Some((at, _)) => frames.split_at(at),
                None => (&*frames, &*frames),
            };
            let cost = costs.entry(spent).or_default();
            cost.add(function, stacks.user_function(callers), entry.weight);
            if let Some(name) = syscall_of(stacks, inside).filter(|_| spent.is_of_user()) {
                *cost.syscalls.entry(name.to_owned()).or_default() += entry.weight;
            }
        }
        let mut shown: Vec<(Spent, Cost)> = costs.into_iter().collect();
        shown.retain(|(_, cost)| stacks.share(cost.weight) >= WORTH);
        shown.sort_by_key(|(spent, cost)| (std::cmp::Reverse(cost.weight), label(*spent)));
        shown.truncate(MAX_SENTENCES);
        Costs { shown, of_entries }
    }

    /// Returns, for each entry of the event, whether a sentence about a kind of work covers it.
    pub(crate) fn covers(&self) -> impl Iterator<Item = bool> + '_ {
        let is_shown = |spent: Spent| {
            let is_detail = matches!(spent, Spent::Kind(kind) if KINDS[kind].is_outlined);
            !is_detail && self.shown.iter().any(|(shown, _)| *shown == spent)
        };
        (self.of_entries.iter()).map(move |spent| spent.is_some_and(is_shown))
    }

    pub(crate) fn sentences(&self, stacks: &Stacks<'_>) -> Vec<Sentence> {
        let sentences = self.shown.iter();
        let sentences = sentences.map(|(spent, cost)| sentence(stacks, *spent, cost));
        sentences.collect()
    }
}

/// Returns the frame that tells the kind of a stack. Page faults and processes count wherever they
/// happen, and otherwise the outermost function of a kind: what `printf` allocates is formatting.
fn chosen(
    stacks: &Stacks<'_>,
    frames: &[FrameId],
    known: &mut FxHashMap<FunctionId, Option<Spent>>,
) -> Option<(usize, Spent)> {
    let is_outer =
        |(_, spent): &(usize, Spent)| matches!(spent, Spent::Kind(at) if KINDS[*at].is_outer);
    let mut first = None;
    for (at, frame) in frames.iter().enumerate() {
        let id = stacks.function_of(*frame);
        let Some(spent) = *known.entry(id).or_insert_with(|| spent(stacks, id)) else {
            continue;
        };
        let kind = match spent {
            Spent::Kind(kind) => Some(&KINDS[kind]),
            Spent::Syscall => None,
        };
        let is_inlined = || stacks.profile.frame(*frame).inline_depth > 0;
        if kind.is_some_and(|kind| kind.is_outlined) && is_inlined() {
            continue;
        }
        if kind.is_some_and(|kind| kind.is_first) {
            return Some((at, spent));
        }
        let found = (at, spent);
        first = match first {
            Some(outer) if is_outer(&outer) && !is_outer(&found) => Some(found),
            first => first.or(Some(found)),
        };
    }
    first
}

fn spent(stacks: &Stacks<'_>, id: FunctionId) -> Option<Spent> {
    let function = stacks.profile.function(id);
    let name = function.name.as_deref().ok()?;
    let object = stacks.profile.object(function.object);
    let is_kernel = object.kind == ObjectKind::Kernel;
    // Folded stacks have no objects.
    let is_any = stacks.profile.is_folded;
    let fits = |kind: &Kind| {
        (is_any || is_kernel == (kind.side == Side::Kernel)) && kind.has(name, &object.name)
    };
    match KINDS.iter().position(fits) {
        Some(at) => Some(Spent::Kind(at)),
        None if is_kernel || is_any => syscall(name).map(|_| Spent::Syscall),
        None => None,
    }
}

fn syscall_of<'p>(stacks: &Stacks<'p>, frames: &[FrameId]) -> Option<&'p str> {
    let names = frames.iter().filter_map(|frame| {
        let function = stacks.profile.function(stacks.function_of(*frame));
        let is_kernel = stacks.profile.object(function.object).kind == ObjectKind::Kernel;
        let name = function.name.as_deref().ok();
        name.filter(|_| is_kernel || stacks.profile.is_folded)
    });
    names.filter_map(syscall).find(|name| !name.is_empty())
}

fn label(spent: Spent) -> &'static str {
    match spent {
        Spent::Kind(at) => KINDS[at].label,
        Spent::Syscall => "system calls",
    }
}

/// Returns the share of the time that the program slept, at most, in percent, if one thread has all
/// samples.
fn sleep_of_only_thread(stacks: &Stacks<'_>) -> Option<f64> {
    let mut threads = stacks.entries().map(|entry| entry.thread);
    let first = threads.next()?;
    let time = stacks.profile.quality.cpu_time.as_ref()?;
    let wall = time.wall.filter(|wall| !wall.is_zero())?;
    let off = time.off_cpu()?;
    let asleep = off.asleep + off.unclear + off.stopped;
    threads
        .all(|thread| thread == first)
        .then(|| 100.0 * asleep.as_secs_f64() / wall.as_secs_f64())
}

fn sentence(stacks: &Stacks<'_>, spent: Spent, cost: &Cost) -> Sentence {
    let share = stacks.share(cost.weight);
    let mut functions: Vec<(&FunctionId, &u64)> = cost.functions.iter().collect();
    functions.sort_by_cached_key(|(id, weight)| (std::cmp::Reverse(**weight), stacks.name(**id)));
    let noun = stacks.noun();
    let mut text = format!(
        "{} of {noun} {} {}",
        share_text(share),
        if noun.ends_with('s') { "are" } else { "is" },
        label(spent)
    );
    let mut syscalls: Vec<(&String, &u64)> = cost.syscalls.iter().collect();
    syscalls.sort_by_key(|(name, weight)| (std::cmp::Reverse(**weight), name.as_str()));
    let syscalls: Vec<&str> = (syscalls.iter().take(3))
        .map(|(name, _)| name.as_str())
        .collect();
    let details = match spent {
        Spent::Kind(_) => {
            let names = functions.iter().take(3).map(|(id, _)| stacks.name(**id));
            names.collect::<Vec<String>>().join(", ")
        }
        Spent::Syscall => syscalls.join(", "),
    };
    if !details.is_empty() {
        text += &format!(" ({details})");
    }
    let order = |(id, weight): &(&FunctionId, &u64)| (std::cmp::Reverse(**weight), id.0);
    if let Some((payer, weight)) = cost.payers.iter().min_by_key(order) {
        let part = percent(*weight, cost.weight);
        if part >= MOST {
            text += &format!(", {} for {}", part_text(part), stacks.name(*payer));
        }
    }
    let in_kernel = percent(cost.syscalls.values().sum(), cost.weight);
    if spent != Spent::Syscall && in_kernel >= MOST {
        let part = part_text(in_kernel);
        text += &format!(", {part} in system calls ({})", syscalls.join(", "));
    }
    text += ".";
    let is_polling = || syscalls.first().is_some_and(|name| POLLS.contains(name));
    if spent == Spent::Syscall
        && is_polling()
        && let Some(asleep) = sleep_of_only_thread(stacks).filter(|share| *share <= NEVER)
    {
        text += &format!(
            " The program slept for {} of the time, so they return at once: it polls, or always \
             finds work.",
            share_text(asleep)
        );
    }
    if let Spent::Kind(at) = spent
        && !KINDS[at].remedy.is_empty()
    {
        text += &format!(" {}", KINDS[at].remedy);
    }
    let first = functions
        .first()
        .and_then(|(id, _)| stacks.whole_name(**id));
    Sentence {
        topic: Topic::Why,
        text,
        command: match first {
            Some(name) => format!("report --callers {}", shell_word(name.as_bytes())),
            None => "report -g".to_owned(),
        },
        // Before the functions with as much time.
        importance: share + 100.0,
    }
}

#[cfg(test)]
mod tests {
    use rprof_profile::{Filter, folded};

    #[test]
    fn system_calls_of_a_kind_of_work_have_their_part() {
        let kernel = "entry_SYSCALL_64_after_hwframe;do_syscall_64;ksys_write";
        let text = format!(
            "main;rows;std::ostream::flush;write;{kernel} 80\nmain;rows;std::ostream::flush 20"
        );
        let profile = folded::read(text.as_bytes(), "x".as_ref(), &Filter::default());
        let text = crate::explain(&profile.expect("folded stacks"), "x").within(400);
        let wanted = "100% of the samples are formatting and writing text (std::ostream::flush), \
                      all of it for rows, 80% of it in system calls (write).";
        assert!(text.contains(wanted), "{text}");
    }

    #[test]
    fn statements_of_sql_have_their_function_and_remedy() {
        let text =
            "main;load_author;sqlite3_prepare_v2;malloc 60\nmain;load_author;sqlite3_step 40";
        let profile = folded::read(text.as_bytes(), "x".as_ref(), &Filter::default());
        let text = crate::explain(&profile.expect("folded stacks"), "x").within(400);
        let wanted = "60% of the samples are compiling SQL statements (sqlite3_prepare_v2), all of \
                      it for load_author. Prepare them once, and bind values.";
        assert!(text.contains(wanted), "{text}");
        assert!(
            text.contains("40% of the samples are SQL statements (sqlite3_step)"),
            "{text}"
        );
    }

    #[test]
    fn unproven_callers_are_no_function() {
        let text = "main;[Python callers unproven] 60\nmain;work 40";
        let profile = folded::read(text.as_bytes(), "x".as_ref(), &Filter::default());
        let text = crate::explain(&profile.expect("folded stacks"), "x").within(400);
        let wanted = "is in functions that could not be read: [Python callers unproven]";
        let plural = wanted.replace("is in", "are in");
        assert!(text.contains(wanted) || text.contains(&plural), "{text}");
    }
}
