//! Input of commands: opens recordings and other profiles, and explains what they lack.

pub(crate) mod downloads;
pub(crate) mod named_input;
pub(crate) mod not_shown;
pub(crate) mod nothing_found;
pub(crate) mod other_formats;
pub(crate) mod recordings;
pub(crate) mod run_folders;
pub(crate) mod similar_names;
pub(crate) mod with_code;
