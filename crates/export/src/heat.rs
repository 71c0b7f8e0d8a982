//! Causes that hide the hot code of a profile: unnamed leaves, interpreters, and delayed clock
//! interrupts.

use std::collections::{BTreeMap, BTreeSet};

use rprof_profile::{
    Function, FunctionId, Language, ObjectKind, Profile, Reason, SourceName, WeightUnit,
    language::source_name::gap,
};

use crate::rows::percent;

/// Minimum percentage of the weight to report an interpreter or a clock.
const TOLD_FROM: f64 = 5.0;

/// Main loops of interpreters, by function name, with the language whose functions can have names.
static INTERPRETERS: [(&str, Option<Language>); 9] = [
    ("_PyEval_EvalFrameDefault", Some(Language::Python)),
    ("vm_exec_core", None),
    // Stripped builds lack the name of its callee `vm_exec_core`.
    ("rb_vm_exec", None),
    ("Rf_eval", None),
    ("TclNRRunCallbacks", None),
    ("execute_ex", None),
    ("luaV_execute", None),
    ("Perl_runops_standard", None),
    ("caml_interprete", None),
];

/// Kernel functions that enable interrupts, so that a pending interrupt fires there.
static LETS_INTERRUPTS_IN: [&str; 6] = [
    "finish_task_switch",
    "_raw_spin_unlock_irqrestore",
    "_raw_spin_unlock_irq",
    "__do_softirq",
    "handle_softirqs",
    "do_idle",
];

/// Returns the percentage of the main event's weight with an unnamed leaf, by object and reason.
/// Leaves with an address instead of a name count too.
pub(crate) fn unnamed_self(profile: &Profile) -> BTreeMap<(&str, Reason), f64> {
    let mut shares = BTreeMap::new();
    for (leaf, share) in leaves(profile) {
        if let Some(reason) = leaf.nameless() {
            let object = &*profile.object(leaf.object).name;
            *shares.entry((object, reason)).or_insert(0.0) += share;
        }
    }
    shares
}

#[derive(Debug, PartialEq)]
pub(crate) struct Interpreter {
    /// Share of the main event's weight whose stacks contain it, in percent.
    pub(crate) share: f64,
    pub(crate) name: &'static str,
    pub(crate) function: FunctionId,
}

/// Returns the interpreter with much of the weight, in stacks without names of the interpreted
/// functions.
pub(crate) fn interpreter(profile: &Profile) -> Option<Interpreter> {
    let name_of = |function: &Function| {
        INTERPRETERS
            .iter()
            .find(|(name, _)| is_named(function, name))
    };
    if profile.leaves_only {
        return None;
    }
    let interpreters: Vec<_> = ((0u32..).zip(&profile.functions))
        .filter_map(|(id, function)| Some((FunctionId(id), name_of(function)?)))
        .collect();
    if interpreters.is_empty() {
        return None;
    }
    let main = profile.main_event()?;
    let whole = profile.events[main].weight;
    let languages: Vec<Option<Language>> = (profile.functions.iter())
        .map(|function| source_language(profile, function))
        .collect();
    let totals = interpreters.into_iter().map(|(id, (name, language))| {
        let entries = profile.aggregated.iter().filter(|e| e.event == main);
        // Names, such as from Python's perf trampoline, are callers and callees.
        let is_named = |function: FunctionId| {
            language.is_some() && languages[function.0 as usize] == *language
        };
        let inside = entries.filter(|e| {
            profile.stack(e.stack).any(|function| function == id)
                && !profile.stack(e.stack).any(is_named)
        });
        let weight = inside.fold(0u64, |sum, e| sum.saturating_add(e.weight));
        (weight, *name, id)
    });
    let (weight, name, function) = totals.max_by_key(|(weight, ..)| *weight)?;
    let share = percent(weight, whole);
    (share >= TOLD_FROM).then_some(Interpreter {
        share,
        name,
        function,
    })
}

fn source_language(profile: &Profile, function: &Function) -> Option<Language> {
    let source = function.source.as_deref().map(|source| source.language);
    let of_name = || SourceName::of(function, profile.object(function.object));
    source.or_else(|| Some(of_name()?.language))
}

/// Name of the share of waits.
const WAITING: &str = "waiting";

