//! The table of keys, shared by the views, the help and the documentation.

use rprof_export::wrap::wrap;

use crate::view::View;

/// Pressed key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the keys are named as keyboards name them")]
pub enum Key {
    Char(char),
    Ctrl(char),
    Enter,
    Esc,
    Tab,
    BackTab,
    Backspace,
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    Home,
    End,
    F1,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Show(View),
    NextView,
    PreviousView,
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    First,
    Last,
    Open,
    OpenLevel,
    OpenEntry,
    OpenAll,
    CloseAll,
    Invert,
    Zoom,
    Thread,
    Process,
    Comm,
    Object,
    Cpu,
    Search,
    Next,
    Previous,
    SearchThis,
    Keep,
    LeaveOut,
    Remove,
    Annotate,
    Sort,
    Reverse,
    PercentOf,
    Unit,
    NextEvent,
    Limit,
    Objects,
    FullNames,
    Copy,
    Pause,
    Zero,
    Write,
    Window,
    Redraw,
    Help,
    Back,
    Suspend,
    Quit,
}

/// Kind of profile that a key works with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    /// Recordings and live profiles.
    Everywhere,
    /// Recordings only.
    Recordings,
    /// Live profiles only.
    Live,
}

/// Row of the table of keys.
#[derive(Clone, Copy, Debug)]
pub struct Binding {
    /// Keys as shown to the user.
    pub shown: &'static str,
    /// Short description.
    pub help: &'static str,
    /// Kind of profile that the keys work with.
    pub place: Where,
    pub(crate) keys: &'static [(Key, Action)],
}

const fn row(shown: &'static str, help: &'static str, keys: &'static [(Key, Action)]) -> Binding {
    Binding {
        shown,
        help,
        place: Where::Everywhere,
        keys,
    }
}

const fn row_of(place: Where, binding: Binding) -> Binding {
    Binding { place, ..binding }
}

use Key::{
    BackTab, Char, Ctrl, Down, End, Enter, Esc, F1, Home, Left, PageDown, PageUp, Right, Tab, Up,
};

/// Keys of the screen, in display order.
pub static KEYS: &[Binding] = &[
    row(
        "1 … 7",
        "view: functions, tree, flame graph, callers and callees of the selected function, threads, time, verdict",
        &[
            (Char('1'), Action::Show(View::Functions)),
            (Char('2'), Action::Show(View::Tree)),
            (Char('3'), Action::Show(View::Flame)),
            (Char('4'), Action::Show(View::Calls)),
            (Char('5'), Action::Show(View::Threads)),
            (Char('6'), Action::Show(View::Time)),
            (Char('7'), Action::Show(View::Verdict)),
        ],
    ),
    row(
        "Tab Shift-Tab",
        "next and previous view",
        &[(Tab, Action::NextView), (BackTab, Action::PreviousView)],
    ),
    row(
        "↑ ↓ ← → h j k l",
        "move; in the flame graph to callers, callees and neighbours",
        &[
            (Up, Action::Up),
            (Down, Action::Down),
            (Left, Action::Left),
            (Right, Action::Right),
            (Char('k'), Action::Up),
            (Char('j'), Action::Down),
            (Char('h'), Action::Left),
            (Char('l'), Action::Right),
        ],
    ),
    row(
        "PgUp PgDn g G",
        "a page up or down; to the first, the last",
        &[
            (PageUp, Action::PageUp),
            (PageDown, Action::PageDown),
            (Ctrl('b'), Action::PageUp),
            (Ctrl('f'), Action::PageDown),
            (Home, Action::First),
            (Char('g'), Action::First),
            (End, Action::Last),
            (Char('G'), Action::Last),
        ],
    ),
    row(
        "Enter",
        "open or close a branch; zoom into a frame; show a function's callers and callees; filter \
         by a thread; mark a time",
        &[(Enter, Action::Open)],
    ),
    row(
        "+ e E C",
        "open one level, everything below, everything above the limit; close everything",
        &[
            (Char('+'), Action::OpenLevel),
            (Char('e'), Action::OpenEntry),
            (Char('E'), Action::OpenAll),
            (Char('C'), Action::CloseAll),
        ],
    ),
    row(
        "i",
        "turn tree and flame graph: from the root, or inverted, from the running function to its \
         callers",
        &[(Char('i'), Action::Invert)],
    ),
    row_of(
        Where::Recordings,
        row(
            "z",
            "zoom into this frame, in tree and flame graph",
            &[(Char('z'), Action::Zoom)],
        ),
    ),
    row(
        "t p c d u",
        "show only this thread, process, thread name, object, CPU; again: show all",
        &[
            (Char('t'), Action::Thread),
            (Char('p'), Action::Process),
            (Char('c'), Action::Comm),
            (Char('d'), Action::Object),
            (Char('u'), Action::Cpu),
        ],
    ),
    row(
        "/",
        "search functions by a regular expression, as you type; a capital letter makes it \
         case-sensitive",
        &[(Char('/'), Action::Search)],
    ),
    row(
        "n N *",
        "next match, previous match; search this function",
        &[
            (Char('n'), Action::Next),
            (Char('N'), Action::Previous),
            (Char('*'), Action::SearchThis),
        ],
    ),
    row(
        "f x",
        "keep only stacks with a match, or remove them (without a search: stacks with this \
         function)",
        &[(Char('f'), Action::Keep), (Char('x'), Action::LeaveOut)],
    ),
    row(
        "X",
        "remove matching frames from stacks (without a search: this function); their callers get \
         their weight",
        &[(Char('X'), Action::Remove)],
    ),
    row(
        "a",
        "annotate this function: its source and instructions",
        &[(Char('a'), Action::Annotate)],
    ),
    row(
        "s r",
        "sort by the next column; reverse the order",
        &[(Char('s'), Action::Sort), (Char('r'), Action::Reverse)],
    ),
    row(
        "F %",
        "percent of everything or of the filtered samples; percent or weight",
        &[(Char('F'), Action::PercentOf), (Char('%'), Action::Unit)],
    ),
    row(
        "v",
        "show the next event of a recording with several",
        &[(Char('v'), Action::NextEvent)],
    ),
    row(
        "L",
        "minimum share of branches in trees, in percent",
        &[(Char('L'), Action::Limit)],
    ),
    row(
        "o V",
        "show or hide objects; full or shortened names",
        &[(Char('o'), Action::Objects), (Char('V'), Action::FullNames)],
    ),
    row(
        "y",
        "copy the selected name to the terminal's clipboard (OSC 52)",
        &[(Char('y'), Action::Copy)],
    ),
    row_of(
        Where::Live,
        row(
            "Space",
            "pause the display; recording goes on",
            &[(Char(' '), Action::Pause)],
        ),
    ),
    row_of(
        Where::Live,
        row(
            "z",
            "reset the figures to zero",
            &[(Char('z'), Action::Zero)],
        ),
    ),
    row_of(
        Where::Live,
        row(
            "w",
            "show the last seconds, or everything since the start",
            &[(Char('w'), Action::Window)],
        ),
    ),
    row_of(
        Where::Live,
        row(
            "W",
            "write the kept samples to a perf.data file",
            &[(Char('W'), Action::Write)],
        ),
    ),
    row(
        "Ctrl-L Ctrl-Z",
        "redraw the screen; suspend to the shell, and resume with `fg`",
        &[(Ctrl('l'), Action::Redraw), (Ctrl('z'), Action::Suspend)],
    ),
    row(
        "Esc Backspace",
        "one step back: help, search, zoom, filter, view",
        &[(Esc, Action::Back), (Key::Backspace, Action::Back)],
    ),
    row(
        "? F1",
        "these keys",
        &[(Char('?'), Action::Help), (F1, Action::Help)],
    ),
    row(
        "q Ctrl-C",
        "quit",
        &[(Char('q'), Action::Quit), (Ctrl('c'), Action::Quit)],
    ),
];

