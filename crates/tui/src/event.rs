//! Events that come in, and the effects that they ask for.

use crate::keys::Key;

/// Input of the views.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// A key was pressed.
    Key(Key),
    /// A button was pressed at a column and a row.
    Click(u16, u16),
    /// The pointer was moved to a column and a row with the button held.
    Drag(u16, u16),
    /// The wheel was turned by lines, up if negative.
    Scroll(i32),
    /// Text was pasted.
    Paste(String),
    /// The terminal has another width and height now.
    Resize(u16, u16),
    /// Something to tell the user.
    Message(String),
    /// A page to show above the views, by heading and lines: the answer to [`Effect::Annotate`].
    Page(String, Vec<String>),
    /// A live profile has changed.
    Fresh(Box<crate::Source>),
}

/// Work that the views leave to whoever runs them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Effect {
    /// End.
    Quit,
    /// Give the terminal back to the shell, until SIGCONT.
    Suspend,
    /// Draw every cell anew.
    Redraw,
    /// Put a text into the terminal's clipboard.
    Copy(String),
    /// Annotate a function.
    Annotate(rprof_profile::FunctionId),
    /// Keep on showing this profile, or go on (live).
    Pause(bool),
    /// Begin again from zero (live).
    Zero,
    /// Show the other window: the last seconds or everything (live).
    Window,
    /// Write what is kept as a recording (live).
    Write,
}
