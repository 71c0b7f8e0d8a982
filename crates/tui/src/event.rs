//! Input events of the views, and the effects that they request.

use crate::keys::Key;

/// Input of the views.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum InputEvent {
    /// Key press.
    Key(Key),
    /// Mouse button press at a column and row.
    Click(u16, u16),
    /// Mouse move to a column and row with the button pressed.
    Drag(u16, u16),
    /// Mouse wheel, in lines; negative is up.
    Scroll(i32),
    /// Pasted text.
    Paste(String),
    /// New width and height of the terminal.
    Resize(u16, u16),
    /// Message for the user.
    Message(String),
    /// Heading and lines of a page to show as a popup: the answer to [`Effect::Annotate`].
    Page(String, Vec<String>),
    /// New version of a live profile.
    Fresh(Box<crate::Source>),
}

/// Action that the caller of [`update`](crate::State::update) must perform.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Effect {
    /// Exit.
    Quit,
    /// Return the terminal to the shell until SIGCONT.
    Suspend,
    /// Redraw every cell.
    Redraw,
    /// Copy text to the terminal's clipboard.
    Copy(String),
    /// Annotate a function.
    Annotate(rprof_profile::FunctionId),
    /// Pause or resume (live).
    Pause(bool),
    /// Restart from zero (live).
    Zero,
    /// Toggle the window: the last seconds or everything (live).
    Window,
    /// Write a recording of the buffered samples (live).
    Write,
}