/// Iterates over the rows for recordings or for live profiles.
pub fn bindings(is_live: bool) -> impl Iterator<Item = &'static Binding> {
    let other = match is_live {
        true => Where::Recordings,
        false => Where::Live,
    };
    KEYS.iter().filter(move |binding| binding.place != other)
}

/// Returns the table as lines of this width, with wrapped descriptions.
pub(crate) fn help_lines(is_live: bool, width: usize) -> Vec<String> {
    let keys = bindings(is_live).map(|binding| binding.shown.chars().count());
    let column = keys.max().unwrap_or(0) + 2;
    let mut lines = Vec::new();
    for binding in bindings(is_live) {
        let texts = wrap(binding.help, width.saturating_sub(column + 2).max(20));
        for (index, text) in texts.into_iter().enumerate() {
            let shown = if index == 0 { binding.shown } else { "" };
            lines.push(format!(" {shown:column$}{text}"));
        }
    }
    lines
}

/// Returns the keys as a Markdown table: all keys of recordings, or only the additional ones of
/// live profiles.
pub fn markdown(is_live: bool) -> String {
    let mut text = String::from("| keys | action |\n|---|---|\n");
    let of_live = |binding: &&Binding| !is_live || binding.place == Where::Live;
    for binding in bindings(is_live).filter(of_live) {
        let keys: Vec<String> = (binding.shown.split(' '))
            .map(|key| match key {
                "…" => key.to_owned(),
                _ => format!("`{key}`"),
            })
            .collect();
        text.push_str(&format!("| {} | {} |\n", keys.join(" "), binding.help));
    }
    text
}

pub(crate) fn action(key: Key, is_live: bool) -> Option<Action> {
    let pairs = bindings(is_live).flat_map(|binding| binding.keys);
    pairs
        .into_iter()
        .find(|(bound, _)| *bound == key)
        .map(|(_, action)| *action)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn each_key_has_one_meaning() {
        for is_live in [false, true] {
            let mut seen = HashSet::new();
            for (key, _) in bindings(is_live).flat_map(|binding| binding.keys) {
                assert!(seen.insert(key), "{key:?} twice");
            }
        }
    }
}