/// Returns the percentage of the main event's weight by the language of the leaf, largest first.
/// Waits have no language: `waiting`. `None` unless interpreter code is
/// [folded](Profile::fold_languages), and for waits only.
pub(crate) fn self_by_language(profile: &Profile) -> Option<Vec<(&'static str, f64)>> {
    if !profile.quality.is_by_language {
        return None;
    }
    let mut shares: BTreeMap<&'static str, f64> = BTreeMap::new();
    for (leaf, share) in leaves(profile) {
        let object = profile.object(leaf.object);
        let name = match Language::of(leaf, object) {
            _ if object.kind == ObjectKind::Waiting => WAITING,
            // Few names prove a compiled language, so one share would mislead.
            language if language.is_native() => Language::Native.name(),
            language => language.name(),
        };
        *shares.entry(name).or_insert(0.0) += share;
    }
    let mut shares: Vec<_> = shares.into_iter().collect();
    shares.sort_by(|a, b| b.1.total_cmp(&a.1));
    (shares.iter().any(|(name, _)| *name != WAITING)).then_some(shares)
}

/// Returns the percentage of the main event's weight whose stacks have a gap, such as
/// `[Python callers unproven]`, and the names of these gaps. `None` if it is small.
pub(crate) fn gaps(profile: &Profile) -> Option<(f64, Vec<String>)> {
    let is_gap: Vec<bool> = (profile.functions.iter())
        .map(|function| {
            function
                .name
                .as_deref()
                .is_ok_and(|name| gap(name).is_some())
        })
        .collect();
    let main = profile.main_event().filter(|_| is_gap.contains(&true))?;
    let (mut weight, mut found) = (0_u64, BTreeSet::new());
    for entry in profile
        .aggregated
        .iter()
        .filter(|entry| entry.event == main)
    {
        let mut gaps = profile
            .stack(entry.stack)
            .filter(|id| is_gap[id.0 as usize]);
        let Some(first) = gaps.next() else { continue };
        weight = weight.saturating_add(entry.weight);
        found.extend(std::iter::once(first).chain(gaps));
    }
    let share = percent(weight, profile.events[main].weight);
    let names = found
        .into_iter()
        .filter_map(|id| profile.function(id).name.clone().ok());
    (share >= 1.0).then(|| (share, names.map(String::from).collect()))
}

/// Returns the hottest function by self in objects without inline information, with its percentage.
/// Returns `None` if that is small.
pub(crate) fn hides_inlined(profile: &Profile) -> Option<(&str, f64)> {
    let objects = &profile.quality.hides_inlined;
    if objects.is_empty() {
        return None;
    }
    let mut shares: BTreeMap<&str, f64> = BTreeMap::new();
    for (leaf, share) in leaves(profile) {
        let object = &*profile.object(leaf.object).name;
        if let (Ok(name), true) = (&leaf.name, objects.iter().any(|known| known == object)) {
            *shares.entry(name).or_insert(0.0) += share;
        }
    }
    let most = shares.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    (most.1 >= HIDES_FROM).then_some(most)
}

const HIDES_FROM: f64 = 20.0;

/// Returns the percentage of a clock's samples in kernel functions that enable interrupts, and
/// these functions. Returns `None` if it is small.
pub(crate) fn clock_artefact(profile: &Profile) -> Option<(f64, Vec<&'static str>)> {
    let main = profile.main_event()?;
    // The interrupt of a hardware counter is not delayed.
    let event = &profile.events[main];
    if event.unit != WeightUnit::Nanoseconds {
        return None;
    }
    let mut shares: BTreeMap<&'static str, f64> = BTreeMap::new();
    for (leaf, share) in leaves(profile) {
        let is_kernel = profile.object(leaf.object).kind == ObjectKind::Kernel;
        let name = LETS_INTERRUPTS_IN.iter().find(|name| is_named(leaf, name));
        if let (true, Some(name)) = (is_kernel, name) {
            *shares.entry(*name).or_insert(0.0) += share;
        }
    }
    let share: f64 = shares.values().sum();
    shares.retain(|_, share| *share >= 1.0);
    let mut functions: Vec<_> = shares.into_iter().collect();
    functions.sort_by(|a, b| b.1.total_cmp(&a.1));
    let functions = functions.into_iter().map(|(name, _)| name).collect();
    (share >= TOLD_FROM).then_some((share, functions))
}

/// Compares a function name, ignoring a compiler suffix (`finish_task_switch.isra.0`).
fn is_named(function: &Function, name: &str) -> bool {
    (function.name.as_deref()).is_ok_and(|found| match found.strip_prefix(name) {
        Some(rest) => rest.is_empty() || rest.starts_with('.'),
        None => false,
    })
}

