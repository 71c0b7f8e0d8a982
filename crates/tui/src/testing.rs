//! Handmade profiles, and screens as text.

use std::path::Path;
use std::sync::Arc;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use rprof_profile::{
    Filter, Object, ObjectKind, Profile, ProfileBuilder, ProfileSample, Reason, Thread, WeighBy,
    WeightUnit,
};

use crate::model::Model;
use crate::{InputEvent, Key, Source, State, Theme};

pub(crate) fn folded(text: &str) -> Profile {
    rprof_profile::folded::read(text.as_bytes(), Path::new("x.folded"), &Filter::default()).unwrap()
}

pub(crate) fn model(profile: Profile) -> Model {
    Model::new(Arc::new(profile), 0, WeighBy::Period)
}

pub(crate) fn source(profile: Profile) -> Source {
    Source {
        event: profile.main_event().unwrap_or(0),
        profile: Arc::new(profile),
        weight: WeighBy::Period,
        title: "app".to_owned(),
        about: String::new(),
        by_total: false,
        facts: vec!["stacks: 100.0% reach their root".to_owned()],
        hint: None,
        command: ["rprof", "report", "--tui"].map(str::to_owned).to_vec(),
        generation: 0,
        live: None,
    }
}

/// Parses a script of keys: characters, and `<Enter>`, `<Esc>`, `<Tab>`, `<Up>`, …
pub(crate) fn keys(script: &str) -> Vec<Key> {
    let mut keys = Vec::new();
    let mut rest = script;
    while let Some(c) = rest.chars().next() {
        let named = (rest.strip_prefix('<')).and_then(|rest| rest.split_once('>'));
        let key = named.and_then(|(name, after)| {
            let key = match name {
                "Enter" => Key::Enter,
                "Esc" => Key::Esc,
                "Tab" => Key::Tab,
                "BackTab" => Key::BackTab,
                "Backspace" => Key::Backspace,
                "Up" => Key::Up,
                "Down" => Key::Down,
                "Left" => Key::Left,
                "Right" => Key::Right,
                "PgUp" => Key::PageUp,
                "PgDn" => Key::PageDown,
                "Home" => Key::Home,
                "End" => Key::End,
                _ => return None,
            };
            Some((key, after))
        });
        match key {
            Some((key, after)) => {
                keys.push(key);
                rest = after;
            }
            None => {
                keys.push(Key::Char(c));
                rest = &rest[c.len_utf8()..];
            }
        }
    }
    keys
}

pub(crate) fn press(state: &mut State, script: &str) {
    for key in keys(script) {
        state.update(InputEvent::Key(key));
    }
}

pub(crate) fn screen(state: &State, theme: Theme) -> Buffer {
    let area = Rect::new(0, 0, state.screen.width, state.screen.height);
    let mut buffer = Buffer::empty(area);
    crate::draw(state, theme, &mut buffer);
    buffer
}

pub(crate) fn text(buffer: &Buffer) -> String {
    let mut text = String::new();
    for y in 0..buffer.area.height {
        let mut line = String::new();
        for x in 0..buffer.area.width {
            line.push_str(buffer[(x, y)].symbol());
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Returns the styles of a screen: the styled runs of cells in each line.
pub(crate) fn styles(buffer: &Buffer) -> String {
    let mut text = String::new();
    for y in 0..buffer.area.height {
        let mut runs: Vec<(u16, u16, String)> = Vec::new();
        for x in 0..buffer.area.width {
            let style = buffer[(x, y)].style();
            let mut words = Vec::new();
            let reset = ratatui::style::Color::Reset;
            words.extend(style.fg.filter(|c| *c != reset).map(|c| format!("{c:?}")));
            words.extend(
                style
                    .bg
                    .filter(|c| *c != reset)
                    .map(|c| format!("on {c:?}")),
            );
            if !style.add_modifier.is_empty() {
                words.push(format!("{:?}", style.add_modifier));
            }
            let words = words.join(" ");
            match runs.last_mut() {
                Some((_, end, style)) if *style == words => *end = x,
                _ => runs.push((x, x, words)),
            }
        }
        let told = runs.iter().filter(|(.., style)| !style.is_empty());
        let told: Vec<String> = told
            .map(|(from, to, style)| format!("{from}-{to} {style}"))
            .collect();
        text.push_str(&format!("{y}: {}\n", told.join(", ")));
    }
    text
}

/// Returns a one-second recording of two processes with two threads each on two CPUs. It has
/// kernel, JIT and unnamed functions, recursion, and a long tail.
pub(crate) fn recorded() -> Profile {
    let mut builder = ProfileBuilder::new().columns(true);
    let event = builder.add_event("cpu-clock", WeightUnit::Nanoseconds);
    let mut object = |name: &str, kind| {
        builder.add_object(Object {
            name: name.into(),
            kind,
            build_id: None,
            runtime: None,
        })
    };
    let app = object("/usr/bin/app", ObjectKind::File);
    let libc = object("/usr/lib/libc.so.6", ObjectKind::File);
    let kernel = object("[kernel.kallsyms]", ObjectKind::Kernel);
    let jit = object("/tmp/perf-7.map", ObjectKind::Jit);
    let mut function = |name: &str, object| builder.intern_function(Ok(name), object);
    let start = function("_start", app);
    let main = function("main", app);
    let parse = function("parse<std::vector<int, std::allocator<int>>>::step", app);
    let hash = function("ht_lookup_with_hash", app);
    let walk = function("walk", app);
    let memcpy = function("memcpy", libc);
    let malloc = function("malloc", libc);
    let fault = function("asm_exc_page_fault", kernel);
    let hot = function("JS:*hot /app/hot.js:1:13", jit);
    let tail: Vec<_> = (0..40)
        .map(|n| function(&format!("tail_{n:02}"), app))
        .collect();
    let unnamed = builder.intern_function(Err(Reason::Stripped), libc);
    let mut thread = |pid, tid, name: &str| {
        let comm = builder.intern_comm(name);
        builder.intern_thread(Thread {
            pid: Some(pid),
            tid: Some(tid),
            comm,
            process_comm: None,
            request: None,
        })
    };
    let threads = [
        thread(7, 7, "app"),
        thread(7, 8, "worker"),
        thread(9, 9, "helper"),
        thread(9, 10, "worker"),
    ];
    let mut stacks = vec![
        (vec![start, main, parse, hash], 30),
        (vec![start, main, parse, hash, memcpy], 12),
        (vec![start, main, parse, malloc], 9),
        (vec![start, main, parse, malloc, fault], 5),
        (vec![start, main, walk, walk, walk], 8),
        (vec![start, main, walk, walk, walk, memcpy], 3),
        (vec![start, main, hot], 6),
        (vec![start, main, unnamed], 4),
        (vec![start, main], 2),
    ];
    stacks.extend(
        tail.iter()
            .map(|function| (vec![start, main, *function], 1)),
    );
    let mut time = 5_000_000_000u64;
    let mut number = 0u32;
    for round in 0..2 {
        for (frames, count) in &stacks {
            let stack = builder.intern_stack(frames);
            for _ in 0..*count {
                number += 1;
                time += 4_000_000 + u64::from(number % 7) * 100_000;
                builder.add_sample(ProfileSample {
                    time,
                    cpu: Some(number / 10 % 2),
                    thread: threads[(number as usize / 3 + round) % 4],
                    stack,
                    event,
                    weight: 1_000_000,
                });
            }
        }
    }
    builder.finish()
}
