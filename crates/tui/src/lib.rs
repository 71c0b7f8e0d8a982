//! Interactive terminal user interface for a profile.
//!
//! Seven views of one [`Source`]: functions, call tree, flame graph, callers and callees of a
//! function, threads, time, and the quality verdict. The user can filter and search.
//!
//! | module | holds |
//! |---|---|
//! | [`State`] | the state of all views; [`update`](State::update) handles an [`InputEvent`] |
//! | [`draw()`] | draws the state into the cells of a screen |
//! | [`keys`] | table of keys for the views, the help, and the documentation |
//! | [`terminal`] | event loop on a real terminal, which it restores |
//!
//! `update` and `draw` perform no I/O, so tests can run scripts of keys. Views create only the rows
//! on the screen. No function recurses by stack depth.
//!
//! # Examples
//! ```
//! use std::sync::Arc;
//!
//! use ratatui::buffer::Buffer;
//! use ratatui::layout::Rect;
//! use rprof_profile::{ProfileBuilder, WeighBy, WeightUnit};
//! use rprof_tui::{InputEvent, Key, Source, State, Theme, draw};
//!
//! let mut builder = ProfileBuilder::new();
//! let event = builder.add_event("cpu-clock", WeightUnit::Nanoseconds);
//! let object = builder.intern_object("/usr/bin/sort");
//! let sort = builder.intern_function(Ok("sort"), object);
//! let thread = builder.intern_thread_name("sort");
//! let stack = builder.intern_stack(&[sort]);
//! builder.add_samples(event, thread, stack, 1, 7);
//! let source = Source {
//!     profile: Arc::new(builder.finish()),
//!     event,
//!     weight: WeighBy::Period,
//!     title: "sort".to_owned(),
//!     about: String::new(),
//!     by_total: false,
//!     facts: Vec::new(),
//!     hint: None,
//!     command: Vec::new(),
//!     generation: 0,
//!     live: None,
//! };
//! let mut state = State::new(source, 80, 24);
//! state.update(InputEvent::Key(Key::Char('3')));
//! let mut screen = Buffer::empty(Rect::new(0, 0, 80, 24));
//! draw(&state, Theme::default(), &mut screen);
//! ```

mod calls;
mod draw;
pub mod event;
mod filters;
mod flame;
pub mod keys;
mod list;
mod model;
mod moves;
#[cfg(test)]
mod script_tests;
mod search;
mod source;
mod state;
pub mod terminal;
#[cfg(test)]
mod testing;
mod text;
mod tree_list;
mod trees;
mod update;
mod view;

pub use draw::draw;
pub use event::{Effect, InputEvent};
pub use keys::Key;
pub use source::{LiveFacts, SinceStart, Source};
pub use state::State;
pub use text::Theme;
