//! Kinds of frames, by which a flame graph is coloured.

use rprof_profile::idle::IDLE;
use rprof_profile::reasons::{WAITING_FOR_CPU, is_known};
use rprof_profile::waits::is_waker;
use rprof_profile::{Frame, FunctionId, ObjectKind, Profile};

/// Kind of a frame. Pages hold kinds by number: a new one comes last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum FrameKind {
    /// The name of a thread, or the whole graph.
    Thread,
    /// A function of a program or library.
    User,
    /// A call that the compiler inlined.
    Inlined,
    /// A function of the kernel, inlined or not.
    Kernel,
    /// Code that a runtime made while it ran.
    Jit,
    /// Code whose function has no name.
    Unnamed,
    /// Reason for which a thread waited, but for that of [`FrameKind::WaitingForCpu`]: no code.
    Waiting,
    /// Waits of threads that are idle: no code.
    Idle,
    /// Wait of a thread that could run, and had no CPU: no code.
    WaitingForCpu,
}

impl FrameKind {
    /// All kinds, by their numbers.
    pub(crate) const ALL: [FrameKind; 9] = [
        FrameKind::Thread,
        FrameKind::User,
        FrameKind::Inlined,
        FrameKind::Kernel,
        FrameKind::Jit,
        FrameKind::Unnamed,
        FrameKind::Waiting,
        FrameKind::Idle,
        FrameKind::WaitingForCpu,
    ];

    /// Kinds of a legend, in its order: waits stand together.
    pub(crate) const LEGEND: [FrameKind; 8] = [
        FrameKind::User,
        FrameKind::Inlined,
        FrameKind::Kernel,
        FrameKind::Jit,
        FrameKind::Unnamed,
        FrameKind::Waiting,
        FrameKind::WaitingForCpu,
        FrameKind::Idle,
    ];

    /// Returns the kind as a word.
    pub(crate) fn name(self) -> &'static str {
        match self {
            FrameKind::Thread => "thread",
            FrameKind::User => "user",
            FrameKind::Inlined => "inlined",
            FrameKind::Kernel => "kernel",
            FrameKind::Jit => "JIT",
            FrameKind::Unnamed => "unnamed",
            FrameKind::Waiting => "waiting",
            FrameKind::Idle => "idle",
            FrameKind::WaitingForCpu => "waiting for a CPU",
        }
    }

    /// Returns the annotation that stackcollapse-perf.pl puts behind names of this kind.
    pub(crate) fn annotation(self) -> &'static str {
        match self {
            FrameKind::Kernel => "_[k]",
            FrameKind::Jit => "_[j]",
            FrameKind::Inlined => "_[i]",
            FrameKind::Thread
            | FrameKind::User
            | FrameKind::Unnamed
            | FrameKind::Waiting
            | FrameKind::Idle
            | FrameKind::WaitingForCpu => "",
        }
    }
}

/// Kinds of the functions of a profile.
pub(crate) struct FrameKinds {
    by_function: Vec<FrameKind>,
}

impl FrameKinds {
    /// Finds the kinds of all functions. Folded text has them as annotations, if at all.
    pub(crate) fn of(profile: &Profile) -> FrameKinds {
        let kind = |function: &rprof_profile::Function| match &function.name {
            Err(_) => FrameKind::Unnamed,
            Ok(name) if profile.is_folded => kind_of_text(name),
            Ok(name) => match profile.object(function.object).kind {
                ObjectKind::Kernel => FrameKind::Kernel,
                ObjectKind::Jit => FrameKind::Jit,
                ObjectKind::File => FrameKind::User,
                ObjectKind::Waiting => kind_of_wait(name),
            },
        };
        FrameKinds {
            by_function: profile.functions.iter().map(kind).collect(),
        }
    }

    /// Returns the kind of a function's frames that are not inlined.
    pub(crate) fn of_function(&self, function: FunctionId) -> FrameKind {
        self.by_function[function.0 as usize]
    }

    /// Returns the kind of a frame.
    pub(crate) fn of_frame(&self, frame: &Frame) -> FrameKind {
        match self.by_function[frame.function.0 as usize] {
            FrameKind::User if frame.inline_depth > 0 => FrameKind::Inlined,
            kind => kind,
        }
    }
}

/// Returns the kind of a reason for which a thread waited.
fn kind_of_wait(name: &str) -> FrameKind {
    match name {
        IDLE => FrameKind::Idle,
        WAITING_FOR_CPU => FrameKind::WaitingForCpu,
        _ => FrameKind::Waiting,
    }
}

/// Returns the kind of a frame of folded text: `copy_page_[k]`, `[libc.so.6]`.
fn kind_of_text(name: &str) -> FrameKind {
    let annotated = [FrameKind::Kernel, FrameKind::Jit, FrameKind::Inlined];
    let is_it = |kind: &FrameKind| name.ends_with(kind.annotation());
    match annotated.into_iter().find(is_it) {
        Some(kind) => kind,
        None if is_known(name) || is_waker(name) => kind_of_wait(name),
        None if name.starts_with('[') && name.ends_with(']') => FrameKind::Unnamed,
        None => FrameKind::User,
    }
}

/// Returns a frame of folded text without the annotation of its kind.
pub(crate) fn without_annotation(name: &str) -> &str {
    ["_[k]", "_[j]", "_[i]", "_[w]"]
        .into_iter()
        .find_map(|annotation| name.strip_suffix(annotation))
        .unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_stand_at_their_numbers_and_all_but_threads_in_the_legend() {
        for (number, kind) in FrameKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, number);
            let is_told = FrameKind::LEGEND.contains(&kind);
            assert_eq!(is_told, kind != FrameKind::Thread, "{kind:?}");
        }
    }

    #[test]
    fn pages_call_kinds_by_the_same_words() {
        let words = FrameKind::ALL.map(|kind| format!("{:?}", kind.name()));
        let list = format!("KINDS = [{}]", words.join(", "));
        assert!(include_str!("../page/tree.js").contains(&list), "{list}");
    }

    #[test]
    fn frames_of_folded_text_tell_their_kinds() {
        for (name, kind, bare) in [
            ("copy_page_[k]", FrameKind::Kernel, "copy_page"),
            ("Foo::run_[j]", FrameKind::Jit, "Foo::run"),
            ("Vec::len_[i]", FrameKind::Inlined, "Vec::len"),
            ("[libc.so.6]", FrameKind::Unnamed, "[libc.so.6]"),
            ("[kernel lock]", FrameKind::Waiting, "[kernel lock]"),
            ("[woken by sh]", FrameKind::Waiting, "[woken by sh]"),
            ("[idle]", FrameKind::Idle, "[idle]"),
            (
                "[waiting for a CPU]",
                FrameKind::WaitingForCpu,
                "[waiting for a CPU]",
            ),
            ("main", FrameKind::User, "main"),
            ("get_[x]", FrameKind::User, "get_[x]"),
        ] {
            assert_eq!((kind_of_text(name), without_annotation(name)), (kind, bare));
        }
    }
}
