//! A profile on the whole screen of a terminal.
//!
//! Seven views of one [`Source`]: functions, tree of calls, flame graph in cells, callers and callees of a function, threads,
//! time, and the quality verdict; with filters that weigh again, and a search.
//!
//! | module | holds |
//! |---|---|
//! | [`State`] | everything that is shown; [`update`](State::update) changes it by an [`Event`] |
//! | [`draw()`] | the state in the cells of a screen |
//! | [`keys`] | the one table of keys: for the views, the help, and the documentation |
//! | [`terminal`] | the loop over a real terminal, which is left as it was found |
//!
//! `update` and `draw` do no input or output, so a script of keys is a test. Views need the cells of one screen:
//! rows that are not on it are not made, and nothing is recursive by the depth of stacks.
//!
//! # Examples
//! ```
//! use std::sync::Arc;
//!
//! use ratatui::buffer::Buffer;
//! use ratatui::layout::Rect;
//! use rprof_profile::{ProfileBuilder, WeighBy, WeightUnit};
//! use rprof_tui::{Event, Key, Source, State, Theme, draw};
//!
//! let mut builder = ProfileBuilder::new();
//! let event = builder.add_event("cpu-clock", WeightUnit::Nanoseconds);
//! let object = builder.intern_object("/usr/bin/sort");
//! let sort = builder.intern_function(Ok("sort"), object);
//! let thread = builder.intern_thread_name("sort");
//! let stack = builder.intern_stack(&[sort.into()]);
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
//! state.update(Event::Key(Key::Char('3')));
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
pub use event::{Effect, Event};
pub use keys::Key;
pub use source::{Live, SinceStart, Source};
pub use state::State;
pub use text::Theme;