/// Iterates over the leaf functions of the main event with their percentages.
fn leaves(profile: &Profile) -> impl Iterator<Item = (&Function, f64)> {
    let main = profile.main_event();
    let whole = main.map_or(0, |event| profile.events[event].weight);
    let entries = profile.aggregated.iter();
    let entries = entries.filter(move |entry| Some(entry.event) == main);
    entries.filter_map(move |entry| {
        let leaf = profile.stack(entry.stack).next_back()?;
        Some((profile.function(leaf), percent(entry.weight, whole)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_profile::{Object, ProfileBuilder};

    type Frames<'a> = &'a [(Result<&'a str, Reason>, &'a str)];

    fn profile(stacks: &[(Frames<'_>, u64)]) -> Profile {
        let mut builder = ProfileBuilder::new();
        let event = builder.add_event("cpu-clock", WeightUnit::Nanoseconds);
        let thread = builder.intern_thread_name("t");
        for (frames, weight) in stacks {
            let frames: Vec<_> = (frames.iter())
                .map(|(name, object)| {
                    let object = builder.add_object(Object {
                        name: (*object).into(),
                        kind: match object.starts_with('[') {
                            true if *object == "[jit]" => ObjectKind::Jit,
                            true if *object == "[waiting]" => ObjectKind::Waiting,
                            true => ObjectKind::Kernel,
                            false => ObjectKind::File,
                        },
                        build_id: None,
                        runtime: None,
                    });
                    builder.intern_function(*name, object)
                })
                .collect();
            let stack = builder.intern_stack(&frames);
            builder.add_samples(event, thread, stack, 1, *weight);
        }
        builder.finish()
    }

    #[test]
    fn unnamed_leaves_are_weighed_by_object() {
        let stripped = Err(Reason::Stripped);
        let nginx = (stripped, "/usr/sbin/nginx");
        let profile = profile(&[
            (&[nginx, nginx, nginx, (stripped, "libz.so.1")], 84),
            (&[nginx, (Ok("read"), "libc.so.6")], 16),
        ]);
        let shares: Vec<_> = unnamed_self(&profile).into_iter().collect();
        assert_eq!(shares, [(("libz.so.1", Reason::Stripped), 84.0)]);
    }

    #[test]
    fn wait_reasons_count_for_no_language() {
        let wait = (&[(Ok("futex"), "[waiting]")][..], 70);
        let of = |stacks: &[(Frames<'_>, u64)]| {
            let mut profile = profile(stacks);
            profile.quality.is_by_language = true;
            self_by_language(&profile)
        };
        assert_eq!(of(&[wait]), None);
        let read = (&[(Ok("vfs_read"), "[kernel.kallsyms]")][..], 30);
        let shares = vec![(WAITING, 70.0), (Language::Kernel.name(), 30.0)];
        assert_eq!(of(&[wait, read]), Some(shares));
    }

    #[test]
    fn clocks_that_wait_for_interrupts_are_told_of() {
        let kernel = "[kernel.kallsyms]";
        let of = |name| {
            clock_artefact(&profile(&[
                (&[(Ok(name), kernel)], 30),
                (&[(Ok("f"), "a")], 70),
            ]))
        };
        let told = of("finish_task_switch.isra.0");
        assert_eq!(told, Some((30.0, vec!["finish_task_switch"])));
        assert_eq!(of("vfs_read"), None);
    }

    #[test]
    fn hidden_calls_are_told_of_where_they_matter() {
        let mut profile = profile(&[
            (&[(Ok("hides::hot"), "/a")], 86),
            (&[(Ok("other"), "/b")], 14),
        ]);
        assert_eq!(hides_inlined(&profile), None);
        profile.quality.hides_inlined = vec!["/b".into()];
        assert_eq!(hides_inlined(&profile), None, "too few");
        profile.quality.hides_inlined.push("/a".into());
        assert_eq!(hides_inlined(&profile), Some(("hides::hot", 86.0)));
    }

    #[test]
    fn interpreters_are_told_of_unless_their_functions_have_names() {
        let eval = (
            Ok("_PyEval_EvalFrameDefault"),
            "/usr/lib/libpython3.11.so.1.0",
        );
        let told = interpreter(&profile(&[
            (&[eval, (Ok("f"), "a")], 90),
            (&[(Ok("g"), "a")], 10),
        ]));
        let told = told.map(|told| (told.share, told.name));
        assert_eq!(told, Some((90.0, "_PyEval_EvalFrameDefault")));
        let named = (&[(Ok("py::f:a.py"), "[jit]"), eval][..], 90);
        assert_eq!(interpreter(&profile(&[named])), None);
        // One of two processes has names.
        let told = interpreter(&profile(&[named, (&[eval], 10)]));
        assert_eq!(told.map(|told| told.share), Some(10.0));
    }
}
