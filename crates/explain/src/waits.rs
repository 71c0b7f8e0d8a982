//! Waits by reason, and the functions that wait.

use rprof_export::clean::shell_word;
use rprof_export::rows::percent;
use rprof_profile::waits::idle::IDLE;
use rprof_profile::waits::is_of_waits;
use rprof_profile::{FunctionId, ObjectKind, Profile};
use rustc_hash::FxHashMap;

use crate::sentence::{Sentence, Topic};
use crate::stacks::{Stacks, part_text, share_text, time_text};

/// Share of a reason that is worth a sentence, in percent.
const WORTH: f64 = 5.0;

/// Share of a function that a reason is mostly in, in percent.
const MOST: f64 = 20.0;

const REASONS: [(&str, &str); 16] = [
    (
        "[futex]",
        "for other threads (a lock, a condition or the end of a thread)",
    ),
    ("[kernel lock]", "for a lock in the kernel"),
    ("[disk]", "for a disk"),
    ("[socket]", "for a socket"),
    ("[pipe]", "for a pipe"),
    ("[poll]", "in poll, select or epoll"),
    ("[sleep]", "because it asked to sleep"),
    ("[child]", "for a child process"),
    ("[waiting for a CPU]", "for a CPU"),
    ("[page fault]", "for a page"),
    ("[terminal]", "for a terminal"),
    ("[message]", "for a message of another process"),
    ("[signal]", "for a signal"),
    (
        "[stopped]",
        "because a signal, a debugger or the cgroup freezer had stopped it",
    ),
    ("[off CPU]", "for an unknown reason"),
    (
        "[stack not taken]",
        "for an unknown reason: no stack was taken",
    ),
];

#[derive(Default)]
struct Wait {
    weight: u64,
    functions: FxHashMap<FunctionId, u64>,
}

pub(crate) fn sentences(profile: &Profile) -> Vec<Sentence> {
    let mut events = profile.events.iter();
    let event = events.position(|event| is_of_waits(&event.name) && event.weight > 0);
    let Some(event) = event else {
        return Vec::new();
    };
    let stacks = Stacks::of(profile, event);
    let mut waits: FxHashMap<FunctionId, Wait> = FxHashMap::default();
    let mut whole = 0u64;
    for entry in stacks.entries() {
        let frames = stacks.frames(entry);
        let ids: Vec<FunctionId> = frames
            .iter()
            .map(|frame| stacks.function_of(*frame))
            .collect();
        let is_reason = |id: &FunctionId| {
            let object = profile.object(profile.function(*id).object);
            object.kind == ObjectKind::Waiting
        };
        // A waker may follow the reason.
        let Some(at) = ids.iter().position(is_reason) else {
            continue;
        };
        if profile.function(ids[at]).name.as_deref() == Ok(IDLE) {
            continue;
        }
        whole = whole.saturating_add(entry.weight);
        let wait = waits.entry(ids[at]).or_default();
        wait.weight += entry.weight;
        if let Some(user) = stacks.user_function(&frames[..at]) {
            *wait.functions.entry(user).or_default() += entry.weight;
        }
    }
    let mut waits: Vec<(FunctionId, Wait)> = waits.into_iter().collect();
    waits.retain(|(_, wait)| percent(wait.weight, whole) >= WORTH);
    waits.sort_by_cached_key(|(id, wait)| (std::cmp::Reverse(wait.weight), stacks.name(*id)));
    let sentence = |(reason, wait): (FunctionId, Wait)| {
        let name = stacks.whole_name(reason).unwrap_or_default();
        let known = REASONS.iter().find(|(known, _)| *known == name);
        let why = known.map_or_else(
            || format!("with the reason {name}"),
            |(_, text)| (*text).to_owned(),
        );
        let share = percent(wait.weight, whole);
        let mut text = format!(
            "{} of the waiting ({} of {}, idle threads excluded) is {why}",
            share_text(share),
            time_text(wait.weight),
            time_text(whole)
        );
        let order = |(id, weight): &(&FunctionId, &u64)| (std::cmp::Reverse(**weight), id.0);
        if let Some((function, weight)) = wait.functions.iter().min_by_key(order) {
            let part = percent(*weight, wait.weight);
            if part >= MOST {
                text += &format!(", {} in {}", part_text(part), stacks.name(*function));
            }
        }
        let word = name.trim_matches(['[', ']']).replace(' ', "-");
        let word = if word == "waiting-for-a-CPU" {
            "cpu".to_owned()
        } else {
            word
        };
        Sentence {
            topic: Topic::Waits,
            text: text + ".",
            command: format!("report --off-cpu --reason {}", shell_word(word.as_bytes())),
            importance: 100.0 + share,
        }
    };
    waits.into_iter().take(5).map(sentence).collect()
}
